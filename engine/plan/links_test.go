package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

var linksServed = map[site.Facet]bool{site.FacetLinks: true}

// cabled is a site with a node whose bond of two ports is plugged into two switches.
func cabled() (*site.Site, *site.Node) {
	n := &site.Node{
		Name: "n1", Role: "web", Endpoints: map[site.EndpointKind]site.Endpoint{site.OS: {URL: "ssh://10.1.0.11"}},
		Interfaces: map[string]site.Interface{
			"eno1": {MAC: "52:54:00:00:00:01", Switch: "leaf-1", Port: "Ethernet1/7"},
			"eno2": {Switch: "leaf-2"},
			"eno3": {}, // in no use
		},
		Bonds:     map[string]site.Bond{"bond0": {Members: []string{"eno1", "eno2"}, Link: "data", Networks: []string{"os"}}},
		Addresses: map[string]string{"os": "10.1.0.11"},
		References: site.References{Links: map[string]item.Link{
			"eno1": {Kind: "ethernet", MTU: 9000}, "eno2": {Kind: "ethernet", MTU: 9000},
			"bond0": {Kind: "bond", MTU: 9000, Addresses: []string{"10.1.0.11/24"}},
		}},
		Origins: site.OriginsByPath(map[string]site.Origin{
			"interfaces.eno1.switch": site.At("n.cue", 3, 5, "node/n1"), "interfaces.eno1.port": site.At("n.cue", 4, 5, "node/n1"),
			"interfaces.eno2.switch": site.At("n.cue", 5, 5, "node/n1"), "bonds.bond0.link": site.At("n.cue", 6, 5, "node/n1"), "addresses.os": site.At("n.cue", 7, 5, "node/n1"),
		}),
	}
	return &site.Site{
		Roles: map[string]*site.Role{"web": {Enabled: true}}, Links: map[string]*site.Link{"data": {Rate: 25000, Networks: []string{"os"}}},
		Networks: map[string]*site.Network{"os": {CIDR: "10.1.0.0/24", Gateway: "10.1.0.1"}}, Nodes: map[string]*site.Node{"n1": n},
	}, n
}

// asCabled is what that node sees when all is as designed.
func asCabled() *item.LinksSeen {
	return &item.LinksSeen{
		Ports: []item.Port{
			{Name: "eno1", MAC: "52:54:00:00:00:01", Carrier: "up", Speed: 25000, Duplex: "full", MTU: 9000, Neighbours: []item.Neighbour{{Chassis: "aa", System: "leaf-1.example.org", Port: "Eth1/7"}}},
			{Name: "eno2", Carrier: "up", Speed: 100000, Duplex: "full", MTU: 9000, Neighbours: []item.Neighbour{{Chassis: "bb", System: "LEAF-2", Port: "12"}}},
			{Name: "eno9", Carrier: "down"},
		},
		Reached: []item.Reached{
			{Target: item.Target{Network: "os", Address: "10.1.0.1", MTU: 9000}, Answers: item.Answered, Sized: item.Answered},
			{Target: item.Target{Network: "os", Node: "n2", Address: "10.1.0.12", MTU: 9000}, Answers: item.Answered, Sized: item.Answered},
			{Target: item.Target{Network: "os", Node: "n3", Address: "10.1.0.13", MTU: 9000}, Answers: item.Silent},
		},
	}
}

