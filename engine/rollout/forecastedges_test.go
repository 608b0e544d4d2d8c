package rollout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/rollout"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A node that is blocked has gone through the phases before the one in which it is: who needs no
// more of it goes on.
func TestForecastOfWhatIsBlockedInALaterPhase(t *testing.T) {
	for name, c := range map[string]struct {
		phase string
		warns string
	}{
		"in none that is known": {"", "n001, n009 would wait forever for 1 of the role role2 through network, which its phase base needs"},
		"before the needed one": {"network", "n001, n009 would wait forever for 1 of the role role2 through network, which its phase base needs"},
		"after the needed one":  {"configure", ""},
	} {
		s, p := fleet(10)
		s.Rollout.MaxUnavailable = "10"
		s.Roles["role1"] = &site.Role{Enabled: true, Needs: map[string]map[string]site.Need{"base": {"role2": {Phase: "network", Quorum: "all"}}}}
		for i := range p.Nodes {
			for j := range p.Nodes[i].Steps {
				p.Nodes[i].Steps[j].Phase = "base"
			}
		}
		p.Nodes[2].Steps, p.Nodes[2].Blocked, p.Nodes[2].Phase = nil, []string{"another machine answers"}, c.phase
		f := rollout.Forecast(s, p, site.Known{Nodes: map[string]site.Memory{"n002": seen("on")}}, now)
		warns := strings.Join(slices.DeleteFunc(f.Warnings, func(w string) bool { return strings.Contains(w, "blocked") }), "\n")
		if warns != c.warns {
			t.Errorf("%s: %s", name, warns)
		}
	}
}

// Whoever asks how a rollout goes on keeps the plans that they had, also where a node waits for its
// installer.
func TestContinueLeavesThePlans(t *testing.T) {
	plans := func() *site.Plan {
		return &site.Plan{Nodes: []site.NodePlan{{Node: "n1", Waiting: "the installer is running"}}}
	}
	s := &site.Site{Rollout: site.Rollout{MaxUnavailable: "1"}, Nodes: map[string]*site.Node{"n1": {Name: "n1"}}}
	m := seen("on")
	m.Recorded.Installing = &site.Installation{Generation: 1, Since: now}
	known, under := site.Known{Nodes: map[string]site.Memory{"n1": m}}, &site.RolloutStatus{Since: now, Nodes: []string{"n1"}}
	left := plans()
	if f := rollout.Continue(s, left, known, now, under); len(f.Order) != 1 {
		t.Fatalf("who waits for its installer goes on: %+v", f)
	}
	if diff := cmp.Diff(plans(), left); diff != "" {
		t.Errorf("the plans are others now: %s", diff)
	}
}

// A forecast says of how many steps its durations were seen: three machines have to have taken a
// step like it.
func TestWhatAForecastIsBasedOn(t *testing.T) {
	step := func(a site.Action) site.Step { return site.Step{Node: "n1", Action: a, Impact: site.ImpactOnline} }
	both := []site.Step{step(site.ActionBase), step(site.ActionPackages)}
	history := func(times int, steps ...site.Step) site.History {
		h := site.History{}
		for _, s := range steps {
			h[site.LikeStep(plan.Model(site.Observed{}), s)] = make([]site.Duration, times)
		}
		return h
	}
	for name, c := range map[string]struct {
		steps   []site.Step
		history site.History
		want    string
	}{
		"nothing to do":      {nil, history(3, both...), ""},
		"nothing was seen":   {both, nil, "Slipway has not seen enough machines of these models do this yet"},
		"two are not enough": {both, history(2, both...), "Slipway has not seen enough machines of these models do this yet"},
		"three are":          {both, history(3, both...), "based on what machines of these models took before"},
		"one of two":         {both, history(3, both[1]), "1 of 2 steps are based on what machines of these models took before, the others on defaults"},
	} {
		s := &site.Site{Nodes: map[string]*site.Node{"n1": {Name: "n1"}}}
		p := &site.Plan{Nodes: []site.NodePlan{{Node: "n1", Steps: c.steps}}}
		if got := rollout.Forecast(s, p, site.Known{History: c.history}, now).Basis; got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// The critical path names the window that it waits for.
func TestPathNamesTheWindow(t *testing.T) {
	s, p := fleet(1)
	s.Windows = map[string]*site.Window{"night": {From: "22:00", To: "04:00"}}
	s.Nodes["n000"].Window = "night"
	f := rollout.Forecast(s, p, site.Known{}, now)
	got := ""
	for _, x := range f.Path {
		got += fmt.Sprintf("%s %s %s; ", x.Node, x.What, time.Duration(x.To))
	}
	if want := "n000 waits for the window night 10h0m0s; n000 install, finish-install 10h10m0s; "; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
