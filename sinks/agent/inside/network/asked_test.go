package network

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
)

// What others give an interface, or do not, is told beside its settings, and changes none.
func TestWhatOthersGive(t *testing.T) {
	const lease, advertised, single = "10.1.0.77/24", "fd00::77/64", "fd00::78/128"
	for what, c := range map[string]struct {
		made    item.Link
		dynamic []string
		told    string // how addresses are read, or that there is no carrier
		want    string // what is told of it
	}{
		"a lease":                    {item.Link{DHCP4: true}, []string{lease}, "", ""},
		"no lease":                   {item.Link{DHCP4: true}, nil, "", "it asks for an IPv4 address by DHCP, and no server has given one"},
		"both leases":                {item.Link{DHCP4: true, DHCP6: true}, []string{lease, single}, "", ""},
		"one lease of two":           {item.Link{DHCP4: true, DHCP6: true}, []string{lease}, "", "it asks for an IPv6 address by DHCP, and no server has given one"},
		"advertised, and no lease":   {item.Link{SLAAC: true, DHCP6: true}, []string{advertised}, "", ""}, // routers say whether to ask
		"no cable":                   {item.Link{DHCP4: true, SLAAC: true}, nil, "no carrier", ""},
		"a lease nobody asked for":   {item.Link{}, []string{lease}, "", "it has 10.1.0.77/24 for a time, as DHCP gives it, although its settings ask for none: something else on the machine does"},
		"an advertised prefix":       {item.Link{SLAAC: true}, []string{advertised}, "", ""},
		"nothing was advertised":     {item.Link{SLAAC: true}, []string{single}, "", "it takes an address from what routers advertise, and has none by that"},
		"an advertised one too many": {item.Link{}, []string{advertised}, "", "it has fd00::77/64 for a time, as routers and servers give it, although its settings ask for none"},
		"an address without an end":  {item.Link{DHCP4: true}, nil, "for good", ""},
		"addresses are not read":     {item.Link{DHCP4: true, DHCP6: true, SLAAC: true}, nil, "unread", ""},
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
				if c.told == "unread" {
					return nil, errors.New("no")
				}
				if c.told == "for good" {
					all = append(all, kernelAddress{s.index("eth1"), netip.MustParsePrefix("10.1.0.77/24"), true})
				}
				for _, a := range c.dynamic {
					all = append(all, kernelAddress{s.index("eth1"), netip.MustParsePrefix(a), false})
				}
				return all, err
			}
			if c.told == "no carrier" {
				put(t, s.root, "/sys/class/net/eth1/carrier", "0\n", 0o644)
			}
			seen, err := f.Observe(t.Context(), s.host(), keysOf(designed))
			if got := seen.Have[item.Asked("eth1")]; err != nil || got != c.want || (c.told != "unread") == (len(seen.Unread) > 0) {
				t.Errorf("%v, told %q and unread %v, want %q", err, got, seen.Unread, c.want)
			}
			if c.told == "for good" || c.told == "unread" {
				return
			}
			for field, want := range c.made.Fields() {
				if got := seen.Have["links.eth1."+field]; got != want {
					t.Errorf("%s is %q, want %q as it is set up", field, got, want)
				}
			}
		})
	}
}
