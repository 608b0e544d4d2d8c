package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// difference is how one facet of a node differs from the design.
type difference struct {
	facet     site.Facet
	seen      site.FacetState
	wish      wish
	remove    []string      // keys of items that Slipway made and that left the design
	returning []site.Change // of fields that left the design
	changes   []site.Change // all of them, those of remove and returning too
	installs  bool          // the plan has an installation
	drifted   bool          // the machine caused it, not the design
}

// planFacet adds the step that brings one facet to the design.
func planFacet(p *site.NodePlan, n *site.Node, f site.Facet, m site.Memory) {
	installs := slices.ContainsFunc(p.Steps, func(s site.Step) bool { return s.Action == site.ActionInstall })
	seen := seenIn(m.Observed, f, installs)
	w := wishFor(n, f, seen)
	if why := w.unresolved(n, f); len(why) > 0 {
		if site.IsInside(f) && len(p.Blocked) == 0 {
			p.Release = "a change of the system that makes it possible, or a commit that changes it"
		}
		p.Blocked = append(p.Blocked, why...)
		return
	}
	d := differenceOf(p, w, n, f, m, installs)
	switch {
	case d.isSpent(n, m):
		p.Blocked, p.Spent = append(p.Blocked, spent(n, f, d.changes, m.Recorded)), true
	case seen.Busy != "" && n.Asks(f):
		p.Waiting = string(f) + ": " + seen.Busy
	case len(d.changes) == 0:
		return
	case d.reported(n):
		d.report(p, n)
	default:
		d.plan(p, n, m)
	}
}

// seenIn returns what was seen of a facet, as it counts for a plan that installs or does not.
func seenIn(o site.Observed, f site.Facet, installs bool) site.FacetState {
	seen := o.Facets[f]
	if installs && site.Facets[f].Endpoint == site.OS {
		seen = site.FacetState{} // the installation erases the system
	}
	if installs && f == site.FacetBoot && len(seen.Sources) > 0 {
		seen.Sources = append(slices.Clone(seen.Sources), "Hdd") // some machines list it only with a system on the disk
	}
	return seen
}

// differenceOf compares a facet with the design. It adds to the plan what Slipway does not remove or
// set back, and why.
func differenceOf(p *site.NodePlan, w wish, n *site.Node, f site.Facet, m site.Memory, installs bool) difference {
	seen := w.seen
	d := difference{facet: f, seen: seen, wish: w, installs: installs}
	d.remove = planRemoval(p, w, n, f, m)
	d.returning = planReturn(p, w, n, f, m)
	d.changes = slices.Concat(w.diff(n, f, seen), d.returning, removals(f, d.remove))
	if f == site.FacetDisks && isDue(n, m) {
		d.changes = withoutDisk(n.Virtual.ImageDisk(), d.changes) // the installation makes it anew
	}
	d.drifted = isDrift(n, f, m.Recorded) && !installs && !(ownTerms(f) && isDue(n, m))
	return d
}

// isSpent reports whether Slipway would make the changes but has tried them often enough.
func (d difference) isSpent(n *site.Node, m site.Memory) bool {
	erased := d.installs && site.Facets[d.facet].Endpoint == site.OS
	return len(d.changes) > 0 && !d.reported(n) && !erased && isSpent(n, d.facet, m.Recorded)
}

// renews reports whether the machine has what it was given, and only what Slipway signed is to be replaced. It would
// be over if that waits, so the drift policy does not count.
func (d difference) renews() bool {
	return d.drifted && len(d.changes) > 0 && !slices.ContainsFunc(d.changes, func(c site.Change) bool {
		return !slices.Contains(d.seen.Due, strings.TrimPrefix(c.Field, string(d.facet)+"."))
	})
}

// reported reports whether the design asks to report the drift instead of correcting it.
func (d difference) reported(n *site.Node) bool {
	return d.drifted && !d.renews() && (n.Drift[d.facet] == "report" || n.Drift[d.facet] == "propose")
}

// report reports the drift, and proposes it to the design where the design asks for that.
func (d difference) report(p *site.NodePlan, n *site.Node) {
	if n.Drift[d.facet] == "propose" {
		p.Reported = append(p.Reported, differs(d.changes)+" (drift propose)")
		p.Amendments = append(p.Amendments, amendment(n, d.facet, d.wish, d.seen, d.leaves()))
		return
	}
	p.Reported = append(p.Reported, differs(d.changes)+"; the design asks only for a report (drift report)")
}

