package rollout_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/rollout"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/window"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// A slow model, which asks everyone whenever anything happens, agrees with the
// forecast on random small sites.
func TestForecastAgreesWithTheModel(t *testing.T) {
	for seed := range uint64(250) {
		r := rand.New(rand.NewPCG(seed, 7))
		s, p, known := randomSite(r)
		f := rollout.Forecast(s, p, known, now)
		want := newModel(s, p, known).run()
		got := map[string][2]time.Duration{}
		for _, o := range f.Order {
			got[o.Node] = [2]time.Duration{time.Duration(o.From), time.Duration(o.To)}
		}
		if diff := cmp.Diff(got, want.spans()); diff != "" {
			t.Fatalf("seed %d: (-forecast +model)\n%s\n%v", seed, diff, f)
		}
		checkPath(t, seed, f)
		if again := rollout.Forecast(s, p, known, now); !cmp.Equal(f, again) {
			t.Fatalf("seed %d: another forecast of the same: %s", seed, cmp.Diff(f, again))
		}
	}
}

// checkPath holds that the critical path has no gap and makes up the makespan.
func checkPath(t *testing.T, seed uint64, f *site.Forecast) {
	t.Helper()
	var end, first site.Duration
	for i, s := range f.Path {
		if s.From != end {
			t.Fatalf("seed %d: a gap in the path before %+v\n%+v", seed, s, f.Path)
		}
		end = s.To
		if i == 0 && strings.HasPrefix(s.What, "waits") {
			first = s.To
		}
	}
	for _, o := range f.Order {
		first = min(first, o.From)
		if o.To > end {
			t.Fatalf("seed %d: %s ends after the path, at %s", seed, o.Node, time.Duration(o.To))
		}
	}
	if len(f.Order) > 0 && f.Makespan > end {
		t.Fatalf("seed %d: makespan %s, path to %s", seed, time.Duration(f.Makespan), time.Duration(end))
	}
}

// randomSite is a site of few roles in a needs graph without circles.
func randomSite(r *rand.Rand) (*site.Site, *site.Plan, site.Known) {
	s := &site.Site{Roles: map[string]*site.Role{}, Racks: map[string]*site.Rack{}, Windows: map[string]*site.Window{}, Nodes: map[string]*site.Node{}}
	s.Rollout.MaxUnavailable = pick(r, "1", "2", "3", "50%", "100%")
	if r.IntN(3) == 0 {
		s.Rollout.Canaries = &site.Canaries{Count: 1 + r.IntN(2), Soak: site.Duration(r.IntN(3)) * site.Duration(10*time.Minute)}
	}
	roles := 1 + r.IntN(3)
	for i := range roles {
		role := &site.Role{Enabled: r.IntN(8) > 0, Phases: []string{"install", "configure"}[:1+r.IntN(2)], LeaderFirst: r.IntN(3) == 0, Majority: r.IntN(4) == 0}
		role.MaxUnavailable = pick(r, "", "1", "2")
		for j := range i {
			if r.IntN(2) == 0 {
				on := fmt.Sprintf("r%d", j)
				phases := s.Roles[on].Phases
				role.Needs = map[string]map[string]site.Need{pick(r, role.Phases...): {on: {Phase: pick(r, phases...), Quorum: site.Quorum(pick(r, "all", "1", "50%"))}}}
			}
		}
		s.Roles[fmt.Sprintf("r%d", i)] = role
	}
	for i := range r.IntN(3) {
		s.Racks[fmt.Sprintf("k%d", i)] = &site.Rack{MaxUnavailable: pick(r, "", "1", "2")}
	}
	s.Windows["w"] = &site.Window{From: pick(r, "12:10", "13:00", "11:00"), To: pick(r, "12:40", "14:00", "15:15"), Overrun: pick(r, "", "stop")}
	s.Windows["c"] = &site.Window{Cron: pick(r, "*/30 * * * *", "0 13 * * *", "0 0 31 2 *"), Length: site.Duration(20 * time.Minute)}
	p, known := &site.Plan{}, site.Known{Nodes: map[string]site.Memory{}}
	for i := range 1 + r.IntN(9) {
		n := &site.Node{Name: fmt.Sprintf("n%d", i), Role: fmt.Sprintf("r%d", r.IntN(roles)), Rack: fmt.Sprintf("k%d", r.IntN(2)), Power: "on"}
		if r.IntN(10) == 0 {
			n.Away = "at the vendor's"
		}
		n.Window, n.Windows.Online = pick(r, "", "", "w"), pick(r, "", "", "", "c")
		s.Nodes[n.Name] = n
		known.Nodes[n.Name] = seen("on")
		if r.IntN(6) == 0 {
			known.Nodes[n.Name] = seen("off")
		}
		p.Nodes = append(p.Nodes, site.NodePlan{Node: n.Name, Steps: randomSteps(r, n.Name, s.Roles[n.Role].Phases)})
	}
	return s, p, known
}

