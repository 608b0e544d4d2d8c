package redfish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Apply takes one step. It goes by what it reads itself, not by what was seen
// before.
func (m *machine) Apply(ctx context.Context, step site.Step, n *site.Node, may driver.Permit) error {
	return m.asStep(ctx, step.Machine, step.Impact, func(s system) error {
		if s.heading() == "" {
			return refused("the BMC gives %q as PowerState, which Slipway does not know", printable(string(s.power())))
		}
		return m.take(ctx, step, n, s, may)
	})
}

// asStep does something to the system, with the boot that is next, once it is
// known to be the wanted machine's. All that is read and written on the way goes
// over what that was read over.
func (m *machine) asStep(ctx context.Context, want site.Identity, impact site.Impact, do func(system) error) error {
	release, err := m.bind(ctx, want, impact)
	if err != nil {
		return err
	}
	defer release()
	s, err := m.meant(ctx, want)
	if err != nil {
		return err
	}
	if m.client.keeps.nothing() && !m.client.in.token {
		err = m.client.bound.mayUnbound()
	}
	if err == nil {
		err = do(s)
	}
	if err == nil {
		err = m.client.bound.identifyLast(ctx)
	}
	return cmp.Or(err, m.client.bound.ended)
}

func (m *machine) take(ctx context.Context, step site.Step, n *site.Node, s system, may driver.Permit) error {
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
	case site.ActionAccounts:
		return m.setAccounts(ctx, n)
	case site.ActionInstall, site.ActionStartAgent:
		if step.OverNetwork() && n.References.Start == site.StartNetwork {
			return m.startOverNetwork(ctx, step, n, s, may)
		}
		return m.install(ctx, step, n, s, may)
	case site.ActionFinishInstall:
		return m.finish(ctx, step, n, s)
	case site.ActionFinishErase:
		return m.leaveOff(ctx, step, n, s)
	}
	return fmt.Errorf("a BMC does not take this step: %w", errors.ErrUnsupported)
}

// meant is the system, with the boot that is next, once it is known to be the
// wanted machine's.
func (m *machine) meant(ctx context.Context, want site.Identity) (system, error) {
	if !want.Known() {
		return system{}, refused("the step names no machine by UUID, serial number or MAC address; nothing was written")
	}
	s, err := m.system(ctx, want)
	if err != nil {
		return s, err
	}
	got, err := m.identityWith(ctx, s, want, m.client.get)
	if err != nil {
		return s, err
	}
	if !want.Matches(got) {
		return s, refused("another machine answers: the step is for %s, this is %s; nothing was written", printable(want.Full()), printable(got.Full()))
	}
	m.client.bound.confirmed(s)
	if err := m.toldApart(ctx, want); err != nil {
		return s, err
	}
	return m.future(ctx, s)
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