// leaves reports whether some of the changes are of items or fields that left the design.
func (d difference) leaves() bool { return len(d.remove)+len(d.returning) > 0 }

// plan adds the step that makes the changes, or says why there is none.
func (d difference) plan(p *site.NodePlan, n *site.Node, m site.Memory) {
	if why := barred(n, d.facet, d.changes, d.seen, m); len(why) > 0 {
		p.Blocked = append(p.Blocked, why...)
		return
	}
	if d.wish.reachedBy(d.seen) && !d.leaves() {
		p.Waiting = d.pending(n)
		return
	}
	k := workOf(d.facet, d.changes)
	if d.wish.interrupts(d.facet, d.remove, d.returning) {
		k.Impact = max(k.Impact, site.ImpactInterrupts)
	}
	if d.installs && k.Action == site.ActionPowerOn {
		return // an installation leaves the machine on
	}
	p.Steps = append(p.Steps, d.step(n, m, k))
}

// pending says what changes wait for that the machine has accepted.
func (d difference) pending(n *site.Node) string {
	if site.IsInside(d.facet) && d.seen.Waits != "" && !mayReboot(n, d.facet, d.seen) {
		return fmt.Sprintf("%s; that takes effect at the next boot. Slipway does not boot the machine for this: boot it yourself", differs(d.changes))
	}
	return string(d.facet) + " is on its way to " + d.changes[0].Want
}

// step is the step that makes the changes.
func (d difference) step(n *site.Node, m site.Memory, k site.Work) site.Step {
	step := site.Step{
		Node: n.Name, Machine: n.Machine(), Facet: d.facet, Action: k.Action, Changes: d.changes,
		Impact: k.Impact, Reason: d.reason(), Expect: takes(n, k.Action, k.Expect), Undo: k.Undo, Drift: d.drifted, Renewal: d.renews(),
	}
	if d.facet == site.FacetAccounts {
		step.Rotates = site.Rotations(d.changes, n)
	}
	if site.IsInside(d.facet) {
		step.Owned, step.Remove = m.Recorded.Owned.Digest, d.remove
		if !m.Recorded.Owned.Agrees(d.seen) {
			step.Owned = disputed
		}
	}
	if anyHas(n, d.facet, d.changes, d.seen, site.EffectReplace) && mayLose(n, m) {
		step.Impact, step.Generation, step.Undo = site.ImpactDestructive, n.Generation, "cannot be undone"
		step.Loses = "the installed system, which need not start any more"
	}
	return step
}

// isDrift reports whether a facet once matched its present design, so that the
// machine caused the difference.
func isDrift(n *site.Node, f site.Facet, r site.Recorded) bool {
	asked := n.Asked(f)
	return asked != "" && r.Reached[f] == asked
}

// AsDesigned reports whether a facet was seen to match the design.
func AsDesigned(n *site.Node, f site.Facet, seen site.FacetState) bool {
	w := wishFor(n, f, seen)
	asks := w.Want != nil || site.IsInside(f) && !w.Unread && n.Asks(f) // not only of another system or machine
	return !seen.Seen.IsZero() && asks && len(w.Unsure) == 0 && seen.Busy == "" && len(w.Lacking)+len(w.unresolved(n, f)) == 0 && len(w.diff(n, f, seen)) == 0 &&
		len(seen.LeftBy(n, f, w.Resolved))+len(seen.ReturningBy(w.Resolved)) == 0
}

// differs describes changes as differences.
func differs(changes []site.Change) string {
	var parts []string
	for _, c := range changes {
		parts = append(parts, fmt.Sprintf("%s is %s and is designed as %s", c.Field, c.Have, c.Want))
	}
	return strings.Join(parts, ", ")
}

func (d difference) reason() string {
	switch {
	case d.seen.Seen.IsZero():
		return "never seen"
	case !slices.ContainsFunc(d.changes, func(c site.Change) bool { return c.Have != Unknown }):
		return "unknown until it is read"
	case slices.ContainsFunc(d.changes, func(c site.Change) bool { return c.Have == Unknown }):
		return "differs from the design; what shows ? is unknown until it is read"
	case d.renews():
		if d.facet == site.FacetConfig {
			return "its TLS certificates are to be renewed"
		}
		return "its host certificates are to be renewed"
	case d.drifted:
		return "was as designed and has changed on the machine"
	}
	return "differs from the design"
}