// seen is a machine that was in service once and was seen on or off.
func seen(power string) site.Memory {
	return site.Memory{Recorded: site.Recorded{Adopted: &site.Adoption{Settled: now}},
		Observed: site.Observed{Facets: map[site.Facet]site.FacetState{site.FacetPower: {Have: site.Values{"state": power}, Seen: now}}}}
}

func randomSteps(r *rand.Rand, node string, phases []string) []site.Step {
	var steps []site.Step
	for _, phase := range phases {
		for range r.IntN(3) {
			steps = append(steps, site.Step{Node: node, Action: site.Action(pick(r, "a", "b")), Phase: phase,
				Impact: site.Impact(r.IntN(4)), Expect: site.Duration(1+r.IntN(40)) * site.Duration(time.Minute)})
		}
	}
	return steps
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// model is the rollout as plainly as it can be written.
type model struct {
	site    *site.Site
	nodes   []*modelNode
	soaked  time.Duration // when the canaries have, -1 while unknown
	chosen  map[string]bool
	windows map[string]window.Window
}

type modelNode struct {
	*site.Node
	steps        []site.Step
	next         int
	busy, off    bool
	began, until time.Duration
	disrupts     bool
}

func (n *modelNode) out() bool { return n.off || n.disrupts }

func newModel(s *site.Site, p *site.Plan, known site.Known) *model {
	m := &model{site: s, chosen: map[string]bool{}, windows: map[string]window.Window{}, soaked: -1}
	for name, w := range s.Windows {
		m.windows[name], _ = window.Parse(w)
	}
	for _, np := range p.Nodes {
		n := s.Nodes[np.Node]
		if s.Unused(n) != "" {
			continue
		}
		off := known.Nodes[n.Name].Observed.Facets[site.FacetPower].Have["state"] == "off"
		m.nodes = append(m.nodes, &modelNode{Node: n, steps: np.Steps, off: off, began: -1})
	}
	for _, out := range []bool{true, false} { // who is out of service risks nothing
		for _, n := range m.nodes {
			if c := s.Rollout.Canaries; c != nil && len(n.steps) > 0 && n.out() == out && len(m.chosen) < c.Count {
				m.chosen[n.Name] = true
			}
		}
	}
	return m
}

func (n *modelNode) done() bool { return n.next == len(n.steps) }

func (m *model) run() *model {
	for t := time.Duration(0); t >= 0; t = m.following(t) {
		for _, n := range m.nodes {
			if n.busy && n.until == t {
				n.busy = false
				n.off = n.off && n.steps[n.next].Impact < site.ImpactReboot
				n.next++
				n.off, n.disrupts = n.off && !n.done(), n.disrupts && !n.done()
			}
		}
		m.soak(t)
		for m.moves(t) {
		}
	}
	return m
}

// moves has the first node that can begin do so, or step aside when it is held.
func (m *model) moves(t time.Duration) bool {
	for _, n := range m.nodes {
		switch {
		case n.busy || n.done():
		case m.may(n, t):
			m.begin(n, t)
			return true
		case n.disrupts && !n.off:
			n.disrupts = false
			return true
		}
	}
	return false
}

func (m *model) soak(t time.Duration) {
	c := m.site.Rollout.Canaries
	if c == nil || m.soaked >= 0 {
		return
	}
	for _, n := range m.nodes {
		if m.chosen[n.Name] && !n.done() {
			return
		}
	}
	m.soaked = t + time.Duration(c.Soak)
	if len(m.chosen) == 0 {
		m.soaked = 0
	}
}

func (m *model) begin(n *modelNode, t time.Duration) {
	step := n.steps[n.next]
	if n.began < 0 {
		n.began = t
	}
	if step.Impact >= site.ImpactInterrupts {
		n.disrupts = true
	}
	n.busy, n.until = true, t+time.Duration(step.Expect)
}

// following is the next time at which something may happen, -1 for none.
func (m *model) following(t time.Duration) time.Duration {
	next := time.Duration(-1)
	consider := func(at time.Duration) {
		if at > t && (next < 0 || at < next) {
			next = at
		}
	}
	consider(m.soaked)
	for _, n := range m.nodes {
		if n.busy {
			consider(n.until)
		}
	}
	if next < 0 || slices.ContainsFunc(m.nodes, func(n *modelNode) bool { return !n.done() }) {
		for _, w := range m.windows {
			if _, _, opens := w.At(now.Add(t)); !opens.IsZero() && t < 100*24*time.Hour {
				consider(opens.Sub(now))
			}
		}
	}
	if !slices.ContainsFunc(m.nodes, func(n *modelNode) bool { return !n.done() }) {
		return -1
	}
	return next
}

func (m *model) may(n *modelNode, t time.Duration) bool {
	if n.steps[n.next].Impact == site.ImpactNone {
		return true
	}
	return m.leaderLets(n) && m.canariesLet(n, t) && m.needsLet(n) && m.windowLets(n, t) && m.boundsLet(n)
}

func (m *model) leaderLets(n *modelNode) bool {
	if !m.site.Roles[n.Role].LeaderFirst {
		return true
	}
	for _, x := range m.nodes { // the first of the role, by name
		if x.Role == n.Role {
			return x == n || x.done() && !x.off
		}
	}
	return true
}

func (m *model) canariesLet(n *modelNode, t time.Duration) bool {
	return m.site.Rollout.Canaries == nil || m.chosen[n.Name] || m.soaked >= 0 && t >= m.soaked
}

func (m *model) needsLet(n *modelNode) bool {
	for on, need := range m.site.Roles[n.Role].Needs[n.steps[n.next].Phase] {
		all, through := 0, 0
		phases := m.site.Roles[on].Phases
		for _, x := range m.nodes {
			if x.Role != on {
				continue
			}
			all++
			left := false
			for _, s := range x.steps[x.next:] {
				left = left || slices.Index(phases, s.Phase) <= slices.Index(phases, need.Phase)
			}
			if !left && !x.off {
				through++
			}
		}
		if through < max(1, need.Quorum.Of(all)) {
			return false
		}
	}
	return true
}

func (m *model) windowLets(n *modelNode, t time.Duration) bool {
	step := n.steps[n.next]
	name := n.WindowFor(step.Impact)
	if name == "" || n.disrupts && m.site.Windows[name].Overrun != "stop" {
		return true
	}
	var takes time.Duration
	for _, s := range n.steps[n.next:] {
		if other := n.WindowFor(s.Impact); other != "" && other != name {
			break
		}
		takes += time.Duration(s.Expect)
	}
	open, until, next := m.windows[name].At(now.Add(t))
	if !open {
		return false
	}
	fits := !now.Add(t + takes).After(until)
	longest := until.Sub(now.Add(t))
	for !next.IsZero() && next.Sub(now) < 50*24*time.Hour && !fits {
		_, closes, after := m.windows[name].At(next)
		longest = max(longest, closes.Sub(next))
		next = after
	}
	return fits || longest < takes && m.longestOf(name) < takes
}

// longestOf is the longest of the openings from the beginning on.
func (m *model) longestOf(name string) (longest time.Duration) {
	at := now
	for range 50 {
		open, until, next := m.windows[name].At(at)
		if open {
			longest = max(longest, until.Sub(at))
		}
		if next.IsZero() {
			break
		}
		at = next
	}
	return longest
}

func (m *model) boundsLet(n *modelNode) bool {
	if n.steps[n.next].Impact < site.ImpactInterrupts || n.out() {
		return true
	}
	count := func(of func(*modelNode) bool) (all, out int) {
		for _, x := range m.nodes {
			if of(x) {
				all++
				if x.out() {
					out++
				}
			}
		}
		return all, out
	}
	all, out := count(func(*modelNode) bool { return true })
	if out >= max(1, site.Bound(m.site.Rollout.MaxUnavailable, all)) {
		return false
	}
	if r := m.site.Racks[n.Rack]; r != nil && r.MaxUnavailable != "" {
		if all, out := count(func(x *modelNode) bool { return x.Rack == n.Rack }); out >= max(1, site.Bound(r.MaxUnavailable, all)) {
			return false
		}
	}
	r := m.site.Roles[n.Role]
	all, out = count(func(x *modelNode) bool { return x.Role == n.Role })
	return (r.MaxUnavailable == "" || out < max(1, site.Bound(r.MaxUnavailable, all))) && (!r.Majority || out+m.away(n.Role) < max(1, (all+m.away(n.Role)-1)/2))
}

// away counts the machines of a role that are away: their votes are missing.
func (m *model) away(role string) int {
	away := 0
	for _, n := range m.site.Nodes {
		if n.Role == role && n.Away != "" {
			away++
		}
	}
	return away
}

// spans are when each node began and ended.
func (m *model) spans() map[string][2]time.Duration {
	all := map[string][2]time.Duration{}
	for _, n := range m.nodes {
		if n.began >= 0 {
			all[n.Name] = [2]time.Duration{n.began, n.until}
		}
	}
	return all
}

// What a rollout of ten machines takes, told by hand.
func TestForecast(t *testing.T) {
	s, p := fleet(10)
	for _, c := range []struct {
		name   string
		change func()
		want   string
		warns  string
	}{
		{"one after the other", func() {}, "1h40m0s", ""},
		{"three at once", func() { s.Rollout.MaxUnavailable = "30%" }, "40m0s", ""},
		{"canaries", func() { s.Rollout.Canaries = &site.Canaries{Count: 1, Soak: site.Duration(5 * time.Minute)} }, "45m0s", ""},
		{"over the budget", func() { s.Rollout.Budget = site.Duration(35 * time.Minute) }, "45m0s",
			"it takes about 45m, which is 10m more than the budget of 35m; maxUnavailable 5 would meet the budget"},
		{"soak too long", func() { s.Rollout.Budget = site.Duration(22 * time.Minute) }, "45m0s",
			"it takes about 45m, which is 23m more than the budget of 22m; maxUnavailable 5 without canaries would meet the budget"},
		{"one machine is too slow", func() { s.Rollout.Budget = site.Duration(9 * time.Minute) }, "45m0s",
			"it takes about 45m, which is 36m more than the budget of 9m; no change to the rollout's rules would help: the longest path, to the end of n000, takes about 10m; install of n000 alone takes 9m"},
	} {
		c.change()
		f := rollout.Forecast(s, p, site.Known{}, now)
		if got := time.Duration(f.Makespan).String(); got != c.want || strings.Join(f.Warnings, "\n") != c.warns {
			t.Errorf("%s: makespan %s, want %s; warnings:\n%s\nwant\n%s", c.name, got, c.want, strings.Join(f.Warnings, "\n"), c.warns)
		}
	}
}

// The longest durations that can be written do not turn the clock back.
func TestForecastOfCenturies(t *testing.T) {
	s, p := fleet(3)
	s.Rollout.Canaries = &site.Canaries{Count: 1, Soak: math.MaxInt64}
	s.Rollout.Budget = math.MaxInt64
	if f := rollout.Forecast(s, p, site.Known{}, now); time.Duration(f.Makespan) < 365*24*time.Hour || len(f.Warnings) > 0 {
		t.Errorf("makespan %s, warnings %q", time.Duration(f.Makespan), f.Warnings)
	}
}

// A knob that is named keeps the budget.
func TestKnobsKeepTheBudget(t *testing.T) {
	kept := 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 11))
		s, p, known := randomSite(r)
		s.Rollout.Budget = rollout.Forecast(s, p, known, now).Makespan * site.Duration(30+r.IntN(70)) / 100
		turned := false
		for _, w := range rollout.Forecast(s, p, known, now).Warnings {
			turned = turned || turn(s, w)
		}
		if !turned {
			continue
		}
		kept++
		if f := rollout.Forecast(s, p, known, now); f.Makespan > f.Budget {
			t.Errorf("seed %d: it takes %s of %s", seed, time.Duration(f.Makespan), time.Duration(f.Budget))
		}
	}
	if kept < 20 {
		t.Errorf("only %d sites had a knob", kept)
	}
}

