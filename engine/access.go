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

// grant approves what the design in force grants, as a person was shown it.
func (e *Engine) grant(ctx context.Context, o site.Order) (string, error) {
	e.granting.Lock()
	defer e.granting.Unlock()
	approved, inForce := e.Access()
	more, _ := access.Changes(approved.Granted, inForce)
	switch digest := inForce.Digest(); {
	case len(more) == 0:
		return "", fmt.Errorf("%w: the design in force grants nothing that was not approved", site.ErrRefused)
	case o.Digest != digest:
		return "", fmt.Errorf("%w: the access of the design in force is %s now, not %s: `slipway grant` shows what it changes", site.ErrRefused, digest, o.Digest)
	}
	if err := e.setGranted(ctx, site.GrantedState{Granted: inForce, By: o.By, When: time.Now().UTC()}); err != nil {
		return "", err
	}
	e.touch()
	return "approved access " + o.Digest + ": " + say.Count(len(more), "change") + " of who may do what", nil
}

// narrowAccess takes from what was approved what the design in force does not grant any more. So a right that
// a commit has taken away does not come back with another commit.
func (e *Engine) narrowAccess(ctx context.Context) error {
	e.granting.Lock()
	defer e.granting.Unlock()
	approved, inForce := e.Access()
	if _, less := access.Changes(approved.Granted, inForce); len(less) == 0 {
		return nil
	}
	approved.Granted = access.Both(approved.Granted, inForce)
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
	e.noteAccessLocked()
	return nil
}

// noteAccessLocked notes what the design in force would grant, and says what of it waits.
func (e *Engine) noteAccessLocked() {
	e.wouldGrant, e.accessNote = site.Granted{}, ""
	if e.design == nil {
		return
	}
	e.wouldGrant = e.design.Granted()
	if more, _ := access.Changes(e.granted.Granted, e.wouldGrant); len(more) > 0 {
		e.accessNote = say.Count(len(more), "change") + " of who may do what (site.access) not approved: `slipway grant` shows what and approves it"
	}
}
