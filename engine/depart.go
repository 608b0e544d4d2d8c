package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/rollout"
	"github.com/slipway-gitops/slipway/engine/site"
)

// removalWindow is the rolling period over which removals are counted.
const removalWindow = 24 * time.Hour

// noteDepartures records the last design of every node that this design is the first to drop.
// A node is removed if it was decommissioned in an earlier revision and the budget allows it.
// Otherwise its removal is held and Slipway only observes the machine.
func (e *Engine) noteDepartures(ctx context.Context, rev site.Revision, design *site.Site) error {
	for _, w := range e.dropped(design) {
		d := &site.Departure{Revision: rev.ID, When: time.Now(), Node: w.node, Host: e.hostOf(w.node)}
		if err := w.save(ctx, func(r *site.Recorded) { r.Departed = d }); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) dropped(design *site.Site) []*worker {
	return e.workersThat(func(w *worker) bool { return design.Nodes[w.name] == nil && !w.leaving })
}

// forgetDepartures drops the notes of nodes that the design has again. Only accept calls it,
// between two designs: a reconcile that began before a design was accepted must not remove a
// note made for it.
func (e *Engine) forgetDepartures(ctx context.Context) error {
	for _, w := range e.workersThat(func(w *worker) bool { return !w.leaving && w.memory.Recorded.Departed != nil }) {
		if err := w.save(ctx, func(r *site.Recorded) { r.Departed = nil }); err != nil {
			return err
		}
	}
	return nil
}

// workersThat returns the workers for which a condition holds.
func (e *Engine) workersThat(holds func(*worker) bool) []*worker {
	e.mu.Lock()
	defer e.mu.Unlock()
	var those []*worker
	for _, w := range e.workers {
		if holds(w) {
			those = append(those, w)
		}
	}
	return those
}

// mayLeave returns why a departed node's removal is held. If it is not held, mayLeave counts
// the removal against the budget.
func (e *Engine) mayLeave(w *worker) *held {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !w.leaving {
		return &held{state: site.Blocked, sentence: "back in the design since this look began"}
	}
	if why := w.staysLocked(); why != "" {
		return waitsToLeave(why)
	}
	d := w.memory.Recorded.Departed
	if d == nil {
		return waitsToLeave("a step on its machine was begun and not finished")
	}
	rev := site.Revision{ID: d.Revision}
	if w.memory.Recorded.Decommissioned.IsZero() {
		return w.heldBack(true, "a commit that puts the node back with `decommission: true`",
			fmt.Sprintf("revision %s removes the node, which was not decommissioned first; Slipway keeps the node and only observes it: put it back with `decommission: true`, or run `slipway approve %s`", rev.Short(), w.name))
	}
	r := w.memory.Recorded
	if (r.Retires || w.node.Retires()) && !plan.HasRetired(w.node, r) {
		return w.heldBack(true, "a commit that puts the node back with `decommission: {erase: \"secure\"}`",
			fmt.Sprintf("revision %s removes the node, and its disks were not erased, as its design asked; Slipway keeps the node: put it back and approve the erase, or run `slipway approve %s` to let it go with what is on its disks", rev.Short(), w.name))
	}
	if r.Retires && r.Agent != nil {
		return waitsToLeave("its disks are erased, and the machine is not off yet")
	}
	if plan.StillThere(w.node, w.memory) != "" {
		return w.heldBack(true, "a commit that puts the node back with `decommission: true`",
			fmt.Sprintf("revision %s removes the node, and its virtual machine is still on %s; Slipway keeps the node: put it back with `decommission: true` and approve that the machine goes, or run `slipway approve %s` to leave it there, where Slipway no longer manages it",
				rev.Short(), w.node.Virtual.Host.Hypervisor, w.name))
	}
	recent := 0
	for _, x := range e.removals {
		if time.Since(x.When) < removalWindow {
			recent++
		}
	}
	if budget := removalBudget(len(e.workers)); recent >= budget {
		return w.heldBack(false, "24 h after the oldest of these removals",
			fmt.Sprintf("revision %s removes the node, and %d of %d removals in 24 h are used; Slipway keeps the node until one is free, or run `slipway approve %s`", rev.Short(), recent, budget, w.name))
	}
	e.removals = append(e.removals, record.Removal{Node: w.name, When: time.Now()})
	return nil
}

func waitsToLeave(why string) *held {
	return &held{state: site.Blocked, sentence: "its removal waits: " + why}
}

// heldBack returns the gate's verdict for a removal that a person can release.
func (w *worker) heldBack(person bool, release, sentence string) *held {
	return &held{state: site.Blocked, person: person, sentence: sentence, release: fmt.Sprintf("%s, or `slipway approve %s`", release, w.name),
		asks: question{kind: asksRemoval, text: "Slipway removes it from the records, and does not change its machine"}}
}

// removalBudget returns how many nodes of a site may be removed in a day: one in twenty, and
// at least one.
func removalBudget(nodes int) int { return max(1, nodes/20) }

// remove deletes a departed node from the records and ends its worker. The machine stays as
// it is.
func (e *Engine) remove(ctx context.Context, w *worker) error {
	gone := record.Removal{Node: w.name, When: time.Now()}
	if err := e.Records.Removed(ctx, gone); err != nil {
		return fmt.Errorf("record removal of %s: %w", w.name, err)
	}
	if err := e.closeAccount(ctx, w.name, "the node was removed"); err != nil {
		return fmt.Errorf("record removal of %s: %w", w.name, err)
	}
	if err := e.signLists(ctx); err != nil { // they are all that knows its certificates from then on
		return fmt.Errorf("record removal of %s: %w", w.name, err)
	}
	if err := w.forget(ctx); err != nil {
		return fmt.Errorf("record removal of %s: %w", w.name, err)
	}
	w.stop()
	e.machineLogs.forget(w.name)
	e.mu.Lock()
	if e.workers[w.name] == w {
		delete(e.workers, w.name)
		w.memory.Recorded = site.Recorded{}
		w.grantLocked()
		e.countOthersLocked()
		for _, x := range e.workers {
			if x.status.State == site.Stalled {
				x.wakeUp() // what the removed node had may be free now
			}
		}
		e.leaveRoleLocked(w)
		e.stopWaitingLocked(w)
		e.undecided.known = false
		e.wakeLocked(rollout.RoleTopic(w.node.Role))
		e.freePlacesLocked()
		if n := e.design.Nodes[w.name]; n != nil {
			e.startLocked(n, site.Memory{}, false) // put back while being removed
		}
	}
	e.mu.Unlock()
	e.Log.Info("node removed", "node", w.name)
	e.touch()
	return nil
}

// staysLocked says why nobody's word lets the node leave the records: they have what its machine needs.
func (w *worker) staysLocked() string {
	r := w.memory.Recorded
	if h := pausedGate(time.Now(), w.e.paused, "the site"); h != nil {
		return h.sentence
	}
	switch why := w.e.whyReadOnlyLocked(); {
	case why != "":
		return why
	case r.Quarantined != nil:
		return "quarantined by " + r.Quarantined.By
	case r.Ports != nil:
		return site.PortsText(r.Ports.Ports) + " was prepared for a start over the network, and is not back"
	case r.InFlight != nil || r.Installing != nil:
		return "a step on its machine was begun and not finished"
	}
	return ""
}

// forget deletes the node from the records; nothing saves it again.
func (w *worker) forget(ctx context.Context) error {
	w.saving.Lock()
	defer w.saving.Unlock()
	if why := w.stays(); why != "" {
		return fmt.Errorf("%w: %s was not removed from the records: %s", site.ErrRefused, w.name, why)
	}
	w.gone = true
	return w.e.Records.DeleteNode(ctx, w.name)
}

func (w *worker) stays() string {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	return w.staysLocked()
}

// noteDecommissions records which nodes a design decommissions or no longer does, whether or
// not their machines can be seen.
func (e *Engine) noteDecommissions(ctx context.Context) error {
	for _, w := range e.workersThat(func(w *worker) bool {
		r := w.memory.Recorded
		return !w.leaving && (w.node.Decommission == r.Decommissioned.IsZero() || w.node.Retires() != r.Retires)
	}) {
		n := w.job().node
		if err := w.save(ctx, func(r *site.Recorded) { noteDecommission(r, n) }); err != nil {
			return err
		}
	}
	return nil
}
