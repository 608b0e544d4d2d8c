package rollout

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// simulation runs a rollout event by event: it asks the rules for each step, and
// changes the facts when the step begins and ends. All times count from its start. If
// several nodes can go on, the first by name does.
type simulation struct {
	facts   *Facts
	began   time.Time
	now     time.Duration
	members []*member // those that change, by name
	events  events

	gates    map[gateKey]*gate
	order    []*gate   // in the order of creation
	behind   []*member // members that wait for the canaries, or for who gets its password first
	windows  map[string]*outlook
	queues   map[queueKey]*queue
	places   map[*Bound]*place
	whole    *place
	open     [unhealthy + 1]queues // queues whose racks and roles have a place, as far as known
	misfits  []misfit
	paused   []string
	broken   []string // sentences about unreadable windows
	outNames map[*Bound]string
	alone    []string            // roles with no healthy node at first, besides the leader
	led      map[string][]string // who waits for the leader, by role
}

// member is one node that changes.
type member struct {
	index  int
	node   *Node
	places []*place // that the node takes
	steps  []site.Step
	// begun is set while the first step is one begun before, underWay while an
	// installation is under way.
	begun, underWay bool
	spent           time.Duration // on the first step, when the simulation began
	wasOut          bool          // when the simulation began
	next            int
	// arrived is when and why it reached its next step.
	arrived *cause
	ending  event // the end of the step that is under way
	runs    []taken
}

// taken is a step that was taken.
type taken struct {
	from, to time.Duration
	cause    *cause
	end      cause // what its end lets others begin
}

// cause is what let a step begin when it did: the end of a step, or the end of a wait,
// which has a cause itself.
type cause struct {
	at time.Duration
	// by and step say which member's step ended; nil for the beginning.
	by   *member
	step int
	// At most one of these is set, if the cause was not the member's own step.
	bound *Bound
	need  *Need
	led   string // the role whose leader went first
	// A wait since a time, for a window or, if nil, for the canaries.
	waited bool
	window *outlook
	before *cause
}

// gate is what members wait for together: a need of a phase of their role, or its
// leader.
type gate struct {
	on      string // the role whose nodes must make progress
	need    *Need  // nil for a leader
	waiting []*member
}

type gateKey struct{ role, phase string } // no phase for a leader

// event happens at a time: a member's step ends, a window opens for a member or a
// queue, or the canaries have soaked.
type event struct {
	at     time.Duration
	order  int // orders events at the same time
	member *member
	ends   bool
	queue  *queue
	cause  *cause
}

