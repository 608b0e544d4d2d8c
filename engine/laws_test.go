package engine_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
)

// called holds every accepted request for a change against the properties. It
// knows what the machines truly are, and not what the engine thinks.
func (t *trial) called(c drivertest.Call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.note("%s: %s of %s gen %d phase %q first=%t", c.Machine, c.Step.Action, c.Step.Node, c.Step.Generation, c.Step.Phase, c.First)
	t.see()
	defer func() {
		t.begunAt[c.Step.Node] = c.When
		switch c.Step.Action {
		case site.ActionInstall:
			t.installing[c.Machine] = true
			delete(t.accepted, c.Step.Node)
		case site.ActionFinishInstall:
			delete(t.installing, c.Machine)
		}
		if c.Step.Impact >= site.ImpactInterrupts && !c.Step.Force {
			t.halfway[c.Machine] = c.When
		}
	}()
	if !c.First || t.isAnew() {
		return
	}
	for _, law := range []func(*site.Site, drivertest.Call) string{
		t.rightMachine, t.allowed, t.needsHold, t.leaderWent, t.inBudget, t.inWindow, t.inRollout,
	} {
		t.hold(c, law)
	}
}

// hold complains unless the law holds under a design that may have been in
// force when the step began.
func (t *trial) hold(c drivertest.Call, law func(*site.Site, drivertest.Call) string) {
	wrong := "nothing is in force"
	for _, d := range t.recent() {
		if wrong = law(d, c); wrong == "" {
			return
		}
	}
	t.complain("%s of %s on %s: %s", c.Step.Action, c.Step.Node, c.Machine, wrong)
}

func (t *trial) rightMachine(d *site.Site, c drivertest.Call) string {
	n := d.Nodes[c.Step.Node]
	switch {
	case n == nil && c.Step.Force:
		return "" // a quarantine holds until its end, and a removal that is held changes nothing of it
	case n == nil:
		return "the node is not in the design"
	case !n.Machine().Known():
		return "the design names no machine"
	case !n.Machine().Matches(c.Identity) && c.When.Sub(t.replaced[c.Machine]) < time.Second:
		return "" // nobody changes a chassis between two requests
	case !n.Machine().Matches(c.Identity):
		return fmt.Sprintf("the design means %s, the machine is %s", n.Machine(), c.Identity)
	case !t.sometime(c.Machine, c.When.Add(-slack), c.When, func(m machine) bool { return m.fault != drivertest.WrongMachine }):
		return "another machine answers"
	}
	return ""
}

// allowed: nothing is paused, away, disabled or quarantined.
func (t *trial) allowed(d *site.Site, c drivertest.Call) string {
	n := d.Nodes[c.Step.Node]
	if n == nil {
		return ""
	}
	for _, who := range []string{"", n.Name} {
		switch {
		case c.Step.Action == site.ActionPowerOff && (t.keptPerhaps[who] || within(t.kept[who], c.When) || within(t.kept[who], c.When.Add(-slack))):
			return ""
		case during(t.kept[who], slack):
			return "it is quarantined"
		}
	}
	for _, who := range []string{"", n.Name} {
		if during(t.holds[who], slack) {
			return "it is paused by an order"
		}
	}
	if n.Paused != nil && n.Paused.Until.IsZero() {
		return "it is paused in the design"
	}
	switch why := d.Unused(n); {
	case n.Away != "":
		return why
	case t.goesOn(c):
		return ""
	case n.Decommission:
		return "it is decommissioned"
	default:
		return why
	}
}

// goesOn says whether a request brings to its end what was begun before.
func (t *trial) goesOn(c drivertest.Call) bool {
	return c.Step.Resumed || c.Step.Action == site.ActionFinishInstall || t.installing[c.Machine]
}

// needsHold: what the phase of a step needs was there when it could last be
// known.
func (t *trial) needsHold(d *site.Site, c drivertest.Call) string {
	n := d.Nodes[c.Step.Node]
	if n == nil || d.Roles[n.Role] == nil || t.goesOn(c) || t.isKept(n, c.When) {
		return ""
	}
	phase := phaseOf(d.Roles[n.Role], c.Step.Facet)
	for _, role := range sortedKeys(d.Roles[n.Role].Needs[phase]) {
		need, there := d.Roles[n.Role].Needs[phase][role], 0
		nodes := members(d, role)
		for _, x := range nodes {
			if t.wentThrough(d, x, need.Phase, c.When) {
				there++
			}
		}
		if least := max(1, need.Quorum.Of(len(nodes))); there < least {
			return fmt.Sprintf("phase %s needs %d of role %s through %s, and %d are", phase, least, role, need.Phase, there)
		}
	}
	return ""
}

