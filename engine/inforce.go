package engine

import (
	"errors"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// InForce is the design in force, for what serves machines beside the engine. The
// error says in a sentence why nothing may be sent to them now: no design is in
// force, the site is only observed, or another controller acts for it. The design
// must not be changed.
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

// Touch has the status told to people again: what Config.Served says has changed.
func (e *Engine) Touch() { e.touch() }
