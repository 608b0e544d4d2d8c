package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// guard decides about the requests of one driver call, see driver.Guard.
type guard struct {
	login
	// interruption is nil for a look, which may interrupt nothing.
	*interruption
}

// Interrupt implements driver.Guard.
func (g guard) Interrupt(ctx context.Context, send func() error) error {
	if g.interruption == nil {
		return fmt.Errorf("%w: a look may not interrupt the machine", driver.ErrNotPermitted)
	}
	return g.interruption.Interrupt(ctx, send)
}

// interruption decides whether one try of a step may interrupt its machine. It counts the try in the
// node's records before the first request that interrupts. It refuses once plan.MostAttempts tries
// were made for the same cause. One worker uses it, for one driver call.
type interruption struct {
	w       *worker
	job     job
	step    site.Step
	current bool // the step's design was found to be still in force
	counted bool // the attempt is recorded
	carried bool // the machine may have carried a request out
}

func (i *interruption) Interrupt(ctx context.Context, send func() error) error {
	if err := i.superseded(); err != nil {
		return err
	}
	if len(plan.Causes(i.step)) > 0 && !i.counted && !site.IsInside(i.step.Facet) {
		if err := i.count(ctx); err != nil {
			return err
		}
	}
	err := send()
	i.carried = i.carried || !declined(err)
	return err
}

// superseded refuses requests of a step that may not go on: a driver looks around first, which may take minutes. One that
// destroys must still be approved for each request: drivers switch a machine off before they ask driver.Permit. What
// starts the agent asks before that. The others are asked for once, whether their design is still in force: what has begun ends.
func (i *interruption) superseded() error {
	if _, destroys := i.step.Destroys(); i.current || !destroys && i.step.Impact >= site.ImpactDestructive {
		return nil
	} else if destroys {
		return i.approved()
	}
	e := i.w.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if h := i.w.supersededLocked(i.job, e.sameRulesLocked(i.w, i.job)); h != nil {
		return fmt.Errorf("%w: %s", driver.ErrInterrupted, h.sentence)
	}
	i.current = !site.IsInside(i.step.Facet) // a helper may have to be brought between two requests
	return nil
}

// approved refuses a request of a destructive step that may not destroy now.
func (i *interruption) approved() error {
	e := i.w.e
	e.mu.Lock()
	defer e.mu.Unlock()
	r := i.w.memory.Recorded
	if h := e.mayDestroyLocked(i.w, i.job, i.step, used(r, i.step) && r.InFlight.Sent); h != nil {
		return fmt.Errorf("%w: %w: %s", driver.ErrNotPermitted, site.ErrRefused, h.sentence)
	}
	return nil
}

func (i *interruption) count(ctx context.Context) error {
	why := ""
	err := i.w.save(ctx, func(r *site.Recorded) {
		if why = plan.Spent(i.job.node, *r, i.step); why == "" {
			plan.Attempt(i.job.node, r, i.step, time.Now())
		}
	})
	if why != "" {
		err = errors.New(why)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", driver.ErrNotPermitted, err)
	}
	i.counted = true
	return nil
}

// settle records the result of the attempt.
func (i *interruption) settle(ctx context.Context, err error) error {
	if !i.counted || i.carried && err == nil {
		return nil
	}
	return i.w.save(ctx, func(r *site.Recorded) {
		if !i.carried {
			plan.Declined(i.job.node, r, i.step)
			return
		}
		plan.Failed(i.job.node, r, i.step, verdict(err))
	})
}

// declined reports whether an error is the machine's answer that it will not carry out a request.
// Without an answer the machine may have carried it out.
func declined(err error) bool {
	for _, class := range []error{driver.ErrBusy, driver.ErrRefused, driver.ErrDenied, driver.ErrNotPermitted, driver.ErrInterrupted, errors.ErrUnsupported} {
		if errors.Is(err, class) {
			return !errors.Is(err, driver.ErrUnreachable)
		}
	}
	return false
}
