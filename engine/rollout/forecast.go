package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Forecast predicts how a plan will run from now on if everything takes as long as
// expected, nothing fails and every approval is there. It simulates the rollout by the
// rules that the engine's gates ask.
func Forecast(s *site.Site, p *site.Plan, known site.Known, now time.Time) *site.Forecast {
	sim := simulate(s, p, known, now, nil)
	f := &site.Forecast{
		Makespan: site.Duration(sim.makespan()),
		Path:     sim.path(),
		Order:    sim.starts(func(*member) bool { return true }),
		Budget:   s.Rollout.Budget,
		Basis:    basis(p, known),
	}
	f.Warnings = slices.Concat(standstill(known, now), sim.broken, sim.misfitWarnings(), sim.stuckWarnings(), sim.leaderWarnings(), leftOut(p, sim.paused))
	if over := sim.makespan() - time.Duration(f.Budget); f.Budget > 0 && over > 0 {
		f.Warnings = append(f.Warnings, budgetWarning(s, p, known, now, sim))
	}
	return f
}

// Continue predicts how a rollout under way goes on from now, given the plans that are
// left: each node with steps begins, or goes on, as soon as the rules let it. Times count
// from now, and a step in flight takes what is left of its expected time. Continue ignores a
// halt: nodes that it holds, like those that wait for a person, have a plan that is
// blocked. Nodes whose end is not known, because they wait for ever or a step takes longer
// than expected, are not in its order; a warning names them.
func Continue(s *site.Site, left *site.Plan, known site.Known, now time.Time, under *site.RolloutStatus) *site.Forecast {
	left = withInstallers(left, known, now)
	sim := simulate(s, left, known, now, under)
	return &site.Forecast{
		Makespan: site.Duration(sim.makespan()),
		Path:     sim.path(),
		Order:    sim.starts((*member).hasKnownEnd),
		Basis:    basis(left, known),
		Warnings: slices.Concat(sim.broken, sim.misfitWarnings(), sim.stuckWarnings(), sim.overdueWarnings(), leftOut(left, sim.paused)),
	}
}

// withInstallers returns plans in which nodes that wait for their installer have the step that follows.
func withInstallers(left *site.Plan, known site.Known, now time.Time) *site.Plan {
	own := *left
	own.Nodes = slices.Clone(left.Nodes)
	for i, n := range own.Nodes {
		if len(n.Steps) > 0 || n.Waiting == "" {
			continue
		}
		if step, is := plan.Unfinished(n.Node, n.Phase, known.Nodes[n.Node], known.History, now); is {
			own.Nodes[i].Steps, own.Nodes[i].Waiting = []site.Step{step}, ""
		}
	}
	return &own
}

// never is a time that does not come.
const never = time.Duration(1<<63 - 1)

// span returns when the first step begins and the last one ends.
func (sim *simulation) span() (from, to time.Duration) {
	from = never
	for _, m := range sim.members {
		if len(m.runs) > 0 {
			from, to = min(from, m.runs[0].from), max(to, m.runs[len(m.runs)-1].to)
		}
	}
	return min(from, to), to
}

func (sim *simulation) makespan() time.Duration {
	from, to := sim.span()
	return to - from
}

// starts returns those of the members that begin, in the order in which they begin.
func (sim *simulation) starts(those func(*member) bool) []site.Stretch {
	begin := make([]*member, 0, len(sim.members))
	for _, m := range sim.members {
		if len(m.runs) > 0 && those(m) {
			begin = append(begin, m)
		}
	}
	slices.SortFunc(begin, func(a, b *member) int {
		return cmp.Or(cmp.Compare(a.runs[0].from, b.runs[0].from), cmp.Compare(a.index, b.index))
	})
	var all []site.Stretch
	for _, m := range begin {
		all = append(slices.Grow(all, len(begin)-len(all)), site.Stretch{Node: m.node.Name(), What: Actions(m.steps),
			From: site.Duration(m.runs[0].from), To: site.Duration(m.runs[len(m.runs)-1].to)})
	}
	return all
}

