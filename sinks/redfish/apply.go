package redfish

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Apply takes one step. It goes by what it reads itself, not by what was seen
// before.
func (m *machine) Apply(ctx context.Context, step site.Step, n *site.Node, _ site.Observed) error {
	s, err := m.system(ctx, step.Machine)
	if err == nil {
		err = sameMachine(step.Machine, m.identity(s, step.Machine))
	}
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

func (m *machine) take(ctx context.Context, step site.Step, n *site.Node, s system) error {
	switch step.Action {
	case site.ActionPowerOn:
		return m.start(ctx, s)
	case site.ActionPowerOff:
		return m.switchOff(ctx, step, s)
	case site.ActionBootOrder:
		return m.orderBoot(ctx, n, s)
	case site.ActionInstall:
		return m.install(ctx, step, s)
	case site.ActionFinishInstall:
		return m.finish(ctx, s)
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

// start powers on. What an installation that was broken off has left would
// boot its installer, and is taken back first; also when the step is taken up
// again, for a power-on itself leaves nothing.
func (m *machine) start(ctx context.Context, s system) error {
	s, err := m.arrive(ctx, s)
	if err == nil && s.off() {
		s, err = m.disarm(ctx, s)
	}
	if err != nil {
		return err
	}
	return m.powerOn(ctx, s, system.on)
}

// arrive waits for a power change that is under way, whoever began it.
func (m *machine) arrive(ctx context.Context, s system) (system, error) {
	if s.on() || s.off() {
		return s, nil
	}
	return m.until(ctx, m.opts.Settle, "the machine to be "+s.heading(), func(s system) bool { return s.on() || s.off() })
}

// powerOn switches on and waits until there says that the machine is where it
// should be. A machine on its way there is only waited for.
func (m *machine) powerOn(ctx context.Context, s system, there func(system) bool) error {
	if s.heading() == "off" {
		s, err := m.arrive(ctx, s)
		if err == nil && s.off() {
			err = m.reset(ctx, s, schemas.OnResetType, "on")
		}
		if err != nil {
			return err
		}
	}
	_, err := m.until(ctx, m.opts.Settle, "the machine to be on", there)
	return err
}

// switchOff powers off; by force where the step says so and the BMC can.
func (m *machine) switchOff(ctx context.Context, step site.Step, s system) error {
	if step.Force && s.canReset(schemas.ForceOffResetType) {
		return m.forceOff(ctx)
	}
	return m.powerOff(ctx, s)
}

// powerOff lets the operating system shut down, and cuts the power when it
// has not within the grace period or cannot be asked.
func (m *machine) powerOff(ctx context.Context, s system) error {
	if s.heading() == "on" {
		var err error
		if s, err = m.arrive(ctx, s); err != nil {
			return err
		}
	}
	if s.off() {
		return nil
	}
	err := m.shutDown(ctx, s)
	var slow *noEffectError
	if errors.As(err, &slow) || errors.Is(err, errors.ErrUnsupported) || hasStatus(err, http.StatusBadRequest) {
		return m.forceOff(ctx)
	}
	return err
}

// shutDown asks the operating system to shut down and gives it the grace
// period. A shutdown under way is only waited for.
func (m *machine) shutDown(ctx context.Context, s system) error {
	if s.on() {
		if err := m.reset(ctx, s, schemas.GracefulShutdownResetType, "off"); err != nil {
			return err
		}
	}
	_, err := m.until(ctx, m.opts.Grace, "the system to shut down", system.off)
	return err
}

// forceOff cuts the power, if the machine is not off by now.
func (m *machine) forceOff(ctx context.Context) error {
	s, err := m.reread(ctx)
	if err != nil || s.off() {
		return err
	}
	if err := m.reset(ctx, s, schemas.ForceOffResetType, "off"); err != nil {
		return err
	}
	_, err = m.until(ctx, m.opts.Settle, "the machine to be off", system.off)
	return err
}

// reset asks for a reset. BMCs refuse one towards the state that the machine
// is already in or heading for; then it is not needed.
func (m *machine) reset(ctx context.Context, s system, kind schemas.ResetType, towards string) error {
	if s.resets() == "" || !s.canReset(kind) {
		return fmt.Errorf("the system takes no reset of type %s: %w", kind, errors.ErrUnsupported)
	}
	err := m.client.post(ctx, s.resets(), map[string]any{"ResetType": kind})
	if !hasStatus(err, http.StatusBadRequest, http.StatusConflict) {
		return err
	}
	if now, readErr := m.reread(ctx); readErr == nil && now.heading() == towards {
		return nil
	}
	return err
}

// orderBoot puts the designed boot sources first and keeps the others behind.
func (m *machine) orderBoot(ctx context.Context, n *site.Node, s system) error {
	if err := m.boot.read(ctx, m.client, s); err != nil {
		return err
	}
	refs := s.bootOrder()
	order, absent := m.boot.order(refs, n.Boot.Order)
	if len(absent) > 0 {
		return fmt.Errorf("the machine has no boot option for %s, only for %s; change the design's boot.order: %w",
			strings.Join(absent, ", "), printable(joined(m.boot.targets(refs))), errors.ErrUnsupported)
	}
	if slices.Equal(refs, order) {
		return nil
	}
	if err := m.client.patch(ctx, m.path, boot{BootOrder: order}.body()); err != nil {
		return err
	}
	_, err := m.until(ctx, m.opts.Settle, "the boot order to change", func(s system) bool { return slices.Equal(s.bootOrder(), order) })
	return err
}

// boot is the part of a ComputerSystem's Boot that is written.
type boot struct {
	BootOrder []string                          `json:"BootOrder,omitempty"`
	Enabled   schemas.BootSourceOverrideEnabled `json:"BootSourceOverrideEnabled,omitempty"`
	Target    schemas.BootSource                `json:"BootSourceOverrideTarget,omitempty"`
}

func (b boot) body() any { return map[string]boot{"Boot": b} }

// until looks at the system until it is as asked.
func (m *machine) until(ctx context.Context, limit time.Duration, what string, ok func(system) bool) (s system, err error) {
	err = m.wait(ctx, limit, what, func() (bool, error) {
		s, err = m.reread(ctx)
		return err == nil && ok(s), err
	})
	return s, err
}

// wait looks until it is done, and says so when it is not within the limit.
// The first look is at once; pauses grow to one and a half polls, and no more
// than that is wasted at the end.
func (m *machine) wait(ctx context.Context, limit time.Duration, what string, look func() (bool, error)) error {
	end := time.Now().Add(limit)
	for pause := m.opts.Poll; ; pause = min(pause+m.opts.Poll/4, m.opts.Poll*3/2) {
		done, err := look()
		if done || err != nil {
			return err
		}
		if time.Now().After(end) {
			return &noEffectError{what: what, waited: limit}
		}
		if err := sleep(ctx, pause); err != nil {
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
