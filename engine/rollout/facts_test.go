package rollout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/rollout"
	"github.com/slipway-gitops/slipway/engine/site"
)

// serving is a node that was in service once and is seen to be so now.
func serving(name, role string) *rollout.Node {
	return &rollout.Node{Design: &site.Node{Name: name, Role: role, Rack: "r1", Power: "on"}, Settled: true, Seen: true, Power: "on", State: site.InSync}
}

// world is a site of two roles, of which nothing is out of service.
func world() (*rollout.Facts, rollout.ByName) {
	nodes := rollout.ByName{}
	for _, name := range []string{"a1", "a2", "a3", "b1", "b2"} {
		nodes[name] = serving(name, name[:1])
	}
	s := &site.Site{Rollout: site.Rollout{MaxUnavailable: "2"}, Racks: map[string]*site.Rack{"r1": {}},
		Roles: map[string]*site.Role{"a": {Enabled: true}, "b": {Enabled: true}}, Nodes: map[string]*site.Node{}}
	for name, n := range nodes {
		s.Nodes[name] = n.Design
	}
	return &rollout.Facts{Site: s, Now: now, Every: time.Minute, EveryInside: 5 * time.Minute, Nodes: nodes}, nodes
}

// said is a verdict in one line.
func said(f *rollout.Facts, r rollout.Reason) string {
	if r == nil {
		return ""
	}
	v := r.Verdict(f)
	text := v.Sentence
	for _, more := range []string{v.Detail, v.Release} {
		if more != "" {
			text += "; " + more
		}
	}
	if v.Person {
		text += "; a person"
	}
	if !v.Until.IsZero() {
		text += "; until " + v.Until.UTC().Format("15:04")
	}
	return text
}

var reboots = site.Step{Impact: site.ImpactReboot, Phase: "base", Expect: site.Duration(10 * time.Minute)}

func try(n *rollout.Node, s site.Step) rollout.Try {
	return rollout.Try{Node: n, Step: &s, Steps: []site.Step{s}}
}

