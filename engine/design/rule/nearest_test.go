package rule

import (
	"fmt"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// A section of many names has no name that is meant by a wrong one: thousands
// of mistakes in thousands of names would take minutes.
func TestManyNamesHaveNoNearest(t *testing.T) {
	for _, c := range []struct {
		names int
		want  string
	}{
		{many, `; did you mean "rack-1"?`},
		{many + 1, ""},
	} {
		in := map[string]*site.Rack{}
		for i := range c.names {
			in[fmt.Sprintf("rack-%d", i)] = nil
		}
		if got := didYouMean("rackk-1", in); got != c.want {
			t.Errorf("among %d: %q, want %q", c.names, got, c.want)
		}
	}
}

// What is wrong with a great many roles and networks, and with the selectors
// that name them, is found without a look at all of them for each.
func TestWideSites(t *testing.T) {
	const n = 3000
	s := &site.Site{Networks: map[string]*site.Network{}, Roles: map[string]*site.Role{}, Links: map[string]*site.Link{},
		Racks: map[string]*site.Rack{}, Policies: map[string]*site.Policy{}}
	fleet := NewFleet()
	for i := range n {
		name, gone := fmt.Sprintf("x%04d", i), fmt.Sprintf("gone%04d", i)
		s.Networks[name] = &site.Network{CIDR: fmt.Sprintf("10.%d.%d.0/24", i/250, i%250), RouteDomain: name}
		s.Roles[name] = &site.Role{Enabled: true, Phases: []string{"a"}, Leader: gone, LeaderFirst: true, Majority: true,
			Needs: map[string]map[string]site.Need{"a": {gone: {Phase: "a", Quorum: "1"}}}}
		s.Racks[name] = &site.Rack{}
		s.Links[name] = &site.Link{Networks: []string{gone}}
		s.Policies[name] = &site.Policy{Nodes: &site.Selector{Match: site.Match{Names: []string{gone}, Roles: []string{gone}}}}
	}
	for i := range 20 {
		node := &site.Node{Name: fmt.Sprintf("n%d", i), Role: "x0001", Rack: "x0001", Addresses: map[string]string{"x0001": "dhcp"},
			Origins: site.OriginsByPath(map[string]site.Origin{"endpoints.manager.credential": site.At("n.cue", 1, 1, "schema")})}
		_, facts := OnNode(s, node)
		fleet.Put(node.Name, facts)
	}
	found := map[string]int{}
	for _, f := range append(OnSite(s, true), fleet.Check(s)...) {
		found[f.Code]++
	}
	for code, want := range map[string]int{
		"unknown-link-network": n, "unknown-needed-role": n, "unknown-leader": n, "unused-network": n - 1, "unused-role": n - 1,
		"unknown-selected": 2 * n, "role-in-one-domain": 1, "panic": 0,
	} {
		if found[code] != want {
			t.Errorf("%d findings of %s, want %d", found[code], code, want)
		}
	}
}
