package engine

import (
	"fmt"
	"slices"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/say"
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

// guestsGate holds a step that destroys what is on the disks of a hypervisor's node while virtual machines are on it that
// have left the design. Approvals name those of the design alone, so nobody has approved that these are lost.
func (e *Engine) guestsGate(w *worker, s site.Step) *held {
	if _, destroys := s.Destroys(); !destroys || w.node.IsVirtual() || used(w.memory.Recorded, s) {
		return nil
	}
	var left []string
	for name, x := range e.workers {
		was := ""
		if d := x.memory.Recorded.Departed; d != nil {
			was = d.Host // the commit that dropped it may have dropped that too
		}
		isHost := was == w.name || e.hostOfLocked(x.node) == w.name
		if x.leaving && x.node.IsVirtual() && isHost && plan.StillThere(x.node, x.memory) != "" {
			left = append(left, name)
		}
	}
	if len(left) == 0 {
		return nil
	}
	slices.Sort(left)
	return &held{state: site.Blocked, person: true,
		release:  fmt.Sprintf("`slipway approve %s`, after which Slipway forgets that virtual machine and its disks may be lost here, or a commit that puts it back", left[0]),
		sentence: fmt.Sprintf("the disks of %s may have those of virtual machines that have left the design and are still there: %s. No approval names them, so Slipway destroys nothing on this machine", w.name, say.Some(left, mostNamed))}
}

// hostOf returns the node of the hypervisor that a virtual machine is placed on, by the design in force; empty for none.
func (e *Engine) hostOf(n *site.Node) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.hostOfLocked(n)
}

func (e *Engine) hostOfLocked(n *site.Node) string {
	if e.design == nil || !n.IsVirtual() || e.design.Hypervisors[n.Virtual.Host.Hypervisor] == nil {
		return ""
	}
	return e.design.Hypervisors[n.Virtual.Host.Hypervisor].Node
}