func TestLinks(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*site.Node, *item.LinksSeen)
		state  site.LinksState
		why    string
		place  string // of the first finding, with its code
	}{
		"as designed": {func(*site.Node, *item.LinksSeen) {}, site.LinksAsDesigned, "", ""},
		"another switch": {func(_ *site.Node, s *item.LinksSeen) { s.Ports[0].Neighbours[0].System = "leaf-2" }, site.LinksDiffer,
			"port eno1 is plugged into port Eth1/7 of leaf-2; it is designed for port Ethernet1/7 of switch leaf-1", "link-switch n.cue:3:5"},
		"another port": {func(_ *site.Node, s *item.LinksSeen) { s.Ports[0].Neighbours[0].Port = "Ethernet1/8" }, site.LinksDiffer,
			"port eno1 is plugged into port Ethernet1/8 of switch leaf-1.example.org; it is designed for port Ethernet1/7 of switch leaf-1", "link-port n.cue:4:5"},
		"a port by its description": {func(_ *site.Node, s *item.LinksSeen) {
			s.Ports[0].Neighbours[0].Port, s.Ports[0].Neighbours[0].PortDescription = "513", "ethernet1/7"
		}, site.LinksAsDesigned, "", ""},
		"an adapter that speaks LLDP too": {func(_ *site.Node, s *item.LinksSeen) {
			s.Ports[0].Neighbours = append([]item.Neighbour{{Chassis: "cc", System: "nic", Port: "p"}}, s.Ports[0].Neighbours...)
		}, site.LinksAsDesigned, "", ""},
		"nothing heard": {func(_ *site.Node, s *item.LinksSeen) { s.Ports[0].Neighbours = nil }, site.LinksUnknown,
			"port eno1 has heard no LLDP from its other end, so Slipway does not know what it is plugged into", ""},
		"a switch without a name": {func(_ *site.Node, s *item.LinksSeen) { s.Ports[0].Neighbours[0].System = "" }, site.LinksUnknown,
			"port eno1 hears a switch that does not say its name (aa, port Eth1/7)", ""},
		"nothing heard where none is designed": {func(n *site.Node, s *item.LinksSeen) {
			n.Interfaces["eno1"] = site.Interface{}
			s.Ports[0].Neighbours = nil
		}, site.LinksAsDesigned, "", ""},
		"no carrier": {func(_ *site.Node, s *item.LinksSeen) { s.Ports[1].Carrier = "down" }, site.LinksDiffer,
			"port eno2 has no carrier: its cable is unplugged or broken, or the other end is off; it is designed for switch leaf-2", "link-carrier n.cue:5:5"},
		"a port that is off": {func(_ *site.Node, s *item.LinksSeen) { s.Ports[1].Off, s.Ports[1].Carrier = true, "" }, site.LinksUnknown,
			"port eno2 is switched off in the system, so nothing is known of its cable", ""},
		"no such port":   {func(_ *site.Node, s *item.LinksSeen) { s.Ports[1].Name = "eth1" }, site.LinksDiffer, "port eno2 is not there", "link-absent"},
		"by its address": {func(_ *site.Node, s *item.LinksSeen) { s.Ports[0].Name = "eth0" }, site.LinksAsDesigned, "", ""},
		"too slow": {func(_ *site.Node, s *item.LinksSeen) { s.Ports[0].Speed = 10000 }, site.LinksDiffer,
			"port eno1 runs at 10Gb/s, and link data is designed for 25Gb/s", "link-rate n.cue:6:5"},
		"no speed":    {func(_ *site.Node, s *item.LinksSeen) { s.Ports[0].Speed = 0 }, site.LinksUnknown, "port eno1 does not say how fast it is; link data is designed for 25Gb/s", ""},
		"half duplex": {func(_ *site.Node, s *item.LinksSeen) { s.Ports[0].Duplex = "half" }, site.LinksDiffer, "port eno1 runs at half duplex", "link-duplex"},
		"small packets": {func(_ *site.Node, s *item.LinksSeen) { s.Ports[0].MTU = 1500 }, site.LinksDiffer,
			"port eno1 has an MTU of 1500, and is designed for 9000", "link-mtu"},
		"a silent gateway": {func(_ *site.Node, s *item.LinksSeen) { s.Reached[0].Answers, s.Reached[0].Sized = item.Silent, "" }, site.LinksDiffer,
			"the gateway 10.1.0.1 of network os does not answer", "link-gateway n.cue:7:5"},
		"a gateway that takes small packets alone": {func(_ *site.Node, s *item.LinksSeen) { s.Reached[0].Sized = item.Silent }, site.LinksDiffer,
			"the gateway 10.1.0.1 of network os answers, but not to packets of 9000 bytes", "link-path n.cue:7:5"},
		"a gateway that was not tried": {func(_ *site.Node, s *item.LinksSeen) { s.Reached = s.Reached[1:] }, site.LinksUnknown, "the gateway 10.1.0.1 of network os was not tried yet", ""},
		"another gateway was tried":    {func(_ *site.Node, s *item.LinksSeen) { s.Reached[0].Address = "10.1.0.254" }, site.LinksUnknown, "was not tried yet", ""},
		"a gateway of which nobody knows": {func(_ *site.Node, s *item.LinksSeen) {
			s.Reached[0].Answers, s.Reached[0].Why = "", "this system is not in its network"
		}, site.LinksUnknown,
			"whether the gateway 10.1.0.1 of network os answers is not known: this system is not in its network", ""},
		"silent nodes": {func(_ *site.Node, s *item.LinksSeen) { s.Reached[1].Answers, s.Reached[1].Sized = item.Silent, "" }, site.LinksDiffer,
			"no other node answers in network os: tried n2 (10.1.0.12), n3 (10.1.0.13)", "link-peers n.cue:7:5"},
		"nodes that large packets do not reach": {func(_ *site.Node, s *item.LinksSeen) { s.Reached[1].Sized = item.Silent }, site.LinksDiffer,
			"in network os packets of 9000 bytes, for which it is designed, do not arrive: tried n2 (10.1.0.12)", "link-path"},
		"several": {func(_ *site.Node, s *item.LinksSeen) { s.Ports[0].Carrier, s.Ports[1].Carrier = "down", "down" }, site.LinksDiffer,
			"port eno1 has no carrier: its cable is unplugged or broken, or the other end is off; it is designed for port Ethernet1/7 of switch leaf-1 (and 1 more)", "link-carrier n.cue:3:5"},
		"nobody looks": {func(n *site.Node, _ *item.LinksSeen) { n.Endpoints = nil }, site.LinksUnknown, "Slipway cannot look at them: the design has no endpoint os for the node", ""},
		"wanted off":   {func(n *site.Node, _ *item.LinksSeen) { n.Power = "off" }, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, n := cabled()
			seen := asCabled()
			c.change(n, seen)
			got, found := Links(s, n, site.Observed{Links: seen}, linksServed)
			if got.State != c.state || !strings.HasPrefix(got.Why, c.why) && !strings.HasSuffix(got.Why, c.why) || (c.why == "") != (got.Why == "") {
				t.Errorf("got %q: %q, want %q: %q", got.State, got.Why, c.state, c.why)
			}
			if (len(found) > 0) != (c.state == site.LinksDiffer) {
				t.Fatalf("found %+v", found)
			}
			if len(found) > 0 && !strings.HasPrefix(found[0].Code+" "+found[0].Place(), c.place) {
				t.Errorf("found %s at %s, want %s", found[0].Code, found[0].Place(), c.place)
			}
		})
	}
}

