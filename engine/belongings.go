package engine

import (
	"context"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// countOthersLocked notes what is still a node's although the design no longer
// says so: of one that has left it until it is removed, and of one that was held
// when it changed.
func (e *Engine) countOthers() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.countOthersLocked()
}

func (e *Engine) countOthersLocked() {
	e.others = map[string]site.Reach{}
	for name, w := range e.workers {
		if w.leaving || w.memory.Recorded.Had != nil {
			e.others[name] = e.reachLocked(w)
		}
	}
}

// reachLocked is how a node's machine is reached, and what it has.
func (e *Engine) reachLocked(w *worker) site.Reach {
	r := site.ReachOf(w.node)
	if had := w.memory.Recorded.Had; had != nil {
		r = *had
	}
	r.Held = e.isHeldLocked(w, w.node) || w.memory.Recorded.Had != nil
	return r
}

// isHeldLocked says whether nothing is done to a node that a design has.
func (e *Engine) isHeldLocked(w *worker, n *site.Node) bool {
	now, r := time.Now(), w.memory.Recorded
	return n.Away != "" || r.Quarantined != nil || n.Paused.Holds(now) || r.Paused.Holds(now) || e.paused.Holds(now)
}

// noteHad records what the machines of nodes that are held have of the design in
// force, before another one says otherwise: nobody else gets it until Slipway has
// acted on them again.
func (e *Engine) noteHad(ctx context.Context, design *site.Site) error {
	for _, w := range e.workersThat(func(w *worker) bool {
		n := design.Nodes[w.name]
		return n != nil && !w.leaving && w.memory.Recorded.Had == nil && (e.isHeldLocked(w, w.node) || e.isHeldLocked(w, n)) &&
			!sameMeaning(site.ReachOf(w.node), site.ReachOf(n))
	}) {
		had := site.ReachOf(w.job().node)
		if err := w.save(ctx, func(r *site.Recorded) { r.Had = &had }); err != nil {
			return err
		}
	}
	return nil
}

// forgetHad is called when Slipway acts on a node again.
func (w *worker) forgetHad(ctx context.Context, j job) error {
	if w.keepsHad(j) {
		return nil
	}
	if err := w.save(ctx, func(r *site.Recorded) { r.Had = nil }); err != nil {
		return err
	}
	w.e.countOthers()
	return nil
}

// keepsHad says whether there is nothing to forget, or Slipway does not act on the node.
func (w *worker) keepsHad(j job) bool {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	return j.memory.Recorded.Had == nil || w.e.isHeldLocked(w, j.node)
}
