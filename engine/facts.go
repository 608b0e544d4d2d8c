package engine

import (
	"iter"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/rollout"
	"github.com/slipway-gitops/slipway/engine/site"
)

// factsLocked returns the facts for the rules of a rollout. It looks up nodes only
// when a rule asks for them. Its counts hold as long as the lock is held.
func (e *Engine) factsLocked() *rollout.Facts {
	f := &rollout.Facts{Site: e.design, Now: time.Now(), Every: observeEvery(e.design), EveryInside: systemEvery}
	f.Nodes = &nodes{e, f.Now}
	if e.rollout != nil {
		f.Rollout = &e.rollout.RolloutStatus
	}
	return f
}

// nodes presents the engine's nodes to the rules at one moment.
type nodes struct {
	e   *Engine
	now time.Time
}

// Node implements rollout.Nodes.
func (n *nodes) Node(name string) *rollout.Node {
	if w := n.e.workers[name]; w != nil {
		return w.factsLocked(n.now)
	}
	return nil
}

// All implements rollout.Nodes.
func (n *nodes) All() iter.Seq[*rollout.Node] { return n.each(n.e.workers) }

// InRole implements rollout.Nodes.
func (n *nodes) InRole(role string) iter.Seq[*rollout.Node] { return n.each(n.e.roles[role]) }

func (n *nodes) each(workers map[string]*worker) iter.Seq[*rollout.Node] {
	return func(yield func(*rollout.Node) bool) {
		for _, w := range workers {
			if !yield(w.factsLocked(n.now)) {
				return
			}
		}
	}
}

// factsLocked returns this node's facts for the rules of a rollout. It rewrites a
// single value each time, since a gate may ask for ten thousand of them.
func (w *worker) factsLocked(now time.Time) *rollout.Node {
	r, n := &w.memory.Recorded, &w.facts
	n.Design, n.Leaving = w.node, w.leaving
	n.Quarantined = r.Quarantined != nil
	n.Settled = r.Adopted != nil && !r.Adopted.Settled.IsZero()
	n.WasHealthy, n.EverHealthy, n.Disrupted = !r.Healthy.IsZero(), !r.EverHealthy.IsZero(), !r.Disrupted.IsZero()
	n.InHand = w.e.inHandLocked(w)
	n.Paused = r.Paused.Holds(now) || w.node.Paused.Holds(now) || w.e.unconfirmedLocked(w.node) != nil // another one goes first
	n.Disrupts, n.Busy = w.disrupts, r.InFlight != nil || r.Installing != nil
	n.Seen, n.Blind, n.BlindInside, n.Outdated = w.turned, w.blind, w.blindInside, w.outdated
	n.Unplanned = w.unplanned
	n.Age, n.AgeInside = now.Sub(w.looked), now.Sub(w.lookedInside)
	n.Power = w.memory.Observed.Facets[site.FacetPower].Have["state"]
	n.Probes = w.probesLocked()
	n.Phase = w.plan.Phase
	n.Rotates = slices.ContainsFunc(w.plan.Steps, func(s site.Step) bool { return len(s.Rotates) > 0 })
	n.Accounts = r.Accounts
	n.State, n.Since, n.Person, n.Fresh = w.status.State, w.status.Since, w.status.Person, w.fresh
	n.WaitsForTime, n.WaitsForPlace = w.waitsForTime, w.e.waiting[rollout.Places][w]
	n.Part, n.Spent, n.Patience = w.standing, w.spent, 0
	if r.Begun != nil {
		n.Patience = time.Duration(r.Begun.Patience)
	}
	return n
}

// probesLocked returns the last result of the probes of the node's role. Many ask for
// it, so it is cached until something else is seen or designed.
func (w *worker) probesLocked() site.SystemHealth {
	if w.node.Health() == nil {
		return site.SystemHealth{}
	}
	seen := w.memory.Observed.Facets[site.FacetProbes]
	if w.probed.node != w.node || !w.probed.at.Equal(seen.Seen) {
		w.probed = probed{w.node, seen.Seen, plan.Health(w.node, w.memory.Observed, w.e.serves)}
	}
	return w.probed.health
}

// healthLocked returns the health of the node's system, as far as it is known now.
func (w *worker) healthLocked() site.SystemHealth {
	if w.node.Health() == nil {
		return site.SystemHealth{}
	}
	f := w.e.factsLocked()
	return f.Health(w.factsLocked(f.Now))
}

// mostNamed is how many of the nodes that a node waits for are named to programs.
const mostNamed = 8

// holdLocked turns a reason of the rules into a gate's verdict. It registers the node
// to be woken when what it waits for may have changed.
func (e *Engine) holdLocked(w *worker, f *rollout.Facts, r rollout.Reason) *held {
	v := r.Verdict(f)
	w.waitsFor = slices.Clone(v.For[:min(len(v.For), mostNamed)])
	for _, t := range v.Waits {
		e.waitLocked(w, t)
	}
	for _, name := range v.Watched {
		x := e.workers[name]
		x.wasBefore = f.Before(x.factsLocked(f.Now))
	}
	if _, full := r.(*rollout.Full); full {
		e.wakeLocked(rollout.PlaceTopic(w.name)) // nodes that wait for it learn that neither can go on
	}
	return &held{state: site.Blocked, sentence: v.Sentence, detail: v.Detail, release: v.Release, person: v.Person, until: v.Until}
}
