package site

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/item"
)

// Addresses and routes of one node, shared ones and announcements become those of the
// interface that is in the network; a network in which a port only starts the machine
// becomes nothing.
func TestWiringOfOneNode(t *testing.T) {
	s := &Site{
		Networks: map[string]*Network{
			"mgmt": {CIDR: "10.1.0.0/24", Gateway: "10.1.0.1", Shared: map[string]SharedAddress{
				"api": {Address: "10.1.0.5"}, "db": {Address: "10.1.0.6", Role: "db"}, "web": {Address: "10.1.0.7", Role: "web"}}},
			"lan6":    {CIDR: "fd00:1::/64", Autoconfigure: true},
			"other6":  {CIDR: "fd00:2::/64"},
			"install": {CIDR: "10.3.0.0/24", Gateway: "10.3.0.1"},
			"far":     {CIDR: "10.9.0.0/24", RouteDomain: "far"},
		},
		Links: map[string]*Link{"uplink": {Networks: []string{"install"}, Bonding: &Bonding{Mode: "802.3ad"}}},
	}
	n := &Node{
		Role: "db", Addresses: map[string]string{"mgmt": "10.1.0.11", "install": AddressDHCP, "other6": AddressDHCP},
		ExtraAddresses: map[string][]string{"mgmt": {"10.1.0.21", "10.1.0.22"}},
		Routes: map[string]Route{
			"lab": {To: "10.8.0.0/16", Gateway: "10.1.0.254", Metric: 5}, "far": {Domain: "far", Gateway: "10.1.0.253"},
			"six": {To: "fd00:8::/48", Gateway: "fd00:1::9"}, "elsewhere": {To: "10.7.0.0/16", Gateway: "10.77.0.1"},
		},
		Interfaces: map[string]Interface{"eno1": {Boot: "install"}, "eno2": {}, "eno3": {Networks: []string{"other6"}}},
		Bonds:      map[string]Bond{"bond0": {Members: []string{"eno1", "eno2"}, Link: "uplink", Networks: []string{"mgmt", "lan6"}}},
	}
	want := map[string]item.Link{
		"eno1": {Kind: "ethernet"}, "eno2": {Kind: "ethernet"}, "eno3": {Kind: "ethernet", DHCP6: true},
		"bond0": {Kind: "bond", Members: []string{"eno1", "eno2"}, Bond: &item.Bond{Mode: "802.3ad"}, SLAAC: true,
			Addresses: []string{"10.1.0.11/24", "10.1.0.21/24", "10.1.0.22/24"}, Shared: []string{"10.1.0.5", "10.1.0.6"},
			Routes: []item.Route{{To: "10.9.0.0/24", Via: "10.1.0.253"}, {To: "10.8.0.0/16", Via: "10.1.0.254", Metric: 5},
				{To: "0.0.0.0/0", Via: "10.1.0.1"}, {To: "fd00:8::/48", Via: "fd00:1::9"}}},
	}
	got, err := s.Wiring(n)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}