// turn does what a warning says.
func turn(s *site.Site, warning string) bool {
	_, knob, _ := strings.Cut(warning, "; ")
	least := 0
	if _, err := fmt.Sscanf(knob, "maxUnavailable %d", &least); err == nil {
		s.Rollout.MaxUnavailable = fmt.Sprint(least)
	}
	if strings.Contains(knob, "no canaries") || strings.Contains(knob, "without canaries") {
		s.Rollout.Canaries = nil
	}
	if soak, ok := strings.CutPrefix(knob, "canaries that soak for "); ok {
		s.Rollout.Canaries.Soak.UnmarshalText([]byte(strings.TrimSuffix(soak, " would meet the budget")))
	}
	return strings.HasSuffix(knob, " would meet the budget")
}

// Who is paused is left out until the pause ends, who is quarantined waits for
// nothing, and a machine whose work is under way has its place already.
func TestForecastOfOthersOrders(t *testing.T) {
	s, p := fleet(4)
	s.Rollout.MaxUnavailable = "1"
	s.Nodes["n000"].Paused = &site.Hold{By: "ann"}
	s.Nodes["n001"].Paused = &site.Hold{By: "ann", Until: now.Add(-time.Second)}
	p.Nodes[2].Steps[0].Force = true
	s.Windows = map[string]*site.Window{"night": {From: "22:00", To: "22:00"}}
	s.Nodes["n001"].Window = "night"
	known := site.Known{Nodes: map[string]site.Memory{"n003": {Recorded: site.Recorded{Installing: &site.Installation{Generation: 1}}}}}
	f := rollout.Forecast(s, p, known, now)
	got := ""
	for _, o := range f.Order {
		got += fmt.Sprintf("%s %s to %s; ", o.Node, time.Duration(o.From), time.Duration(o.To))
	}
	if want := "n002 0s to 10m0s; n003 0s to 10m0s; n001 10m0s to 20m0s; "; got != want {
		t.Errorf("order %s, want %s", got, want)
	}
	if want := []string{"the window night cannot be read; this forecast treats it as open: the window ends when it begins, at 22:00",
		"n000: paused, not part of this forecast"}; !slices.Equal(f.Warnings, want) {
		t.Errorf("warnings %q, want %q", f.Warnings, want)
	}
}

