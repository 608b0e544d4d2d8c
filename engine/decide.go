package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// decide turns the plan into an outcome, and takes the first step on the way
// if the gates let it.
func (w *worker) decide(ctx context.Context, j job, p site.NodePlan, v view, err error) outcome {
	switch {
	case j.leaving:
		return w.leave(ctx, j)
	case err != nil:
		return w.fail(j, err)
	}
	if len(p.Steps) == 0 || p.Steps[0].Digest() != w.last {
		w.last = "" // the step that was taken has had its effect
	}
	switch {
	case len(p.Steps) > 0:
		return w.take(ctx, j, p.Steps[0])
	case len(p.Blocked) > 0:
		return outcome{state: site.Stalled, reason: p.Blocked[0], wait: observeEvery(j.site)}
	case p.Waiting != "":
		return w.await(j, p.Waiting, v)
	case needsPerson(v.inside):
		return outcome{state: site.Stalled, reason: steady(v.inside), wait: observeEvery(j.site)}
	}
	return w.inSync(ctx, j)
}

func isDenied(err error) bool { return errors.Is(err, driver.ErrDenied) }

func needsPerson(err error) bool { return isDenied(err) || errors.Is(err, driver.ErrRefused) }

// inSync ends first contact and gives the node's place in the rollout back.
func (w *worker) inSync(ctx context.Context, j job) outcome {
	if a := j.memory.Recorded.Adopted; a != nil && a.Settled.IsZero() && !j.node.Decommission {
		if err := w.save(ctx, settle); err != nil {
			return w.fail(j, err)
		}
	}
	if err := w.clearInFlight(ctx); err != nil {
		return w.fail(j, err)
	}
	w.e.backInService(w)
	if h := w.e.pausedNow(w, j); h != nil {
		return outcome{state: h.state, reason: h.sentence, wait: observeEvery(j.site)}
	}
	reason := ""
	if j.node.Decommission {
		reason = "decommissioned: only observed, and may be removed from the design"
	}
	return outcome{state: site.InSync, reason: reason, wait: observeEvery(j.site)}
}

func settle(r *site.Recorded) {
	if r.Adopted != nil && r.Adopted.Settled.IsZero() {
		a := *r.Adopted
		a.Settled = time.Now()
		r.Adopted = &a
	}
}

// clearInFlight drops the note of a step whose effect is there. That of an
// installation stays until its own effect is recorded.
func (w *worker) clearInFlight(ctx context.Context) error {
	return w.save(ctx, func(r *site.Recorded) {
		r.NoEffect = nil
		if !installBegun(*r) {
			r.InFlight = nil
		}
	})
}

// leave removes a departed node, or holds the removal.
func (w *worker) leave(ctx context.Context, j job) outcome {
	if held := w.e.mayLeave(w); held != "" {
		return outcome{state: site.Blocked, reason: held, wait: observeEvery(j.site)}
	}
	if err := w.e.remove(ctx, w); err != nil {
		return w.fail(j, err)
	}
	return outcome{state: site.Progressing, reason: "removed", wait: observeEvery(j.site)}
}

