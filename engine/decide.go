package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// decide turns the plan into an outcome, and takes the first step on the way
// if the gates let it.
func (w *worker) decide(ctx context.Context, j job, p site.NodePlan, v view, err error) outcome {
	switch {
	case j.leaving && j.memory.Recorded.Quarantined == nil:
		return w.leave(ctx, j)
	case err != nil:
		return w.fail(j, err)
	}
	if err := w.forgetHad(ctx, j); err != nil {
		return w.fail(j, err)
	}
	w.timed(j, p)
	if len(p.Steps) == 0 || p.Steps[0].Digest() != w.last {
		w.last = "" // the step that was taken has had its effect
	}
	if len(p.Steps) == 0 || p.Steps[0].Digest() != w.tried.step {
		w.tried = tried{}
	}
	switch {
	case len(p.Steps) > 0 && w.isUnseenSince(j, p.Steps[0]):
		return w.await(j, "waiting for the operating system after the restart", v)
	case len(p.Steps) > 0:
		return w.take(ctx, j, p, p.Steps[0])
	case p.Foreign != "":
		return w.asksPerson(j, site.Foreign, p.Foreign, "accept this system as it is")
	case p.Unproven != "":
		return w.asksPerson(j, site.Blocked, p.Unproven, "accept this system as the installed one")
	case len(p.Blocked) > 0:
		o := outcome{state: site.Stalled, reason: p.Blocked[0], release: cmp.Or(p.Release, "a commit that changes what the reason names"), wait: observeEvery(j.site)}
		if p.Spent {
			o.release = fmt.Sprintf("`slipway retry %s`, or a commit that changes what could not be reached", w.name)
		}
		return o
	case j.memory.Recorded.Quarantined != nil && p.Waiting == "":
		w.disobeyed = false
		return quarantined(j)
	case p.Running != nil:
		return w.awaitAction(j, p, v)
	case p.Waiting != "":
		return w.await(j, p.Waiting, v)
	case len(p.Reported) > 0:
		return outcome{state: site.Blocked, reason: p.Reported[0], person: true, release: "a commit, or the machine as it was",
			wait: observeEvery(j.site)}
	case w.misses(j):
		return w.await(j, "its system has not answered since the last step", v)
	case needsPerson(v.inside):
		return outcome{state: site.Stalled, reason: verdict(v.inside), cause: cause(v.inside), wait: observeEvery(j.site)}
	case w.isUnseenInside(j):
		return w.unseenInside(j, v)
	}
	if why := w.unprovenPorts(j); why != "" {
		return w.awaitPorts(j, why)
	}
	return w.inSync(ctx, j)
}

// isUnseenInside says whether the design asks for something inside the system, which
// did not answer when it was last asked: nobody knows whether it is so still. The
// system of a machine that is off is not asked.
func (w *worker) isUnseenInside(j job) bool {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	return w.blindInside && j.site.Unused(j.node) == "" && j.memory.Observed.Facets[site.FacetPower].Have["state"] != "off" && w.asksInsideLocked(j)
}

// unseenInside is the outcome for a node whose system does not answer, while what is
// designed inside it was as designed when it was last seen.
func (w *worker) unseenInside(j job, v view) outcome {
	o := outcome{state: site.Retrying, reason: "its system does not answer, so Slipway does not know whether it is still as designed inside",
		release: "an answer of the system; look at " + consoleOf(j.node), wait: observeEvery(j.site)}
	if v.inside != nil {
		o.cause = cause(v.inside)
	}
	if seen := j.memory.Observed.Facets[site.FacetOS].Seen; !seen.IsZero() {
		o.reason = fmt.Sprintf("its system does not answer; inside, it was as designed at %s", seen.UTC().Format("2006-01-02 15:04:05Z"))
	}
	return o
}

// asksPerson is the outcome for a machine whose system is not what was expected:
// a person accepts it, or has the machine installed anew.
func (w *worker) asksPerson(j job, state site.State, why, accepts string) outcome {
	return outcome{state: state, reason: why, person: true, wait: observeEvery(j.site), approve: "Slipway is to " + accepts,
		release: fmt.Sprintf("`slipway approve %s` to %s, or a higher generation to install it again", w.name, accepts)}
}

