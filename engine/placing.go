package engine

import (
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// placed returns the virtual machines that have a place, including those of nodes
// that the design in force has dropped and that are held.
func (e *Engine) placed() map[string]site.Placed {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.placedLocked()
}

func (e *Engine) placedLocked() map[string]site.Placed {
	var all map[string]site.Placed
	for name, w := range e.workers {
		if w.node.Virtual.Host.Hypervisor == "" {
			continue
		}
		if all == nil {
			all = map[string]site.Placed{}
		}
		all[name] = site.Placed{Role: w.node.Role, Virtual: w.node.Virtual, Unmade: w.unmadeLocked()}
	}
	return all
}

// unmadeLocked reports whether nothing of the node's virtual machine was ever
// created, as far as recorded and seen. If that is wrong, elsewhere finds the
// machine before a second one is created.
func (w *worker) unmadeLocked() bool {
	r := w.memory.Recorded
	return r.Adopted == nil && r.Installed == nil && r.Installing == nil && r.InFlight == nil &&
		(plan.Absent(w.memory.Observed) || w.memory.Observed.Seen().IsZero())
}