// What is blocked goes through no phase: those that wait for it are named, and
// drift is repaired all the same.
func TestForecastOfWhatIsBlocked(t *testing.T) {
	s, p := fleet(10)
	s.Rollout.MaxUnavailable = "10"
	s.Roles["role0"] = &site.Role{Enabled: true, LeaderFirst: true}
	s.Roles["role1"] = &site.Role{Enabled: true, Needs: map[string]map[string]site.Need{"base": {"role2": {Phase: "configure", Quorum: "all"}}}}
	for i := range p.Nodes {
		for j := range p.Nodes[i].Steps {
			p.Nodes[i].Steps[j].Phase = "base"
		}
	}
	for _, i := range []int{0, 2} { // the leader of role0, and the only node of role2
		p.Nodes[i].Steps, p.Nodes[i].Blocked = nil, []string{"another machine answers"}
	}
	f := rollout.Forecast(s, p, site.Known{}, now)
	want := []string{
		"n001, n009 would wait forever for 1 of the role role2 through configure, which its phase base needs",
		"n008 would wait forever for n000, the leader of the role role0",
		"n000, n002: blocked, not part of this forecast",
	}
	if !slices.Equal(f.Warnings, want) || len(f.Order) != 5 {
		t.Errorf("%d go on; warnings\n%s\nwant\n%s", len(f.Order), strings.Join(f.Warnings, "\n"), strings.Join(want, "\n"))
	}
	for j := range p.Nodes[8].Steps {
		p.Nodes[8].Steps[j].Drift = true
	}
	if f := rollout.Forecast(s, p, site.Known{}, now); len(f.Order) != 6 {
		t.Errorf("with drift %d go on, want 6", len(f.Order))
	}
}