// Actions names the actions of steps, in order.
func Actions(steps []site.Step) string {
	names := make([]string, len(steps))
	for i := range steps {
		names[i] = string(steps[i].Action)
	}
	return strings.Join(names, ", ")
}

// link is one step on the critical path.
type link struct {
	member *member
	step   int
	taken
}

// chain follows the critical path back: from the end of the last step to what let that
// step begin, and so on.
func (sim *simulation) chain() []link {
	m := sim.last()
	if m == nil {
		return nil
	}
	var chain []link
	for step := len(m.runs) - 1; m != nil; {
		run := m.runs[step]
		chain = append(chain, link{m, step, run})
		why := run.cause.origin()
		m, step = why.by, why.step
	}
	slices.Reverse(chain)
	return chain
}

// path returns the chain with its waits, and joins consecutive steps of one node.
func (sim *simulation) path() []site.Stretch {
	var path []site.Stretch
	what := "" // steps so far of the last stretch
	for _, l := range sim.chain() {
		action := string(l.member.steps[l.step].Action)
		if last := len(path) - 1; last >= 0 && !l.cause.waited && l.cause.by == l.member && l.cause.step == l.step-1 {
			path[last].What = strings.Replace(path[last].What, what, what+", "+action, 1)
			path[last].To = site.Duration(l.to)
			what += ", " + action
			continue
		}
		path = append(path, l.waits()...)
		what = action
		path = append(path, site.Stretch{Node: l.member.node.Name(), What: what + l.because(sim),
			From: site.Duration(l.from), To: site.Duration(l.to)})
	}
	return path
}

// waits returns the waits before a link, in order.
func (l link) waits() []site.Stretch {
	var waits []site.Stretch
	for c := l.cause; c.waited; c = c.before {
		waits = append(waits, site.Stretch{Node: l.member.node.Name(), What: c.wait(), From: site.Duration(c.before.at), To: site.Duration(c.at)})
	}
	slices.Reverse(waits)
	return waits
}

// origin returns the end of a step that a cause goes back to, or the beginning.
func (c *cause) origin() *cause {
	for c.waited {
		c = c.before
	}
	return c
}

// last returns the member whose last step ends last.
func (sim *simulation) last() *member {
	var last *member
	for _, m := range sim.members {
		if len(m.runs) > 0 && (last == nil || m.runs[len(m.runs)-1].to > last.runs[len(last.runs)-1].to) {
			last = m
		}
	}
	return last
}

// because names the other node that the step had to wait for, and why.
func (l link) because(sim *simulation) string {
	switch c := l.cause.origin(); {
	case c.by == nil || c.by == l.member || l.cause.soaked():
		return ""
	case c.bound != nil:
		return fmt.Sprintf(", after %s (%s)", c.by.node.Name(), sim.bounded(c.bound, "%s: %s"))
	case c.need != nil:
		return fmt.Sprintf(", after %s (needs %s)", c.by.node.Name(), c.need)
	case c.led != "":
		return fmt.Sprintf(", after %s (leader of the role %s)", c.by.node.Name(), c.led)
	default:
		return ", after " + c.by.node.Name()
	}
}

// bounded returns what a bound limits, and how.
func (sim *simulation) bounded(b *Bound, format string) string {
	if b == sim.whole.Bound {
		_, of := b.room(plain)
		return fmt.Sprintf(format, b.What, fmt.Sprintf("maxUnavailable %d", b.Limit(of)))
	}
	return fmt.Sprintf(format, "the "+b.What, b.Rule)
}

func (r *Need) String() string {
	if r.Of == "" {
		return fmt.Sprintf("%d of the role %s", r.Enough, r.Role)
	}
	return fmt.Sprintf("%d of the role %s through %s", r.Enough, r.Role, r.Of)
}

// soaked reports whether the cause is the end of the canaries' soak.
func (c *cause) soaked() bool { return c.waited && c.window == nil }