func isDenied(err error) bool { return errors.Is(err, driver.ErrDenied) }

func needsPerson(err error) bool { return isDenied(err) || errors.Is(err, driver.ErrRefused) }

// inSync ends first contact. It gives the node's place in the rollout back once its
// system is healthy. What was changed has to be seen healthy; of another node it is
// enough that nothing bad is known.
func (w *worker) inSync(ctx context.Context, j job) outcome {
	inside := w.hasLookedInside(j)
	if a := j.memory.Recorded.Adopted; a != nil && (a.Settled.IsZero() || inside && a.Inside.IsZero()) && !j.node.Decommission {
		if err := w.save(ctx, settled(inside)); err != nil {
			return w.fail(j, err)
		}
	}
	w.e.mu.Lock()
	health, inHand := w.healthLocked(), w.disrupts || w.e.inHandLocked(w)
	fit := j.node.Health() == nil || health.IsFit() || j.site.Unused(j.node) != ""
	w.e.mu.Unlock()
	if err := w.clearInFlight(ctx, fit); err != nil {
		return w.fail(j, err)
	}
	if fit {
		w.e.mu.Lock()
		w.inServiceLocked(j)
		w.e.mu.Unlock()
	}
	if h := w.e.pausedNow(w, j); h != nil {
		return w.outcome(j, h)
	}
	if !fit && (health.State == site.Unhealthy || inHand) {
		return w.awaitHealth(ctx, j, health)
	}
	o := outcome{state: site.InSync, wait: observeEvery(j.site)}
	switch why := j.site.Unused(j.node); {
	case why != "":
		o.state, o.reason, o.release = site.Paused, why+"; Slipway only observes it", "a commit"
	case j.node.Decommission:
		o.reason = "decommissioned: only observed; you may remove it from the design"
		if j.node.IsVirtual() {
			o.reason = "decommissioned: its virtual machine is gone; you may remove it from the design"
		}
	}
	return o
}

// inServiceLocked gives the node's place in the rollout back. What needs a machine
// that was disrupted is looked at again, inside too.
func (w *worker) inServiceLocked(j job) {
	if w.disrupts {
		w.e.checkDependantsLocked(j.site, j.node.Role)
	}
	w.disrupts = false
}

// misses says whether the machine was disrupted and its system, which was
// there before, is not back yet. One that is off has none to be back.
func (w *worker) misses(j job) bool {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	facets := j.memory.Observed.Facets
	return w.disrupts && w.blindInside && !facets[site.FacetOS].Seen.IsZero() && facets[site.FacetPower].Have["state"] != "off"
}

// outcome is what a gate says, as the outcome of a turn.
func (w *worker) outcome(j job, h *held) outcome {
	return outcome{state: h.state, reason: h.sentence, detail: h.detail, release: h.release, person: h.person, approve: h.approve, until: h.until, wait: observeEvery(j.site)}
}

// hasLookedInside says whether the system answers and the drivers see in it something that
// the design asks for.
func (w *worker) hasLookedInside(j job) bool {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	return !w.blindInside && !w.lookedInside.IsZero() && w.asksInsideLocked(j)
}

// asksInsideLocked says whether the design asks for something inside the system that a driver
// acts on.
func (w *worker) asksInsideLocked(j job) bool {
	served := j.node.Served(w.e.serves)
	return slices.ContainsFunc(site.InsideFacets, func(f site.Facet) bool { return served[f] && j.node.Asks(f) })
}

// settled ends first contact, also with what is inside the system if that is so.
func settled(inside bool) func(*site.Recorded) {
	return func(r *site.Recorded) {
		if r.Adopted == nil {
			return
		}
		a := *r.Adopted
		if a.Settled.IsZero() {
			a.Settled = time.Now()
		}
		if inside && a.Inside.IsZero() {
			a.Inside = time.Now()
		}
		r.Adopted = &a
	}
}