// fleet is so many nodes in racks of 40, each installed in ten minutes.
func fleet(size int) (*site.Site, *site.Plan) {
	s := &site.Site{Nodes: map[string]*site.Node{}, Racks: map[string]*site.Rack{}, Roles: map[string]*site.Role{}}
	p := &site.Plan{}
	for i := range size {
		n := &site.Node{Name: fmt.Sprintf("n%03d", i), Rack: fmt.Sprintf("r%d", i/40), Role: fmt.Sprintf("role%d", i%8)}
		s.Nodes[n.Name] = n
		p.Nodes = append(p.Nodes, site.NodePlan{Node: n.Name, Steps: []site.Step{
			{Node: n.Name, Action: site.ActionInstall, Impact: site.ImpactDestructive, Expect: site.Duration(9 * time.Minute)},
			{Node: n.Name, Action: site.ActionFinishInstall, Impact: site.ImpactOnline, Expect: site.Duration(time.Minute)},
		}})
	}
	return s, p
}

func BenchmarkForecast(b *testing.B) {
	for _, c := range []struct {
		name   string
		change func(*site.Site)
	}{
		{"plain", func(*site.Site) {}},
		{"bounds", bounded},
		{"window", func(s *site.Site) {
			s.Windows = map[string]*site.Window{"night": {From: "22:00", To: "04:00", Zone: "Europe/Zurich"}}
			for _, n := range s.Nodes {
				n.Window = "night"
			}
		}},
		{"budget", func(s *site.Site) { s.Rollout.Budget = site.Duration(4 * time.Hour) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			s, p := fleet(10_000)
			s.Rollout.MaxUnavailable = "25"
			c.change(s)
			for b.Loop() {
				rollout.Forecast(s, p, site.Known{}, now)
			}
		})
	}
}

