package site

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A node has a default route of each family. The primary network decides within its own, and
// in the other one by the interface that it is on.
func TestDefaultRoutes(t *testing.T) {
	s := &Site{Networks: map[string]*Network{
		"four":  {CIDR: "10.1.0.0/24", Gateway: "10.1.0.1"},
		"data4": {CIDR: "10.2.0.0/24", Gateway: "10.2.0.1"},
		"still": {CIDR: "10.3.0.0/24"},
		"six":   {CIDR: "fd00:1::/64", Gateway: "fd00:1::1"},
		"data6": {CIDR: "fd00:2::/64", Gateway: "fd00:2::1"},
		"boot":  {CIDR: "10.4.0.0/24", Gateway: "10.4.0.1"},
	}}
	has := map[string]string{"four": "10.1.0.9", "data4": "10.2.0.9", "still": "10.3.0.9", "six": "fd00:1::9", "data6": "fd00:2::9", "boot": "10.4.0.9"}
	for name, c := range map[string]struct {
		on      []string // the networks of eno1; each other one has a port of its own
		in      []string
		primary string
		want    []string
	}{
		"one of each":                              {in: []string{"four", "six"}, want: []string{"0.0.0.0/0 via 10.1.0.1", "::/0 via fd00:1::1"}},
		"the primary one is of IPv4":               {in: []string{"four", "six"}, primary: "four", want: []string{"0.0.0.0/0 via 10.1.0.1", "::/0 via fd00:1::1"}},
		"the primary one is of IPv6":               {in: []string{"four", "six"}, primary: "six", want: []string{"0.0.0.0/0 via 10.1.0.1", "::/0 via fd00:1::1"}},
		"two of IPv4, one of them primary":         {in: []string{"four", "data4", "six"}, primary: "data4", want: []string{"0.0.0.0/0 via 10.2.0.1", "::/0 via fd00:1::1"}},
		"two of IPv4, none of them primary":        {in: []string{"four", "data4", "six"}, want: []string{"::/0 via fd00:1::1"}},
		"two of IPv4, the primary one of IPv6":     {in: []string{"four", "data4", "six"}, primary: "six", want: []string{"::/0 via fd00:1::1"}},
		"two of each, beside each other":           {on: []string{"data4", "data6"}, in: []string{"four", "data4", "six", "data6"}, primary: "data4", want: []string{"0.0.0.0/0 via 10.2.0.1", "::/0 via fd00:2::1"}},
		"the primary one has no gateway":           {in: []string{"still", "six"}, primary: "still", want: []string{"::/0 via fd00:1::1"}},
		"the primary one has none, and others do":  {in: []string{"still", "four", "six"}, primary: "still", want: []string{"::/0 via fd00:1::1"}},
		"one is only to start the machine":         {in: []string{"boot", "four"}, want: []string{"0.0.0.0/0 via 10.1.0.1"}},
		"the address of one is given by DHCP here": {in: []string{"still"}, want: nil},
	} {
		n := &Node{PrimaryNetwork: c.primary, Addresses: map[string]string{}, Interfaces: map[string]Interface{"eno1": {Networks: c.on}}}
		for _, network := range c.in {
			n.Addresses[network] = has[network]
			switch {
			case network == "boot":
				n.Interfaces["p-"+network] = Interface{Boot: network}
			case !slices.Contains(c.on, network):
				n.Interfaces["p-"+network] = Interface{Networks: []string{network}}
			}
		}
		links, err := s.Wiring(n)
		var got []string
		for _, port := range slices.Sorted(maps.Keys(links)) {
			for _, r := range links[port].Routes {
				got = append(got, r.To+" via "+r.Via)
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}

// A route to a route domain leads to the networks of its gateway's family alone, whether it is
// that of a network or of a node, and not to those that the node is in itself.
func TestRoutesToADomain(t *testing.T) {
	s := &Site{Networks: map[string]*Network{
		"lan":  {CIDR: "10.1.0.0/24", Routes: map[string]Route{"far": {Domain: "far", Gateway: "10.1.0.2"}}},
		"lan6": {CIDR: "fd00:1::/64", Routes: map[string]Route{"far": {Domain: "far", Gateway: "fd00:1::2"}}},
		"far":  {CIDR: "10.8.0.0/24", RouteDomain: "far"}, "far6": {CIDR: "fd00:8::/64", RouteDomain: "far"},
		"mine": {CIDR: "10.9.0.0/24", RouteDomain: "far"},
	}}
	n := &Node{
		Addresses:  map[string]string{"lan": "10.1.0.9", "lan6": "fd00:1::9", "mine": "10.9.0.9"},
		Routes:     map[string]Route{"again": {Domain: "far", Gateway: "10.1.0.3", Metric: 9}},
		Interfaces: map[string]Interface{"eno1": {Networks: []string{"lan", "lan6", "mine"}}},
	}
	links, err := s.Wiring(n)
	want := "10.8.0.0/24 via 10.1.0.2, 10.8.0.0/24 via 10.1.0.3 metric 9, fd00:8::/64 via fd00:1::2"
	if got := links["eno1"].Fields()["routes"]; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
