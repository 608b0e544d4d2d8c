package design_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A health at which nobody can look is told of, for the nodes that it is about.
func TestUnseenHealth(t *testing.T) {
	health := &site.Health{Ports: []int{80}}
	no := false
	node := func(name string, os bool) *site.Node {
		n := &site.Node{Name: name, Role: "web", Place: site.At("nodes.cue", 7, 1, "node"), Endpoints: map[site.EndpointKind]site.Endpoint{site.Manager: {URL: "redfish+https://a"}}}
		n.References.Health = health
		if os {
			n.Endpoints[site.OS] = site.Endpoint{URL: "ssh://a"}
		}
		return n
	}
	s := &site.Site{Origins: site.OriginsByPath(map[string]site.Origin{"roles.web.health.ports": site.At("roles.cue", 3, 1, "site")}), Roles: map[string]*site.Role{"web": {Enabled: true, Health: health}, "bare": {Enabled: true}},
		Nodes: map[string]*site.Node{"seen": node("seen", true), "unseen": node("unseen", false), "off": node("off", false), "unused": node("unused", false)}}
	s.Nodes["off"].Power, s.Nodes["unused"].Enabled = "off", &no
	for _, c := range []struct {
		serves map[site.Facet]bool
		want   []string
	}{
		{map[site.Facet]bool{site.FacetProbes: true}, []string{"unseen"}},
		{map[site.Facet]bool{site.FacetOS: true}, []string{"unseen", ""}},
	} {
		found := design.UnseenHealth(s, c.serves)
		var nodes []string
		for _, f := range found {
			if f.Code != "health-unseen" || f.Severity != site.SeverityWarning || f.File != map[string]string{"": "roles.cue", "unseen": "nodes.cue"}[f.Node] {
				t.Errorf("got %+v", f)
			}
			nodes = append(nodes, f.Node)
		}
		if len(nodes) != len(c.want) || nodes[len(nodes)-1] != c.want[len(c.want)-1] {
			t.Errorf("with %v: got %q, want %q", c.serves, nodes, c.want)
		}
	}
}

// What is inside a system that no endpoint leads to is told with the endpoint that is missing,
// wherever the design asks for it, and drift of it as well.
func TestWhatNoEndpointLeadsTo(t *testing.T) {
	acts := map[site.Facet]bool{site.FacetConfig: true, site.FacetPackages: true}
	sysctl := site.Scalars{"a": int64(1)}
	for name, c := range map[string]struct {
		change func(*site.Node)
		want   string
	}{
		"":                 {func(*site.Node) {}, "nothing acts on %s: the node has no endpoints.os"},
		"by the agent":     {func(n *site.Node) { n.References.ByAgent, n.Generation = true, 1 }, "after the installation nothing acts on %s: the node has no endpoints.os"},
		"it leads there":   {func(n *site.Node) { n.Endpoints = map[site.EndpointKind]site.Endpoint{site.OS: {URL: "ssh://a"}} }, ""},
		"nothing is asked": {func(n *site.Node) { n.System, n.Families, n.Drift = site.System{}, nil, nil }, ""},
	} {
		n := &site.Node{Name: "n1", System: site.System{Sysctl: sysctl}, Families: map[string]site.System{"debian": {Packages: map[string]site.Package{"nginx": {}}}},
			Drift: map[site.Facet]string{site.FacetConfig: "repair"}}
		c.change(n)
		var got, want []string
		for _, f := range design.NotActedOn(&site.Site{Nodes: map[string]*site.Node{"n1": n}}, acts) {
			got = append(got, f.Message)
		}
		for _, path := range []string{"drift.config", "families.debian.packages", "system.sysctl"} {
			if c.want != "" {
				want = append(want, fmt.Sprintf(c.want, path))
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
