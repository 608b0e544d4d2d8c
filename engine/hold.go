package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/slipway-gitops/slipway/engine/site"
)

// errHeld ends a reconcile under way when a person stops Slipway from changing
// a machine.
var errHeld = errors.New("a person holds the node")

// pausedNow returns the verdict if the node or the site is paused.
func (e *Engine) pausedNow(w *worker, j job) *held {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pausedLocked(w, j)
}

func (e *Engine) pausedLocked(w *worker, j job) *held {
	now := time.Now()
	if h := pausedGate(now, e.paused, "the site"); h != nil {
		h.release = "`slipway resume --all`"
		return h
	}
	if h := pausedGate(now, w.memory.Recorded.Paused, "the node"); h != nil {
		h.release = "`slipway resume " + w.name + "`"
		return h
	}
	h := pausedGate(now, j.node.Paused, "in the design, the node")
	if h != nil {
		h.release = "a commit that takes `paused` away"
	}
	return h
}

func pausedGate(now time.Time, h *site.Hold, what string) *held {
	if !h.Holds(now) {
		return nil
	}
	paused := &held{state: site.Paused, sentence: fmt.Sprintf("%s is paused by %s: %s", what, h.By, h.Reason), until: h.Until}
	if !h.Until.IsZero() {
		paused.sentence += ", until " + h.Until.UTC().Format(time.RFC3339)
	}
	return paused
}

// quarantined returns the outcome for a machine under quarantine.
func quarantined(j job) outcome {
	q := j.memory.Recorded.Quarantined
	state := "its power is not known"
	if p := j.memory.Observed.Facets[site.FacetPower]; !p.Seen.IsZero() {
		state = "the machine is " + p.Have["state"]
	}
	return outcome{state: site.Paused, reason: fmt.Sprintf("quarantined by %s: %s; %s", q.By, q.Reason, state),
		release: "`" + q.Release(j.node.Name) + "`", wait: observeEvery(j.site)}
}

// hold pauses, resumes, quarantines or releases a node, or the whole site if w
// is nil. Work under way on a machine stops before its next request.
func (e *Engine) hold(ctx context.Context, w *worker, o site.Order) (string, error) {
	e.holding.Lock()
	defer e.holding.Unlock()
	h := &site.Hold{By: o.By, Reason: o.Reason, Since: time.Now(), Until: o.Until}
	if o.Verb == site.VerbResume || o.Verb == site.VerbRelease {
		h = nil
	}
	past := map[site.Verb]string{site.VerbPause: "paused ", site.VerbResume: "resumed ", site.VerbQuarantine: "quarantined ", site.VerbRelease: "released "}[o.Verb]
	var err error
	what := "site " + e.Site
	switch {
	case w != nil:
		what, err = w.name, e.holdThese(ctx, []*worker{w}, o.Verb, h)
	case o.Verb == site.VerbQuarantine || o.Verb == site.VerbRelease:
		all := e.workersThat(func(*worker) bool { return true })
		if len(all) == 0 && h != nil {
			return "", fmt.Errorf("%w: Slipway knows no node of site %s yet, so there is none to switch off; `slipway pause --all` pauses future nodes as well", site.ErrRefused, e.Site)
		}
		err = e.holdThese(ctx, all, o.Verb, h)
	default:
		err = e.pauseSite(ctx, h)
	}
	if err != nil {
		return "", err
	}
	if h != nil && !h.Until.IsZero() {
		what += " until " + h.Until.UTC().Format(time.RFC3339)
	}
	if w != nil && o.Verb == site.VerbQuarantine && !w.job().node.Machine().Known() {
		return past + what + "; " + noMachine + ": switch it off by hand", nil
	}
	return past + what, nil
}

// hold records a hold on the node, and stops what is under way.
func (w *worker) hold(ctx context.Context, v site.Verb, h *site.Hold) error {
	err := w.save(ctx, func(r *site.Recorded) {
		if v == site.VerbQuarantine || v == site.VerbRelease {
			r.Quarantined = h
			if h != nil {
				cutOff(r)
			}
		} else {
			r.Paused = h
		}
	})
	if err == nil {
		w.interrupt(h != nil)
	}
	if err == nil && v == site.VerbQuarantine {
		w.askNothing() // what it was asked about is as it was before
	}
	return err
}

// cutByQuarantine is why an installation was cut off.
const cutByQuarantine = "by a quarantine"

// cutOff notes that an installation under way will not finish: that the machine
// is off no longer means that its installer is done.
func cutOff(r *site.Recorded) {
	if r.UnderWay() == 0 {
		return
	}
	if i := r.Installing; i != nil && !i.Ended.IsZero() {
		r.InFlight = nil // all but the first boot is done
		return
	}
	cut := underWay(*r)
	cut.CutOff = cutByQuarantine
	r.Installing, r.InFlight = &cut, nil
}

// holdAll puts nodes under quarantine.
func (e *Engine) holdAll(ctx context.Context, those []*worker, h *site.Hold) error {
	e.holding.Lock()
	defer e.holding.Unlock()
	return e.holdThese(ctx, those, site.VerbQuarantine, h)
}

// holdThese applies a hold to some nodes. Released nodes first get their missed
// rollout.
func (e *Engine) holdThese(ctx context.Context, those []*worker, v site.Verb, h *site.Hold) error {
	if v == site.VerbRelease {
		if err := e.rollOutMissed(ctx, slices.DeleteFunc(slices.Clone(those), func(w *worker) bool { return w.job().memory.Recorded.Quarantined == nil })); err != nil {
			return err
		}
	}
	var g errgroup.Group
	g.SetLimit(64)
	for _, w := range those {
		g.Go(func() error { return w.hold(ctx, v, h) })
	}
	return g.Wait()
}

// pauseSite records a hold on the whole site.
func (e *Engine) pauseSite(ctx context.Context, h *site.Hold) error {
	if err := e.Records.Pause(ctx, h); err != nil {
		return fmt.Errorf("record pause: %w", err)
	}
	e.mu.Lock()
	e.paused = h
	e.mu.Unlock()
	for _, w := range e.workersThat(func(*worker) bool { return true }) {
		w.interrupt(h != nil)
	}
	e.touch()
	return nil
}

// interrupt makes the worker reconcile again at once. With stop, the reconcile
// under way ends before its next request.
func (w *worker) interrupt(stop bool) {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	if stop && w.cut != nil {
		w.cut(errHeld)
	}
	w.fresh = w.fresh || w.memory.Recorded.Quarantined != nil // skips the wait between tries
	w.wakeUp()
}
