package plan

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// rules are what of a rollout can be tried otherwise.
type rules struct {
	maxUnavailable int  // of the site
	unbounded      bool // no bound but that a majority stays
	canaries       *site.Canaries
}

func rulesOf(s *site.Site) rules {
	return rules{maxUnavailable: max(1, site.Bound(s.Rollout.MaxUnavailable, inUse(s))), canaries: s.Rollout.Canaries}
}

func inUse(s *site.Site) int {
	count := 0
	for _, n := range s.Nodes {
		if s.Unused(n) == "" {
			count++
		}
	}
	return count
}

// simulation goes through a rollout event by event. All times are counted from
// its beginning. Where several nodes can go on, the first by name does.
type simulation struct {
	site    *site.Site
	now     time.Time
	members []*member // those that change, by name
	roles   map[string]*crew
	racked  map[string]int // the nodes of each rack
	windows map[string]*opening
	bounds
	canaries wave
	events   events
	queues   map[queueKey]*queue
	open     queues // those whose racks and roles have a place, as far as is known
	due      time.Duration
	misfits  []misfit
	paused   []string
	broken   []string // windows, in sentences
}

// member is one node that changes.
type member struct {
	index int
	node  *site.Node
	steps []site.Step
	role  *crew
	// remains is the least phase, as index into the role's, of each step and
	// those after it.
	remains []int
	canary  bool
	// out is set while the machine is out of service without our doing, places
	// are those that it has taken.
	out    bool
	places []*bound
	// disrupts is set from its first step that takes it out of service, begun
	// while an installation is under way.
	disrupts, begun bool
	next            int
	// arrived is when and why it came to its next step.
	arrived *cause
	runs    []taken
}

// taken is a step that was taken.
type taken struct {
	from, to time.Duration
	cause    *cause
}

// cause is what let a step begin when it did: the end of a step, or the end of
// a wait that had a cause itself.
type cause struct {
	at time.Duration
	// by and step are whose end of which step it was; nil for the beginning.
	by   *member
	step int
	// Of the following, one is set where it was not the member's own step.
	bound  *bound
	gate   *gate
	leader *crew
	// A wait since a time, for a window or, without one, for the canaries.
	waited bool
	window *opening
	before *cause
}

// crew is the nodes of a role.
type crew struct {
	name    string
	role    *site.Role
	inUse   int
	away    int     // machines that are away
	missing int     // of those, who do not go through any phase
	first   string  // by name, once it was asked for
	leader  *member // while the others wait for it
	absent  string  // the leader, when it does not get there
	behind  []*member
	gates   map[string]*gate // by the phase that waits
	through []milestone      // by phase, and at last for the end
}

// milestone is how many nodes of a role have gone through a phase, and whom
// that lets go on.
type milestone struct {
	count int
	needs []*need
}

type need struct {
	on     *crew
	phase  string
	quorum int
	gate   *gate
}

// gate is what a phase of a role waits for.
type gate struct {
	unmet   int
	last    *need
	waiting []*member
}

// wave is the canaries and those who wait for them.
type wave struct {
	left    int
	soak    time.Duration
	over    bool
	waiting []*member
}

// event is what happens at a time: a step of a member ends, a member or a queue
// finds its window open, the canaries have soaked.
type event struct {
	at     time.Duration
	order  int // of events at the same time
	member *member
	ends   bool
	queue  *queue
	cause  *cause
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(e[i].at, e[j].at), cmp.Compare(e[i].order, e[j].order)) < 0
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// simulate runs a plan under rules and returns the simulation at its end.
func simulate(s *site.Site, p *site.Plan, known site.Known, now time.Time, r rules) *simulation {
	sim := &simulation{site: s, now: now, roles: map[string]*crew{}, racked: map[string]int{}, windows: map[string]*opening{}, queues: map[queueKey]*queue{}}
	sim.bounds = newBounds(s, r)
	sim.gather(p, known)
	sim.takePlaces(p, known)
	sim.bindNeeds()
	sim.chooseCanaries(r.canaries)
	for _, m := range sim.members {
		sim.proceed(m, &cause{})
	}
	sim.dispatch()
	for len(sim.events) > 0 {
		sim.due = sim.events[0].at
		for len(sim.events) > 0 && sim.events[0].at == sim.due {
			sim.happen(heap.Pop(&sim.events).(event))
		}
		sim.dispatch()
	}
	return sim
}

// gather finds the members and the groups.
func (sim *simulation) gather(p *site.Plan, known site.Known) {
	for _, n := range sim.site.Nodes {
		g := sim.crew(n.Role)
		if sim.site.Unused(n) == "" {
			g.inUse++
			sim.racked[n.Rack]++
		}
		if n.Away != "" {
			g.away++
		}
	}
	for _, np := range p.Nodes {
		n := sim.site.Nodes[np.Node]
		switch {
		case n == nil || len(np.Steps) == 0 || sim.site.Unused(n) != "":
			continue
		case isPaused(n, known.Nodes[n.Name], sim.now):
			sim.paused = append(sim.paused, n.Name)
			continue
		}
		sim.members = append(sim.members, &member{node: n, steps: np.Steps, role: sim.crew(n.Role)})
	}
	slices.SortFunc(sim.members, func(a, b *member) int { return cmp.Compare(a.node.Name, b.node.Name) })
	for i, m := range sim.members {
		m.index = i
		m.begun = known.Nodes[m.node.Name].Recorded.UnderWay() > 0
		m.runs = make([]taken, 0, len(m.steps))
		m.countPhases()
		m.role.choose(m, sim.site)
	}
	sim.findAbsent(p, known)
}

