package item

import (
	"maps"
	"testing"
)

// The texts of an interface are the same whatever the order of what has none, and
// leave out what nobody set.
func TestLinkFields(t *testing.T) {
	for name, c := range map[string]struct {
		link Link
		want map[string]string
	}{
		"nothing but its kind": {Link{Kind: "ethernet"}, map[string]string{"kind": "ethernet"}},
		"an interface": {
			Link{Kind: "ethernet", MAC: "52:54:00:AA:00:01", MTU: 9000, Addresses: []string{"fd00::2/64", "10.1.0.11/24"}, DHCP4: true, DHCP6: true,
				SLAAC: true, Servers: []string{"10.1.0.3", "10.1.0.2"}, Search: []string{"b.org", "a.org"}, Functions: 4, Trusted: true,
				Routes: []Route{{To: "10.9.0.0/16", Via: "10.1.0.2", Metric: 50}, {To: "0.0.0.0/0", Via: "10.1.0.1"}}},
			map[string]string{"kind": "ethernet", "mac": "52:54:00:aa:00:01", "mtu": "9000", "addresses": "10.1.0.11/24, fd00::2/64", "dhcp": "4, 6",
				"slaac": "on", "dns": "10.1.0.3, 10.1.0.2; b.org, a.org", "functions": "4, trusted",
				"routes": "0.0.0.0/0 via 10.1.0.1, 10.9.0.0/16 via 10.1.0.2 metric 50"},
		},
		"a bond": {
			Link{Kind: "bond", Members: []string{"eth1", "eth0"}, Bond: &Bond{Mode: "802.3ad", LACPRate: "fast", HashPolicy: "layer3+4", Monitor: 100,
				UpDelay: 200, DownDelay: 300, MinLinks: 1, Primary: "eth0"}},
			map[string]string{"kind": "bond", "members": "eth0, eth1",
				"bond": "802.3ad, lacp fast, layer3+4, miimon 100ms, up 200ms, down 300ms, min 1, primary eth0"},
		},
		"a bridge": {Link{Kind: "bridge", STP: true}, map[string]string{"kind": "bridge", "stp": "on"}},
		"a VLAN":   {Link{Kind: "vlan", VLAN: 5, Parent: "bond0"}, map[string]string{"kind": "vlan", "vlan": "5 on bond0"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.link.Fields(); !maps.Equal(got, c.want) {
				t.Errorf("%v\nwant\n%v", got, c.want)
			}
		})
	}
}
