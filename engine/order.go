package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Do carries out a person's order and says what was done. Its errors wrap
// site.ErrNotFound and site.ErrRefused.
func (e *Engine) Do(ctx context.Context, o site.Order) (string, error) {
	select {
	case <-e.ready: // an order must not be overtaken by the records
	case <-ctx.Done():
		return "", ctx.Err()
	}
	var w *worker
	if o.Node != "" {
		e.mu.Lock()
		w = e.workers[o.Node]
		e.mu.Unlock()
		if w == nil {
			return "", fmt.Errorf("%w: site %s has no node %q", site.ErrNotFound, e.Site, o.Node)
		}
	}
	switch {
	case o.Verb == site.VerbApprove && w != nil:
		return e.approveNode(ctx, w, o)
	case o.Verb == site.VerbApprove:
		return e.approveSet(ctx, o)
	case o.Verb == site.VerbPause || o.Verb == site.VerbResume:
		return e.hold(ctx, w, o)
	case o.Verb == site.VerbRetry:
		return e.retry(w), nil
	}
	return "", fmt.Errorf("%w: unknown order %q", site.ErrRefused, o.Verb)
}

// approveSet approves the waiting set of destruction, named by its digest so
// that what is approved is what was read.
func (e *Engine) approveSet(ctx context.Context, o site.Order) (string, error) {
	e.mu.Lock()
	waiting := e.waitingLocked()
	e.mu.Unlock()
	switch {
	case len(waiting) == 0:
		return "", fmt.Errorf("%w: nothing waits for approval", site.ErrRefused)
	case o.Digest != waiting.Digest():
		return "", fmt.Errorf("%w: no set %s waits for approval; what waits now is %s: read it with `slipway plan`", site.ErrRefused, o.Digest, waiting.Digest())
	}
	if err := e.addApproval(ctx, waiting, o.By, o.Reason); err != nil {
		return "", err
	}
	return fmt.Sprintf("approved %s: %d to destroy", waiting.Digest(), len(waiting)), nil
}

func (e *Engine) addApproval(ctx context.Context, set site.Losses, by, note string) error {
	a := record.Approval{Losses: set, Digest: set.Digest(), By: by, Note: note, When: time.Now()}
	err := e.Records.Approve(ctx, a)
	if err != nil {
		return fmt.Errorf("record approval: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.approved = append(e.approved, a)
	for _, loss := range set {
		if w := e.workers[loss.Node]; w != nil {
			w.wakeUp()
		}
	}
	e.Log.Info("destruction approved", "digest", set.Digest(), "by", by, "losses", len(set))
	e.touch()
	return nil
}

// approveFromDesign approves the waiting set, of which the step is a part, when
// the design names its digest.
func (e *Engine) approveFromDesign(ctx context.Context, s site.Step) error {
	if s.Impact != site.ImpactDestructive {
		return nil
	}
	e.mu.Lock()
	waiting := e.waitingLocked()
	var a site.Approval
	var ok bool
	if len(waiting) > 0 && e.design != nil {
		a, ok = e.design.Approvals[waiting.Digest()]
	}
	e.mu.Unlock()
	if !ok {
		return nil
	}
	return e.addApproval(ctx, waiting, a.By+" in the design", a.Note)
}

// approveNode ends a node's first contact, or lets its held removal go.
func (e *Engine) approveNode(ctx context.Context, w *worker, o site.Order) (string, error) {
	e.mu.Lock()
	leaving, a := w.leaving, w.memory.Recorded.Adopted
	e.mu.Unlock()
	switch {
	case leaving && w.busy():
		return "", fmt.Errorf("%w: a step on %s was begun and not finished; it is not removed before", site.ErrRefused, w.name)
	case leaving:
		e.mu.Lock()
		e.removals = append(e.removals, record.Removal{Node: w.name, When: time.Now()})
		e.mu.Unlock()
		return "removed " + w.name + " from the records; its machine is left as it is", e.remove(ctx, w)
	case a != nil && a.Settled.IsZero():
		e.Log.Info("first contact approved", "node", w.name, "by", o.By)
		defer w.wakeUp()
		return w.name + " may be disrupted to be as designed", w.save(ctx, settle)
	}
	return "", fmt.Errorf("%w: neither first contact nor a removal of %s waits for approval; a set of destruction is approved by its digest", site.ErrRefused, w.name)
}

// hold pauses or resumes a node, or the site without one.
func (e *Engine) hold(ctx context.Context, w *worker, o site.Order) (string, error) {
	e.holding.Lock()
	defer e.holding.Unlock()
	var h *site.Hold
	what, done := "site "+e.Site, "resumed "
	if o.Verb == site.VerbPause {
		h, done = &site.Hold{By: o.By, Reason: o.Reason, Since: time.Now(), Until: o.Until}, "paused "
	}
	if w != nil {
		what = w.name
		if err := w.save(ctx, func(r *site.Recorded) { r.Paused = h }); err != nil {
			return "", err
		}
		w.wakeUp()
		return done + what, nil
	}
	if err := e.Records.Pause(ctx, h); err != nil {
		return "", fmt.Errorf("record pause: %w", err)
	}
	e.mu.Lock()
	e.paused = h
	e.mu.Unlock()
	e.wakeAll(func(*worker) {})
	e.touch()
	return done + what, nil
}

// retry tries a node, or all of them, and the repository at once and afresh.
func (e *Engine) retry(w *worker) string {
	signal(e.poke)
	if w != nil {
		e.mu.Lock()
		w.fresh = true
		e.mu.Unlock()
		w.wakeUp()
		return "trying " + w.name + " again"
	}
	e.wakeAll(func(w *worker) { w.fresh = true })
	return "trying every node again"
}

func (e *Engine) wakeAll(mark func(*worker)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range e.workers {
		mark(w)
		w.wakeUp()
	}
}
