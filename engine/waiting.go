package engine

import "github.com/slipway-gitops/slipway/engine/rollout"

// topic is what a held worker waits for.
type topic = rollout.Topic

// waiting maps each topic to the workers that wait for it, so that an event
// wakes just those and does not search ten thousand.
type waiting map[topic]map[*worker]bool

// waitLocked registers the worker to be woken for a topic.
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
	w.waits, w.waitsFor, w.waitsForTime, w.waitsForDisks = nil, nil, false, false
}

// wake is wakeLocked for who does not hold the engine.
func (e *Engine) wake(t topic) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wakeLocked(t)
}

// wakeLocked wakes the workers that wait for a topic.
func (e *Engine) wakeLocked(t topic) {
	for w := range e.waiting[t] {
		w.wakeUp()
	}
}