func TestWhoIsOutOfService(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*rollout.Node)
		want   bool
	}{
		"in service":                      {func(*rollout.Node) {}, false},
		"a step has it":                   {func(n *rollout.Node) { n.Disrupts = true }, true},
		"quarantined":                     {func(n *rollout.Node) { n.Quarantined, n.Design.Power = true, "off" }, true},
		"designed off":                    {func(n *rollout.Node) { n.Design.Power, n.Power = "off", "off" }, false},
		"decommissioned, out of reach":    {func(n *rollout.Node) { n.Design.Decommission, n.Blind = true, true }, false},
		"never looked at":                 {func(n *rollout.Node) { n.Seen = false }, true},
		"out of reach":                    {func(n *rollout.Node) { n.Blind = true }, true},
		"out of reach, never served":      {func(n *rollout.Node) { n.Blind, n.Settled = true, false }, true},
		"off, never served":               {func(n *rollout.Node) { n.Power, n.Settled = "off", false }, false},
		"off":                             {func(n *rollout.Node) { n.Power = "off" }, true},
		"its power is not known":          {func(n *rollout.Node) { n.Power = "" }, true},
		"off, as whoever uses it wants":   {func(n *rollout.Node) { n.Power, n.Design.Power = "off", "" }, false},
		"not healthy, which is no outage": {func(n *rollout.Node) { n.WasHealthy, n.Probes.State = true, site.Unhealthy }, false},
	} {
		n := serving("n1", "a")
		c.change(n)
		if got := n.IsOut(); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

func TestHealthAsFarAsItIsKnown(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*rollout.Node)
		want   site.HealthState
		why    string
	}{
		"healthy":                {func(*rollout.Node) {}, site.Healthy, ""},
		"nobody asks":            {func(n *rollout.Node) { n.Probes, n.Blind = site.SystemHealth{}, true }, "", ""},
		"out of reach":           {func(n *rollout.Node) { n.Blind = true }, site.HealthUnknown, "the machine does not answer"},
		"off":                    {func(n *rollout.Node) { n.Power = "off" }, site.HealthUnknown, "the machine is off"},
		"its system is silent":   {func(n *rollout.Node) { n.BlindInside = true }, site.HealthUnknown, "its system did not answer"},
		"looked at long ago":     {func(n *rollout.Node) { n.AgeInside = 11*time.Minute + 1 }, site.HealthUnknown, "it was not looked at for too long"},
		"looked at not long ago": {func(n *rollout.Node) { n.AgeInside = 11 * time.Minute }, site.Healthy, ""},
		"before a restart":       {func(n *rollout.Node) { n.Seen = false }, site.HealthUnknown, "it was not looked at for too long"},
	} {
		f, _ := world()
		n := serving("n1", "a")
		n.Probes.State = site.Healthy
		c.change(n)
		if got := f.Health(n); got.State != c.want || got.Why != c.why {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestWhoIsCertain(t *testing.T) {
	withOS := func(n *rollout.Node) {
		n.Design.Endpoints = map[site.EndpointKind]site.Endpoint{site.OS: {URL: "ssh://n1"}}
	}
	for name, c := range map[string]struct {
		change func(*rollout.Node)
		want   bool
	}{
		"seen":                   {func(*rollout.Node) {}, true},
		"not yet":                {func(n *rollout.Node) { n.Seen = false }, false},
		"out of reach":           {func(n *rollout.Node) { n.Blind = true }, false},
		"of an earlier design":   {func(n *rollout.Node) { n.Outdated = true }, false},
		"seen, and not planned":  {func(n *rollout.Node) { n.Unplanned = true }, false},
		"quarantined":            {func(n *rollout.Node) { n.Quarantined = true }, false},
		"paused":                 {func(n *rollout.Node) { n.Paused = true }, false},
		"decommissioned":         {func(n *rollout.Node) { n.Design.Decommission = true }, false},
		"off":                    {func(n *rollout.Node) { n.Power = "off" }, false},
		"long ago":               {func(n *rollout.Node) { n.Age = 4 * time.Minute }, false},
		"not long ago":           {func(n *rollout.Node) { n.Age = 4*time.Minute - 1 }, true},
		"silent inside":          {func(n *rollout.Node) { withOS(n); n.BlindInside = true }, false},
		"silent, and no system":  {func(n *rollout.Node) { n.BlindInside = true }, true},
		"inside, long ago":       {func(n *rollout.Node) { withOS(n); n.AgeInside = 11 * time.Minute }, false},
		"inside, not long ago":   {func(n *rollout.Node) { withOS(n); n.AgeInside = 11*time.Minute - 1 }, true},
		"a system that is known": {withOS, true},
	} {
		f, _ := world()
		n := serving("n1", "a")
		c.change(n)
		if got := f.IsCertain(n); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

// The place of a machine that was healthy once is not given to others before it is so
// again, also when it was installed anew since.
func TestWhoMayStepAside(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*rollout.Node)
		want   bool
	}{
		"in service":                    {func(*rollout.Node) {}, true},
		"something is under way":        {func(n *rollout.Node) { n.Busy = true }, false},
		"not certain":                   {func(n *rollout.Node) { n.Blind = true }, false},
		"healthy":                       {func(n *rollout.Node) { n.EverHealthy, n.Probes.State = true, site.Healthy }, true},
		"installed anew, not healthy":   {func(n *rollout.Node) { n.EverHealthy, n.Probes.State = true, site.Unhealthy }, false},
		"installed anew, nobody knows":  {func(n *rollout.Node) { n.EverHealthy, n.Probes.State = true, site.HealthUnknown }, false},
		"never healthy on this machine": {func(n *rollout.Node) { n.Probes.State = site.Unhealthy }, true},
	} {
		f, _ := world()
		n := serving("n1", "a")
		c.change(n)
		if got := f.MayStepAside(n); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

func TestBounds(t *testing.T) {
	disrupt := func(all rollout.ByName, names ...string) {
		for _, name := range names {
			all[name].Disrupts = true
		}
	}
	ill := func(all rollout.ByName, state site.HealthState, names ...string) {
		for _, name := range names {
			all[name].WasHealthy, all[name].Probes = true, site.SystemHealth{State: state, Why: "port 80 is shut"}
		}
	}
	for name, c := range map[string]struct {
		change func(*rollout.Facts, rollout.ByName)
		want   string
	}{
		"a place is left": {func(_ *rollout.Facts, all rollout.ByName) { disrupt(all, "b1") }, ""},
		"none is left": {func(_ *rollout.Facts, all rollout.ByName) { disrupt(all, "b1", "b2") },
			"the site allows 2 of 5 nodes out of service (maxUnavailable 2); 2 are: b1, b2; one of b1, b2 coming back into service"},
		"it is out itself": {func(_ *rollout.Facts, all rollout.ByName) { disrupt(all, "a1", "b1", "b2") }, ""},
		"one that leaves does not count": {func(f *rollout.Facts, all rollout.ByName) {
			disrupt(all, "b1", "b2")
			all["b2"].Leaving = true
		}, ""},
		"one that is disabled does not count": {func(_ *rollout.Facts, all rollout.ByName) {
			no := false
			disrupt(all, "b1", "b2")
			all["b2"].Design.Enabled = &no
		}, ""},
		"nothing readable still lets one": {func(f *rollout.Facts, _ rollout.ByName) { f.Site.Rollout.MaxUnavailable = "" }, ""},
		"a share, rounded down": {func(f *rollout.Facts, all rollout.ByName) {
			f.Site.Rollout.MaxUnavailable = "39%" // of 5
			disrupt(all, "b1")
		}, "the site allows 1 of 5 nodes out of service (maxUnavailable 39%); 1 are: b1; one of b1 coming back into service"},
		"of the rack": {func(f *rollout.Facts, all rollout.ByName) {
			f.Site.Racks["r1"].MaxUnavailable = "1"
			all["b2"].Design.Rack = "r2"
			disrupt(all, "b1")
		}, "rack r1 allows 1 of 4 nodes out of service (maxUnavailable 1); 1 are: b1; one of b1 coming back into service"},
		"of the rack, with one out in another": {func(f *rollout.Facts, all rollout.ByName) {
			f.Site.Rollout.MaxUnavailable, f.Site.Racks["r1"].MaxUnavailable = "3", "1"
			all["b2"].Design.Rack = "r2"
			disrupt(all, "b1", "b2")
		}, "rack r1 allows 1 of 4 nodes out of service (maxUnavailable 1); 1 are: b1; one of b1 coming back into service"},
		"of another rack": {func(f *rollout.Facts, all rollout.ByName) {
			f.Site.Racks["r1"].MaxUnavailable = "1"
			all["b1"].Design.Rack = "r2"
			disrupt(all, "b1")
		}, ""},
		"of the role": {func(f *rollout.Facts, all rollout.ByName) {
			f.Site.Roles["a"].MaxUnavailable = "1"
			disrupt(all, "a3")
		}, "role a allows 1 of 3 nodes out of service (maxUnavailable 1); 1 are: a3; one of a3 coming back into service"},
		"a majority": {func(f *rollout.Facts, all rollout.ByName) {
			f.Site.Roles["a"].Majority = true
			disrupt(all, "a3")
		}, "role a allows 1 of 3 nodes out of service (it decides by majority); 1 are: a3; one of a3 coming back into service"},
		"a vote is missing where its machine is away": {func(f *rollout.Facts, all rollout.ByName) {
			f.Site.Roles["a"].Majority = true
			all["a3"].Design.Away = "at the vendor's"
		}, "role a allows 1 of 3 nodes out of service (it decides by majority); 1 are: a3; one of a3 coming back into service"},
		"away is no outage else": {func(f *rollout.Facts, all rollout.ByName) {
			disrupt(all, "b1")
			all["a3"].Design.Away, all["a3"].Blind = "at the vendor's", true
		}, ""},
		"what has lost its health counts": {func(_ *rollout.Facts, all rollout.ByName) { disrupt(all, "b1"); ill(all, site.Unhealthy, "b2") },
			"the site allows 2 of 5 nodes out of service (maxUnavailable 2); 2 are: b1, b2 (port 80 is shut); one of b1, b2 coming back into service"},
		"so does what nobody knows": {func(_ *rollout.Facts, all rollout.ByName) { disrupt(all, "b1"); ill(all, site.HealthUnknown, "b2") },
			"the site allows 2 of 5 nodes out of service (maxUnavailable 2); 2 are: b1, b2 (port 80 is shut); one of b1, b2 coming back into service"},
		"one that is not healthy has its place": {func(_ *rollout.Facts, all rollout.ByName) {
			ill(all, site.Unhealthy, "a1", "a2", "a3", "b1", "b2")
		}, ""},
		"but takes its turn": {func(_ *rollout.Facts, all rollout.ByName) {
			ill(all, site.Unhealthy, "a1", "a2", "a3", "b1", "b2")
			disrupt(all, "b1", "b2")
		}, "the site allows 2 of 5 nodes out of service (maxUnavailable 2); 2 are: b1 (port 80 is shut), b2 (port 80 is shut); one of b1, b2 coming back into service"},
		"and has none where it may serve": {func(_ *rollout.Facts, all rollout.ByName) {
			ill(all, site.HealthUnknown, "a1")
			ill(all, site.Unhealthy, "a2", "a3")
		}, "the site allows 2 of 5 nodes out of service (maxUnavailable 2); 2 are: a2 (port 80 is shut), a3 (port 80 is shut); one of a2, a3 coming back into service"},
		"nor where a majority decides": {func(f *rollout.Facts, all rollout.ByName) {
			f.Site.Roles["a"].Majority = true
			ill(all, site.Unhealthy, "a1", "a2")
		}, "role a allows 1 of 3 nodes out of service (it decides by majority); 1 are: a2 (port 80 is shut); one of a2 coming back into service"},
	} {
		f, all := world()
		c.change(f, all)
		if got := said(f, f.Room(try(all["a1"], reboots))); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
		online := reboots
		online.Impact = site.ImpactOnline
		if got := f.Room(try(all["a1"], online)); got != nil {
			t.Errorf("%s: a step that takes nothing out of service needs no place: %s", name, said(f, got))
		}
	}
}

// mayBegin asks all rules in the order of the gates.
func mayBegin(f *rollout.Facts, t rollout.Try) rollout.Reason {
	for _, rule := range []func(rollout.Try) rollout.Reason{f.Order, f.Window, f.Room} {
		if r := rule(t); r != nil {
			return r
		}
	}
	return nil
}

// What is counted of the nodes stays right as they change one after the other.
func TestCountsFollowChanges(t *testing.T) {
	f, all := world()
	f.Site.Roles["b"].Needs = map[string]map[string]site.Need{"base": {"a": {Phase: "base", Quorum: "all"}}}
	f.Site.Roles["a"].Majority, f.Site.Racks["r1"].MaxUnavailable = true, "2"
	step := reboots
	ask := func(f *rollout.Facts) string {
		var all []string
		for _, name := range []string{"a1", "b2"} {
			all = append(all, said(f, mayBegin(f, try(f.Nodes.Node(name), step))))
		}
		return strings.Join(all, " | ")
	}
	for i, change := range []func(){
		func() { all["a2"].Disrupts = true }, func() { all["a3"].Phase = "base" }, func() { all["b1"].Blind = true },
		func() { all["a2"].Disrupts = false }, func() { all["a3"].Phase = "" }, func() { all["a3"].Leaving = true },
		func() { all["b1"].Blind, all["b1"].Quarantined = false, true }, func() { all["b1"].Quarantined = false },
	} {
		ask(f)
		f.Change([]*rollout.Node{all["a2"], all["a3"], all["b1"], all["a2"], all["a3"], all["a3"], all["b1"], all["b1"]}[i], change)
		afresh := *f
		fresh := &rollout.Facts{Site: afresh.Site, Now: afresh.Now, Every: afresh.Every, EveryInside: afresh.EveryInside, Nodes: all}
		if got, want := ask(f), ask(fresh); got != want {
			t.Errorf("after change %d:\n got %s\nwant %s", i, got, want)
		}
	}
}

// What changes before anybody asks is counted once.
func TestCountsBeginAfterChanges(t *testing.T) {
	f, all := world()
	f.Change(all["a2"], func() { all["a2"].Disrupts = true })
	if got := said(f, f.Room(try(all["a1"], reboots))); got != "" {
		t.Errorf("with one of two places taken: %s", got)
	}
}

func TestNeeds(t *testing.T) {
	step := site.Step{Impact: site.ImpactOnline, Phase: "install"}
	for name, c := range map[string]struct {
		quorum site.Quorum
		change func(*rollout.Facts, rollout.ByName, *rollout.Try)
		want   string
	}{
		"all are through": {"all", func(*rollout.Facts, rollout.ByName, *rollout.Try) {}, ""},
		"one is not": {"all", func(_ *rollout.Facts, all rollout.ByName, _ *rollout.Try) { all["a2"].Phase = "network" },
			"its phase install needs 3 of 3 nodes of role a to have gone through network; 2 have, not a2; a2 going through network"},
		"one is further": {"all", func(_ *rollout.Facts, all rollout.ByName, _ *rollout.Try) { all["a2"].Phase = "install" }, ""},
		"enough are":     {"2", func(_ *rollout.Facts, all rollout.ByName, _ *rollout.Try) { all["a2"].Phase = "base" }, ""},
		"half, rounded up": {"50%", func(_ *rollout.Facts, all rollout.ByName, _ *rollout.Try) {
			all["a2"].Phase, all["a1"].Blind = "base", true
		}, "its phase install needs 2 of 3 nodes of role a to have gone through network; 1 have, not a1, a2; a1, a2 going through network"},
		"more than there are": {"4", func(*rollout.Facts, rollout.ByName, *rollout.Try) {},
			"its phase install needs 4 nodes of role a, which has 3 in use; a commit that brings nodes of the role into use, or needs fewer; a person"},
		"one is not healthy": {"all", func(f *rollout.Facts, all rollout.ByName, _ *rollout.Try) {
			f.Site.Roles["a"].Health = &site.Health{Ports: []int{80}}
			all["a3"].Probes = site.SystemHealth{State: site.Unhealthy, Why: "port 80 is shut"}
		}, "its phase install needs 3 of 3 nodes of role a to have gone through network and to be healthy; 2 have, not a3 (port 80 is shut); a3 going through network and being healthy"},
		"one that waits for its place": {"all", func(_ *rollout.Facts, all rollout.ByName, _ *rollout.Try) {
			all["a2"].Phase, all["a2"].WaitsForPlace, all["b1"].Power = "network", true, "off"
		}, "its phase install needs 3 of 3 nodes of role a to have gone through network; a2 waits for the place of this machine, which is out of service; a larger maxUnavailable, or `away` on this node; a person"},
		"it was begun":       {"4", func(_ *rollout.Facts, _ rollout.ByName, t *rollout.Try) { t.Begun = true }, ""},
		"it changes nothing": {"4", func(_ *rollout.Facts, _ rollout.ByName, t *rollout.Try) { t.Step.Impact = site.ImpactNone }, ""},
		"of another phase":   {"4", func(_ *rollout.Facts, _ rollout.ByName, t *rollout.Try) { t.Step.Phase = "configure" }, ""},
		"drift is no excuse": {"4", func(_ *rollout.Facts, _ rollout.ByName, t *rollout.Try) { t.Step.Drift = true }, "its phase install needs 4 nodes of role a, which has 3 in use; a commit that brings nodes of the role into use, or needs fewer; a person"},
		"one that is not used": {"all", func(_ *rollout.Facts, all rollout.ByName, _ *rollout.Try) {
			all["a2"].Phase, all["a2"].Leaving = "base", true
		}, ""},
	} {
		f, all := world()
		f.Site.Roles["b"].Needs = map[string]map[string]site.Need{"install": {"a": {Phase: "network", Quorum: c.quorum}}}
		a := try(all["b1"], step)
		c.change(f, all, &a)
		if got := said(f, f.Order(a)); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

func TestLeaderGoesFirst(t *testing.T) {
	for name, c := range map[string]struct {
		node, leader string
		change       func(*rollout.Facts, rollout.ByName, *rollout.Try)
		want         string
	}{
		"it is through": {"a2", "", func(_ *rollout.Facts, all rollout.ByName, _ *rollout.Try) { all["a1"].Phase = "" }, ""},
		"the first by name": {"a2", "", func(*rollout.Facts, rollout.ByName, *rollout.Try) {},
			"the leader of role a goes first: it waits for a1; a1 is in base; a1 coming in-sync"},
		"itself":        {"a1", "", func(*rollout.Facts, rollout.ByName, *rollout.Try) {}, ""},
		"of that role":  {"b1", "", func(*rollout.Facts, rollout.ByName, *rollout.Try) {}, ""},
		"the named one": {"a1", "a3", func(_ *rollout.Facts, all rollout.ByName, _ *rollout.Try) { all["a3"].Blind = true }, "the leader of role a goes first: it waits for a3; a3 coming in-sync"},
		"that is away":  {"a1", "a3", func(_ *rollout.Facts, all rollout.ByName, _ *rollout.Try) { all["a3"].Design.Away = "x" }, ""},
		"not healthy": {"a2", "", func(_ *rollout.Facts, all rollout.ByName, _ *rollout.Try) {
			all["a1"].Phase, all["a1"].Probes = "", site.SystemHealth{State: site.Unhealthy, Why: "no quorum"}
		}, "the leader of role a goes first: it waits for a1; a1 is unhealthy: no quorum; a1 being healthy"},
		"it waits for our place": {"a2", "", func(_ *rollout.Facts, all rollout.ByName, _ *rollout.Try) {
			all["a1"].WaitsForPlace, all["a2"].Power = true, "off"
		}, "the leader of role a goes first: it waits for a1; a1 waits for the place of this machine, which is out of service; a larger maxUnavailable, or `away` on this node; a person"},
		"a place that it gets": {"a2", "", func(_ *rollout.Facts, all rollout.ByName, _ *rollout.Try) {
			all["a1"].WaitsForPlace, all["a2"].Disrupts = true, true
		}, "the leader of role a goes first: it waits for a1; a1 is in base; a1 coming in-sync"},
		"drift":              {"a2", "", func(_ *rollout.Facts, _ rollout.ByName, t *rollout.Try) { t.Step.Drift = true }, ""},
		"it was begun":       {"a2", "", func(_ *rollout.Facts, _ rollout.ByName, t *rollout.Try) { t.Begun = true }, ""},
		"it changes nothing": {"a2", "", func(_ *rollout.Facts, _ rollout.ByName, t *rollout.Try) { t.Step.Impact = site.ImpactNone }, ""},
	} {
		f, all := world()
		f.Site.Roles["a"].LeaderFirst, f.Site.Roles["a"].Leader = true, c.leader
		all["a1"].Phase = "base"
		a := try(all[c.node], reboots)
		c.change(f, all, &a)
		if got := said(f, f.Order(a)); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

// rolling is a rollout of all nodes in which a1 goes first.
func rolling() (*rollout.Facts, rollout.ByName) {
	f, all := world()
	f.Site.Rollout.Canaries = &site.Canaries{Count: 1, Soak: site.Duration(30 * time.Minute)}
	f.Rollout = &site.RolloutStatus{Revision: site.Revision{ID: "rev1"}, Since: now.Add(-time.Hour), Canaries: []string{"a1"}}
	for _, name := range []string{"a1", "a2", "a3", "b1", "b2"} {
		f.Rollout.Nodes = append(f.Rollout.Nodes, name)
		all[name].Part, all[name].State = rollout.Pending, site.Progressing
	}
	return f, all
}

func TestCanariesGoFirst(t *testing.T) {
	waits := "it waits for the canaries (a1) to be in-sync for 30m; a1 is progressing; a1 coming in-sync, for 30m"
	for name, c := range map[string]struct {
		change func(*rollout.Facts, rollout.ByName, *rollout.Try)
		want   string
	}{
		"not in-sync": {func(*rollout.Facts, rollout.ByName, *rollout.Try) {}, waits},
		"soaking": {func(f *rollout.Facts, _ rollout.ByName, _ *rollout.Try) {
			f.Rollout.Proven = now.Add(-20 * time.Minute)
		},
			"the canaries (a1) are in-sync and have to stay so until 12:10:00 UTC; the canaries staying in-sync until 12:10:00 UTC; until 12:10"},
		"soaking for long": {func(f *rollout.Facts, _ rollout.ByName, _ *rollout.Try) {
			f.Site.Rollout.Canaries.Soak, f.Rollout.Proven = site.Duration(time.Hour), now
		}, "the canaries (a1) are in-sync and have to stay so until Sat 2026-11-21 13:00 UTC; the canaries staying in-sync until Sat 2026-11-21 13:00 UTC; until 13:00"},
		"soaked": {func(f *rollout.Facts, _ rollout.ByName, _ *rollout.Try) {
			f.Rollout.Proven = now.Add(-30 * time.Minute)
		}, ""},
		"it is one":        {func(_ *rollout.Facts, all rollout.ByName, t *rollout.Try) { t.Node = all["a1"] }, ""},
		"no part of it":    {func(_ *rollout.Facts, all rollout.ByName, _ *rollout.Try) { all["a2"].Part = rollout.Aside }, ""},
		"it has ended":     {func(f *rollout.Facts, _ rollout.ByName, _ *rollout.Try) { f.Rollout.Ended = now }, ""},
		"nobody goes":      {func(f *rollout.Facts, _ rollout.ByName, _ *rollout.Try) { f.Rollout.Canaries = nil }, ""},
		"none is designed": {func(f *rollout.Facts, _ rollout.ByName, _ *rollout.Try) { f.Site.Rollout.Canaries = nil }, ""},
		"it is in hand":    {func(_ *rollout.Facts, all rollout.ByName, _ *rollout.Try) { all["a2"].InHand = true }, ""},
		"drift":            {func(_ *rollout.Facts, _ rollout.ByName, t *rollout.Try) { t.Step.Drift = true }, ""},
		"it was begun":     {func(_ *rollout.Facts, _ rollout.ByName, t *rollout.Try) { t.Begun = true }, ""},
		"changes nothing":  {func(_ *rollout.Facts, _ rollout.ByName, t *rollout.Try) { t.Step.Impact = site.ImpactNone }, ""},
	} {
		f, all := rolling()
		a := try(all["a2"], reboots)
		c.change(f, all, &a)
		if got := said(f, f.Order(a)); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

func TestChosenCanaries(t *testing.T) {
	for name, c := range map[string]struct {
		count  int
		change func(*rollout.Facts, rollout.ByName)
		want   string
	}{
		"by name":               {2, func(*rollout.Facts, rollout.ByName) {}, "a1 a2"},
		"who is out first":      {2, func(_ *rollout.Facts, all rollout.ByName) { all["b1"].Power = "off" }, "a1 b1"},
		"who is paused last":    {4, func(_ *rollout.Facts, all rollout.ByName) { all["a1"].Paused = true }, "a2 a3 b1 b2"},
		"nobody who has failed": {1, func(_ *rollout.Facts, all rollout.ByName) { all["a1"].Part = rollout.Failed }, "a2"},
		"all are none":          {5, func(*rollout.Facts, rollout.ByName) {}, ""},
		"none is designed":      {0, func(f *rollout.Facts, _ rollout.ByName) { f.Site.Rollout.Canaries = nil }, ""},
	} {
		f, all := rolling()
		f.Site.Rollout.Canaries.Count = c.count
		c.change(f, all)
		if got := strings.Join(f.ChooseCanaries(f.Rollout.Nodes), " "); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

func TestCanariesAreProven(t *testing.T) {
	for name, c := range map[string]struct {
		change func(rollout.ByName)
		want   bool
	}{
		"in-sync":              {func(rollout.ByName) {}, true},
		"not in-sync":          {func(all rollout.ByName) { all["a1"].State = site.Progressing }, false},
		"of an earlier design": {func(all rollout.ByName) { all["a1"].Outdated = true }, false},
		"not looked at":        {func(all rollout.ByName) { all["a1"].Seen = false }, false},
		"not used any more":    {func(all rollout.ByName) { all["a1"].State, all["a1"].Design.Away = site.Stalled, "x" }, true},
		"gone":                 {func(all rollout.ByName) { delete(all, "a1") }, true},
	} {
		f, all := rolling()
		all["a1"].State = site.InSync
		c.change(all)
		if got := f.CanariesAreProven(); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

// A window that has ended holds what is new, and with "stop" also what is next
// of a node that was begun; never a step that was begun itself.
func TestWindows(t *testing.T) {
	for name, c := range map[string]struct {
		window site.Window
		change func(*rollout.Node, *rollout.Try)
		want   string
	}{
		"open":       {site.Window{From: "11:00", To: "13:00"}, func(*rollout.Node, *rollout.Try) {}, ""},
		"it fits":    {site.Window{From: "11:00", To: "12:10"}, func(*rollout.Node, *rollout.Try) {}, ""},
		"it is shut": {site.Window{From: "22:00", To: "04:00"}, func(*rollout.Node, *rollout.Try) {}, "its window w opens at Sat 2026-11-21 22:00 UTC; the window opening at Sat 2026-11-21 22:00 UTC; until 22:00"},
		"it fits no more": {site.Window{From: "11:00", To: "12:09"}, func(*rollout.Node, *rollout.Try) {},
			"about 10m of work do not fit before its window w ends at Sat 2026-11-21 12:09 UTC; it opens again at Sun 2026-11-22 11:00 UTC; the window opening again at Sun 2026-11-22 11:00 UTC; until 11:00"},
		"it never fits": {site.Window{From: "11:55", To: "12:04"}, func(*rollout.Node, *rollout.Try) {},
			"about 10m of work do not fit into its window w; a longer window, or fewer changes at once; a person"},
		"no more": {site.Window{Cron: "0 0 31 2 *", Length: site.Duration(time.Hour)}, func(*rollout.Node, *rollout.Try) {},
			"its window w does not open again; a commit that changes the window; a person"},
		"not readable": {site.Window{From: "x", To: "12:09"}, func(*rollout.Node, *rollout.Try) {},
			`its window w cannot be understood: from: "x" is not a time of day such as 22:00; a commit that corrects the window; a person`},
		"it was begun":             {site.Window{From: "22:00", To: "04:00", Overrun: "stop"}, func(_ *rollout.Node, t *rollout.Try) { t.Begun = true }, ""},
		"its node was":             {site.Window{From: "22:00", To: "04:00"}, func(n *rollout.Node, _ *rollout.Try) { n.InHand, n.Disrupted = true, true }, ""},
		"in an earlier rollout":    {site.Window{From: "22:00", To: "04:00"}, func(n *rollout.Node, _ *rollout.Try) { n.Disrupted = true }, "its window w opens at Sat 2026-11-21 22:00 UTC; the window opening at Sat 2026-11-21 22:00 UTC; until 22:00"},
		"and is not disrupted":     {site.Window{From: "22:00", To: "04:00"}, func(n *rollout.Node, _ *rollout.Try) { n.InHand = true }, "its window w opens at Sat 2026-11-21 22:00 UTC; the window opening at Sat 2026-11-21 22:00 UTC; until 22:00"},
		"and the window says stop": {site.Window{From: "22:00", To: "04:00", Overrun: "stop"}, func(n *rollout.Node, _ *rollout.Try) { n.InHand, n.Disrupted = true, true }, "its window w opens at Sat 2026-11-21 22:00 UTC; the window opening at Sat 2026-11-21 22:00 UTC; until 22:00"},
	} {
		f, all := world()
		f.Site.Windows = map[string]*site.Window{"w": &c.window}
		all["a1"].Design.Window = "w"
		a := try(all["a1"], reboots)
		c.change(all["a1"], &a)
		if got := said(f, f.Window(a)); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

func TestHaltedRollout(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*rollout.Facts, rollout.ByName, *rollout.Try)
		holds  bool
	}{
		"halted":           {func(*rollout.Facts, rollout.ByName, *rollout.Try) {}, true},
		"it goes on":       {func(f *rollout.Facts, _ rollout.ByName, _ *rollout.Try) { f.Rollout.Halted = "" }, false},
		"it has ended":     {func(f *rollout.Facts, _ rollout.ByName, _ *rollout.Try) { f.Rollout.Ended = now }, false},
		"no part of it":    {func(_ *rollout.Facts, all rollout.ByName, _ *rollout.Try) { all["a1"].Part = rollout.Aside }, false},
		"in hand":          {func(_ *rollout.Facts, all rollout.ByName, _ *rollout.Try) { all["a1"].InHand = true }, false},
		"begun":            {func(_ *rollout.Facts, _ rollout.ByName, t *rollout.Try) { t.Begun = true }, false},
		"drift":            {func(_ *rollout.Facts, _ rollout.ByName, t *rollout.Try) { t.Step.Drift = true }, false},
		"changes nothing":  {func(_ *rollout.Facts, _ rollout.ByName, t *rollout.Try) { t.Step.Impact = site.ImpactNone }, false},
		"before the first": {func(f *rollout.Facts, _ rollout.ByName, _ *rollout.Try) { f.Rollout = nil }, false},
	} {
		f, all := rolling()
		f.Rollout.Halted = "canary a1 has failed"
		a := try(all["a1"], reboots)
		c.change(f, all, &a)
		want := ""
		if c.holds {
			want = "the rollout of rev1 is halted: canary a1 has failed; a commit that changes what is designed for the failed nodes, or `slipway retry`; a person"
		}
		if got := said(f, f.Order(a)); got != want {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestWhatHaltsARollout(t *testing.T) {
	for name, c := range map[string]struct {
		max    string
		failed []string
		last   string
		halted string
		want   string
	}{
		"nothing":                {"", nil, "", "", ""},
		"one of five may":        {"", []string{"a2"}, "a2", "", ""},
		"not two":                {"", []string{"a2", "a3"}, "a3", "", "2 of 5 nodes have failed and maxFailures allows 1"},
		"none may":               {"0", []string{"a2"}, "a2", "", "1 of 5 nodes have failed and maxFailures allows 0"},
		"a share":                {"40%", []string{"a2", "a3"}, "a3", "", ""},
		"a canary":               {"100%", []string{"a1"}, "a1", "", "canary a1 has failed"},
		"who had failed before":  {"0", []string{"a1"}, "", "", "1 of 5 nodes have failed and maxFailures allows 0"},
		"it is halted by others": {"0", []string{"a1"}, "a1", "as before", ""},
	} {
		f, _ := rolling()
		f.Site.Rollout.MaxFailures, f.Rollout.Halted, f.Rollout.Failed = c.max, c.halted, map[string]string{}
		for _, name := range c.failed {
			f.Rollout.Failed[name] = "why"
		}
		h, halts := f.Halts(c.last)
		if h.Why != c.want || halts != (c.want != "") || h.Canary != strings.HasPrefix(c.want, "canary") {
			t.Errorf("%s: got %+v", name, h)
		}
	}
}

func TestWhatStaysHalted(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*site.RolloutStatus, rollout.ByName)
		want   int
	}{
		"nothing was changed":        {func(*site.RolloutStatus, rollout.ByName) {}, 2},
		"one was":                    {func(was *site.RolloutStatus, _ rollout.ByName) { was.HaltedBy["a1"] = "other" }, 0},
		"one of a canary's":          {func(was *site.RolloutStatus, _ rollout.ByName) { was.HaltedBy["a1"], was.CanaryFailed = "other", true }, 1},
		"it was not halted":          {func(was *site.RolloutStatus, _ rollout.ByName) { was.Halted = "" }, 0},
		"they leave":                 {func(_ *site.RolloutStatus, all rollout.ByName) { all["a1"].Leaving, all["a2"].Leaving = true, true }, 0},
		"one is gone":                {func(_ *site.RolloutStatus, all rollout.ByName) { delete(all, "a1") }, 0},
		"in-sync since it has ended": {func(was *site.RolloutStatus, all rollout.ByName) { was.Ended = now; all["a1"].State = site.InSync }, 0},
		"in-sync, not ended":         {func(_ *site.RolloutStatus, all rollout.ByName) { all["a1"].State = site.InSync }, 2},
	} {
		f, all := rolling()
		was := *f.Rollout
		was.Halted, was.HaltedBy = "2 have failed", map[string]string{"a1": "of a1", "a2": "of a2"}
		c.change(&was, all)
		if got := f.StaysHalted(&was, func(n *rollout.Node) string { return "of " + n.Name() }); len(got) != c.want {
			t.Errorf("%s: got %v, want %d", name, got, c.want)
		}
	}
}

func TestPartInARollout(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*rollout.Facts, *rollout.Node)
		want   rollout.Part
	}{
		"goes on":               {func(_ *rollout.Facts, n *rollout.Node) {}, rollout.Pending},
		"in-sync":               {func(_ *rollout.Facts, n *rollout.Node) { n.State = site.InSync }, rollout.Done},
		"of an earlier design":  {func(_ *rollout.Facts, n *rollout.Node) { n.State, n.Outdated = site.InSync, true }, rollout.Pending},
		"leaves":                {func(_ *rollout.Facts, n *rollout.Node) { n.Leaving = true }, rollout.Aside},
		"decommissioned":        {func(_ *rollout.Facts, n *rollout.Node) { n.Design.Decommission = true }, rollout.Aside},
		"quarantined":           {func(_ *rollout.Facts, n *rollout.Node) { n.Quarantined = true }, rollout.Resting},
		"paused":                {func(_ *rollout.Facts, n *rollout.Node) { n.State = site.Paused }, rollout.Resting},
		"paused when done":      {func(_ *rollout.Facts, n *rollout.Node) { n.State, n.Part = site.Paused, rollout.Done }, rollout.Done},
		"stalled, not begun":    {func(_ *rollout.Facts, n *rollout.Node) { n.State = site.Stalled }, rollout.Resting},
		"stalled":               {func(_ *rollout.Facts, n *rollout.Node) { n.State, n.InHand = site.Stalled, true }, rollout.Failed},
		"foreign":               {func(_ *rollout.Facts, n *rollout.Node) { n.State, n.InHand = site.Foreign, true }, rollout.Failed},
		"stalled, tried afresh": {func(_ *rollout.Facts, n *rollout.Node) { n.State, n.InHand, n.Fresh = site.Stalled, true, true }, rollout.Resting},
		"stays failed":          {func(_ *rollout.Facts, n *rollout.Node) { n.State, n.Part = site.Stalled, rollout.Failed }, rollout.Failed},
		"too long":              {func(_ *rollout.Facts, n *rollout.Node) { n.InHand, n.Spent, n.Patience = true, 2, 1 }, rollout.Failed},
		"not too long":          {func(_ *rollout.Facts, n *rollout.Node) { n.InHand, n.Spent, n.Patience = true, 1, 1 }, rollout.Pending},
		"for a person":          {func(_ *rollout.Facts, n *rollout.Node) { n.State, n.Person = site.Blocked, true }, rollout.Resting},
		"for a halt":            {func(f *rollout.Facts, n *rollout.Node) { n.State, n.Person, f.Rollout.Halted = site.Blocked, true, "x" }, rollout.Pending},
		"for others":            {func(_ *rollout.Facts, n *rollout.Node) { n.State = site.Blocked }, rollout.Pending},
	} {
		f, all := rolling()
		c.change(f, all["a1"])
		if got := f.PartOf(all["a1"]); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}

func TestHowANodeJoins(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*rollout.Facts, *rollout.Node, *site.Step)
		want   rollout.Joining
	}{
		"part of it":         {func(*rollout.Facts, *rollout.Node, *site.Step) {}, rollout.StaysOut},
		"new to it":          {func(f *rollout.Facts, n *rollout.Node, _ *site.Step) { n.Part, f.Rollout.Nodes = rollout.Aside, nil }, rollout.Joins},
		"back in it":         {func(_ *rollout.Facts, n *rollout.Node, _ *site.Step) { n.Part = rollout.Aside }, rollout.Returns},
		"none is under way":  {func(f *rollout.Facts, n *rollout.Node, _ *site.Step) { n.Part, f.Rollout = rollout.Aside, nil }, rollout.Begins},
		"it has ended":       {func(f *rollout.Facts, n *rollout.Node, _ *site.Step) { f.Rollout.Ended = now }, rollout.Begins},
		"it has failed":      {func(f *rollout.Facts, n *rollout.Node, _ *site.Step) { f.Rollout.Ended, n.Part = now, rollout.Failed }, rollout.StaysOut},
		"drift":              {func(f *rollout.Facts, n *rollout.Node, s *site.Step) { f.Rollout, s.Drift = nil, true }, rollout.StaysOut},
		"a quarantine":       {func(f *rollout.Facts, n *rollout.Node, s *site.Step) { f.Rollout, s.Force = nil, true }, rollout.StaysOut},
		"it changes nothing": {func(f *rollout.Facts, n *rollout.Node, s *site.Step) { f.Rollout, s.Impact = nil, site.ImpactNone }, rollout.StaysOut},
		"not in use":         {func(f *rollout.Facts, n *rollout.Node, _ *site.Step) { f.Rollout, n.Design.Away = nil, "x" }, rollout.StaysOut},
	} {
		f, all := rolling()
		s := reboots
		c.change(f, all["b2"], &s)
		if got := f.Joining(all["b2"], s); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
	for name, c := range map[string]struct {
		change func(*rollout.Facts, rollout.ByName)
		want   bool
	}{
		"as many as canaries":     {func(*rollout.Facts, rollout.ByName) {}, true},
		"room for another canary": {func(f *rollout.Facts, _ rollout.ByName) { f.Site.Rollout.Canaries.Count = 3 }, false},
		"there are some":          {func(f *rollout.Facts, _ rollout.ByName) { f.Rollout.Canaries = []string{"a1"} }, false},
		"more than canaries":      {func(f *rollout.Facts, _ rollout.ByName) { f.Site.Rollout.Canaries.Count = 1 }, false},
		"one has failed":          {func(_ *rollout.Facts, all rollout.ByName) { all["a1"].Part = rollout.Failed }, false},
		"none is designed":        {func(f *rollout.Facts, _ rollout.ByName) { f.Site.Rollout.Canaries = nil }, false},
	} {
		f, all := rolling()
		f.Rollout.Nodes, f.Rollout.Canaries, f.Site.Rollout.Canaries.Count = []string{"a1", "a2"}, nil, 2
		c.change(f, all)
		if got := f.AllBecomeCanaries(all["b2"]); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

func TestWhatQueues(t *testing.T) {
	long := now.Add(-time.Hour)
	rest := func(all rollout.ByName) {
		for _, n := range all {
			n.State, n.Since = site.Blocked, long
		}
	}
	for name, c := range map[string]struct {
		moved  time.Time
		change func(*rollout.Facts, rollout.ByName)
		want   bool
	}{
		"under way":         {long, func(*rollout.Facts, rollout.ByName) {}, true},
		"not designed so":   {long, func(f *rollout.Facts, _ rollout.ByName) { f.Site.Rollout.OnChange = "" }, false},
		"halted":            {long, func(f *rollout.Facts, _ rollout.ByName) { f.Rollout.Halted = "x" }, false},
		"ended":             {long, func(f *rollout.Facts, _ rollout.ByName) { f.Rollout.Ended = now }, false},
		"at rest":           {long, func(_ *rollout.Facts, all rollout.ByName) { rest(all) }, false},
		"moved a while ago": {now.Add(-4 * time.Minute), func(_ *rollout.Facts, all rollout.ByName) { rest(all) }, true},
		"in time to come":   {now.Add(time.Minute), func(_ *rollout.Facts, all rollout.ByName) { rest(all) }, false},
		"begun a while ago": {long, func(f *rollout.Facts, all rollout.ByName) { rest(all); f.Rollout.Since = now }, true},
		"for a window":      {long, func(_ *rollout.Facts, all rollout.ByName) { rest(all); all["a1"].WaitsForTime = true }, true},
		"tried again":       {long, func(_ *rollout.Facts, all rollout.ByName) { rest(all); all["a1"].State = site.Retrying }, false},
		"tried and in hand": {long, func(_ *rollout.Facts, all rollout.ByName) {
			rest(all)
			all["a1"].State, all["a1"].InHand = site.Retrying, true
		}, true},
		"tried since lately": {long, func(_ *rollout.Facts, all rollout.ByName) {
			rest(all)
			all["a1"].State, all["a1"].Since = site.Unknown, now
		}, true},
		"all are done": {long, func(_ *rollout.Facts, all rollout.ByName) {
			for _, n := range all {
				n.Part = rollout.Done
			}
		}, false},
	} {
		f, all := rolling()
		f.Site.Rollout.OnChange = "queue"
		c.change(f, all)
		if got := f.Queues(c.moved); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

// The forecast lets no more nodes that are not healthy change at once than the gates
// would.
func TestForecastOfManyThatAreNotHealthy(t *testing.T) {
	health := &site.Health{Ports: []int{80}}
	s := &site.Site{Rollout: site.Rollout{MaxUnavailable: "1"}, Roles: map[string]*site.Role{"web": {Enabled: true, Health: health}}, Nodes: map[string]*site.Node{}}
	known := site.Known{Serves: map[site.Facet]bool{site.FacetProbes: true}, Nodes: map[string]site.Memory{}}
	p := &site.Plan{}
	for i := range 3 {
		n := &site.Node{Name: fmt.Sprintf("n%d", i), Role: "web", Power: "on", Endpoints: map[site.EndpointKind]site.Endpoint{site.OS: {URL: "ssh://a"}}}
		n.References.Health = health
		s.Nodes[n.Name] = n
		m := seen("on")
		m.Recorded.Healthy = now.Add(-time.Hour)
		m.Observed.Facets[site.FacetProbes] = site.FacetState{Have: site.Values{"port 80": "port 80 does not answer"}, Seen: now}
		known.Nodes[n.Name] = m
		p.Nodes = append(p.Nodes, site.NodePlan{Node: n.Name, Steps: []site.Step{{Node: n.Name, Action: site.ActionRestart, Impact: site.ImpactReboot, Expect: site.Duration(10 * time.Minute), Phase: "base"}}})
	}
	var got []string
	for _, o := range rollout.Forecast(s, p, known, now).Order {
		got = append(got, fmt.Sprintf("%s %s", o.Node, time.Duration(o.From)))
	}
	if want := []string{"n0 0s", "n1 10m0s", "n2 20m0s"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	m := known.Nodes["n2"] // one that may serve has a place, and leaves none
	m.Observed.Facets[site.FacetProbes] = site.FacetState{Have: site.Values{"port 80": item.Passed}, Seen: now}
	known.Nodes["n2"] = m
	known.Unseen = map[string]bool{"n2": true}
	p.Nodes = p.Nodes[:2]
	if f := rollout.Forecast(s, p, known, now); len(f.Order) != 0 || len(f.Warnings) != 1 || !strings.HasSuffix(f.Warnings[0], "as this plan does not bring these back into service: n2") {
		t.Errorf("a machine that cannot be seen: %+v", f)
	}
}

// A leader that has to be healthy while none of its peers serves is told of: its health
// may need them.
func TestForecastOfALeaderThatHasToBeHealthyAlone(t *testing.T) {
	health := &site.Health{Ports: []int{2379}}
	s := &site.Site{Rollout: site.Rollout{MaxUnavailable: "3"}, Roles: map[string]*site.Role{"store": {Enabled: true, LeaderFirst: true, Health: health}}, Nodes: map[string]*site.Node{}}
	known := site.Known{Serves: map[site.Facet]bool{site.FacetProbes: true}, Nodes: map[string]site.Memory{}}
	p := &site.Plan{}
	for _, name := range []string{"n1", "n2", "n3"} {
		n := &site.Node{Name: name, Role: "store", Power: "on", Endpoints: map[site.EndpointKind]site.Endpoint{site.OS: {URL: "ssh://a"}}}
		n.References.Health = health
		s.Nodes[name], known.Nodes[name] = n, seen("on")
		p.Nodes = append(p.Nodes, site.NodePlan{Node: name, Steps: []site.Step{{Node: name, Action: site.ActionBase, Impact: site.ImpactOnline, Expect: site.Duration(time.Minute), Phase: "base"}}})
	}
	want := "n1, the leader of the role store, has to be healthy before n2, n3, and none of the others is healthy yet; " +
		"if its health needs the others, all of them wait forever: design a health that passes on one node alone"
	if f := rollout.Forecast(s, p, known, now); len(f.Order) != 3 || !slices.Equal(f.Warnings, []string{want}) {
		t.Errorf("of a role that starts: %+v", f)
	}
	m := seen("on")
	m.Observed.Facets[site.FacetProbes] = site.FacetState{Have: site.Values{"port 2379": item.Passed}, Seen: now}
	known.Nodes["n3"] = m
	if f := rollout.Forecast(s, p, known, now); len(f.Order) != 3 || len(f.Warnings) != 0 {
		t.Errorf("of one that serves: %+v", f)
	}
	delete(known.Nodes, "n3")
	s.Roles["store"].LeaderFirst = false
	if f := rollout.Forecast(s, p, known, now); len(f.Order) != 3 || len(f.Warnings) != 0 {
		t.Errorf("without a leader: %+v", f)
	}
}
