package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// countOthers notes what still belongs to nodes although the design no longer says so. A
// node that has left the design keeps it until it is removed; so does a node that was
// held when its design changed.
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

// reachLocked returns how a node's machine is reached, and what it has.
func (e *Engine) reachLocked(w *worker) site.Reach {
	r := site.ReachOf(w.node)
	if had := w.memory.Recorded.Had; had != nil {
		r = *had
	}
	r.Held = e.isHeldLocked(w, w.node) || w.memory.Recorded.Had != nil
	return r
}

// isHeldLocked reports whether Slipway does nothing to a node that a design has.
func (e *Engine) isHeldLocked(w *worker, n *site.Node) bool {
	now, r := time.Now(), w.memory.Recorded
	return n.Away != "" || r.Quarantined != nil || n.Paused.Holds(now) || r.Paused.Holds(now) || e.paused.Holds(now)
}

// noteHad records what held nodes' machines have by the design in force, before a new
// design changes that. No other node gets it until Slipway has acted on the held nodes
// again.
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

// ofKept refuses names that belong to machines which Slipway keeps for other nodes: for one that has left the design and is
// not removed, or for one that is held and had them before the design in force. Whoever has a certificate for a name
// of theirs could pass for them.
func (e *Engine) ofKept(node string, names []string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, other := range slices.Sorted(maps.Keys(e.others)) {
		if other == node {
			continue
		}
		for _, name := range names {
			if slices.Contains(e.others[other].Names, site.TLSName(name)) {
				return fmt.Errorf("%w: %s asks for a certificate for %s, which belongs to %s. Slipway still keeps the machine of %[4]s: it left the design and is not removed yet, or is held and had this name before. Remove or release %[4]s, or take the name out of the design of %[2]s",
					driver.ErrRefused, node, site.Printable(name), other)
			}
		}
	}
	return nil
}

// forgetHad drops that record. It is called when Slipway acts on a node again.
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

// keepsHad reports whether there is nothing to forget, or Slipway does not act on the
// node.
func (w *worker) keepsHad(j job) bool {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	return j.memory.Recorded.Had == nil || w.e.isHeldLocked(w, j.node)
}
