package engine

import (
	"errors"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// InForce returns the design in force, for services that serve machines beside
// the engine. The error says in a sentence why nothing may be sent to machines
// now: no design is in force, the site is only observed, or another controller
// acts for it. The caller must not change the design.
func (e *Engine) InForce() (*site.Site, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if why := e.whyReadOnlyLocked(); why != "" {
		return nil, errors.New(why)
	}
	if e.design == nil {
		return nil, errors.New("no design is in force yet")
	}
	if why := e.mayWriteLocked(time.Now(), false, true); why != "" {
		return nil, errors.New(why)
	}
	return e.design, nil
}

// Design is the last good design, also while nothing may be sent to machines; nil before the first.
// It must not be changed.
func (e *Engine) Design() *site.Site {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.design
}

// Where says which rack a node is in and which role it has, also of a node that left the design and is
// not removed yet; false for one that is not known.
func (e *Engine) Where(node string) (rack, role string, known bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w := e.workers[node]
	if w == nil {
		return "", "", false
	}
	return w.node.Rack, w.node.Role, true
}

// Touch has the status told to people again: what Config.Served says has changed.
func (e *Engine) Touch() { e.touch() }
