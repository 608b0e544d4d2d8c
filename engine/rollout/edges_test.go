package rollout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/rollout"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Canaries are those that the design selects, whoever else is part of the rollout.
func TestCanariesAreSelected(t *testing.T) {
	for name, c := range map[string]struct {
		count  int
		nodes  []string
		change func(*rollout.Facts, rollout.ByName)
		want   string
	}{
		"of a role": {2, nil, func(f *rollout.Facts, _ rollout.ByName) {
			f.Site.Rollout.Canaries.Nodes = &site.Selector{Match: site.Match{Roles: []string{"b"}}}
		}, "b1 b2"},
		"fewer than asked for": {4, nil, func(f *rollout.Facts, _ rollout.ByName) {
			f.Site.Rollout.Canaries.Nodes = &site.Selector{Match: site.Match{Roles: []string{"b"}}}
		}, "b1 b2"},
		"nobody": {1, nil, func(f *rollout.Facts, _ rollout.ByName) {
			f.Site.Rollout.Canaries.Nodes = &site.Selector{Match: site.Match{Roles: []string{"c"}}}
		}, ""},
		"paused, when nobody else is left": {3, nil, func(_ *rollout.Facts, all rollout.ByName) {
			for _, n := range all {
				n.Paused = n.Design.Role == "a"
			}
		}, "a1 b1 b2"},
		"one that is gone": {1, []string{"a0", "a1", "a2"}, func(*rollout.Facts, rollout.ByName) {}, "a1"},
	} {
		f, all := rolling()
		f.Site.Rollout.Canaries.Count = c.count
		if c.nodes == nil {
			c.nodes = f.Rollout.Nodes
		}
		c.change(f, all)
		if got := strings.Join(f.ChooseCanaries(c.nodes), " "); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// Whoever is held is asked again when what it waits for may have changed: a topic that is
// missing leaves it waiting.
func TestWhatIsWaitedFor(t *testing.T) {
	topics := func(r rollout.Reason, f *rollout.Facts) string {
		v := r.Verdict(f)
		return fmt.Sprint(v.Waits, v.Watched, v.For)
	}
	f, all := rolling()
	f.Rollout.Canaries = []string{"a1", "b1"}
	all["b1"].State = site.InSync
	r := f.Order(try(all["a2"], reboots))
	if got, want := topics(r, f), fmt.Sprint([]rollout.Topic{rollout.CanariesProven, rollout.PlaceTopic("a1"), rollout.PlaceTopic("b1")}, []string(nil), []string{"a1", "b1"}); got != want {
		t.Errorf("canaries: got %s, want %s", got, want)
	}
	if got := r.Verdict(f).Detail; got != "a1 is progressing" {
		t.Errorf("of the canaries: %q", got)
	}

	f, all = world()
	all["b1"].Disrupts, all["b2"].Disrupts = true, true
	if got, want := topics(f.Room(try(all["a1"], reboots)), f), fmt.Sprint([]rollout.Topic{rollout.Places}, []string(nil), []string{"b1", "b2"}); got != want {
		t.Errorf("a place: got %s, want %s", got, want)
	}

	for _, isOut := range []bool{false, true} {
		f, all = world()
		f.Site.Roles["b"].Needs = map[string]map[string]site.Need{"install": {"a": {Phase: "network", Quorum: "all"}}}
		all["a2"].Phase, all["a3"].Phase = "base", "base"
		want := []rollout.Topic{rollout.RoleTopic("a")}
		if isOut {
			all["b1"].Power = "off"
			want = append(want, rollout.PlaceTopic("a2"), rollout.PlaceTopic("a3"))
		}
		r := f.Order(try(all["b1"], site.Step{Impact: site.ImpactOnline, Phase: "install"}))
		if got, want := topics(r, f), fmt.Sprint(want, []string{"a2", "a3"}, []string{"a2", "a3"}); got != want {
			t.Errorf("a need, out of service %t: got %s, want %s", isOut, got, want)
		}
	}
}

// A need counts those in use alone, also when it names who is missing.
func TestWhoIsMissingToANeed(t *testing.T) {
	f, all := world()
	f.Site.Roles["b"].Needs = map[string]map[string]site.Need{"install": {"a": {Phase: "network", Quorum: "all"}}}
	all["a1"].Phase, all["a2"].Phase, all["a2"].Leaving = "base", "base", true
	want := "its phase install needs 2 of 2 nodes of role a to have gone through network; 1 have, not a1; a1 going through network"
	if got := said(f, f.Order(try(all["b1"], site.Step{Impact: site.ImpactOnline, Phase: "install"}))); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// Whoever reads what is waited for finds the nodes in order, however many there are and in
// whatever order they are known.
func TestMissingNodesAreInOrder(t *testing.T) {
	f, all := world()
	f.Site.Roles["b"].Needs = map[string]map[string]site.Need{"install": {"a": {Phase: "network", Quorum: "all"}}}
	var want []string
	for i := range 12 {
		n := serving(fmt.Sprintf("a%02d", i), "a")
		n.Phase = "base"
		all[n.Name()] = n
		want = append(want, n.Name())
	}
	r := f.Order(try(all["b1"], site.Step{Impact: site.ImpactOnline, Phase: "install"}))
	if got := r.Verdict(f).For; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// A canary that has left the design is not told as one that is waited for.
func TestCanaryThatIsGoneIsNotNamed(t *testing.T) {
	f, all := rolling()
	f.Rollout.Canaries = []string{"a1", "b1"}
	delete(all, "b1")
	if got := f.Order(try(all["a2"], reboots)).Verdict(f).Detail; got != "a1 is progressing" {
		t.Errorf("got %q", got)
	}
}

// A reason can be told by facts that were gathered after it was found.
func TestReasonIsToldByLaterFacts(t *testing.T) {
	f, all := world()
	all["b1"].Disrupts, all["b2"].Disrupts = true, true
	r := f.Room(try(all["a1"], reboots))
	later, same := world()
	same["b1"].Disrupts = true
	want := "the site allows 2 of 5 nodes out of service (maxUnavailable 2); 1 are: b1; one of b1 coming back into service"
	if got := said(later, r); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// A node counts for those who wait for its role as far as it is known.
func TestThePhaseThatANodeIsBefore(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*rollout.Node)
		want    string
		through bool
	}{
		"nothing left":                   {func(*rollout.Node) {}, "", true},
		"out of reach":                   {func(n *rollout.Node) { n.Blind = true }, rollout.Uncertain, false},
		"out of reach, before a phase":   {func(n *rollout.Node) { n.Blind, n.Phase = true, "base" }, rollout.Uncertain, false},
		"before a phase":                 {func(n *rollout.Node) { n.Phase = "network" }, "network", false},
		"before a phase, not healthy":    {func(n *rollout.Node) { n.Phase, n.Probes.State = "network", site.Unhealthy }, "network", false},
		"nothing left, not healthy":      {func(n *rollout.Node) { n.Probes.State = site.Unhealthy }, rollout.Unfit, false},
		"nothing left, nobody knows":     {func(n *rollout.Node) { n.Probes.State, n.Seen = site.Healthy, true; n.AgeInside = time.Hour }, rollout.Unfit, false},
		"nothing left, and was healthy":  {func(n *rollout.Node) { n.Probes.State = site.Healthy }, "", true},
		"before a phase of another role": {func(n *rollout.Node) { n.Phase = "no such phase" }, "no such phase", false},
		"before its last phase":          {func(n *rollout.Node) { n.Phase = "configure" }, "configure", false},
	} {
		f, _ := world()
		n := serving("a1", "a")
		c.change(n)
		if got := f.Before(n); got != c.want {
			t.Errorf("%s: before %q, want %q", name, got, c.want)
		}
		if got := f.HasGoneThrough(n, "base"); got != (c.want != rollout.Uncertain && c.want != rollout.Unfit) {
			t.Errorf("%s: through base %t", name, got)
		}
		if got := f.IsThrough(n); got != c.through {
			t.Errorf("%s: through all phases %t, want %t", name, got, c.through)
		}
	}
}

// A machine is missing to others when it is out of service, or when its system was healthy
// and is not known to be so now.
func TestWhoIsLacking(t *testing.T) {
	for name, c := range map[string]struct {
		change             func(*rollout.Node)
		isLacking, hasLost bool
	}{
		"in service":               {func(*rollout.Node) {}, false, false},
		"off":                      {func(n *rollout.Node) { n.Power = "off" }, true, false},
		"healthy":                  {func(n *rollout.Node) { n.WasHealthy, n.Probes.State = true, site.Healthy }, false, false},
		"never healthy":            {func(n *rollout.Node) { n.Probes.State = site.Unhealthy }, false, false},
		"not healthy any more":     {func(n *rollout.Node) { n.WasHealthy, n.Probes.State = true, site.Unhealthy }, true, true},
		"not healthy, and silent":  {func(n *rollout.Node) { n.WasHealthy, n.Probes.State, n.BlindInside = true, site.Unhealthy, true }, true, true},
		"designed off, and silent": {func(n *rollout.Node) { n.Design.Power, n.Power, n.Blind = "off", "off", true }, false, false},
	} {
		f, _ := world()
		n := serving("a1", "a")
		c.change(n)
		if got := f.IsLacking(n); got != c.isLacking {
			t.Errorf("%s: lacking %t", name, got)
		}
		if got := f.HasLostHealth(n); got != c.hasLost {
			t.Errorf("%s: has lost its health %t", name, got)
		}
	}
	f, _ := world()
	n := serving("a1", "a")
	n.Probes, n.Blind = site.SystemHealth{State: site.Unhealthy, Why: "port 80 is shut"}, true
	if got := f.Health(n); got.State != site.HealthUnknown || got.Why != "the machine does not answer" {
		t.Errorf("the health of a machine that does not answer: %+v", got)
	}
}

// One that is not healthy is not told as a reason why another one gets no place, where it
// does not count.
func TestWhoTakesThePlaces(t *testing.T) {
	f, all := world()
	f.Site.Rollout.MaxUnavailable, f.Site.Roles["a"].MaxUnavailable = "3", "1"
	all["b1"].Disrupts, all["a3"].Disrupts, all["a2"].Design.Away = true, true, "at the vendor's"
	want := "role a allows 1 of 2 nodes out of service (maxUnavailable 1); 1 are: a3; one of a3 coming back into service"
	if got := said(f, f.Room(try(all["a1"], reboots))); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	f, all = world()
	f.Site.Rollout.MaxUnavailable = "1"
	all["a1"].WasHealthy, all["a1"].Probes.State = true, site.HealthUnknown // it may serve, and does not count itself
	if got := f.Room(try(all["a1"], reboots)); got != nil {
		t.Errorf("nobody knows how it is, and no other one is out: %s", said(f, got))
	}
	if got := f.Room(try(all["a2"], reboots)); got == nil {
		t.Error("another one goes out of service beside one of which nobody knows how it is")
	}
}

// The window of a step goes by what it is: drift is repaired in a window also where the same
// change of the design would be made at once.
func TestWindowOfAStep(t *testing.T) {
	n := &site.Node{Name: "n1", Window: "night", Drift: map[site.Facet]string{site.FacetConfig: "repair", site.FacetBIOS: "enforce", site.FacetBase: "repair"}}
	n.Windows.Online = ""
	restart := func(fields ...string) site.Step {
		s := site.Step{Facet: site.FacetPower, Action: site.ActionRestart, Impact: site.ImpactReboot, Drift: true}
		for _, f := range fields {
			s.Changes = append(s.Changes, site.Change{Field: f})
		}
		return s
	}
	for name, c := range map[string]struct {
		step site.Step
		want string
	}{
		"a change that is made at once":       {site.Step{Facet: site.FacetConfig, Impact: site.ImpactOnline}, ""},
		"drift that is repaired":              {site.Step{Facet: site.FacetConfig, Impact: site.ImpactOnline, Drift: true}, "night"},
		"drift without a policy":              {site.Step{Facet: site.FacetNetwork, Impact: site.ImpactOnline, Drift: true}, ""},
		"drift that is set back at once":      {site.Step{Facet: site.FacetBIOS, Impact: site.ImpactReboot, Drift: true}, ""},
		"a change of what is set back":        {site.Step{Facet: site.FacetBIOS, Impact: site.ImpactReboot}, "night"},
		"a look that changes nothing":         {site.Step{Facet: site.FacetConfig, Impact: site.ImpactNone, Drift: true}, ""},
		"a restart for what is set back":      {restart("bios.SMT", "bios.VT"), ""},
		"a restart for what is repaired":      {restart("config.files./etc/motd", "base.hostname"), "night"},
		"a restart for two policies":          {restart("bios.SMT", "config.files./etc/motd"), "night"},
		"a restart for two policies, swapped": {restart("config.files./etc/motd", "bios.SMT"), "night"},
	} {
		if got := rollout.WindowOf(n, &c.step); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	n.Drift = map[site.Facet]string{"": "enforce"}
	step := restart("bios.SMT")
	if got := rollout.WindowOf(n, &step); got != "night" {
		t.Errorf("a restart for a facet without a policy: %q", got)
	}
}

// Work that takes just as long as the window fits into it.
func TestWorkThatJustFits(t *testing.T) {
	at := now.Truncate(24 * time.Hour).Add(2 * time.Hour) // its first second
	for takes, want := range map[time.Duration]string{
		time.Hour:        "",
		61 * time.Minute: "about 1h1m of work do not fit into its window night",
	} {
		f, all := world()
		f.Now = at
		f.Site.Windows = map[string]*site.Window{"night": {From: "02:00", To: "03:00"}}
		all["a1"].Design.Window = "night"
		step := reboots
		step.Expect = site.Duration(takes)
		a := try(all["a1"], step)
		got := ""
		if r := f.Order(a); r != nil {
			got = said(f, r)
		} else if r := mayBegin(f, a); r != nil {
			got = said(f, r)
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%v: %q, want %q", takes, got, want)
		}
		f.Now = at.Add(-time.Hour) // the opening to come is long enough, or is not
		shut := mayBegin(f, a)
		if shut == nil {
			t.Fatalf("%v: begins before the window", takes)
		}
		if v := shut.Verdict(f); v.Person != (takes > time.Hour) || slices.Contains([]string{""}, v.Sentence) {
			t.Errorf("%v, before the window: %+v", takes, v)
		}
	}
}