// wentThrough says whether a node could be known to have gone through a phase.
// Its BMC is looked at often, its system now and then.
func (t *trial) wentThrough(d *site.Site, x *site.Node, phase string, at time.Time) bool {
	through := func(m machine) bool { return m.through(d, x, phase) }
	there := func(m machine) bool { return m.seen() && m.have[site.FacetPower]["state"] == "on" }
	return t.sometime(host(x), at.Add(-knownInside), at, through) && t.sometime(host(x), at.Add(-known), at, there)
}

func (t *trial) isKept(n *site.Node, at time.Time) bool {
	return within(t.kept[n.Name], at) || within(t.kept[""], at) || t.keptPerhaps[n.Name] || t.keptPerhaps[""]
}

// leaderWent: a role's leader has gone through all phases before the others
// begin.
func (t *trial) leaderWent(d *site.Site, c drivertest.Call) string {
	n := d.Nodes[c.Step.Node]
	if n == nil || d.Roles[n.Role] == nil || !d.Roles[n.Role].LeaderFirst || t.goesOn(c) || c.Step.Drift || t.isKept(n, c.When) {
		return ""
	}
	leader := n
	for _, name := range d.NodeNames() {
		if x := d.Nodes[name]; x.Role == n.Role && d.Unused(x) == "" {
			leader = x
			break
		}
	}
	if leader.Name == n.Name {
		return ""
	}
	roles := phasesOf(d.Roles[n.Role])
	if !t.wentThrough(d, leader, roles[len(roles)-1], c.When) {
		m := t.machineAt(host(leader), c.When)
		return fmt.Sprintf("the leader %s has not gone first: fault %q, power %v, %s differs", leader.Name, m.fault, m.have[site.FacetPower], m.differs(leader, everyFacet))
	}
	return ""
}

// inBudget: no more machines are out of service than may be.
func (t *trial) inBudget(d *site.Site, c drivertest.Call) string {
	n := d.Nodes[c.Step.Node]
	if n == nil || c.Step.Impact < site.ImpactInterrupts || c.Step.Force || t.isKept(n, c.When) || t.isKept(n, c.When.Add(-slack)) {
		return "" // who was quarantined was out of service
	}
	if t.sometime(c.Machine, c.When.Add(-known), c.When, func(m machine) bool { return !m.inService(n) || !m.hasSystem() }) || !t.halfway[c.Machine].IsZero() {
		return "" // it was out already
	}
	if since, begun := t.begunOn[n.Name]; begun && c.When.Sub(since) > slack {
		return "" // it has its place since then: nobody knows what came of the step
	}
	inRack := func(x *site.Node) bool { return x.Rack == n.Rack }
	inRole := func(x *site.Node) bool { return x.Role == n.Role }
	wrong := t.outOf(d, n, c.When, "the site", func(*site.Node) bool { return true }, func(of int) int { return bound(d.Rollout.MaxUnavailable, of+t.leaving) })
	if r := d.Racks[n.Rack]; wrong == "" && r != nil && r.MaxUnavailable != "" {
		wrong = t.outOf(d, n, c.When, "rack "+n.Rack, inRack, func(of int) int { return bound(r.MaxUnavailable, of) })
	}
	r := d.Roles[n.Role]
	if wrong == "" && r != nil && r.MaxUnavailable != "" {
		wrong = t.outOf(d, n, c.When, "role "+n.Role, inRole, func(of int) int { return bound(r.MaxUnavailable, of) })
	}
	if wrong == "" && r != nil && r.Majority {
		wrong = t.outOf(d, n, c.When, "role "+n.Role+" with a majority", inRole, func(of int) int { return max(1, (of-1)/2) })
	}
	return wrong
}