// await watches what is under way on the machine, but not for ever.
func (w *worker) await(j job, what string, v view) outcome {
	r := j.memory.Recorded
	i, limit := r.Installing, installTimeout(j)
	if i == nil {
		i = r.Installed
	}
	if i != nil && (r.Installing != nil || unproven(r)) && time.Since(i.Since) > limit {
		return outcome{state: site.Stalled, reason: fmt.Sprintf("%s, for longer than %s; look at its console, and raise the generation to install it anew", what, limit), wait: observeEvery(j.site)}
	}
	if needsPerson(v.inside) && r.Installing == nil {
		return outcome{state: site.Stalled, reason: steady(v.inside), wait: observeEvery(j.site)}
	}
	return outcome{state: site.Progressing, reason: what, wait: min(waitEvery, observeEvery(j.site))}
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
func (w *worker) take(ctx context.Context, j job, s site.Step) outcome {
	next := s.Summary()
	if why := w.lied(ctx, j, s); why != "" {
		return outcome{state: site.Stalled, reason: why, next: next, wait: observeEvery(j.site)}
	}
	if err := w.e.approveFromDesign(ctx, s); err != nil {
		return w.fail(j, err)
	}
	if err := w.e.steps.Acquire(ctx, 1); err != nil {
		return w.fail(j, err)
	}
	defer w.e.steps.Release(1)
	if held := w.e.gate(w, j, s); held != nil {
		return outcome{state: held.state, reason: held.sentence, next: next, wait: observeEvery(j.site)}
	}
	if w.failures == 0 { // a try that follows a failure is no news
		w.show(ctx, outcome{state: site.Progressing, reason: next, next: next})
	}
	err := w.apply(ctx, j, s)
	if err != nil {
		o := w.fail(j, err)
		o.next = next
		return o
	}
	return outcome{state: site.Progressing, reason: next, next: next}
}

// lied says why a step is not taken again: it was refused, or was reported
// done and the machine is as it was.
func (w *worker) lied(ctx context.Context, j job, s site.Step) string {
	digest := s.Digest()
	if w.last == digest {
		if err := w.save(ctx, func(r *site.Recorded) {
			r.NoEffect = &site.NoEffect{Step: digest, When: time.Now()}
			if !installBegun(*r) {
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
	return fmt.Sprintf("%s was reported done and had no effect (%s); look at the machine, then `slipway retry %s` or change the design", s.Action, s.Summary(), w.name)
}

// apply records the step, takes it, and records its effect. The record comes
// first: without it nothing is written to a machine.
func (w *worker) apply(ctx context.Context, j job, s site.Step) error {
	machine, err := w.open(ctx, j.node, site.Serves[s.Facet])
	if err != nil {
		return err
	}
	if err := w.fence(ctx, site.Serves[s.Facet]); err != nil {
		return err
	}
	if f := j.memory.Recorded.InFlight; f != nil && f.Step.Digest() == s.Digest() && f.Step.Machine == s.Machine {
		s.Resumed = true
	}
	if err := w.save(ctx, func(r *site.Recorded) {
		if !s.Resumed {
			r.InFlight = &site.InFlight{Step: s, Since: time.Now(), Revision: j.revision.ID}
		}
		if s.Impact >= site.ImpactReboot {
			settle(r) // it passed the gates, so a person knows the machine
		}
	}); err != nil {
		return err
	}
	log := w.e.Log.With("node", w.name, "facet", s.Facet, "step", s.Action, "revision", j.revision.Short())
	log.Info("step begun", "impact", s.Impact.String(), "resumed", s.Resumed)
	bounded, done := w.e.whileHeld(ctx)
	err = machine.Apply(bounded, s, j.node, j.memory.Observed)
	done()
	if err != nil {
		log.Warn("step failed", "err", err)
		return w.giveUp(ctx, s, w.remember(site.Serves[s.Facet], err))
	}
	log.Info("step done")
	if err := w.save(ctx, func(r *site.Recorded) { effect(r, j.node, s) }); err != nil {
		return err // still noted as in flight, and joined
	}
	w.last, w.failures = s.Digest(), 0
	return nil
}

// giveUp notes a step that was refused, so that it is not sent again by
// itself; one that may still be under way stays noted as in flight and is
// joined later. The machine may have been taken out of service by then, so it
// keeps its place in the rollout until it is in-sync.
func (w *worker) giveUp(ctx context.Context, s site.Step, err error) error {
	err = fmt.Errorf("%s of %s: %w", s.Action, w.name, err)
	if !errors.Is(err, driver.ErrRefused) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	why := fmt.Sprintf("%s; `slipway retry %s` or a change of its design tries again", steady(err), w.name)
	return errors.Join(err, w.save(ctx, func(r *site.Recorded) {
		r.InFlight = nil
		r.NoEffect = &site.NoEffect{Step: s.Digest(), When: time.Now(), Why: why}
	}))
}

// effect records what a step has done.
func effect(r *site.Recorded, n *site.Node, s site.Step) {
	r.InFlight, r.NoEffect = nil, nil
	switch s.Action {
	case site.ActionInstall:
		r.Installing = &site.Installation{Generation: s.Generation, Image: s.Image.SHA256, Since: time.Now()}
	case site.ActionFinishInstall:
		if r.Installing == nil {
			return
		}
		done := *r.Installing
		done.Since = time.Now()
		_, hasOS := n.Endpoints[site.OS]
		done.Proven = !hasOS
		r.Installed, r.Installing = &done, nil
	}
}
