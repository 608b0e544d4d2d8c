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

// A destructive step that has used its approval continues after any interruption until its effect is
// seen: a machine that is half erased serves nobody. But it continues only as approved, and not
// forever.

// letGo drops a destructive step in flight that may not continue.
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

// overBecause returns why the destructive step in flight may not continue; empty if it may, or if
// there is none.
func (e *Engine) overBecause(j job) string {
	f := j.memory.Recorded.InFlight
	if f == nil || !f.Consumed {
		return ""
	}
	now := e.ledgerNow()
	disks := plan.Disks(f.Step, j.node, j.memory.Observed)
	if _, wrong, known := plan.Layout(f.Step.Of(j.node), j.memory.Observed); f.Step.ByAgent() && (!known || len(wrong) > 0) {
		disks = "" // prepare compares them once the agent has reported them in this start
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

// letGoOfUnplanned drops a destructive step in flight that the design in force no longer plans. An
// installation is still finished: it stays in the plan.
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

// goesOnUnplanned reports whether the agent works on the disks of a machine for which nothing is
// planned now, because something is in doubt or the design has changed. Only the agent itself reports
// that it has ended.
func goesOnUnplanned(m site.Memory, p site.NodePlan) bool {
	switch {
	case !m.Recorded.AgentWorks() || !m.Recorded.InFlight.Step.ByAgent():
		return false
	case m.Recorded.EraseBegun() && m.Recorded.Agent.IsOn() && !m.Observed.Agent.IsConnected():
		return true
	}
	return len(p.Steps) == 0 && p.Waiting == ""
}

// leaveOff notes that a step in flight does not continue. An installation that may have erased
// something is cut off.
func leaveOff(r *site.Recorded, s site.Step, why string) {
	if !r.InFlight.Is(s) {
		return
	}
	if r.InstallBegun() {
		cut := underWay(*r)
		cut.CutOff = why
		r.Installing = &cut
	}
	if r.EraseBegun() { // its disks may be partly erased: what was on them is no longer a system
		plan.ForgetInside(r)
		r.Installing, r.Installed, r.Owned = nil, nil, site.Owned{}
	}
	r.InFlight = nil
}
