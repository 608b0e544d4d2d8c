package engine

import (
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// timing is a step that was begun, to learn how long it takes on such a
// machine: until its effect was seen and something else may follow. An
// installation takes until the installer is done.
type timing struct {
	step  site.Step
	since time.Time
	model string
	tried bool // a try has failed: it says little of other machines
}

// longestMemory is how many durations are kept of each kind.
const longestMemory = 16

// timed notes that the step under way has had its effect, when the plan no
// longer holds it and nothing is waited for. What a quarantine has cut off has
// had none.
func (w *worker) timed(j job, p site.NodePlan) {
	t := w.timing
	if t == nil || p.Waiting != "" || len(p.Steps) > 0 && p.Steps[0].Digest() == t.step.Digest() {
		return
	}
	w.timing = nil
	if j.memory.Recorded.Quarantined != nil && !t.step.Force {
		return
	}
	took := site.Duration(time.Since(t.since))
	w.e.note(site.Event{Node: w.name, Kind: site.EventDone, Text: t.step.Summary(), Took: took})
	if t.model != "unknown" {
		w.e.learnTook(site.Like(t.model, t.step.Action), took, t.tried)
	}
}

// learnTook adds a duration to what is known of like machines. That of a step
// of which a try has failed is better than none.
func (e *Engine) learnTook(like string, took site.Duration, tried bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	known := e.history[like]
	if tried && len(known) > 0 {
		return
	}
	if over := len(known) + 1 - longestMemory; over > 0 {
		known = known[over:]
	}
	learnt := make(site.History, len(e.history)+1)
	for k, v := range e.history {
		learnt[k] = v
	}
	learnt[like] = append(append([]site.Duration{}, known...), took)
	e.history = learnt
	e.learnt[like] = true
}
