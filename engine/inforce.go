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

// Touch makes the engine report the status again, because what Config.Served
// returns has changed.
func (e *Engine) Touch() { e.touch() }
