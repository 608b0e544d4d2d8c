package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/retry"
	"github.com/slipway-gitops/slipway/engine/site"
)

// take runs one step if it may run now.
func (w *worker) take(ctx context.Context, j job, p site.NodePlan, s site.Step) outcome {
	next := s.Summary()
	if why := w.lied(ctx, j, s); why != "" {
		o := outcome{state: site.Stalled, reason: why, next: next, wait: observeEvery(j.site)}
		if s.Force {
			o.wait = waitEvery
		}
		return o
	}
	if _, destroys := s.Destroys(); destroys {
		if err := w.e.approveFromDesign(ctx); err != nil {
			return w.fail(j, err)
		}
	}
	leave, err := enter(ctx, w.e.steps, j)
	if err != nil {
		return w.fail(j, err)
	}
	defer leave()
	if held := w.e.gate(w, j, p, s); held != nil {
		w.stepAside(ctx, j)
		o := w.outcome(j, held)
		o.next = next
		return o
	}
	if err := w.e.saveRollout(ctx); err != nil { // the step may begin another rollout
		return w.fail(j, err)
	}
	if w.failures == 0 && !w.isOldNews(s) {
		w.show(ctx, outcome{state: site.Progressing, reason: next, next: next})
	}
	traced := w.traceBegins(j, s)
	err = w.apply(ctx, j, s)
	w.traceStep(traced, err)
	if err != nil {
		if w.timing != nil {
			w.timing.tried = true // a failed look meanwhile does not count
		}
		o := w.fail(j, err)
		o.next = next
		return o
	}
	if w.disobeyed {
		return outcome{state: site.Stalled, reason: disobeyed, next: next, wait: waitEvery}
	}
	return outcome{state: site.Progressing, reason: next, next: next}
}

// isUnseenSince reports whether the step just done changed something inside the system that
// was not looked at since: its effect is not known yet.
func (w *worker) isUnseenSince(j job, s site.Step) bool {
	return s.Digest() == w.last && slices.ContainsFunc(s.Changes, func(c site.Change) bool {
		name, _, _ := strings.Cut(c.Field, ".")
		f := site.Facet(name)
		return site.IsInside(f) && j.memory.Observed.Facets[f].Seen.Before(w.lastDone)
	})
}

// stepAside gives back the rollout place of a node that waits for others while its machine is
// in service: those others may be waiting for the place.
func (w *worker) stepAside(ctx context.Context, j job) {
	r := j.memory.Recorded
	w.e.mu.Lock()
	f := w.e.factsLocked()
	aside := f.MayStepAside(w.factsLocked(f.Now))
	if aside {
		w.inServiceLocked(j)
	}
	w.e.mu.Unlock()
	if !aside || r.Disrupted.IsZero() {
		return
	}
	if err := w.save(ctx, func(r *site.Recorded) { r.Disrupted = time.Time{} }); err != nil {
		w.e.Log.Warn("service not recorded", "node", w.name, "err", err)
	}
}

// disobeyed is the reason shown for a machine that does not stay off in quarantine.
const disobeyed = "the machine keeps turning itself on, and Slipway keeps forcing it off; check the machine"

// lied returns why a step is not taken again: it was refused, or it was reported as done and
// changed nothing.
func (w *worker) lied(ctx context.Context, j job, s site.Step) string {
	digest := s.Digest()
	if s.Force && w.last == digest {
		w.last, w.disobeyed = "", true // whoever switches it on, Slipway switches it off again
		return disobeyed
	}
	if w.last == digest {
		w.timing = nil
		if err := w.save(ctx, func(r *site.Recorded) {
			r.NoEffect = &site.NoEffect{Step: digest, When: time.Now()}
			if !r.AgentWorks() {
				r.InFlight = nil
			}
		}); err != nil {
			return retry.Steady(err)
		}
	} else if n := j.memory.Recorded.NoEffect; n == nil || n.Step != digest {
		return ""
	} else if n.Why != "" {
		return n.Why
	}
	return fmt.Sprintf("%s was reported as done but had no effect (%s); check the machine, then `slipway retry %s` or change the design", s.Action, s.Summary(), w.name)
}

