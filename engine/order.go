package engine

import (
	"context"
	"fmt"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Do carries out a person's order and returns what was done. Its errors wrap
// site.ErrNotFound and site.ErrRefused.
func (e *Engine) Do(ctx context.Context, o site.Order) (string, error) {
	select {
	case <-e.ready: // loading the records must not overtake an order
	case <-ctx.Done():
		return "", ctx.Err()
	}
	var w *worker
	if o.Node != "" {
		e.mu.Lock()
		w = e.workers[o.Node]
		e.mu.Unlock()
		if w == nil && (o.Verb != site.VerbRelease || o.Incident == "") { // a node that has left may be in an incident
			return "", fmt.Errorf("%w: site %s has no node %q", site.ErrNotFound, e.Site, o.Node)
		}
	}
	done, err := e.carryOutIfActing(ctx, w, o)
	if err == nil && o.Verb != site.VerbApprove || err == nil && w != nil {
		text := done
		if o.Reason != "" {
			text += ": " + o.Reason
		}
		e.note(site.Event{Node: o.Node, Kind: site.EventOrder, By: o.By, Text: text})
	}
	if herr := e.writeHistory(ctx); herr != nil {
		e.Log.Warn("history not recorded", "err", herr)
	}
	return done, err
}

// carryOutIfActing carries out an order. It refuses orders about approvals if
// another daemon acts for the site, since that daemon would act on its own
// approvals. Any other order is carried out here, and the answer says that it
// does not affect the other daemon.
func (e *Engine) carryOutIfActing(ctx context.Context, w *worker, o site.Order) (string, error) {
	if o.Verb == site.VerbTakeOver {
		return e.carryOut(ctx, w, o)
	}
	approvals := o.Verb == site.VerbApprove || o.Verb == site.VerbDisapprove || o.Verb == site.VerbGrant
	if approvals {
		e.checkAnchor(ctx)
	}
	barred := e.whyBarred()
	if approvals && barred != "" {
		return "", fmt.Errorf("%w: nothing was changed, because this daemon does not act for the site: %s", site.ErrRefused, barred)
	}
	done, err := e.carryOut(ctx, w, o)
	if err == nil && barred != "" {
		done += ", but only here: this daemon does not act for the site: " + barred
	}
	return done, err
}

func (e *Engine) carryOut(ctx context.Context, w *worker, o site.Order) (string, error) {
	switch {
	case o.Verb == site.VerbApprove && w != nil:
		return e.approveNode(ctx, w, o)
	case o.Verb == site.VerbApprove:
		return e.approveSet(ctx, o)
	case o.Verb == site.VerbDisapprove:
		return e.disapprove(ctx, w, o)
	case o.Verb == site.VerbPause, o.Verb == site.VerbResume, o.Verb == site.VerbQuarantine:
		return e.hold(ctx, w, o)
	case o.Verb == site.VerbRelease:
		return e.release(ctx, w, o)
	case o.Verb == site.VerbIncident:
		return e.compromise(ctx, o)
	case o.Verb == site.VerbGrant:
		return e.grant(ctx, o)
	case o.Verb == site.VerbTakeOver:
		return e.takeOver(ctx, o)
	case o.Verb == site.VerbRetry:
		return e.retry(w), nil
	}
	return "", fmt.Errorf("%w: unknown order %q", site.ErrRefused, o.Verb)
}

// retry immediately retries the repository and a node, or all nodes, from a fresh
// start.
func (e *Engine) retry(w *worker) string {
	signal(e.poke)
	if e.Artifacts != nil {
		e.Artifacts.Retry()
	}
	if w != nil {
		e.mu.Lock()
		w.fresh, w.retried, w.singled, w.thorough = true, true, true, true
		e.mu.Unlock()
		w.wakeUp()
		return "trying " + w.name + " again"
	}
	e.wakeAll(func(w *worker) { w.fresh, w.retried, w.thorough = true, true, true })
	e.goOn()
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
