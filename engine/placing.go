package engine

import (
	"maps"
	"slices"

	"github.com/slipway-gitops/slipway/engine/placement"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// place puts the virtual machines of an evaluated design on hypervisors, beside
// those that have a place. What cannot be placed is found like any other
// mistake of the design.
func place(design *site.Site, findings []site.Finding, there map[string]site.Placed) (*site.Site, []site.Finding) {
	if design == nil || site.HasErrors(findings) {
		return design, findings
	}
	design, found := placement.Place(design, there)
	return design, slices.Concat(findings, found)
}

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

// alsoIn are machines that have a place, and those that a design adds to them.
func alsoIn(design *site.Site, there map[string]site.Placed) map[string]site.Placed {
	all := placement.Of(design)
	if len(all) == 0 {
		return there
	}
	maps.Copy(all, there)
	return all
}