// findAbsent finds who does not go through any phase: those that are paused,
// those that are blocked and have no step, and those with nothing to do whose systems
// are not known to be healthy.
func (sim *simulation) findAbsent(p *site.Plan, known site.Known) {
	absent := func(name string) {
		g := sim.crew(sim.site.Nodes[name].Role)
		g.missing++
		if g.role.LeaderFirst && name == leaderOf(sim.site, g) {
			g.absent = name
		}
	}
	idle := map[string]*site.Node{}
	for name, n := range sim.site.Nodes {
		if n.Health() != nil {
			idle[name] = n
		}
	}
	for _, name := range sim.paused {
		absent(name)
		delete(idle, name)
	}
	for _, n := range p.Nodes {
		if d := sim.site.Nodes[n.Node]; d != nil && sim.site.Unused(d) == "" && len(n.Blocked) > 0 && len(n.Steps) == 0 {
			absent(n.Node)
			delete(idle, n.Node)
		}
		if len(n.Steps) > 0 {
			delete(idle, n.Node)
		}
	}
	for name, n := range idle {
		if sim.site.Unused(n) == "" && !Health(n, known.Nodes[name].Observed, known.Serves).IsFit() {
			absent(name)
		}
	}
}

func isPaused(n *site.Node, m site.Memory, now time.Time) bool {
	return n.Paused.Holds(now) || m.Recorded.Paused.Holds(now)
}

func (sim *simulation) crew(name string) *crew {
	g := sim.roles[name]
	if g == nil {
		r := sim.site.Roles[name]
		if r == nil {
			r = &site.Role{}
		}
		g = &crew{name: name, role: r, gates: map[string]*gate{}, through: make([]milestone, len(r.AllPhases())+1)}
		sim.roles[name] = g
	}
	return g
}

func (m *member) countPhases() {
	m.remains = make([]int, len(m.steps)+1)
	m.remains[len(m.steps)] = len(m.role.role.AllPhases()) + 1
	for i := len(m.steps) - 1; i >= 0; i-- {
		m.remains[i] = min(m.remains[i+1], PhaseIndex(m.role.role, m.steps[i].Phase))
	}
}

// choose has the others of a role wait for a leader that changes.
func (g *crew) choose(m *member, s *site.Site) {
	if g.role.LeaderFirst && m.node.Name == leaderOf(s, g) {
		g.leader = m
	}
}

func leaderOf(s *site.Site, g *crew) string {
	if n := s.Nodes[g.role.Leader]; n != nil && s.Unused(n) == "" {
		return n.Name
	}
	if g.first == "" {
		for _, n := range s.Nodes {
			if n.Role == g.name && s.Unused(n) == "" && (g.first == "" || n.Name < g.first) {
				g.first = n.Name
			}
		}
	}
	return g.first
}

// bindNeeds finds what the phases of roles wait for, with what is there
// already: nodes that do not change have gone through everything.
func (sim *simulation) bindNeeds() {
	names := make([]string, 0, len(sim.roles))
	for name, g := range sim.roles {
		names = append(names, name)
		for i := range g.through {
			g.through[i].count = g.inUse - g.missing
		}
	}
	for _, m := range sim.members {
		for i := m.remains[0]; i < len(m.role.through); i++ {
			m.role.through[i].count--
		}
	}
	slices.Sort(names)
	for _, name := range names {
		g := sim.roles[name]
		for phase, needs := range g.role.Needs {
			g.gates[phase] = &gate{}
			for _, on := range slices.Sorted(maps.Keys(needs)) {
				sim.bind(g.gates[phase], sim.crew(on), needs[on])
			}
		}
	}
}

func (sim *simulation) bind(g *gate, on *crew, n site.Need) {
	i := PhaseIndex(on.role, n.Phase)
	x := &need{on: on, phase: n.Phase, quorum: max(1, n.Quorum.Of(on.inUse)), gate: g}
	if on.through[i].count < x.quorum {
		g.unmet++
		g.last = x
		on.through[i].needs = append(on.through[i].needs, x)
	}
}

// longestSoak bounds what is added to the simulation's clock.
const longestSoak = 10 * 365 * 24 * time.Hour

