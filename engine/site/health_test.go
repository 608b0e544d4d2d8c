package site_test

import (
	"slices"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// What is seen of a system's health is one of three: all probes pass, one fails, or
// something is not known. What was seen of another probe says nothing.
func TestHealthSeen(t *testing.T) {
	served := map[site.Facet]bool{site.FacetProbes: true}
	const unit, port = "unit a.service", "port 80"
	for what, c := range map[string]struct {
		change func(*site.Node)
		serves map[site.Facet]bool
		seen   site.FacetState
		want   string
	}{
		"all pass":              {nil, served, site.FacetState{Have: site.Values{unit: item.Passed, port: item.Passed}}, "healthy"},
		"one fails":             {nil, served, site.FacetState{Have: site.Values{unit: item.Passed, port: "port 80 does not answer"}}, "unhealthy: port 80 does not answer"},
		"two fail":              {nil, served, site.FacetState{Have: site.Values{unit: "a.service is failed", port: "no"}}, "unhealthy: a.service is failed, and 1 more"},
		"one fails, one unread": {nil, served, site.FacetState{Have: site.Values{port: "no"}, Unread: site.Values{unit: "no bus"}}, "unhealthy: no"},
		"one unread":            {nil, served, site.FacetState{Have: site.Values{port: item.Passed}, Unread: site.Values{unit: "no bus"}}, "unknown: no bus"},
		"never looked":          {nil, served, site.FacetState{}, "unknown: unit a.service was not looked at yet, and 1 more"},
		"another probe":         {nil, served, site.FacetState{Have: site.Values{unit: item.Passed, "port 8080": item.Passed}}, "unknown: port 80 was not looked at yet"},
		"no helpers":            {nil, nil, site.FacetState{}, "unknown: Slipway cannot look at it: the daemon runs without helpers (--agents)"},
		"no endpoint": {func(n *site.Node) { n.Endpoints = nil }, served, site.FacetState{},
			"unknown: Slipway cannot look at it: the design has no endpoint os for the node"},
		"off":          {func(n *site.Node) { n.Power = "off" }, served, site.FacetState{}, ""},
		"leaving":      {func(n *site.Node) { n.Decommission = true }, served, site.FacetState{}, ""},
		"none":         {func(n *site.Node) { n.References.Health = nil }, served, site.FacetState{}, ""},
		"asks nothing": {func(n *site.Node) { n.References.Health = &site.Health{Timeout: 1} }, served, site.FacetState{}, ""},
	} {
		n := &site.Node{Endpoints: map[site.EndpointKind]site.Endpoint{site.OS: {URL: "ssh://a"}}}
		n.References.Health = &site.Health{Units: []string{"a.service"}, Ports: []int{80}}
		if c.change != nil {
			c.change(n)
		}
		h := n.HealthSeen(c.seen, c.serves)
		if h.String() != c.want || h.IsFit() != slices.Contains([]string{"", "healthy"}, c.want) {
			t.Errorf("%s: got %q, want %q", what, h, c.want)
		}
	}
}

// A probe's key has all that is asked, so that a changed one is not taken for the one
// before.
func TestProbes(t *testing.T) {
	n := &site.Node{Addresses: map[string]string{"mgmt": "10.1.0.11", "data": "dhcp"}}
	n.References.Health = &site.Health{Ports: []int{22}, Units: []string{"a.service"}, Command: []string{"/opt/check", "a b", ""},
		HTTP: map[string]site.HealthHTTP{"b": {Port: 8080}, "a": {Port: 80, Path: "/x", Status: 204, Host: "shop"}}}
	p, ok := n.Probes()
	var keys []string
	for _, x := range p.Probes {
		keys = append(keys, x.Key)
	}
	want := []string{"unit a.service", "port 22", "http port 80 /x of shop with status 204", "http port 8080 / with status 200", `command /opt/check "a b" ""`}
	if !ok || !slices.Equal(keys, want) || !slices.Equal(p.Addresses, []string{"10.1.0.11"}) {
		t.Errorf("got %q at %v", keys, p.Addresses)
	}
}

// What a command of the site prints has the time in it, and that is no news.
func TestNumbersThatAProgramPrintsAreNoNews(t *testing.T) {
	said := func(text string) site.Observed {
		return site.Observed{Facets: map[site.Facet]site.FacetState{site.FacetProbes: {Have: site.Values{"command": text}}}}
	}
	first := "/opt/check exited with 1: 07:14:09 lag of 12 s"
	for now, want := range map[string]string{
		"/opt/check exited with 1: 08:00:00 lag of 300 s": first,
		"/opt/check exited with 2: 07:14:09 lag of 12 s":  "/opt/check exited with 2: 07:14:09 lag of 12 s",
		"/opt/check exited with 1: 08:00:00 no peer":      "/opt/check exited with 1: 08:00:00 no peer",
		"passed": "passed",
	} {
		if got := said(first).Merge(said(now)).Facets[site.FacetProbes].Have["command"]; got != want {
			t.Errorf("after %q: got %q, want %q", now, got, want)
		}
	}
}