func (c *cause) wait() string {
	if c.soaked() {
		return "the canaries soak"
	}
	return "waits for the window " + c.window.name
}

// misfit is a step that takes longer than any opening of its window.
type misfit struct {
	window *outlook
	takes  time.Duration
	what   string
	node   string
}

func (sim *simulation) misfitWarnings() []string {
	var order []misfit
	nodes := map[misfit][]string{}
	for _, m := range sim.misfits {
		key := m
		key.node = ""
		if nodes[key] == nil {
			order = append(order, key)
		}
		nodes[key] = append(nodes[key], m.node)
	}
	var all []string
	for _, m := range order {
		all = append(all, fmt.Sprintf("%s: its work (%s) takes about %s and never fits into the window %s, which is open for %s at most; it waits for a longer window; this forecast starts it in the next one",
			say.Few(nodes[m]), m.what, say.Brief(site.Duration(m.takes)), m.window.name, say.Brief(site.Duration(m.window.longest(sim)))))
	}
	return all
}

// overdue returns by how much the step in flight has overrun its expected time.
func (m *member) overdue() time.Duration { return max(0, m.spent-time.Duration(m.steps[0].Expect)) }

// hasKnownEnd reports whether the member takes all its steps, in the times that they are expected to take.
func (m *member) hasKnownEnd() bool { return m.next == len(m.steps) && m.overdue() == 0 }

// overdueWarnings warns of members whose step in flight takes longer than expected.
func (sim *simulation) overdueWarnings() []string {
	var names []string
	longest := time.Duration(0)
	for _, m := range sim.members {
		if over := m.overdue(); over > 0 {
			names = append(names, m.node.Name())
			longest = max(longest, over)
		}
	}
	switch len(names) {
	case 0:
		return nil
	case 1:
		return []string{fmt.Sprintf("%s: takes longer than expected, overdue by %s; its end is not known", names[0], say.Rough(longest))}
	}
	return []string{fmt.Sprintf("%s: take longer than expected, overdue by up to %s; their end is not known", say.Few(names), say.Rough(longest))}
}

// stuckWarnings warns of members that wait for something that never comes.
func (sim *simulation) stuckWarnings() []string {
	var order []string
	nodes := map[string][]string{}
	for _, m := range sim.members {
		if m.next == len(m.steps) {
			continue
		}
		why := sim.holds(m)
		if nodes[why] == nil {
			order = append(order, why)
		}
		nodes[why] = append(nodes[why], m.node.Name())
	}
	var all []string
	for _, why := range order {
		all = append(all, fmt.Sprintf("%s would wait forever for %s", say.Few(nodes[why]), why))
	}
	return all
}