// What nobody has looked at is unknown, and what no driver looks at is not spoken of.
func TestLinksUnseen(t *testing.T) {
	s, n := cabled()
	for why, o := range map[string]site.Observed{
		"they were not looked at yet": {}, "no root": {Links: nil, Facets: map[site.Facet]site.FacetState{site.FacetLinks: {Unread: site.Values{"links": "no root"}}}},
	} {
		if got, _ := Links(s, n, o, linksServed); got.State != site.LinksUnknown || got.Why != why {
			t.Errorf("got %v, want %q", got, why)
		}
	}
	stale := site.Observed{Links: asCabled(), Facets: map[site.Facet]site.FacetState{site.FacetLinks: {Unread: site.Values{"links": "no root"}}}}
	if got, found := Links(s, n, stale, linksServed); got.State != site.LinksUnknown || len(found) > 0 {
		t.Errorf("of what cannot be seen any more: %v, %v", got, found)
	}
	if got, _ := Links(s, n, site.Observed{Links: asCabled()}, nil); got != (site.Links{}) {
		t.Errorf("without a driver: %v", got)
	}
	n.Interfaces, n.Bonds, s.Networks["os"].Gateway = map[string]site.Interface{"eno3": {}}, nil, ""
	if got, _ := Links(s, n, site.Observed{}, linksServed); got != (site.Links{}) {
		t.Errorf("of a port for which nothing is designed: %v", got)
	}
}

// The MTU of an interface that Slipway sets is a step, and not told twice.
func TestLinkMTUThatIsSet(t *testing.T) {
	s, n := cabled()
	seen := asCabled()
	seen.Ports[0].MTU = 1500
	o := site.Observed{Links: seen, Facets: map[site.Facet]site.FacetState{site.FacetNetwork: {}}}
	if got, _ := Links(s, n, o, linksServed); got.State != site.LinksAsDesigned {
		t.Errorf("got %v", got)
	}
}

