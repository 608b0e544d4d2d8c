package engine

import (
	"fmt"
	"reflect"
	"sort"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// held is why a step may not run now, in a sentence that a person will read.
type held struct {
	state    site.State
	sentence string
}

// gate answers whether a step may run now. The gates stand in order; the
// first that holds speaks. The last one takes a place in the rollout.
func (e *Engine) gate(w *worker, j job, s site.Step) *held {
	e.mu.Lock()
	defer e.mu.Unlock()
	w.wantsSlot = false
	image := e.design.Images[w.node.Image]
	sameImage := reflect.DeepEqual(j.site.Images[j.node.Image], image)
	j.site = e.design // the rollout is bounded as it is designed now
	for _, g := range []func() *held{
		func() *held { return w.supersededLocked(j, sameImage) },
		func() *held { return e.readOnlyGate(s) },
		func() *held { return e.termGate(w, s) },
		func() *held { return e.pausedLocked(w, j) },
		func() *held { return e.approvalGate(s) },
		func() *held { return firstContactGate(w, j, s) },
		func() *held { return e.rolloutGate(w, j, s) },
	} {
		if h := g(); h != nil {
			return h
		}
	}
	return nil
}

// supersededLocked holds a step that was planned for a design of the node that
// is no longer in force: a look may take long. The new design has woken the
// worker already.
func (w *worker) supersededLocked(j job, sameImage bool) *held {
	if sameImage && w.leaving == j.leaving && (w.node == j.node || sameDesign(w.node, j.node)) {
		return nil
	}
	return &held{site.Progressing, "its design has changed"}
}

func (e *Engine) readOnlyGate(s site.Step) *held {
	if why := e.whyReadOnlyLocked(); why != "" {
		return &held{site.Blocked, why + "; would " + s.Summary()}
	}
	return nil
}

func (e *Engine) whyReadOnlyLocked() string {
	if e.ObserveOnly {
		return "observing only (--observe)"
	}
	return e.readOnly
}

// pausedNow says who has paused the node, or the site.
func (e *Engine) pausedNow(w *worker, j job) *held {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pausedLocked(w, j)
}

func (e *Engine) pausedLocked(w *worker, j job) *held {
	now := time.Now()
	if h := pausedGate(now, e.paused, "the site"); h != nil {
		return h
	}
	if h := pausedGate(now, w.memory.Recorded.Paused, "the node"); h != nil {
		return h
	}
	return pausedGate(now, j.node.Paused, "in the design, the node")
}

func pausedGate(now time.Time, h *site.Hold, what string) *held {
	if h == nil || !h.Until.IsZero() && now.After(h.Until) {
		return nil
	}
	sentence := fmt.Sprintf("%s is paused by %s: %s", what, h.By, h.Reason)
	if !h.Until.IsZero() {
		sentence += ", until " + h.Until.UTC().Format(time.RFC3339)
	}
	return &held{site.Paused, sentence}
}

// approvalGate lets a destructive step pass only when what it destroys is in
// a set that a person approved.
func (e *Engine) approvalGate(s site.Step) *held {
	loss, destroys := s.Destroys()
	if !destroys || e.isApprovedLocked(loss) {
		return nil
	}
	return &held{site.Blocked, fmt.Sprintf("%s of %s waits for approval: %s would be lost; see `slipway plan`, then `slipway approve`", loss.Action, s.Machine, loss.Lost)}
}

func (e *Engine) isApprovedLocked(loss site.Loss) bool {
	w := e.workers[loss.Node]
	if w == nil || w.memory.Recorded.Adopted == nil {
		return false
	}
	// An approval from before the node was adopted is of an earlier life of it.
	adopted := w.memory.Recorded.Adopted.When
	for _, a := range e.approved {
		if a.Losses.Contains(loss) && !a.When.Before(adopted) {
			return true
		}
	}
	return false
}

// firstContactGate asks a person before a machine that was never seen as
// designed is disrupted: the design may be wrong about it. A destructive step
// has its own approval.
func firstContactGate(w *worker, j job, s site.Step) *held {
	a := w.memory.Recorded.Adopted
	if s.Impact != site.ImpactReboot || j.site.Rollout.FirstContact == "repair" || a != nil && !a.Settled.IsZero() {
		return nil
	}
	return &held{site.Blocked, fmt.Sprintf("first contact: the machine was never seen as designed, and %s would disrupt it; if the design is right, run `slipway approve %s`", s.Action, w.name)}
}

// rolloutGate bounds how many machines are out of service at once. A machine
// that is out already costs nothing to work on.
func (e *Engine) rolloutGate(w *worker, j job, s site.Step) *held {
	if s.Impact < site.ImpactReboot {
		return nil
	}
	limit := maxUnavailable(j.site)
	var out []string
	for name, x := range e.workers {
		if x != w && x.outLocked() {
			out = append(out, name)
		}
	}
	if !w.outLocked() && len(out) >= limit {
		w.wantsSlot = true
		sort.Strings(out)
		return &held{site.Blocked, fmt.Sprintf("%d of %d nodes are out of service (%s) and the site allows %d (maxUnavailable %s)", len(out), len(e.workers), some(out), limit, j.site.Rollout.MaxUnavailable)}
	}
	w.disrupts = true
	return nil
}

func some(names []string) string {
	if len(names) > 4 {
		return strings.Join(names[:4], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

// outLocked says whether the machine is, or has to be taken to be, out of
// service: a step of ours has it, it cannot be seen, or it is off though the
// design wants it on.
func (w *worker) outLocked() bool {
	switch {
	case w.disrupts:
		return true
	case w.node.Power == "off" || w.node.Decommission:
		return false
	case !w.turned || w.blind:
		return true
	}
	return w.node.Power == "on" && w.memory.Observed.Facets[site.FacetPower].Have["state"] != "on"
}

// maxUnavailable is the design's bound as a count.
func maxUnavailable(s *site.Site) int {
	return max(site.Bound(s.Rollout.MaxUnavailable, len(s.Nodes)), 1)
}

// backInService gives a node's place in the rollout to those that wait.
func (e *Engine) backInService(w *worker) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !w.disrupts && w.status.State == site.InSync {
		return
	}
	w.disrupts = false
	var waiting []string
	for name, x := range e.workers {
		if x.wantsSlot {
			waiting = append(waiting, name)
		}
	}
	sort.Strings(waiting)
	for _, name := range waiting[:min(len(waiting), maxUnavailable(e.design))] {
		e.workers[name].wakeUp()
	}
}
