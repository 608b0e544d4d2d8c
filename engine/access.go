package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Access is what people have approved of the access of the design, and what the design in force would grant.
// Neither must be changed.
func (e *Engine) Access() (approved site.GrantedState, inForce site.Granted) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.granted, e.wouldGrant
}

// AccessReport is what of the access of the design waits for a person. It is made when either changes, and must not be
// changed.
func (e *Engine) AccessReport() site.AccessReport {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.accessReport
}

// grant approves what the design in force grants, as a person was shown it.
func (e *Engine) grant(ctx context.Context, o site.Order) (string, error) {
	e.granting.Lock()
	defer e.granting.Unlock()
	approved, inForce := e.Access()
	more, _ := access.Changes(approved.Granted, inForce)
	switch digest := inForce.DigestOver(approved.Granted); {
	case len(more) == 0:
		return "", fmt.Errorf("%w: the design in force grants nothing that was not approved", site.ErrRefused)
	case o.Digest != digest:
		return "", fmt.Errorf("%w: what waits has the digest %s now, not %s, because the design or what was approved has changed since you read it: `slipway grant` shows what waits", site.ErrRefused, digest, o.Digest)
	}
	if err := e.setGranted(ctx, site.GrantedState{Granted: inForce, By: o.By, When: time.Now().UTC()}); err != nil {
		return "", err
	}
	e.noteAccess()
	e.touch()
	return "approved access " + o.Digest + ": " + say.Count(len(more), "change") + " of who may do what", nil
}

// narrowAccess takes from what was approved what a design that has passed does not grant any more. So a right that
// a commit has taken away does not wait for a rollout to end, and does not come back with another commit.
func (e *Engine) narrowAccess(ctx context.Context, design site.Granted) error {
	e.granting.Lock()
	defer e.granting.Unlock()
	defer e.noteAccess()
	approved, _ := e.Access()
	both := access.Both(approved.Granted, design)
	if _, less := access.Changes(approved.Granted, both); len(less) == 0 {
		return nil
	}
	approved.Granted = both
	return e.setGranted(ctx, approved)
}

// setGranted records what was approved. It is called with granting held.
func (e *Engine) setGranted(ctx context.Context, s site.GrantedState) error {
	if err := e.Records.PutGranted(ctx, s); err != nil {
		return fmt.Errorf("record who may do what: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.granted = s
	return nil
}

// noteAccess notes what of the access of the design in force waits. It is called with granting held, and compares
// without the lock of the engine: a large site takes a while.
func (e *Engine) noteAccess() {
	approved, inForce := e.Access()
	r, note := site.AccessReport{Design: inForce, By: approved.By, When: approved.When}, ""
	if r.Changes, _ = access.Changes(approved.Granted, inForce); len(r.Changes) > 0 {
		r.Waiting = inForce.DigestOver(approved.Granted)
		note = say.Count(len(r.Changes), "change") + " of who may do what (site.access) not approved: `slipway grant` shows what and approves it"
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.accessReport, e.accessNote = r, note
}