func TestSameNameOfPorts(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"Ethernet1/7", "Eth1/7", true}, {"Gi1/0/1", "GigabitEthernet1/0/1", true}, {"ethernet1/7", "Ethernet1/7", true}, {"7", "7", true}, {"xe-0/0/1", "xe-0/0/1", true},
		{"Ethernet1/7", "Ethernet1/70", false}, {"Te1/1", "TwentyFiveGigE1/1", false}, {"E1/7", "Ethernet1/7", false}, {"1/7", "Ethernet1/7", false}, {"", "", false},
		{"ge-0/0/1", "xe-0/0/1", false}, {"Ethernet", "Eth", false}, {"swp1", "swp10", false}, {"", "Eth1", false},
	} {
		if got := sameName(c.a, c.b); got != c.same || sameName(c.b, c.a) != got {
			t.Errorf("%q and %q: %v", c.a, c.b, got)
		}
	}
}

// A neighbour counts as long as the port has kept its carrier since the same boot.
func TestNeighboursThatWereHeard(t *testing.T) {
	now := time.Now()
	heard := func() *item.LinksSeen {
		return &item.LinksSeen{BootID: "a", Ports: []item.Port{{Name: "eno1", MAC: "m", Carrier: "up", Changes: 3, Neighbours: []item.Neighbour{{System: "leaf-1", Heard: now}}}}}
	}
	for name, c := range map[string]struct {
		change func(*item.LinksSeen)
		kept   bool
	}{
		"nothing happened":     {func(*item.LinksSeen) {}, true},
		"the carrier was lost": {func(s *item.LinksSeen) { s.Ports[0].Changes += 2 }, false},
		"the carrier is lost":  {func(s *item.LinksSeen) { s.Ports[0].Carrier = "down" }, false},
		"it was booted":        {func(s *item.LinksSeen) { s.BootID = "b" }, false},
		"nobody knows":         {func(s *item.LinksSeen) { s.BootID = "" }, false},
		"another card":         {func(s *item.LinksSeen) { s.Ports[0].MAC = "x" }, false},
	} {
		newer := heard()
		newer.Ports[0].Neighbours = nil
		c.change(newer)
		got := newer.After(heard()).Ports[0].Neighbours
		if (len(got) == 1) != c.kept {
			t.Errorf("%s: kept %v", name, got)
		}
		if len(newer.Ports[0].Neighbours) > 0 {
			t.Errorf("%s: what was seen was changed", name)
		}
	}
	again := heard()
	again.Ports[0].Neighbours[0].Heard = now.Add(5 * time.Minute)
	if got := again.After(heard()).Ports[0].Neighbours[0].Heard; !got.Equal(now) {
		t.Error("each frame that is heard is news")
	}
	again.Ports[0].Neighbours[0].Heard = now.Add(2 * time.Hour)
	if got := again.After(heard()).Ports[0].Neighbours[0].Heard; !got.Equal(now.Add(2 * time.Hour)) {
		t.Error("the time at which it was heard stays for ever")
	}
	again.Ports[0].Neighbours[0].System = "leaf-2"
	if got := again.After(heard()).Ports[0].Neighbours[0].System; got != "leaf-2" {
		t.Error("the one that was heard before goes before the one that is heard now")
	}
}

// One port is judged as Links judges all of them, and a port at which nobody looked is unknown.
func TestPort(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*site.Observed)
		found   string // of eno1
		unknown bool
	}{
		"as designed":    {func(*site.Observed) {}, "", false},
		"another switch": {func(o *site.Observed) { o.Links.Ports[0].Neighbours[0].System = "leaf-2" }, "link-switch", false},
		"no carrier":     {func(o *site.Observed) { o.Links.Ports[0].Carrier = "down" }, "link-carrier", false},
		"nothing heard":  {func(o *site.Observed) { o.Links.Ports[0].Neighbours = nil }, "", true},
		"never seen":     {func(o *site.Observed) { o.Links = nil }, "", true},
		"unread": {func(o *site.Observed) {
			o.Facets = map[site.Facet]site.FacetState{site.FacetLinks: {Unread: map[string]string{string(site.FacetLinks): "no permission"}}}
		}, "", true},
	} {
		s, n := cabled()
		o := site.Observed{Links: asCabled()}
		c.change(&o)
		found, unknown := Port(s, n, "eno1", o)
		code := ""
		if len(found) > 0 {
			code = found[0].Code
		}
		if code != c.found || (unknown != "") != c.unknown {
			t.Errorf("%s: found %q, unknown %q", name, code, unknown)
		}
	}
}
