package redfish

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Apply takes one step. It goes by what it reads itself, not by what was seen
// before.
func (m *machine) Apply(ctx context.Context, step site.Step, n *site.Node, _ site.Observed) error {
	s, err := m.meant(ctx, step.Machine)
	if err == nil && s.heading() == "" {
		err = refused("the BMC gives %q as PowerState, which tells nothing", printable(string(s.power())))
	}
	if err == nil {
		err = m.take(ctx, step, n, s)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", step.Action, err)
	}
	return nil
}

// meant is the system, with the boot that is next, once it is known to be the
// wanted machine's.
func (m *machine) meant(ctx context.Context, want site.Identity) (system, error) {
	s, err := m.system(ctx, want)
	if err == nil {
		s, err = m.future(ctx, s)
	}
	if err == nil {
		err = sameMachine(want, m.identity(s, want))
	}
	return s, err
}

func (m *machine) take(ctx context.Context, step site.Step, n *site.Node, s system) error {
	switch step.Action {
	case site.ActionPowerOn:
		return m.powerUp(ctx, step, n, s)
	case site.ActionPowerOff:
		return m.switchOff(ctx, step, s)
	case site.ActionRestart:
		return m.boots(ctx, step, n, s)
	case site.ActionBootOrder:
		return m.setBoot(ctx, n, s)
	case site.ActionBIOS:
		return m.setBIOS(ctx, n, s)
	case site.ActionInstall:
		return m.install(ctx, step, n, s)
	case site.ActionFinishInstall:
		return m.finish(ctx, n, s)
	}
	return fmt.Errorf("a BMC does not take this step: %w", errors.ErrUnsupported)
}

// sameMachine refuses to write to another machine than the step is for.
func sameMachine(want, got site.Identity) error {
	if !want.Known() {
		return refused("the step names no machine by UUID or serial; nothing is written without")
	}
	if !want.Matches(got) {
		return refused("another machine answers: the step is for UUID %q serial %q, this is UUID %q serial %q; nothing was written",
			want.UUID, want.Serial, printable(got.UUID), printable(got.Serial))
	}
	return nil
}

// until looks at the system until it is as asked.
func (m *machine) until(ctx context.Context, limit time.Duration, what string, ok func(system) bool) (s system, err error) {
	err = m.wait(ctx, limit, what, func() (bool, error) {
		s, err = m.reread(ctx)
		return err == nil && ok(s), err
	})
	return s, err
}

// wait looks until it is done, and says so when it is not within the limit.
// The first look is at once, and no more than a pause is wasted at the end.
func (m *machine) wait(ctx context.Context, limit time.Duration, what string, look func() (bool, error)) error {
	end := time.Now().Add(limit)
	for {
		done, err := look()
		if done || err != nil {
			return err
		}
		if time.Now().After(end) {
			return &noEffectError{what: what, waited: limit}
		}
		if err := sleep(ctx, m.opts.Poll); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", driver.ErrUnreachable, ctx.Err())
	case <-t.C:
		return nil
	}
}

// noEffectError is a request that the BMC accepted and that had no effect.
type noEffectError struct {
	what   string
	waited time.Duration
}

func (e *noEffectError) Error() string {
	return fmt.Sprintf("%v: the BMC accepted the request, and after %s there is no effect (waited for %s); look at the machine's console",
		driver.ErrRefused, e.waited, e.what)
}

func (e *noEffectError) Unwrap() error { return driver.ErrRefused }
