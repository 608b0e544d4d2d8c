package engine

import (
	"fmt"
	"time"

	"github.com/slipway-gitops/slipway/engine/rollout"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// held is a gate's verdict: why a step may not run now, in a sentence for people.
type held struct {
	state    site.State
	sentence string
	// detail is what may change soon, such as which nodes are waited for.
	detail string
	// release says what would let the step run.
	release string
	// person is set if nothing happens without a person.
	person bool
	// asks is what a person can approve of the node.
	asks question
	// until is when to look again at the latest; zero for the usual time.
	until time.Time
	// disks is set if the machine's disks must be read first.
	disks bool
}

// gate decides whether a step may run now. The gates stand in order; the first
// that holds the step answers. The last one takes a place in the rollout.
func (e *Engine) gate(w *worker, j job, p site.NodePlan, s site.Step) *held {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopWaitingLocked(w)
	same := e.sameRulesLocked(w, j)
	j.site = e.design // the bounds of the design in force apply
	permitted := s
	if s.Action == site.ActionStartAgent { // permitted like the installation it serves
		install, ok := installOf(p.Steps)
		if !ok {
			return &held{state: site.Progressing, sentence: redesigned}
		}
		permitted = install
	}
	h := first(
		func() *held { return w.supersededLocked(j, same) },
		func() *held { return e.readOnlyGate(s) },
		func() *held { return e.termGate(w, s) },
		func() *held { return e.incidentGate(w, permitted) },
	)
	if h == nil && w.memory.Recorded.Quarantined == nil {
		e.joinLocked(w, s)
		f := e.factsLocked()
		t := rollout.Try{Node: w.factsLocked(f.Now), Step: &s, Steps: p.Steps, Begun: w.continues(s)}
		rule := func(ask func(rollout.Try) rollout.Reason) *held {
			if r := ask(t); r != nil {
				return e.holdLocked(w, f, r)
			}
			return nil
		}
		h = first(
			func() *held { return e.pausedLocked(w, j) },
			func() *held { return e.guestsGate(w, permitted) },
			func() *held { return e.approvalGate(w, permitted) },
			func() *held { return e.artifactGate(w, permitted) },
			func() *held { return e.agentGate(w, s) },
			func() *held { return w.cablesGate(s) },
			func() *held { return w.aloneGate(s) },
			func() *held { return firstContactGate(w, j.site, s) },
			func() *held { return e.announceGate(w, s) },
			func() *held { return rule(f.Order) }, // halted, needs, leader, canaries
			func() *held { return rule(f.Window) },
			func() *held { return freshDisksGate(w, permitted) },
			func() *held { return rule(f.Room) },
		)
	}
	if h != nil {
		w.waitsForTime, w.waitsForDisks = !h.until.IsZero(), h.disks
		return h
	}
	w.disrupts = w.disrupts || s.TakesPlace()
	return nil
}

// sameRulesLocked reports whether a step was planned for the image and role that
// the node has in the design in force.
func (e *Engine) sameRulesLocked(w *worker, j job) bool {
	return sameMeaning(j.site.Images[j.node.Image], e.design.Images[w.node.Image]) &&
		sameMeaning(j.site.Roles[j.node.Role], e.design.Roles[w.node.Role])
}

// first returns the verdict of the first gate that holds.
func first(gates ...func() *held) *held {
	for _, g := range gates {
		if h := g(); h != nil {
			return h
		}
	}
	return nil
}

// continues reports whether the step was begun and is not known to have ended, or
// finishes an installation that was begun.
func (w *worker) continues(s site.Step) bool {
	return rollout.Continues(w.memory.Recorded, s)
}

// supersededLocked holds a step that was planned for a node design no longer in
// force, or before a quarantine began or ended: a look may take long. The change
// has already woken the worker.
func (w *worker) supersededLocked(j job, same bool) *held {
	sameHold := (w.memory.Recorded.Quarantined == nil) == (j.memory.Recorded.Quarantined == nil)
	if same && sameHold && w.leaving == j.leaving && (w.node == j.node || sameDesign(w.node, j.node)) {
		return nil
	}
	return &held{state: site.Progressing, sentence: redesigned}
}

func (e *Engine) readOnlyGate(s site.Step) *held {
	why, release := e.whyReadOnlyLocked(), "a revision that comes into force"
	if e.ObserveOnly {
		release = "a daemon that runs without --observe"
	}
	if why == "" {
		return nil
	}
	return &held{state: site.Blocked, sentence: why + "; would " + s.Summary(), release: release}
}

func (e *Engine) whyReadOnlyLocked() string {
	if e.ObserveOnly {
		return "observing only (--observe)"
	}
	return e.readOnly
}

// firstContactGate asks a person before Slipway disrupts a machine that was never
// seen as designed, or changes a system that Slipway did not install: the design
// may be wrong about it. A destructive step has its own approval.
func firstContactGate(w *worker, in *site.Site, s site.Step) *held {
	r := w.memory.Recorded
	if in.Rollout.FirstContact == "repair" {
		return nil
	}
	switch met := site.IsInside(s.Facet) && !r.Installed.ByUs(); {
	case met && r.Adopted != nil && !r.Adopted.Inside.IsZero():
		return nil
	case met:
		return &held{state: site.Blocked, person: true, release: "`slipway approve " + w.name + "`", asks: question{kind: asksContact, text: fmt.Sprintf("%s may change its system, for the first time", s.Action)},
			sentence: fmt.Sprintf("first contact: Slipway did not install the system, and %s would change it; if the plan is right, run `slipway approve %s`", s.Action, w.name)}
	}
	if s.Action == site.ActionAccounts && (r.Adopted == nil || r.Adopted.Settled.IsZero()) {
		return &held{state: site.Blocked, person: true, release: "`slipway approve " + w.name + "`", asks: question{kind: asksContact, text: fmt.Sprintf("%s may change its BMC, for the first time", s.Action)},
			sentence: fmt.Sprintf("first contact: the machine was never seen as designed, and %s would change the accounts of its BMC; if the plan is right, run `slipway approve %s`", s.Action, w.name)}
	}
	if s.Impact != site.ImpactReboot || s.Facet == site.FacetImage || r.Adopted != nil && !r.Adopted.Settled.IsZero() {
		return nil
	}
	return &held{state: site.Blocked, person: true, release: "`slipway approve " + w.name + "`", asks: question{kind: asksContact, text: fmt.Sprintf("%s may disrupt its machine, for the first time", s.Action)},
		sentence: fmt.Sprintf("first contact: the machine was never seen as designed, and %s would disrupt it; if the design is right, run `slipway approve %s`", s.Action, w.name)}
}

// some names the first of some nodes.
func some(names []string) string { return say.Some(names, rollout.Most) }