// clearInFlight drops the note of a step whose effect is there. That of an
// installation stays until its own effect is recorded, and that of a disruption until
// the machine is fit to be in service.
func (w *worker) clearInFlight(ctx context.Context, fit bool) error {
	return w.save(ctx, func(r *site.Recorded) {
		r.NoEffect = nil
		if fit {
			r.Disrupted = time.Time{}
		}
		if !r.InstallBegun() {
			r.InFlight = nil
		}
	})
}

// leave removes a departed node, or holds the removal.
func (w *worker) leave(ctx context.Context, j job) outcome {
	if held := w.e.mayLeave(w); held != nil {
		return w.outcome(j, held)
	}
	if err := w.e.remove(ctx, w); err != nil {
		return w.fail(j, err)
	}
	return outcome{state: site.Progressing, reason: "removed", wait: observeEvery(j.site)}
}

// awaited is what a worker waits for on its machine, since when it does, and what
// is recorded of when it began: zero for what nobody has recorded.
type awaited struct {
	what            string
	since, recorded time.Time
}

// longestWait is how long something may be under way on a machine that has no
// time of its own.
const longestWait = 30 * time.Minute

// await watches what is under way on the machine, but not for ever. What is recorded
// counts on over a restart. Where the clock was set back since it may be still to
// come, and the wait of this process counts.
func (w *worker) await(j job, what string, v view) outcome {
	r := j.memory.Recorded
	recorded, limit := time.Time{}, longestWait
	if i := r.Installing; i != nil {
		recorded, limit = i.Since, installTimeout(j)
	} else if unproven(r) {
		recorded, limit = r.Installed.Since, installTimeout(j)
	}
	waited := w.waitedFor(what, recorded)
	if waited > limit {
		return outcome{state: site.Stalled, reason: fmt.Sprintf("%s, for longer than %s; look at %s, and raise the generation to install it again", what, limit, consoleOf(j.node)), wait: observeEvery(j.site)}
	}
	if needsPerson(v.inside) && r.Installing == nil {
		return outcome{state: site.Stalled, reason: verdict(v.inside), cause: cause(v.inside), wait: observeEvery(j.site)}
	}
	return outcome{state: site.Progressing, reason: what, wait: soonEnough(j, waited)}
}

// awaitAction waits for the command of a boot action. The machine ends it when its time is
// over; where that was not seen either, a person has to look.
func (w *worker) awaitAction(j job, p site.NodePlan, v view) outcome {
	waited, limit := w.waitedFor(p.Waiting, time.Time{}), time.Duration(p.Running.Timeout)+actionGrace
	if waited > limit || needsPerson(v.inside) {
		o := outcome{state: site.Stalled, wait: observeEvery(j.site),
			reason: fmt.Sprintf("%s, and Slipway has not seen it end for %s; look at %s", p.Waiting, limit, consoleOf(j.node))}
		if needsPerson(v.inside) {
			o.reason, o.cause = verdict(v.inside), cause(v.inside)
		}
		return o
	}
	return outcome{state: site.Progressing, reason: p.Waiting, wait: soonEnough(j, waited)}
}

// actionGrace is how long it may take until the end of a boot action is seen.
const actionGrace = 10 * time.Minute

// soonEnough is when to look again at what was waited for so long. What is soon over is
// looked at more often: a node may not be late by more than a part of what it waits
// for.
func soonEnough(j job, waited time.Duration) time.Duration {
	return min(max(soonest, waited/50), waitEvery, observeEvery(j.site))
}

// waitedFor is for how long something is waited for.
func (w *worker) waitedFor(what string, recorded time.Time) time.Duration {
	if w.awaited.what != what || !w.awaited.recorded.Equal(recorded) {
		w.awaited = awaited{what, time.Now(), recorded}
	}
	since := w.awaited.since
	if !recorded.IsZero() && recorded.Before(since) {
		since = recorded
	}
	return time.Since(since)
}

// consoleOf is a node's console, and how it is read if we can read it.
func consoleOf(n *site.Node) string {
	if n.IsVirtual() {
		return fmt.Sprintf("its console (`slipway logs %s --console`)", n.Name)
	}
	return "its console"
}