// apply records the step, takes it, and records its effect. Without the first record Slipway
// writes nothing to a machine.
func (w *worker) apply(ctx context.Context, j job, s site.Step) error {
	kind := s.Endpoint()
	machine, err := w.open(ctx, j.node, kind)
	if err != nil {
		return err
	}
	if err := w.fence(w.guarded(ctx, kind), kind); err != nil {
		return err
	}
	if err := w.elsewhere(ctx, j, s); err != nil {
		return w.giveUp(ctx, s, err)
	}
	s, err = w.noteBegun(ctx, j, s)
	if err != nil {
		return err
	}
	if err := w.seed(ctx, machine, j, s); err != nil {
		return err
	}
	if err := w.switchPorts(ctx, j, s); err != nil {
		w.noteFailed(j, s, err)
		return w.giveUp(ctx, s, err)
	}
	if err := w.prepare(ctx, machine, j, s); err != nil {
		w.noteFailed(j, s, err)
		return w.giveUp(ctx, s, err)
	}
	if !w.isOldNews(s) {
		w.note(site.EventBegun, j.revision.ID, s.Summary())
	}
	if err := w.send(ctx, machine, j, s); err != nil {
		w.noteFailed(j, s, err)
		if serr := w.save(ctx, func(r *site.Recorded) { noteInstallFailed(r, s, err) }); serr != nil {
			return serr
		}
		return w.giveUp(ctx, s, w.remember(kind, err))
	}
	var done driver.Installed
	if i, ok := driver.As[driver.Installer](machine); ok && s.ByAgent() {
		done = i.Installed()
	}
	if err := w.save(ctx, func(r *site.Recorded) { effect(r, j.node, s, done) }); err != nil {
		return err // still recorded as in flight, and joined later
	}
	if s.Retires() {
		w.forgetSystem()
	}
	w.last, w.lastDone, w.failures, w.tried = s.Digest(), time.Now(), 0, tried{}
	w.anew = true
	if s.Impact >= site.ImpactReboot {
		w.inside = time.Time{} // ask again whether its system is back
		w.reinspect = true
	}
	return nil
}

// tried is a step whose last try failed, and why.
type tried struct{ step, why string }

// isOldNews reports whether the step's try was already reported, or is reported as the node's
// state.
func (w *worker) isOldNews(s site.Step) bool { return w.disobeyed || w.tried.step == s.Digest() }

// noteFailed reports a failed step. It reports a further try only if that fails for another
// reason.
func (w *worker) noteFailed(j job, s site.Step, err error) {
	now := tried{step: s.Digest(), why: verdict(err)}
	if now != w.tried {
		w.warn(site.EventFailed, j.revision.ID, string(s.Action)+": "+explained(err))
	}
	w.tried = now
}