type events []*event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(*event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// simulate runs a plan and returns the simulation at its end. under is the rollout
// under way; nil if the plan begins one.
func simulate(s *site.Site, p *site.Plan, known site.Known, now time.Time, under *site.RolloutStatus) *simulation {
	sim := &simulation{began: now, gates: map[gateKey]*gate{}, windows: map[string]*outlook{}, queues: map[queueKey]*queue{},
		places: map[*Bound]*place{}, outNames: map[*Bound]string{}, led: map[string][]string{}}
	sim.facts = &Facts{Site: withoutEternity(s), Now: now, Every: time.Minute, EveryInside: time.Minute}
	sim.gather(p, known, under)
	sim.alone = sim.rolesThatStart()
	beginning := &cause{}
	for _, m := range sim.members {
		sim.proceed(m, beginning)
	}
	sim.prove(beginning)
	sim.dispatch()
	for len(sim.events) > 0 {
		sim.now = sim.events[0].at
		sim.facts.Now = now.Add(sim.now)
		for len(sim.events) > 0 && sim.events[0].at == sim.now {
			sim.happen()
		}
		sim.dispatch()
	}
	return sim
}

// longestSoak limits what is added to the simulation's clock.
const longestSoak = 10 * 365 * 24 * time.Hour

func withoutEternity(s *site.Site) *site.Site {
	if s.Rollout.Canaries == nil {
		return s
	}
	own, c := *s, *s.Rollout.Canaries
	c.Soak = min(max(0, c.Soak), site.Duration(longestSoak))
	own.Rollout.Canaries = &c
	return &own
}

// gather collects the nodes, those that change, and their rollout.
func (sim *simulation) gather(p *site.Plan, known site.Known, under *site.RolloutStatus) {
	all := expectAll(sim.facts.Site, p, known, sim.began)
	sim.facts.Nodes = all
	steps := 0
	for i := range p.Nodes {
		steps += len(p.Nodes[i].Steps)
	}
	room, runs := make([]member, 0, len(p.Nodes)), make([]taken, 0, steps)
	for i := range all.nodes {
		x, steps := &all.nodes[i], all.plans[i].Steps
		switch {
		case len(steps) == 0 || !sim.facts.isUsed(x):
			continue
		case x.Paused:
			sim.paused = append(sim.paused, x.Name())
			continue
		}
		room = append(room, sim.member(x, steps, &known, under))
		m := &room[len(room)-1]
		m.runs, runs = runs[:0:len(steps)], runs[len(steps):cap(runs)]
		sim.members = append(sim.members, m)
	}
	sim.roll(all, known, under)
	sim.countPlaces()
}

// member returns a node with steps as it is when the simulation begins.
func (sim *simulation) member(x *Node, steps []site.Step, known *site.Known, under *site.RolloutStatus) member {
	recorded := known.Nodes[x.Name()].Recorded
	m := member{index: len(sim.members), node: x, steps: steps,
		begun: Continues(recorded, steps[0]), underWay: recorded.UnderWay() > 0, wasOut: x.IsOut()}
	if f := recorded.InFlight; under != nil && m.begun && f != nil && f.Step.Digest() == steps[0].Digest() {
		m.spent = max(0, sim.began.Sub(f.Since))
	}
	x.Phase = m.phase(sim.facts.role(x))
	x.Busy = m.underWay
	return m
}

// roll begins the rollout as the engine does: with all nodes that have something left
// to do, including paused ones.
func (sim *simulation) roll(all *expected, known site.Known, under *site.RolloutStatus) {
	r := &site.RolloutStatus{Since: sim.began}
	if under != nil {
		own := *under
		r = &own
	} else {
		r.Nodes = make([]string, 0, len(sim.members))
		for i, np := range all.plans {
			x := &all.nodes[i]
			if (len(np.Steps) > 0 || np.Waiting != "") && !x.Quarantined && sim.facts.isUsed(x) {
				r.Nodes = append(r.Nodes, x.Name())
			}
		}
	}
	for _, name := range r.Nodes {
		if x := all.Node(name); x != nil {
			x.Part = Pending
			x.InHand = under != nil && known.Nodes[name].Recorded.Begun.In(under)
		}
	}
	sim.facts.Rollout = r
	if under == nil {
		r.Canaries = sim.facts.ChooseCanaries(r.Nodes)
	} else if c := sim.facts.canaries(); c != nil && !r.Proven.IsZero() {
		at := max(0, r.Proven.Add(time.Duration(c.Soak)).Sub(sim.began))
		sim.schedule(event{at: at, order: -1, cause: &cause{at: at, waited: true, before: &cause{}}})
	}
}

// phase returns the first of a role's phases in which the member has something left to
// do.
func (m *member) phase(r *site.Role) string {
	if m.next == len(m.steps) {
		return ""
	}
	first := m.steps[m.next].Phase
	for _, s := range m.steps[m.next+1:] {
		if plan.PhaseIndex(r, s.Phase) < plan.PhaseIndex(r, first) {
			first = s.Phase
		}
	}
	return cmp.Or(first, r.AllPhases()[0])
}

// try returns the member's next step.
func (m *member) try() Try {
	s := &m.steps[m.next]
	return Try{Node: m.node, Step: s, Steps: m.steps[m.next:], Begun: m.begun || m.underWay && s.Action != site.ActionInstall}
}

// proceed takes a member to its next step, as far as the rules allow.
func (sim *simulation) proceed(m *member, why *cause) {
	m.arrived = why
	t := m.try()
	if t.Step.Force { // a quarantine waits for nothing
		sim.begin(m, nil, why)
		return
	}
	switch r := sim.facts.Order(t).(type) {
	case *Need:
		sim.wait(m, gateKey{m.node.Design.Role, t.Step.Phase}, r.Role, r)
	case *Leader:
		sim.led[r.Role] = append(sim.led[r.Role], m.node.Name())
		sim.wait(m, gateKey{role: r.Role}, r.Role, nil)
	case *Canaries, *Password:
		sim.behind = append(sim.behind, m)
		sim.stepAside(m)
	default:
		if t.Step.TakesPlace() && !m.node.IsOut() {
			sim.enqueue(m)
		} else {
			sim.awaitWindow(m)
		}
	}
}

// wait makes a member wait with others for nodes of a role.
func (sim *simulation) wait(m *member, key gateKey, on string, need *Need) {
	g := sim.gates[key]
	if g == nil {
		g = &gate{}
		sim.gates[key] = g
		sim.order = append(sim.order, g)
	}
	g.on, g.need = on, need
	g.waiting = append(g.waiting, m)
	sim.stepAside(m)
}

// meet releases the members whose wait for nodes of a role is over.
func (sim *simulation) meet(role string, end *cause) {
	for _, g := range sim.order {
		if g.on != role || len(g.waiting) == 0 {
			continue
		}
		t, why := g.waiting[0].try(), *end
		if g.need == nil {
			if sim.facts.leaderFor(t) != nil {
				continue
			}
			why.led = role
		} else {
			if n := sim.facts.needFor(t); n != nil && n.Role == role {
				continue
			}
			why.need = g.need
		}
		sim.release(&g.waiting, &why)
	}
}

func (sim *simulation) release(waiting *[]*member, why *cause) {
	all := *waiting
	*waiting = nil
	for _, m := range all {
		sim.proceed(m, why)
	}
}

// stepAside gives the place of a held member to others.
func (sim *simulation) stepAside(m *member) {
	if m.node.Disrupts && sim.facts.MayStepAside(m.node) {
		sim.change(m, m.arrived, func() { m.node.Disrupts, m.node.Disrupted = false, false })
	}
}

// awaitWindow begins the member's next step as soon as its window allows.
func (sim *simulation) awaitWindow(m *member) {
	t := m.try()
	w := sim.windowFor(t)
	at, ok := sim.now, true
	if w != nil {
		at, ok = w.fit(sim, together(m.node.Design, t.Steps))
	}
	switch {
	case ok && at == sim.now:
		sim.begin(m, w, m.arrived)
		return
	case ok:
		sim.schedule(event{at: at, member: m, cause: &cause{at: at, waited: true, window: w, before: m.arrived}})
	}
	sim.stepAside(m)
}

// takes returns how long the member's next step takes from now on.
func (m *member) takes() time.Duration {
	takes := time.Duration(m.steps[m.next].Expect)
	if m.next == 0 {
		takes -= m.spent
	}
	return max(0, takes)
}

func (sim *simulation) begin(m *member, w *outlook, why *cause) {
	s, n := &m.steps[m.next], m.node
	if w != nil {
		if takes := time.Duration(together(n.Design, m.steps[m.next:])); takes > w.longest(sim) {
			sim.misfits = append(sim.misfits, misfit{w, takes, Actions(m.steps[m.next:]), n.Name()})
		}
	}
	sim.facts.Change(n, func() { begun(n, s) }) // frees no place
	m.runs = append(m.runs, taken{sim.now, sim.now + m.takes(), why, cause{}})
	m.ending = event{at: sim.now + m.takes(), order: m.index, member: m, ends: true}
	heap.Push(&sim.events, &m.ending)
}

func (sim *simulation) schedule(e event) {
	if e.member != nil {
		e.order = e.member.index
	}
	heap.Push(&sim.events, &e)
}

// happen handles the events of this moment. It processes all ends before any member
// asks whether to go on.
func (sim *simulation) happen() {
	var ends []*cause
	var others []*event
	for len(sim.events) > 0 && sim.events[0].at == sim.now {
		if e := heap.Pop(&sim.events).(*event); e.ends {
			ends = append(ends, sim.end(e.member))
		} else {
			others = append(others, e)
		}
	}
	for i := range ends {
		m := ends[i].by
		if m.next == len(m.steps) {
			sim.prove(ends[i])
		}
		if len(m.steps[ends[i].step].Rotates) > 0 {
			sim.release(&sim.behind, ends[i]) // see passwordFor
		}
	}
	for i := len(ends) - 1; i >= 0; i-- { // the last end supplied what was missing
		sim.meet(ends[i].by.node.Design.Role, ends[i])
	}
	for i := range ends {
		if m := ends[i].by; m.next < len(m.steps) {
			sim.proceed(m, ends[i])
		}
	}
	for _, e := range others {
		switch {
		case e.queue != nil:
			sim.reopen(e.queue, e.cause)
		case e.member != nil:
			sim.proceed(e.member, e.cause)
		default:
			sim.release(&sim.behind, e.cause)
		}
	}
}

// end applies the effect of the member's step as if it was seen.
func (sim *simulation) end(m *member) *cause {
	s, n := &m.steps[m.next], m.node
	own := &m.runs[m.next].end
	*own = cause{at: sim.now, by: m, step: m.next}
	m.next++
	m.begun = false
	switch s.Action {
	case site.ActionStartAgent:
		m.begun = true
	case site.ActionInstall:
		m.underWay = slices.ContainsFunc(m.steps[m.next:], func(s site.Step) bool { return s.Action == site.ActionFinishInstall })
	case site.ActionFinishInstall:
		m.underWay = false
	}
	sim.change(m, own, func() {
		n.Phase, n.Busy = m.phase(sim.facts.role(n)), m.underWay
		ended(n, s)
		if m.next == len(m.steps) {
			inSync(n)
		}
	})
	return own
}

// prove notes when the last canary has come in-sync, and schedules the release of the
// others after the soak.
func (sim *simulation) prove(why *cause) {
	r, c := sim.facts.Rollout, sim.facts.canaries()
	if c == nil || len(r.Canaries) == 0 || !r.Proven.IsZero() || !sim.facts.CanariesAreProven() {
		return
	}
	r.Proven = sim.facts.Now
	at := sim.now + time.Duration(c.Soak)
	sim.schedule(event{at: at, order: -1, cause: &cause{at: at, waited: true, before: why}})
}