// installTimeout is the image's, or a default when the design no longer has
// the image.
func installTimeout(j job) time.Duration {
	if i := j.site.Images[j.node.Image]; i != nil && i.InstallTimeout > 0 {
		return time.Duration(i.InstallTimeout)
	}
	return 45 * time.Minute
}

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
	if err := w.e.steps.Acquire(ctx, 1); err != nil {
		return w.fail(j, err)
	}
	defer w.e.steps.Release(1)
	if held := w.e.gate(w, j, p, s); held != nil {
		w.stepAside(ctx, j)
		o := w.outcome(j, held)
		o.next = next
		return o
	}
	if err := w.e.saveRollout(ctx); err != nil { // the step may be the first of another one
		return w.fail(j, err)
	}
	if w.failures == 0 && !w.isOldNews(s) {
		w.show(ctx, outcome{state: site.Progressing, reason: next, next: next})
	}
	err := w.apply(ctx, j, s)
	if err != nil {
		if w.timing != nil {
			w.timing.tried = true // a look that fails meanwhile says nothing
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

// isUnseenSince says whether a step that was just done was done for something inside
// the system, which was not looked into since: its effect cannot be judged.
func (w *worker) isUnseenSince(j job, s site.Step) bool {
	return s.Digest() == w.last && slices.ContainsFunc(s.Changes, func(c site.Change) bool {
		name, _, _ := strings.Cut(c.Field, ".")
		f := site.Facet(name)
		return site.IsInside(f) && j.memory.Observed.Facets[f].Seen.Before(w.lastDone)
	})
}

// stepAside gives the place in the rollout of a node back that waits for others
// while its machine is in service: those may wait for the place.
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

// disobeyed is what is said of a machine that does not stay off in quarantine.
const disobeyed = "the machine keeps turning itself on, and Slipway keeps forcing it off; check the machine"

// lied says why a step is not taken again: it was refused, or was reported
// done and the machine is as it was.
func (w *worker) lied(ctx context.Context, j job, s site.Step) string {
	digest := s.Digest()
	if s.Force && w.last == digest {
		w.last, w.disobeyed = "", true // whoever switches it on again, it is switched off again
		return disobeyed
	}
	if w.last == digest {
		w.timing = nil
		if err := w.save(ctx, func(r *site.Recorded) {
			r.NoEffect = &site.NoEffect{Step: digest, When: time.Now()}
			if !r.InstallBegun() {
				r.InFlight = nil
			}
		}); err != nil {
			return steady(err)
		}
	} else if n := j.memory.Recorded.NoEffect; n == nil || n.Step != digest {
		return ""
	} else if n.Why != "" {
		return n.Why
	}
	return fmt.Sprintf("%s was reported as done but had no effect (%s); check the machine, then `slipway retry %s` or change the design", s.Action, s.Summary(), w.name)
}

// apply records the step, takes it, and records its effect. The record comes
// first: without it nothing is written to a machine.
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
		return err // still noted as in flight, and joined
	}
	w.last, w.lastDone, w.failures, w.tried = s.Digest(), time.Now(), 0, tried{}
	w.anew = true
	if s.Impact >= site.ImpactReboot {
		w.inside = time.Time{} // whether its system is back is asked anew
		w.reinspect = true
	}
	return nil
}

// tried is a step of which a try has failed, and why.
type tried struct{ step, why string }

// isOldNews says whether it was told that the step is tried, or is told as the
// node's state.
func (w *worker) isOldNews(s site.Step) bool { return w.disobeyed || w.tried.step == s.Digest() }

// noteFailed tells that a step has failed; of further tries only what fails
// otherwise than the one before.
func (w *worker) noteFailed(j job, s site.Step, err error) {
	now := tried{step: s.Digest(), why: verdict(err)}
	if now != w.tried {
		w.warn(site.EventFailed, j.revision.ID, string(s.Action)+": "+explained(err))
	}
	w.tried = now
}

// send has the driver take the step, for as long as the term is held.
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
	ctx = driver.ShowWaits(ctx, w.showWait)
	if s.Facet == site.FacetNetwork {
		s.Again, w.again = w.again, false
	}
	err := withoutToken(m.Apply(ctx, withServed(s, r), j.node, w.permit(j, s)), r)
	if err != nil {
		err = endpointError{endpointName(j.node, s.Endpoint()), err}
	}
	return errors.Join(err, i.settle(context.WithoutCancel(ctx), err))
}

