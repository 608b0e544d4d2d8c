package network

import (
	"net/netip"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
)

// What an interface asks others for is what came of it, not what its settings say.
func TestWhatOthersGive(t *testing.T) {
	const lease, advertised, single = "10.1.0.77/24", "fd00::77/64", "fd00::78/128"
	names := item.Link{Servers: []string{"10.1.0.2", "fd00::2"}, Search: []string{"example.org"}}
	for what, c := range map[string]struct {
		made    item.Link
		dynamic []string
		told    string // what systemd-networkd says of the link
		field   string
		have    string // what is seen of the field
		unread  string // why it is not
	}{
		"a lease":                    {made: item.Link{DHCP4: true}, dynamic: []string{lease}, field: "dhcp", have: "4"},
		"no lease":                   {made: item.Link{DHCP4: true}, field: "dhcp", unread: "it asks for an IPv4 address by DHCP, and no server has given one"},
		"both leases":                {made: item.Link{DHCP4: true, DHCP6: true}, dynamic: []string{lease, single}, field: "dhcp", have: "4, 6"},
		"one lease of two":           {made: item.Link{DHCP4: true, DHCP6: true}, dynamic: []string{lease}, field: "dhcp", unread: "it asks for an IPv6 address by DHCP, and no server has given one"},
		"a lease nobody asked for":   {dynamic: []string{lease}, field: "dhcp", unread: "it has 10.1.0.77/24 by DHCP, although the design does not ask for that: something else on the machine does"},
		"an advertised prefix":       {made: item.Link{SLAAC: true}, dynamic: []string{advertised}, field: "slaac", have: "on"},
		"nothing was advertised":     {made: item.Link{SLAAC: true}, dynamic: []string{single}, field: "slaac", unread: "it takes an address from what routers advertise, and has none by that"},
		"an advertised one too many": {dynamic: []string{advertised}, field: "slaac", unread: "it has fd00::77/64 by what a router or a server told it, although the design does not ask for that"},
		"name servers":               {made: names, told: "DNS=10.1.0.2 fd00:0::2 10.1.0.9\nDOMAINS=example.org\n", field: "dns", have: "10.1.0.2, fd00::2; example.org"},
		"one name server is lost":    {made: names, told: "DNS=10.1.0.2\nDOMAINS=example.org\n", field: "dns", have: "10.1.0.2; example.org"},
		"others are used":            {made: names, told: "DNS=10.1.0.9\n", field: "dns"},
		"no word of name servers":    {made: names, told: "ADMIN_STATE=configured\n", field: "dns", unread: "systemd-networkd does not tell that it uses the designed name servers for this interface"},
	} {
		t.Run(what, func(t *testing.T) {
			s := newSystem(t)
			c.made.Kind = "ethernet"
			designed := links{"eth1": c.made}
			f := s.facet()
			h := s.host()
			h.Live = false
			if err := f.Apply(t.Context(), h, items(designed), nil); err != nil {
				t.Fatal(err)
			}
			read := f.tables.addresses
			f.tables.addresses = func() ([]kernelAddress, error) {
				all, err := read()
				for _, a := range c.dynamic {
					all = append(all, kernelAddress{s.index("eth1"), netip.MustParsePrefix(a), false})
				}
				return all, err
			}
			put(t, s.root, "/run/systemd/netif/links/3", c.told, 0o644)
			seen, err := f.Observe(t.Context(), s.host(), keysOf(designed))
			key := "links.eth1." + c.field
			if err != nil || seen.Have[key] != c.have || seen.Unread[key] != c.unread {
				t.Errorf("%v, have %q and unread %q, want %q and %q", err, seen.Have[key], seen.Unread[key], c.have, c.unread)
			}
		})
	}
}
