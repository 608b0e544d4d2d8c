package rollout_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/rollout"
	"github.com/slipway-gitops/slipway/engine/site"
)

// The forecast says that nothing goes on while others are not healthy, as the gates
// will.
func TestForecastOfHealth(t *testing.T) {
	health := &site.Health{Ports: []int{80}}
	node := func(name, role string) *site.Node {
		n := &site.Node{Name: name, Role: role, Power: "on", Endpoints: map[site.EndpointKind]site.Endpoint{site.OS: {URL: "ssh://a"}}}
		if role == "storage" {
			n.References.Health = health
		}
		return n
	}
	forecast := func(impact site.Impact, seen site.FacetState) *site.Forecast {
		s := &site.Site{Rollout: site.Rollout{MaxUnavailable: "1"}, Nodes: map[string]*site.Node{"c1": node("c1", "compute"), "s1": node("s1", "storage")},
			Roles: map[string]*site.Role{"storage": {Enabled: true, Health: health}, "compute": {Enabled: true}}}
		if impact == site.ImpactOnline {
			s.Roles["compute"].Needs = map[string]map[string]site.Need{"base": {"storage": {Phase: "configure", Quorum: "all"}}}
		}
		p := &site.Plan{Nodes: []site.NodePlan{{Node: "c1", Phase: "base", Steps: []site.Step{{Action: site.ActionBase, Phase: "base", Impact: impact, Expect: site.Duration(time.Minute)}}}}}
		known := site.Known{Serves: map[site.Facet]bool{site.FacetProbes: true}, Nodes: map[string]site.Memory{"s1": {
			Observed: site.Observed{Facets: map[site.Facet]site.FacetState{site.FacetProbes: seen, site.FacetPower: {Have: site.Values{"state": "on"}, Seen: now}}},
			Recorded: site.Recorded{Healthy: now.Add(-time.Hour)}}}}
		return rollout.Forecast(s, p, known, now)
	}
	for _, impact := range []site.Impact{site.ImpactOnline, site.ImpactReboot} {
		if f := forecast(impact, site.FacetState{Have: site.Values{"port 80": item.Passed}}); len(f.Order) != 1 || len(f.Warnings) > 0 {
			t.Errorf("%v, healthy: %+v", impact, f)
		}
		for _, seen := range []site.FacetState{{}, {Have: site.Values{"port 80": "port 80 does not answer"}}} {
			f := forecast(impact, seen)
			if len(f.Order) != 0 || !slices.ContainsFunc(f.Warnings, func(w string) bool { return strings.HasPrefix(w, "c1 would wait forever for ") }) {
				t.Errorf("%v, %+v: %+v", impact, seen, f)
			}
		}
	}
}