// showWait notes what the step under way waits for; nil is nothing. Whoever asks for
// the status sees how far that is, and nothing is reported because of it.
func (w *worker) showWait(wait *driver.Wait) {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	w.wait = wait
}

// noteBegun records that the step's first request is about to be sent, and
// gives the step as it is to be taken.
func (w *worker) noteBegun(ctx context.Context, j job, s site.Step) (site.Step, error) {
	if b := j.memory.Recorded.Agent; j.memory.Recorded.InFlight.Is(s) || s.Action == site.ActionStartAgent && b.IsOn() && !b.IsStarted() {
		s.Resumed = true
	}
	if w.timing == nil && !s.Resumed {
		w.timing = &timing{step: s, since: time.Now(), model: plan.Model(j.memory.Observed), wanted: askedInside(j.node, s)}
	}
	if s.Force {
		return s, nil // recorded as the quarantine; what was begun before stays noted
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
			return // since the gates were passed
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
		case boot != nil && r.InstallBegun(): // which goes on once the agent is there again
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
		if s.Impact >= site.ImpactReboot {
			settled(false)(r) // it passed the gates, so a person knows the machine
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

// giveWay notes that an installation under way gives way to another one: its
// machine is switched off for that, which does not mean that its installer is
// done.
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

// giveUp notes a step that was refused, so that it is not sent again by
// itself; one that may still be under way stays noted as in flight and is
// joined later. The machine may have been taken out of service by then, so it
// keeps its place in the rollout until it is in-sync.
func (w *worker) giveUp(ctx context.Context, s site.Step, err error) error {
	if errors.Is(err, driver.ErrNotPermitted) {
		err = fmt.Errorf("%s of %s: %w", s.Action, w.name, err)
		return errors.Join(err, w.save(ctx, func(r *site.Recorded) {
			if r.InFlight != nil && !r.InstallBegun() {
				r.InFlight = nil // nothing was lost, and the driver has taken back what it prepared
			}
			notStarted(r, s)
		}))
	}
	err = driver.Say(fmt.Sprintf("%s: %s", s.Action, verdict(err)), fmt.Errorf("%s of %s: %w", s.Action, w.name, err))
	if !errors.Is(err, driver.ErrRefused) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	if s.Force {
		return err // a quarantine is tried again
	}
	w.timing = nil
	why := fmt.Sprintf("%s; `slipway retry %s` or a change of its design tries again", verdict(err), w.name)
	return errors.Join(err, w.save(ctx, func(r *site.Recorded) {
		switch {
		case s.ByAgent() && s.Resumed && r.InstallBegun():
			leaveOff(r, s, verdict(err)) // an earlier try may have erased the disks
		case s.Action != site.ActionStartAgent || !r.InstallBegun():
			r.InFlight = nil
		}
		notStarted(r, s)
		r.NoEffect = &site.NoEffect{Step: s.Digest(), When: time.Now(), Why: why}
	}))
}

// notStarted notes that the agent was not started after all: its token is of no use.
func notStarted(r *site.Recorded, s site.Step) {
	if b := r.Agent; s.Action == site.ActionStartAgent && b.IsOn() && !b.IsStarted() {
		over := *b
		over.Over = time.Now()
		r.Agent = &over
	}
}

// installerEnded notes that the installer is done: from here on nothing cuts
// it off.
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
		if !r.InstallBegun() {
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
		if s.ByAgent() { // and is done
			i := r.Installing
			i.ByAgent, i.Ended, i.Served, i.FirstBoot.HostKeys, i.BootUnknown = true, i.Since, "", by.HostKeys, by.BootUnknown
		}
		if r.Quarantined != nil {
			r.Installing.CutOff = cutByQuarantine
		}
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

// ownedBy is the list of what Slipway made in a system that was just installed: its agent has
// begun one there, which is not known before it is seen.
func ownedBy(i site.Installation) site.Owned { return site.Owned{Changing: i.ByAgent} }