// send lets the driver take the step, while the term is held.
func (w *worker) send(ctx context.Context, m driver.Machine, j job, s site.Step) error {
	ctx, stop := w.e.whileHeld(ctx)
	defer stop()
	limit := max(driver.LongestStep, 3*time.Duration(s.Expect))
	if s.ByAgent() {
		limit = max(limit, agentLimit(j))
		ctx = driver.HearErased(ctx, func(d item.Erasure) { w.noteErased(ctx, s, d) })
		ctx = driver.HearHostKeys(ctx, func(keys []string) { w.noteHostKeys(ctx, s, keys) })
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	i, r := &interruption{w: w, job: j, step: s}, w.job().memory.Recorded
	ctx = driver.Guarded(ctx, guard{w.loginTo(s.Endpoint()), i})
	ctx = driver.WithPasswords(driver.ShowWaits(ctx, w.showWait), w.passwords(j.node))
	if s.Facet == site.FacetNetwork {
		s.Again, w.again = w.again, false
	}
	w.lending.begin(ctx)
	defer w.lending.end()
	err := withoutToken(m.Apply(ctx, withServed(s, r), j.node, w.permit(j, s)), r)
	if err != nil {
		err = endpointError{endpointName(j.node, s.Endpoint()), err}
	}
	return errors.Join(err, i.settle(context.WithoutCancel(ctx), err))
}

// showWait notes what the step under way waits for; nil for nothing. The status shows the
// progress, but a change triggers no report.
func (w *worker) showWait(wait *driver.Wait) {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	w.wait = wait
}

// noteBegun records that the step's first request is about to be sent, and returns the step
// as it is to be taken.
func (w *worker) noteBegun(ctx context.Context, j job, s site.Step) (site.Step, error) {
	if b := j.memory.Recorded.Agent; j.memory.Recorded.InFlight.Is(s) || s.Action == site.ActionStartAgent && b.IsOn() && !b.IsStarted() {
		s.Resumed = true
	}
	if w.timing == nil && !s.Resumed {
		w.timing = &timing{step: s, since: time.Now(), model: plan.Model(j.memory.Observed), wanted: askedInside(j.node, s)}
	}
	if s.Force {
		return s, nil // the quarantine is its record; the note of an earlier step stays
	}
	served, err := w.serveURL(j, s)
	if err != nil {
		return s, err
	}
	var boot *site.AgentBoot
	if s.Action == site.ActionStartAgent {
		if boot, err = w.startAgent(j, s); err != nil {
			return s, err
		}
	}
	term, begun := w.e.termNumber(), w.begun(s)
	held := false
	err = w.save(ctx, func(r *site.Recorded) {
		if held = r.Quarantined != nil; held {
			return // quarantined since the gates were passed
		}
		if begun != nil {
			r.Begun = begun
		}
		if s.Impact >= site.ImpactInterrupts && r.Disrupted.IsZero() {
			r.Disrupted = time.Now()
		}
		if s.Action == site.ActionInstall {
			giveWay(r, s)
		}
		changesOwned(r, j.node, s, j.memory.Observed)
		if boot != nil {
			r.Agent = boot
		}
		switch {
		case boot != nil && r.AgentWorks(): // the installation continues once the agent is back
		case !s.Resumed:
			r.InFlight = &site.InFlight{Step: s, Since: time.Now(), Revision: j.revision.ID, Term: term, Served: served}
		case r.InFlight != nil && r.InFlight.Served != served:
			again := *r.InFlight
			again.Served = served
			r.InFlight = &again
		}
		if s.Action == site.ActionFinishInstall {
			installerEnded(r)
		}
		if s.Impact >= site.ImpactReboot && !site.IsInside(s.Facet) {
			settled(false)(r) // the step passed the gates, so a person knows the machine
		}
	})
	switch {
	case err == nil && held:
		err = errHeld
	case err == nil && boot != nil:
		err = w.armed()
	}
	return s, err
}

// giveWay notes that an installation under way gives way to another one. Its machine is
// switched off for that, which does not mean that its installer is done.
func giveWay(r *site.Recorded, s site.Step) {
	if r.UnderWay() == 0 || r.UnderWay() == s.Generation {
		return
	}
	left := underWay(*r)
	if left.CutOff == "" && left.Ended.IsZero() {
		left.CutOff = fmt.Sprintf("by the installation of generation %d", s.Generation)
	}
	r.Installing, r.InFlight = &left, nil
}

// giveUp records a refused step, so that it is not sent again by itself. A step that may
// still be under way stays recorded as in flight and is joined later. The machine may be out
// of service by then, so it keeps its place in the rollout until it is in-sync.
func (w *worker) giveUp(ctx context.Context, s site.Step, err error) error {
	if errors.Is(err, driver.ErrNotPermitted) {
		err = fmt.Errorf("%s of %s: %w", s.Action, w.name, err)
		return errors.Join(err, w.save(ctx, func(r *site.Recorded) {
			if r.InFlight != nil && !r.AgentWorks() {
				r.InFlight = nil // nothing was lost, and the driver has undone its preparations
			}
			notStarted(r, s)
		}))
	}
	err = driver.Say(fmt.Sprintf("%s: %s", s.Action, verdict(err)), fmt.Errorf("%s of %s: %w", s.Action, w.name, err))
	if !errors.Is(err, driver.ErrRefused) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	if s.Force {
		return err // a quarantine is retried
	}
	w.timing = nil
	why := fmt.Sprintf("%s; `slipway retry %s` or a change of its design tries again", verdict(err), w.name)
	return errors.Join(err, w.save(ctx, func(r *site.Recorded) {
		switch {
		case s.ByAgent() && s.Resumed && r.InstallBegun():
			leaveOff(r, s, verdict(err)) // an earlier try may have erased the disks
		case s.Action != site.ActionStartAgent || !r.AgentWorks():
			r.InFlight = nil
		}
		notStarted(r, s)
		r.NoEffect = &site.NoEffect{Step: s.Digest(), When: time.Now(), Why: why}
	}))
}

// notStarted notes that the agent was not started after all: its token is useless.
func notStarted(r *site.Recorded, s site.Step) {
	if b := r.Agent; s.Action == site.ActionStartAgent && b.IsOn() && !b.IsStarted() {
		over := *b
		over.Over = time.Now()
		r.Agent = &over
	}
}

// installerEnded notes that the installer is done: from now on nothing cuts it off.
func installerEnded(r *site.Recorded) {
	if i := r.Installing; i != nil && i.Ended.IsZero() {
		ended := *i
		ended.Ended = time.Now()
		r.Installing = &ended
	}
}

// effect records what a step has done.
func effect(r *site.Recorded, n *site.Node, s site.Step, by driver.Installed) {
	if s.Force {
		return
	}
	if b := r.Agent; s.Action == site.ActionStartAgent && b != nil {
		started := *b
		if started.Started.IsZero() {
			started.Started = time.Now()
		}
		r.Agent, r.NoEffect = &started, nil
		if !r.AgentWorks() {
			r.InFlight = nil
		}
		return
	}
	var given site.FirstBoot
	served := ""
	if r.InFlight != nil {
		given, served = r.InFlight.FirstBoot, r.InFlight.Served
	}
	r.InFlight, r.NoEffect, r.Unhealthy = nil, nil, time.Time{}
	switch s.Action {
	case site.ActionInstall:
		plan.ForgetInside(r)
		r.Installing = &site.Installation{Generation: s.Generation, Image: s.Image.SHA256, Since: time.Now(), Attempt: s.Attempt,
			FirstBoot: given, Served: served, Actions: true}
		if s.ByAgent() { // the agent has finished it
			i := r.Installing
			i.ByAgent, i.Ended, i.Served, i.FirstBoot.HostKeys, i.BootUnknown = true, i.Since, "", by.HostKeys, by.BootUnknown
		}
		if r.Quarantined != nil {
			r.Installing.CutOff = cutByQuarantine
		}
	case site.ActionZeroize:
		if s.Retires() {
			plan.ForgetInside(r)
			r.Installing, r.Installed, r.Owned, r.Retired = nil, nil, site.Owned{}, time.Now()
			r.RetiredLayout = s.Layout
		}
	case site.ActionFinishErase:
		r.Agent = nil
	case site.ActionFinishInstall:
		r.Agent = nil
		if r.Installing == nil {
			return
		}
		done := *r.Installing
		done.Since, done.Served = time.Now(), ""
		_, hasOS := n.Endpoints[site.OS]
		done.Proven = !hasOS
		r.Installed, r.Installing, r.Owned = &done, nil, ownedBy(done)
	}
}

// ownedBy returns the initial list of what Slipway made in a new system. The agent has begun
// a list there, which is unknown until it is seen.
func ownedBy(i site.Installation) site.Owned { return site.Owned{Changing: i.ByAgent} }
