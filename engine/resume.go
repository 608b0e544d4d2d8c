package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/ledger"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A destructive step that has used its approval goes on after whatever broke it
// off, until its effect is seen: a machine that is erased in part serves nobody.
// But it goes on only as what was approved, and not for ever.

// letGo lets go of a destructive step in flight that may not go on.
func (w *worker) letGo(ctx context.Context, j job) error {
	f := j.memory.Recorded.InFlight
	why := w.e.overBecause(j)
	if why == "" {
		return nil
	}
	err := w.save(ctx, func(r *site.Recorded) { leaveOff(r, f.Step, why) })
	if err == nil {
		w.warn(site.EventFailed, j.revision.ID, fmt.Sprintf("%s does not continue: %s", f.Step.Action, why))
	}
	return err
}

// overBecause says why the destructive step in flight may not go on; empty when it
// may, or where there is none.
func (e *Engine) overBecause(j job) string {
	f := j.memory.Recorded.InFlight
	if f == nil || !f.Consumed {
		return ""
	}
	now := e.ledgerNow()
	disks := plan.Disks(f.Step, j.node, j.memory.Observed)
	if _, wrong, known := plan.Layout(f.Step.Of(j.node), j.memory.Observed); f.Step.ByAgent() && (!known || len(wrong) > 0) {
		disks = "" // prepare compares them, once the agent has told them in this start
	}
	switch {
	case !f.Sent:
		return "Slipway was stopped after it used the approval and before it sent anything"
	case now.Sub(f.Since) >= ledger.Lasts || now.Before(f.Since.Add(-ledger.Lasts)):
		return fmt.Sprintf("it was begun at %s, and has not finished within %d days", say.Clock(f.Since), int(ledger.Lasts/(24*time.Hour)))
	case !j.node.IsVirtual() && disks != "" && disks != f.Step.Disks:
		return fmt.Sprintf("the disks of the machine are now %s, and %s were approved", disks, f.Step.Disks)
	}
	return ""
}

// letGoOfUnplanned lets go of a destructive step in flight that the design in force
// does not plan any more. An installation is brought to its end all the same: it
// stays in the plan.
func (w *worker) letGoOfUnplanned(ctx context.Context, j job, p site.NodePlan) error {
	f := j.memory.Recorded.InFlight
	if f == nil || !f.Consumed || slices.ContainsFunc(p.Steps, func(s site.Step) bool { return s.Digest() == f.Step.Digest() }) || goesOnUnplanned(j.memory, p) {
		return nil
	}
	why := ""
	if f.Step.ByAgent() {
		why = "something else is planned now"
	}
	return w.save(ctx, func(r *site.Recorded) { leaveOff(r, f.Step, why) })
}

// goesOnUnplanned says whether the agent works on the disks of a machine for which nothing is planned
// now, since something is in doubt, or since the design has changed: that the agent has ended is
// told by it, and by nothing else.
func goesOnUnplanned(m site.Memory, p site.NodePlan) bool {
	switch {
	case !m.Recorded.AgentWorks() || !m.Recorded.InFlight.Step.ByAgent():
		return false
	case m.Recorded.EraseBegun() && m.Recorded.Agent.IsOn() && !m.Observed.Agent.IsConnected():
		return true
	}
	return len(p.Steps) == 0 && p.Waiting == ""
}

// leaveOff notes that a step in flight does not go on. An installation that may
// have erased something is cut off.
func leaveOff(r *site.Recorded, s site.Step, why string) {
	if !r.InFlight.Is(s) {
		return
	}
	if r.InstallBegun() {
		cut := underWay(*r)
		cut.CutOff = why
		r.Installing = &cut
	}
	if r.EraseBegun() { // its disks may be erased in part: what was on them is no system any more
		plan.ForgetInside(r)
		r.Installing, r.Installed, r.Owned = nil, nil, site.Owned{}
	}
	r.InFlight = nil
}