func bounded(s *site.Site) {
	for i := range 250 {
		s.Racks[fmt.Sprintf("r%d", i)] = &site.Rack{MaxUnavailable: "1"}
	}
	for i := range 8 {
		s.Roles[fmt.Sprintf("role%d", i)] = &site.Role{Enabled: true, MaxUnavailable: "4", Majority: true}
	}
}

// A forecast is of the time when the site moves; what keeps it from that is said
// first.
func TestForecastSaysWhatKeepsTheSiteFromMoving(t *testing.T) {
	hold := func(until time.Time) *site.Hold { return &site.Hold{By: "ann", Reason: "audit", Until: until} }
	under := site.RolloutStatus{Revision: site.Revision{ID: "r1"}, Nodes: []string{"n1", "n2"}, Done: 1}
	halted, ended := under, under
	halted.Halted, ended.Ended, ended.Halted = "canary n1 has failed", now, "canary n1 has failed"
	paused := "the site is paused by ann: audit; nothing begins before `slipway resume --all`"
	for name, c := range map[string]struct {
		known site.Known
		want  []string
	}{
		"at rest":         {site.Known{}, nil},
		"paused":          {site.Known{Paused: hold(time.Time{})}, []string{paused}},
		"paused for now":  {site.Known{Paused: hold(now.Add(time.Minute))}, []string{paused}},
		"pause is over":   {site.Known{Paused: hold(now)}, nil},
		"under way":       {site.Known{Rollout: &under}, []string{"the rollout of r1 is under way, 1 of 2 nodes done"}},
		"halted, paused":  {site.Known{Paused: hold(time.Time{}), Rollout: &halted}, []string{paused, "the rollout of r1 is halted: canary n1 has failed"}},
		"rollout is over": {site.Known{Rollout: &ended}, nil},
	} {
		if got := rollout.Forecast(&site.Site{}, &site.Plan{}, c.known, now).Warnings; !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// What is left of a rollout goes on from where it is: a step in flight takes the rest of its time, a
// node in hand needs no canary, and a canary that waits for a person keeps the others waiting.
func TestContinue(t *testing.T) {
	step := func(node string) site.Step {
		return site.Step{Node: node, Action: site.ActionPackages, Facet: site.FacetPackages, Impact: site.ImpactOnline, Expect: site.Duration(10 * time.Minute)}
	}
	under := &site.RolloutStatus{Since: now.Add(-time.Hour), Nodes: []string{"n1", "n2", "n3"}, Canaries: []string{"n1"}}
	s := &site.Site{Nodes: map[string]*site.Node{}}
	s.Rollout.MaxUnavailable, s.Rollout.Canaries = "100%", &site.Canaries{Count: 1, Soak: site.Duration(5 * time.Minute)}
	for _, name := range under.Nodes {
		s.Nodes[name] = &site.Node{Name: name}
	}
	known := func() site.Known {
		seen := site.Observed{Facets: map[site.Facet]site.FacetState{site.FacetPower: {Seen: now, Have: map[string]string{"state": "on"}}}}
		return site.Known{Nodes: map[string]site.Memory{"n1": {Observed: seen}, "n2": {Observed: seen}, "n3": {Observed: seen}}}
	}
	inFlight := func(k site.Known, name string, ago time.Duration) {
		m := k.Nodes[name]
		m.Recorded.Begun = &site.Begun{Rollout: under.Since, Since: now.Add(-ago)}
		m.Recorded.InFlight = &site.InFlight{Step: step(name), Since: now.Add(-ago)}
		k.Nodes[name] = m
	}
	plans := func(nodes ...site.NodePlan) *site.Plan { return &site.Plan{Nodes: nodes} }
	steps := func(name string) site.NodePlan { return site.NodePlan{Node: name, Steps: []site.Step{step(name)}} }
	installing := func(k site.Known, name string, ago time.Duration) {
		m := k.Nodes[name]
		m.Recorded.Installing = &site.Installation{Generation: 1, Since: now.Add(-ago)}
		k.Nodes[name] = m
	}
	waiting := func(name string) site.NodePlan { return site.NodePlan{Node: name, Waiting: "the installer is running"} }
	spans := func(f *site.Forecast) string {
		var all []string
		for _, o := range f.Order {
			all = append(all, fmt.Sprintf("%s %s-%s", o.Node, time.Duration(o.From), time.Duration(o.To)))
		}
		return strings.Join(all, ", ")
	}
	for name, c := range map[string]struct {
		left  *site.Plan
		known func(site.Known)
		want  string
	}{
		"from the beginning": {plans(steps("n1"), steps("n2")), func(site.Known) {}, "n1 0s-10m0s, n2 15m0s-25m0s"},
		"in flight":          {plans(steps("n1"), steps("n2")), func(k site.Known) { inFlight(k, "n1", 4*time.Minute) }, "n1 0s-6m0s, n2 11m0s-21m0s"},
		"overdue":            {plans(steps("n1"), steps("n2")), func(k site.Known) { inFlight(k, "n1", 40*time.Minute) }, "n2 5m0s-15m0s"},
		"the clock was back": {plans(steps("n1")), func(k site.Known) { inFlight(k, "n1", -time.Hour) }, "n1 0s-10m0s"},
		"in hand before":     {plans(steps("n1"), steps("n2")), func(k site.Known) { inFlight(k, "n2", time.Minute) }, "n1 0s-10m0s, n2 0s-9m0s"},
		"an installer runs":  {plans(waiting("n1"), steps("n2")), func(k site.Known) { installing(k, "n1", 5*time.Minute) }, "n1 0s-14m0s, n2 19m0s-29m0s"},
		"an installer late":  {plans(waiting("n1"), steps("n2")), func(k site.Known) { installing(k, "n1", time.Hour) }, "n1 0s-4m0s, n2 9m0s-19m0s"},
		"another wait":       {plans(waiting("n3")), func(site.Known) {}, ""},
		"a blocked canary":   {plans(site.NodePlan{Node: "n1", Blocked: []string{"it waits for ann"}}, steps("n2")), func(site.Known) {}, ""},
		"a done canary":      {plans(steps("n2"), steps("n3")), func(site.Known) {}, "n2 5m0s-15m0s, n3 5m0s-15m0s"},
	} {
		k := known()
		c.known(k)
		if got := spans(rollout.Continue(s, c.left, k, now, under)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// A step that takes longer than expected ends at no known time, and a forecast of what is left says so.
func TestContinueOfAnOverdueStep(t *testing.T) {
	step := site.Step{Node: "n1", Action: site.ActionPackages, Facet: site.FacetPackages, Impact: site.ImpactOnline, Expect: site.Duration(10 * time.Minute)}
	under := &site.RolloutStatus{Since: now.Add(-time.Hour), Nodes: []string{"n1"}}
	s := &site.Site{Nodes: map[string]*site.Node{"n1": {Name: "n1"}}, Rollout: site.Rollout{MaxUnavailable: "1"}}
	known := site.Known{Nodes: map[string]site.Memory{"n1": {Recorded: site.Recorded{
		Begun: &site.Begun{Rollout: under.Since, Since: under.Since}, InFlight: &site.InFlight{Step: step, Since: now.Add(-40 * time.Minute)}}}}}
	f := rollout.Continue(s, &site.Plan{Nodes: []site.NodePlan{{Node: "n1", Steps: []site.Step{step}}}}, known, now, under)
	want := []string{"n1: takes longer than expected, overdue by 30m; its end is not known"}
	if len(f.Order) != 0 || !slices.Equal(f.Warnings, want) {
		t.Errorf("order %+v, warnings %q", f.Order, f.Warnings)
	}
}

// A node that begins and then waits for ever has no end.
func TestContinueOfANodeThatIsStuckAfterItsFirstStep(t *testing.T) {
	first := site.Step{Node: "c1", Action: site.ActionBIOS, Impact: site.ImpactOnline, Expect: site.Duration(time.Minute)}
	then := site.Step{Node: "c1", Action: site.ActionBase, Phase: "base", Impact: site.ImpactOnline, Expect: site.Duration(time.Minute)}
	s := &site.Site{Rollout: site.Rollout{MaxUnavailable: "1"},
		Nodes: map[string]*site.Node{"c1": {Name: "c1", Role: "compute", Power: "on"}, "s1": {Name: "s1", Role: "storage", Power: "on"}},
		Roles: map[string]*site.Role{"storage": {Enabled: true}, "compute": {Enabled: true, Needs: map[string]map[string]site.Need{"base": {"storage": {Phase: "configure", Quorum: "all"}}}}}}
	under := &site.RolloutStatus{Since: now, Nodes: []string{"c1"}}
	left := &site.Plan{Nodes: []site.NodePlan{{Node: "c1", Steps: []site.Step{first, then}}, {Node: "s1", Phase: "base", Blocked: []string{"it waits for ann"}}}}
	f := rollout.Continue(s, left, site.Known{}, now, under)
	if len(f.Order) != 0 || !slices.ContainsFunc(f.Warnings, func(w string) bool { return strings.HasPrefix(w, "c1 would wait forever") }) {
		t.Errorf("order %+v, warnings %q", f.Order, f.Warnings)
	}
}

func TestOpenings(t *testing.T) {
	s := &site.Site{Windows: map[string]*site.Window{"noon": {From: "11:30", To: "12:30"}, "bad": {From: "x"}, "minutes": {Cron: "*/2 * * * *", Length: site.Duration(time.Minute)},
		"never": {Cron: "0 0 31 2 *", Length: site.Duration(time.Minute)}}}
	f := &rollout.Facts{Site: s}
	for name, c := range map[string]struct {
		window   string
		from, to time.Time
		want     []site.Span
	}{
		"open at both ends": {"noon", now, now.Add(24 * time.Hour), []site.Span{{From: now, To: now.Add(30 * time.Minute)}, {From: now.Add(23*time.Hour + 30*time.Minute), To: now.Add(24 * time.Hour)}}},
		"stays closed":      {"noon", now.Add(time.Hour), now.Add(2 * time.Hour), nil},
		"never open":        {"never", now, now.Add(24 * time.Hour), nil},
		"stays open":        {"noon", now, now.Add(10 * time.Minute), []site.Span{{From: now, To: now.Add(10 * time.Minute)}}},
	} {
		if diff := cmp.Diff(f.Openings(c.window, c.from, c.to), site.WindowTimes{Name: c.window, Open: c.want}); diff != "" {
			t.Errorf("a window that is %s (-got +want):\n%s", name, diff)
		}
	}
	// What is not known is not closed.
	to := now.Add(30 * 24 * time.Hour)
	if got := f.Openings("bad", now, to); got.Open != nil || got.Unknown != (site.Span{From: now, To: to}) || !strings.HasPrefix(got.Why, "it cannot be read: ") {
		t.Errorf("a window that cannot be read: %+v", got)
	}
	got := f.Openings("minutes", now, to)
	if len(got.Open) != 200 {
		t.Fatalf("%d openings", len(got.Open))
	}
	if after := got.Open[199].To; !got.Unknown.From.Equal(after.Add(time.Minute)) || !got.Unknown.To.Equal(to) || got.Why != "only the first 200 openings are drawn" {
		t.Errorf("after %s: %+v, %q", after, got.Unknown, got.Why)
	}
}