// rolesThatStart returns the roles whose leader must be healthy before the others
// begin, while none of the others is healthy.
func (sim *simulation) rolesThatStart() (names []string) {
	for name, r := range sim.facts.Site.Roles {
		if !r.LeaderFirst || !r.Health.Asks() {
			continue
		}
		leader, serves := sim.facts.leaderOf(name), false
		for n := range sim.facts.Nodes.InRole(name) {
			serves = serves || n.Name() != leader && sim.facts.inUse(n) && sim.facts.Health(n).State == site.Healthy
		}
		if !serves {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// leaderWarnings warns of leaders that have to become healthy alone: Slipway cannot
// know whether their health needs the others.
func (sim *simulation) leaderWarnings() (all []string) {
	for _, name := range sim.alone {
		leader := sim.facts.Nodes.Node(sim.facts.leaderOf(name))
		if leader == nil || len(sim.led[name]) == 0 || !sim.facts.IsThrough(leader) {
			continue // nobody waits, or stuckWarnings already says that they wait forever
		}
		all = append(all, fmt.Sprintf("%s, the leader of the role %s, has to be healthy before %s, and none of the others is healthy yet; if its health needs the others, all of them wait forever: design a health that passes on one node alone",
			leader.Name(), name, say.Few(sim.led[name])))
	}
	return all
}

// holds returns what a member still waits for at the end.
func (sim *simulation) holds(m *member) string {
	t := m.try()
	switch r := sim.facts.Order(t).(type) {
	case *Need:
		return fmt.Sprintf("%s, which its phase %s needs", r, r.Phase)
	case *Leader:
		return fmt.Sprintf("%s, the leader of the role %s", r.Name, r.Role)
	case *Canaries:
		return "the canaries"
	}
	if full, is := sim.facts.Room(t).(*Full); is {
		return sim.taken(full.Bound)
	}
	return "the window " + WindowOf(m.node.Design, t.Step) + ", which does not open again"
}

// taken says why no place of a bound becomes free.
func (sim *simulation) taken(b *Bound) string {
	why := sim.bounded(b, "a place in %s (%s)")
	names, known := sim.outNames[b]
	if !known {
		names = say.Few(sim.notBroughtBack(b))
		sim.outNames[b] = names
	}
	if names != "" {
		why += ", as this plan does not bring these back into service: " + names
	}
	return why
}

// notBroughtBack returns the nodes that take a place of a bound and that the plan does
// not change, or that a person keeps off.
func (sim *simulation) notBroughtBack(b *Bound) (names []string) {
	changes := map[*Node]bool{}
	for _, m := range sim.members {
		changes[m.node] = true
	}
	for n := range sim.facts.Nodes.All() {
		if s := sim.facts.shareOf(n); b.group.has(n.Design) && (s == out || s == unfit) && (!changes[n] || n.Quarantined) {
			names = append(names, n.Name())
		}
	}
	return names
}

// leftOut warns of nodes whose duration is unknown.
func leftOut(p *site.Plan, paused []string) []string {
	var blocked, waiting []string
	for _, n := range p.Nodes {
		switch {
		case len(n.Steps) > 0:
		case n.Waiting != "":
			waiting = append(waiting, n.Node)
		case len(n.Blocked) > 0:
			blocked = append(blocked, n.Node)
		}
	}
	var all []string
	if len(waiting) > 0 {
		all = append(all, say.Few(waiting)+": already in progress, not part of this forecast")
	}
	if len(paused) > 0 {
		all = append(all, say.Few(paused)+": paused, not part of this forecast")
	}
	if len(blocked) > 0 {
		all = append(all, say.Few(blocked)+": blocked, not part of this forecast")
	}
	return all
}

// basis says what the durations are based on.
func basis(p *site.Plan, known site.Known) string {
	steps, seen := 0, 0
	for _, n := range p.Nodes {
		model := plan.Model(known.Nodes[n.Node].Observed)
		for i := range n.Steps {
			steps++
			if len(known.History[site.LikeStep(model, n.Steps[i])]) >= plan.LikeMachines {
				seen++
			}
		}
	}
	switch {
	case steps == 0:
		return ""
	case seen == 0:
		return "Slipway has not seen enough machines of these models do this yet"
	case seen == steps:
		return "based on what machines of these models took before"
	}
	return fmt.Sprintf("%d of %d steps are based on what machines of these models took before, the others on defaults", seen, steps)
}

// standstill says what keeps the whole site from moving now: the forecast assumes that
// the site moves.
func standstill(k site.Known, now time.Time) []string {
	var why []string
	if h := k.Paused; h.Holds(now) {
		why = append(why, fmt.Sprintf("the site is paused by %s: %s; nothing begins before `slipway resume --all`", h.By, h.Reason))
	}
	if r := k.Rollout; r != nil && r.Ended.IsZero() {
		under := fmt.Sprintf("the rollout of %s is under way, %d of %d nodes done", r.Revision.Short(), r.Done, len(r.Nodes))
		if r.Halted != "" {
			under = fmt.Sprintf("the rollout of %s is halted: %s", r.Revision.Short(), r.Halted)
		}
		why = append(why, under)
	}
	return why
}