// chooseCanaries takes the first of those that change, as the engine does:
// machines that are out of service come first, and then they go by name.
func (sim *simulation) chooseCanaries(c *site.Canaries) {
	sim.canaries.over = true
	if c == nil {
		return
	}
	sim.canaries.soak = min(max(0, time.Duration(c.Soak)), longestSoak)
	for _, out := range []bool{true, false} {
		for _, m := range sim.members {
			if m.out == out && sim.canaries.left < c.Count && c.Nodes.Selects(m.node) {
				m.canary = true
				sim.canaries.left++
				sim.canaries.over = false
			}
		}
	}
}

// proceed takes a member to its next step, as far as the gates let it.
func (sim *simulation) proceed(m *member, why *cause) {
	m.arrived = why
	step := m.steps[m.next]
	g := m.role.gates[step.Phase]
	ordered := !m.begun && step.Impact != site.ImpactNone // goes by the order of nodes
	switch {
	case step.Force: // a quarantine waits for nothing
		sim.begin(m, nil, why)
	case ordered && g != nil && g.unmet > 0:
		g.waiting = append(g.waiting, m)
	case ordered && !step.Drift && m.role.waitsFor(m):
		m.role.behind = append(m.role.behind, m)
	case ordered && !step.Drift && !m.disrupts && !sim.canaries.over && !m.canary:
		sim.canaries.waiting = append(sim.canaries.waiting, m)
	case step.Impact >= site.ImpactReboot && !m.out && m.places == nil:
		sim.enqueue(m)
	default:
		sim.awaitWindow(m)
	}
}

// waitsFor says whether the role's leader is before a member.
func (g *crew) waitsFor(m *member) bool {
	return g.absent != "" || g.leader != nil && g.leader != m
}

// awaitWindow begins the member's next step as soon as its window lets it.
func (sim *simulation) awaitWindow(m *member) {
	w := sim.windowFor(m)
	at, ok := w.fit(sim.due, m.left())
	switch {
	case !ok:
	case at == sim.due:
		sim.begin(m, w, m.arrived)
	default:
		sim.schedule(event{at: at, member: m, cause: &cause{at: at, waited: true, window: w, before: m.arrived}})
	}
}

func (m *member) takes() time.Duration { return max(0, time.Duration(m.steps[m.next].Expect)) }

// left is how long a window has to be open for what is left to do.
func (m *member) left() time.Duration { return time.Duration(Together(m.node, m.steps[m.next:])) }

func (sim *simulation) begin(m *member, w *opening, why *cause) {
	took := m.takes()
	if w != nil && m.left() > w.longest() {
		sim.misfits = append(sim.misfits, misfit{w, m.left(), actions(m.steps[m.next:]), m.node.Name})
	}
	m.disrupts = m.disrupts || m.steps[m.next].Impact >= site.ImpactReboot
	m.runs = append(m.runs, taken{sim.due, sim.due + took, why})
	sim.schedule(event{at: sim.due + took, member: m, ends: true})
}

func (sim *simulation) schedule(e event) {
	if e.member != nil {
		e.order = e.member.index
	}
	heap.Push(&sim.events, e)
}

func (sim *simulation) happen(e event) {
	switch {
	case e.queue != nil:
		sim.reopen(e.queue, e.cause)
	case e.ends:
		sim.end(e.member)
	case e.member != nil:
		sim.begin(e.member, e.cause.window, e.cause)
	default:
		sim.canaries.over = true
		sim.release(&sim.canaries.waiting, e.cause)
	}
}

// end counts what the step that has ended was waited for.
func (sim *simulation) end(m *member) {
	from := m.remains[m.next]
	own := cause{at: sim.due, by: m, step: m.next}
	m.next++
	for i := from; i < min(m.remains[m.next], len(m.role.through)); i++ {
		m.role.through[i].count++
		sim.meet(&m.role.through[i], own)
	}
	if m.out && !m.disrupts && m.steps[m.next-1].Action == site.ActionPowerOn {
		sim.giveBack(m, own)
		m.out = false
	}
	m.begun = m.begun && m.steps[m.next-1].Action != site.ActionFinishInstall
	if m.next < len(m.steps) {
		sim.proceed(m, &own)
		return
	}
	sim.giveBack(m, own)
	if m.role.leader == m {
		m.role.leader = nil
		led := own
		led.leader = m.role
		sim.release(&m.role.behind, &led)
	}
	if !m.canary {
		return
	}
	if sim.canaries.left--; sim.canaries.left == 0 {
		at := sim.due + sim.canaries.soak
		sim.schedule(event{at: at, order: -1, cause: &cause{at: at, waited: true, before: &own}})
	}
}

// meet lets those go on that wait for as many as have now gone through.
func (sim *simulation) meet(ms *milestone, why cause) {
	for _, n := range ms.needs {
		if ms.count != n.quorum {
			continue
		}
		n.gate.last = n
		if n.gate.unmet--; n.gate.unmet == 0 {
			why := why
			why.gate = n.gate
			sim.release(&n.gate.waiting, &why)
		}
	}
}

func (sim *simulation) release(waiting *[]*member, why *cause) {
	all := *waiting
	*waiting = nil
	for _, m := range all {
		sim.proceed(m, why)
	}
}
