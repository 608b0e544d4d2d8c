package site_test

import (
	"fmt"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// A machine has the address in memory that the design gives it on a port of its own: that of the
// network which the port boots from, or else one that it carries without a tag.
func TestBootAddress(t *testing.T) {
	s := &site.Site{Networks: map[string]*site.Network{
		"mgmt": {CIDR: "10.1.0.0/24", Gateway: "10.1.0.1", DNS: site.DNS{Servers: []string{"10.1.0.53", "fd00::53"}}},
		"boot": {CIDR: "10.5.0.0/16"}, "six": {CIDR: "fd00::/64", Gateway: "fd00::1"}, "leased": {CIDR: "10.6.0.0/24"}, "data": {CIDR: "10.7.0.0/24"},
	}}
	for name, c := range map[string]struct {
		n    site.Node
		want string
	}{
		"nothing designed": {site.Node{}, ""},
		"a port of its own": {site.Node{Addresses: map[string]string{"mgmt": "10.1.0.7"}, Interfaces: map[string]site.Interface{"eth0": {MAC: "AA:BB:CC:00:00:01", Networks: []string{"mgmt"}}}},
			"10.1.0.7/24 via 10.1.0.1 dns [10.1.0.53 fd00::53] on aa:bb:cc:00:00:01"},
		"the network that it boots from": {site.Node{Addresses: map[string]string{"mgmt": "10.1.0.7", "boot": "10.5.0.7"}, Interfaces: map[string]site.Interface{
			"eth0": {Networks: []string{"mgmt"}}, "eth1": {Boot: "boot", Device: "nic"}}, Hardware: site.Hardware{Devices: map[string]site.Device{"nic": {MAC: "aa:bb:cc:00:00:02"}}}},
			"10.5.0.7/16 on aa:bb:cc:00:00:02"},
		"the default route first": {site.Node{PrimaryNetwork: "mgmt", Addresses: map[string]string{"mgmt": "10.1.0.7", "data": "10.7.0.7"}, Interfaces: map[string]site.Interface{
			"eth0": {Networks: []string{"data"}}, "eth1": {Networks: []string{"mgmt"}}}}, "10.1.0.7/24 via 10.1.0.1 dns [10.1.0.53 fd00::53] on "},
		"by DHCP":           {site.Node{Addresses: map[string]string{"leased": site.AddressDHCP}, Interfaces: map[string]site.Interface{"eth0": {Networks: []string{"leased"}}}}, ""},
		"of IPv6 alone":     {site.Node{Addresses: map[string]string{"six": "fd00::7"}, Interfaces: map[string]site.Interface{"eth0": {Networks: []string{"six"}}}}, ""},
		"on a bond alone":   {site.Node{Addresses: map[string]string{"mgmt": "10.1.0.7"}, Interfaces: map[string]site.Interface{"eth0": {}}, Bonds: map[string]site.Bond{"bond0": {Members: []string{"eth0"}, Networks: []string{"mgmt"}}}}, ""},
		"in no known place": {site.Node{Addresses: map[string]string{"gone": "10.9.0.7"}, Interfaces: map[string]site.Interface{"eth0": {Networks: []string{"gone"}}}}, ""},
	} {
		a := s.BootAddress(&c.n)
		got := ""
		if a.Prefix.IsValid() {
			got = a.Prefix.String()
			if a.Gateway.IsValid() {
				got += " via " + a.Gateway.String()
			}
			if len(a.DNS) > 0 {
				got += fmt.Sprint(" dns ", a.DNS)
			}
			got += " on " + a.MAC
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
