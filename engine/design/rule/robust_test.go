package rule

import (
	"slices"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// odd are values as a design has them of which parts were wrong and left out,
// or which no rule has checked yet.
var odd = []string{"", "x", "dhcp", "allocate", "10.0.0.0/24", "10.0.0.1", "10.0.0.255", "::", "::/0", "fd00::1", "::ffff:10.0.0.1", "255.255.255.255/32"}

func oddSite(a, b string) *site.Site {
	return &site.Site{
		Networks: map[string]*site.Network{
			"":  {},
			"x": {CIDR: a, Gateway: b, MTU: 1, VLAN: 1, RouteDomain: "x", DHCPRelay: &site.DHCPRelay{Address: b, Servers: []string{a, b}}},
			"y": {CIDR: b, Ranges: map[string]site.Range{"": {}, "x": {From: a, To: b, Use: site.RangeStatic}, "y": {From: b, To: a, Use: site.RangeDHCP}}},
			"z": {CIDR: b, Routes: map[string]site.Route{"": {}, "x": {To: a, Gateway: b}, "y": {Domain: "x", Gateway: a}}, DNS: site.DNS{Domain: a, Servers: []string{a, b}}},
		},
		Links: map[string]*site.Link{
			"":  {},
			"x": {Networks: []string{"x", "y", "z", "x", "none", ""}, Trunk: true, Native: "y", Bonding: &site.Bonding{UpDelay: 1}},
			"y": {Networks: []string{}, Native: "x", Bonding: &site.Bonding{Mode: "x", Monitor: 3e6, UpDelay: 1, MinLinks: 9}},
		},
		Racks:       map[string]*site.Rack{"": {}, "x": {Switches: map[string]site.Switch{"": {}, "x": {Address: a, Ports: map[string]site.SwitchPort{"": {Link: "x"}, "x": {Link: "y"}}}}}},
		Allocations: map[string]map[string]string{"x": {"n": a, "none": b}, "none": {"n": a}, "y": nil},
	}
}

func oddNode(a, b string) *site.Node {
	return &site.Node{
		Name: "n", Rack: "x", PrimaryNetwork: "x",
		Addresses: map[string]string{"x": a, "y": b, "z": a, "": b, "none": a},
		Endpoints: map[site.EndpointKind]site.Endpoint{site.BMC: {URL: "redfish+https://" + a}},
		Interfaces: map[string]site.Interface{
			"":  {},
			"x": {Link: "x", Networks: []string{"x", "y", "x", ""}, MTU: 9, MAC: a, Switch: "x", Port: "x", Device: "x"},
			"y": {Link: "y", Switch: "none", Port: b},
		},
		Bonds:   map[string]site.Bond{"": {}, "x": {Members: []string{"x", "x", "none", ""}, Link: "y", Primary: "y"}},
		Bridges: map[string]site.Bridge{"": {}, "b": {Members: []string{"b", "x", "y"}, Networks: []string{"z"}}},
		VLANs:   map[string]site.VLAN{"": {}, "v": {Parent: "v", Network: "x"}, "w": {Parent: "x", Network: "y", MTU: 70000}},
	}
}

// A rule takes whatever the rest of a design is: it breaks off for no value.
func TestRulesTakeOddValues(t *testing.T) {
	for _, a := range odd {
		for _, b := range odd {
			s, n := oddSite(a, b), oddNode(a, b)
			found := OnSite(s)
			of, facts := OnNode(s, n)
			fleet := NewFleet()
			fleet.Put(n.Name, facts)
			for _, f := range slices.Concat(found, of, fleet.Check(s)) {
				if f.Code == "panic" {
					t.Errorf("with %q and %q: %s %s", a, b, f.Message, f.Fix)
				}
			}
		}
	}
}