// outOf complains when too many of some nodes are out of service.
func (t *trial) outOf(d *site.Site, n *site.Node, at time.Time, what string, of func(*site.Node) bool, limit func(int) int) string {
	total, out := 0, []string(nil)
	for _, name := range d.NodeNames() {
		x := d.Nodes[name]
		if !of(x) || d.Unused(x) != "" {
			continue
		}
		total++
		if x != n && t.isOut(x, at) {
			out = append(out, name)
		}
	}
	if len(out) < limit(total) {
		return ""
	}
	return fmt.Sprintf("%v of %s are out of service already, and %d may be", out, what, limit(total))
}

// inService says whether a machine serves, as far as its BMC tells.
func (m machine) inService(n *site.Node) bool {
	return (m.seen() || m.fault == drivertest.WrongMachine) && (n.Power != "on" || m.have[site.FacetPower]["state"] == "on")
}

// hasSystem says whether something is installed that could answer.
func (m machine) hasSystem() bool { return m.have[site.FacetImage]["generation"] != "" }

// isOut says whether a machine is out of service and the engine must know it:
// since one of its own steps, or for long.
func (t *trial) isOut(n *site.Node, at time.Time) bool {
	if n.Power != "on" || n.Decommission {
		return false
	}
	ours := t.halfway[host(n)]
	if ours.Before(t.anew) || ours.Before(t.replaced[host(n)]) {
		ours = time.Time{} // nothing is recorded of that, or it was another machine
	}
	if was, ever := t.settled[n.Name]; ours.IsZero() && (!ever || !n.Machine().Matches(was)) {
		return false // it never served
	}
	since := at.Add(-known)
	if !ours.IsZero() && ours.After(since) {
		since = ours
	}
	return !t.sometime(host(n), since, at, func(m machine) bool { return m.inService(n) })
}

// inWindow: a step is begun in its window only, or its machine was.
func (t *trial) inWindow(d *site.Site, c drivertest.Call) string {
	n := d.Nodes[c.Step.Node]
	if n == nil || t.isKept(n, c.When) {
		return ""
	}
	w := d.Windows[n.WindowFor(c.Step.Impact)]
	begun := t.goesOn(c) || !t.halfway[c.Machine].IsZero()
	if w == nil || begun && w.Overrun != "stop" || open(w, c.When) || open(w, c.When.Add(-slack)) {
		return ""
	}
	return fmt.Sprintf("its window %s is from %s to %s", n.WindowFor(c.Step.Impact), w.From, w.To)
}

// inRollout: the canaries go first, and nothing is begun once the rollout is
// halted.
func (t *trial) inRollout(d *site.Site, c drivertest.Call) string {
	r, n := t.rollout, d.Nodes[c.Step.Node]
	if n == nil || r == nil || !r.Ended.IsZero() || !slices.Contains(r.Nodes, n.Name) || time.Since(r.Since) < slack ||
		t.goesOn(c) || c.Step.Drift || t.isKept(n, c.When) || t.begunAt[n.Name].After(r.Since) || !t.halfway[c.Machine].IsZero() {
		return ""
	}
	tried, ok := t.tried[n.Name]
	if ok && (tried.Before(r.Since) || t.stepped) {
		return "" // and goes on, though nobody was there
	}
	if ok && r.Halted != "" && tried.Before(t.haltedSince) {
		return "" // it was begun and nothing could be sent, which halted the rollout; it goes on when that is over
	}
	if life := t.daemon.life; life == nil || life.isOver() {
		return "" // what it sent last may be of a rollout that nobody has seen
	}
	if r.Halted != "" && time.Since(t.haltedSince) > slack {
		return "the rollout is halted: " + r.Halted
	}
	if k := d.Rollout.Canaries; k != nil && len(r.Canaries) > 0 && !slices.Contains(r.Canaries, n.Name) &&
		(r.Proven.IsZero() || time.Since(r.Proven) < time.Duration(k.Soak)) {
		return fmt.Sprintf("the canaries %v are not proven", r.Canaries)
	}
	return ""
}

// open is for the daily windows in UTC that the stories have.
func open(w *site.Window, at time.Time) bool {
	now := at.UTC().Format("15:04")
	if w.From < w.To {
		return w.From <= now && now < w.To
	}
	return w.From <= now || now < w.To
}

func bound(text string, of int) int {
	share, isShare := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(share)
	switch {
	case err != nil:
		return 1
	case isShare:
		n = n * of / 100
	}
	return max(n, 1)
}
