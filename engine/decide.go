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
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/rollout"
	"github.com/slipway-gitops/slipway/engine/site"
)

// decide turns the plan into an outcome, and takes the first step if the gates let it.
func (w *worker) decide(ctx context.Context, j job, p site.NodePlan, v view, err error) outcome {
	switch {
	case j.leaving && j.memory.Recorded.Quarantined == nil && (err != nil || !turnsOff(p)):
		return w.leave(ctx, j)
	case err != nil:
		return w.fail(j, err)
	}
	if err := w.forgetHad(ctx, j); err != nil {
		return w.fail(j, err)
	}
	w.timed(j, p)
	if len(p.Steps) == 0 || p.Steps[0].Digest() != w.last {
		w.last = "" // the step has had its effect
	}
	if len(p.Steps) == 0 || p.Steps[0].Digest() != w.tried.step {
		w.tried = tried{}
	}
	switch {
	case len(p.Steps) > 0 && w.isUnseenSince(j, p.Steps[0]):
		return w.await(j, "waiting for the operating system after the restart", v)
	case len(p.Steps) > 0 && w.isRestartUnseen(j, p.Steps[0]):
		return w.unseenInside(j, v)
	case len(p.Steps) > 0:
		return w.take(ctx, j, p, p.Steps[0])
	case p.Foreign != "":
		return w.asksPerson(j, site.Foreign, p.Foreign, "accept this system as it is")
	case p.Unproven != "":
		return w.asksPerson(j, site.Blocked, p.Unproven, "accept this system as the installed one")
	case len(p.Blocked) > 0:
		return w.blocked(j, p)
	case j.memory.Recorded.Quarantined != nil && p.Waiting == "":
		w.disobeyed = false
		return quarantined(j)
	case p.Running != nil:
		return w.awaitAction(j, p, v)
	case p.Waiting != "":
		return w.await(j, p.Waiting, v)
	case len(p.Reported) > 0:
		return w.reported(j, p)
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

// blocked is the outcome where the plan says why nothing can be done.
func (w *worker) blocked(j job, p site.NodePlan) outcome {
	o := outcome{state: site.Stalled, reason: p.Blocked[0], release: cmp.Or(p.Release, "a commit that changes what the reason names"), wait: observeEvery(j.site)}
	if j.memory.Observed.Agent.IsConnected() {
		o.wait = min(o.wait, agentEvery) // a fix is seen at once: the machine is out of service meanwhile
	}
	if q := w.asksCertificate(j); q.text != "" {
		o.asks, o.person = q, true
	}
	if p.Spent {
		o.release = fmt.Sprintf("`slipway retry %s`, or a commit that changes what could not be reached", w.name)
	}
	return o
}

// turnsOff reports whether the next step switches off a machine whose disks were erased. That
// happens before its node leaves.
func turnsOff(p site.NodePlan) bool {
	return len(p.Steps) > 0 && p.Steps[0].Action == site.ActionFinishErase
}

// isUnseenInside reports whether the design asks for something inside the system, and the system did
// not answer last time. Then nobody knows whether it is still as designed. Slipway does not ask the
// system of a machine that is off.
func (w *worker) isUnseenInside(j job) bool {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	return w.blindInside && j.site.Unused(j.node) == "" && j.memory.Observed.Facets[site.FacetPower].Have["state"] != "off" && w.asksInsideLocked(j)
}

// isRestartUnseen reports whether a step would restart the machine for what its system said alone, and the system does
// not answer now: somebody may have booted it since.
func (w *worker) isRestartUnseen(j job, s site.Step) bool {
	if s.Action != site.ActionRestart || rollout.Continues(j.memory.Recorded, s) || !w.isUnseenInside(j) {
		return false
	}
	return !slices.ContainsFunc(s.Changes, func(c site.Change) bool {
		of, _, _ := strings.Cut(c.Field, ".")
		return !site.IsInside(site.Facet(of))
	})
}

// unseenInside returns the outcome for a node whose system does not answer, but was as designed
// inside when last seen.
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

// asksPerson returns the outcome for a machine with an unexpected system. A person accepts the
// system, or has the machine installed again.
func (w *worker) asksPerson(j job, state site.State, why, accepts string) outcome {
	return outcome{state: state, reason: why, person: true, wait: observeEvery(j.site), asks: question{kind: asksSystem, text: "Slipway is to " + accepts},
		release: fmt.Sprintf("`slipway approve %s` to %s, or a higher generation to install it again", w.name, accepts)}
}

func isDenied(err error) bool { return errors.Is(err, driver.ErrDenied) }

func needsPerson(err error) bool { return isDenied(err) || errors.Is(err, driver.ErrRefused) }

// inSync ends first contact, and gives back the node's place in the rollout once its system is
// healthy. A node that was changed must be seen healthy. For any other node it is enough that
// nothing bad is known.
func (w *worker) inSync(ctx context.Context, j job) outcome {
	inside := w.hasLookedInside(j)
	if a := j.memory.Recorded.Adopted; a != nil && (a.Settled.IsZero() || inside && a.Inside.IsZero()) && !j.node.Decommission {
		if err := w.save(ctx, settled(inside)); err != nil {
			return w.fail(j, err)
		}
	}
	health, inHand := w.healthInHand()
	fit := j.node.Health() == nil || health.IsFit() || j.site.Unused(j.node) != ""
	if err := w.clearInFlight(ctx, fit); err != nil {
		return w.fail(j, err)
	}
	if fit {
		w.inService(j)
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
		switch {
		case j.node.IsVirtual() && !plan.Absent(j.memory.Observed):
			o.reason = "decommissioned: the machine of that name is not Slipway's and stays; you may remove the node from the design"
		case j.node.IsVirtual():
			o.reason = "decommissioned: its virtual machine is gone; you may remove it from the design"
		case j.node.Retires() && plan.HasRetired(j.node, j.memory.Recorded):
			o.reason = "decommissioned: its disks are erased" + plan.NotErased(j.memory) + "; you may remove it from the design"
		}
	}
	return o
}

// healthInHand returns the health of the node's system, and whether its machine is disrupted or was
// begun in the rollout under way.
func (w *worker) healthInHand() (health site.SystemHealth, inHand bool) {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	return w.healthLocked(), w.disrupts || w.e.inHandLocked(w)
}

func (w *worker) inService(j job) {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	w.inServiceLocked(j)
}

// inServiceLocked gives back the node's place in the rollout. If the machine was disrupted, nodes
// that need its role are looked at again, inside too.
func (w *worker) inServiceLocked(j job) {
	if w.disrupts {
		w.e.checkDependantsLocked(j.site, j.node.Role)
	}
	w.disrupts = false
}

// misses reports whether the machine was disrupted and its system, which was there before, is not
// back yet. It is false for a machine that is off.
func (w *worker) misses(j job) bool {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	facets := j.memory.Observed.Facets
	return w.disrupts && w.blindInside && !facets[site.FacetOS].Seen.IsZero() && facets[site.FacetPower].Have["state"] != "off"
}

// outcome returns a gate's verdict as the outcome of a reconcile.
func (w *worker) outcome(j job, h *held) outcome {
	return outcome{state: h.state, reason: h.sentence, detail: h.detail, release: h.release, person: h.person, asks: h.asks, until: h.until, wait: observeEvery(j.site)}
}

// hasLookedInside reports whether the system answers and the drivers see something there that the
// design asks for.
func (w *worker) hasLookedInside(j job) bool {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	return !w.blindInside && !w.lookedInside.IsZero() && w.asksInsideLocked(j)
}

// asksInsideLocked reports whether the design asks for something inside the system that a driver
// manages.
func (w *worker) asksInsideLocked(j job) bool {
	served := j.node.Served(w.e.serves)
	return slices.ContainsFunc(site.InsideFacets, func(f site.Facet) bool { return served[f] && j.node.Asks(f) })
}

// settled ends first contact, and with inside also first contact with the inside of the system.
func settled(inside bool) func(*site.Recorded) { return met(true, inside) }

// met ends first contact with the machine, with the inside of its system, or with both.
func met(machine, inside bool) func(*site.Recorded) {
	return func(r *site.Recorded) {
		if r.Adopted == nil {
			return
		}
		a := *r.Adopted
		if machine && a.Settled.IsZero() {
			a.Settled = time.Now()
		}
		if inside && a.Inside.IsZero() {
			a.Inside = time.Now()
		}
		r.Adopted = &a
	}
}

// clearInFlight drops the note of a step whose effect is there. An installation's note stays until
// its own effect is recorded. A disruption's note stays until the machine is fit for service.
func (w *worker) clearInFlight(ctx context.Context, fit bool) error {
	return w.save(ctx, func(r *site.Recorded) {
		r.NoEffect = nil
		if fit {
			r.Disrupted = time.Time{}
		}
		if !r.AgentWorks() {
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

// awaited is what a worker waits for on its machine and since when. recorded is when it began by the
// records; zero if they do not say.
type awaited struct {
	what            string
	since, recorded time.Time
}

// longestWait limits what is under way on a machine and has no limit of its own.
const longestWait = 30 * time.Minute

// await watches what is under way on the machine, but not forever. A recorded start counts across
// restarts. If the clock was set back since, that start may be in the future; then the wait of this
// process counts.
func (w *worker) await(j job, what string, v view) outcome {
	r := j.memory.Recorded
	recorded, limit := time.Time{}, longestWait
	if i := r.Installing; i != nil {
		recorded, limit = i.Since, installTimeout(j)
	} else if unproven(r) {
		recorded, limit = r.Installed.Since, installTimeout(j)
	}
	waited := w.waitedFor(what, recorded)
	if waited > limit && plan.OpenedAtConsole(j.node) {
		return outcome{state: site.Stalled, reason: fmt.Sprintf("%s, for longer than %s; look at %s: where it asks for the passphrase of the disks, type it (`slipway secret derive %s \"disk encryption\"`), and the installation goes on", what, limit, consoleOf(j.node), j.node.Name), wait: observeEvery(j.site)}
	}
	if waited > limit {
		return outcome{state: site.Stalled, reason: fmt.Sprintf("%s, for longer than %s; look at %s, and raise the generation to install it again", what, limit, consoleOf(j.node)), wait: observeEvery(j.site)}
	}
	if needsPerson(v.inside) && r.Installing == nil {
		return outcome{state: site.Stalled, reason: verdict(v.inside), cause: cause(v.inside), wait: observeEvery(j.site)}
	}
	return outcome{state: site.Progressing, reason: what, wait: soonEnough(j, waited)}
}

// awaitAction waits for the command of a boot action. The machine ends the command when its time is
// over. If Slipway does not see that end either, a person has to look.
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

// actionGrace is how long Slipway may take to see the end of a boot action.
const actionGrace = 10 * time.Minute

// soonEnough returns when to look again after waiting for the given time. Short waits are checked
// more often: a node may be late only by a small part of its wait.
func soonEnough(j job, waited time.Duration) time.Duration {
	return min(max(soonest, waited/50), waitEvery, observeEvery(j.site))
}

// waitedFor returns how long the worker has waited for something.
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

// consoleOf names a node's console, and how to read it if Slipway can.
func consoleOf(n *site.Node) string {
	if n.IsVirtual() {
		return fmt.Sprintf("its console (`slipway logs %s --console`)", n.Name)
	}
	return "its console"
}

// installTimeout returns the image's timeout, or a default if the design no longer has the image.
func installTimeout(j job) time.Duration {
	if i := j.site.Images[j.node.Image]; i != nil && i.InstallTimeout > 0 {
		return time.Duration(i.InstallTimeout)
	}
	return 45 * time.Minute
}
