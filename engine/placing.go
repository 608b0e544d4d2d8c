package engine

import (
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// placed are the virtual machines that have a place, also those of nodes that
// the design in force has dropped and that are held.
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

// unmadeLocked says whether nothing of the node's virtual machine was ever made,
// as far as is recorded and seen. Should that be wrong, elsewhere finds it before
// a second one is made.
func (w *worker) unmadeLocked() bool {
	r := w.memory.Recorded
	return r.Adopted == nil && r.Installed == nil && r.Installing == nil && r.InFlight == nil &&
		(plan.Absent(w.memory.Observed) || w.memory.Observed.Seen().IsZero())
}
