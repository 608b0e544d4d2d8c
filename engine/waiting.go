package engine

import "github.com/slipway-gitops/slipway/engine/rollout"

// topic is what a held worker waits for.
type topic = rollout.Topic

// waiting is who waits for what, so that whoever brings something about wakes
// those whom it concerns and does not look for them among ten thousand.
type waiting map[topic]map[*worker]bool

// wait has the worker woken when the topic comes up.
func (e *Engine) waitLocked(w *worker, t topic) {
	if e.waiting[t] == nil {
		e.waiting[t] = map[*worker]bool{}
	}
	e.waiting[t][w] = true
	w.waits = append(w.waits, t)
}

// stopWaitingLocked forgets what the worker waited for.
func (e *Engine) stopWaitingLocked(w *worker) {
	for _, t := range w.waits {
		delete(e.waiting[t], w)
	}
	w.waits, w.waitsForTime, w.waitsForDisks = nil, false, false
}

// wakeLocked wakes those who wait for a topic.
func (e *Engine) wakeLocked(t topic) {
	for w := range e.waiting[t] {
		w.wakeUp()
	}
}
