package redfish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// start powers on. What an installation that was broken off has left would
// boot its installer, and is taken back first; also when the step is taken up
// again, for a power-on itself leaves nothing.
func (m *machine) start(ctx context.Context, step site.Step, n *site.Node, s system) error {
	s, err := m.arrive(ctx, s)
	if err == nil && s.off() && !step.AsSet {
		s, err = m.disarm(ctx, n, s)
	}
	if err == nil && s.off() {
		err = m.bootAgain(ctx, n, s)
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
			err = m.switchOn(ctx, s)
		}
		if err != nil {
			return err
		}
	}
	_, err := m.until(ctx, m.opts.Settle, "the machine to be on", there)
	return err
}

// switchOff powers off; by force where the step says so, or no system is known that
// could shut down, and the BMC can.
func (m *machine) switchOff(ctx context.Context, step site.Step, s system) error {
	if _, err := m.takenReset(ctx, s, cutsPower); (step.Force || step.Unseen) && err == nil {
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
	if errors.As(err, &slow) || errors.Is(err, errors.ErrUnsupported) || hasStatus(err, http.StatusBadRequest) && !errors.Is(err, driver.ErrBusy) {
		return m.forceOff(ctx)
	}
	return err
}

// shutDown asks the operating system to shut down and gives it the grace
// period. A shutdown under way is only waited for.
func (m *machine) shutDown(ctx context.Context, s system) error {
	if s.on() {
		if err := m.reset(ctx, s, "off", shutsDown); err != nil {
			return err
		}
	}
	defer driver.Waiting(ctx, "its system to shut down", m.opts.Grace)()
	_, err := m.until(ctx, m.opts.Grace, "the system to shut down", system.off)
	return err
}

// forceOff cuts the power, if the machine is not off by now.
func (m *machine) forceOff(ctx context.Context) error {
	s, err := m.reread(ctx)
	if err != nil || s.off() {
		return err
	}
	if err := m.reset(ctx, s, "off", cutsPower); err != nil {
		return err
	}
	defer driver.Waiting(ctx, "the machine to be off", m.opts.Settle)()
	_, err = m.until(ctx, m.opts.Settle, "the machine to be off", system.off)
	return err
}

// restart boots the machine again, by switching it off and on. A ForceRestart
// may be accepted without a restart (sushy and Ironic found several BMCs that
// do), and leaves nothing to prove it by; a machine that was seen off and is on
// has restarted.
func (m *machine) restart(ctx context.Context, step site.Step, n *site.Node, s system) error {
	if err := m.switchOff(ctx, step, s); err != nil {
		return err
	}
	s, err := m.reread(ctx)
	if err != nil {
		return err
	}
	return m.start(ctx, step, n, s)
}

// The kinds of reset for each purpose, the best first.
var (
	turnsOn   = []schemas.ResetType{schemas.OnResetType, schemas.ForceOnResetType}
	shutsDown = []schemas.ResetType{schemas.GracefulShutdownResetType}
	cutsPower = []schemas.ResetType{schemas.ForceOffResetType}
)

// reset asks for the best reset of those that the system takes. BMCs refuse one
// towards the state that the machine is already in or heading for, in several
// ways; then it is not needed.
func (m *machine) reset(ctx context.Context, s system, towards string, kinds []schemas.ResetType) error {
	kind, err := m.takenReset(ctx, s, kinds)
	if err != nil {
		return err
	}
	send := func() error { return m.sendReset(ctx, s, towards, kind) }
	if towards == "on" {
		return send() // it is off, so nothing is interrupted
	}
	return driver.Interrupt(ctx, send)
}

func (m *machine) sendReset(ctx context.Context, s system, towards string, kind schemas.ResetType) error {
	err := m.client.post(ctx, s.resets(), map[string]any{"ResetType": kind})
	if !hasStatus(err, http.StatusBadRequest, http.StatusConflict, http.StatusPreconditionFailed, http.StatusInternalServerError, http.StatusServiceUnavailable) {
		return err
	}
	if now, readErr := m.reread(ctx); readErr == nil && now.heading() == towards {
		return nil
	}
	return err
}

// How long a machine with slowPowerOn refuses to be switched on after it went
// off: up to 60 s (Ironic, for PowerEdge of the 17th generation), in polls, and
// how often it is asked.
const (
	slowPowerOnTries = 7
	slowPowerOnPause = 10
)

// switchOn asks a machine that is off to be on.
func (m *machine) switchOn(ctx context.Context, s system) error {
	err := m.reset(ctx, s, "on", turnsOn)
	for range slowPowerOnTries - 1 {
		if !hasStatus(err, http.StatusConflict) || !m.has(slowPowerOn) {
			return err
		}
		if err := sleep(ctx, slowPowerOnPause*m.opts.Poll); err != nil {
			return err
		}
		err = m.reset(ctx, s, "on", turnsOn)
	}
	return err
}

// takenReset is the first of the kinds that the system takes.
func (m *machine) takenReset(ctx context.Context, s system, kinds []schemas.ResetType) (schemas.ResetType, error) {
	if s.resets() == "" {
		return "", fmt.Errorf("the system takes no reset: %w", errors.ErrUnsupported)
	}
	taken, err := m.resetKinds(ctx, s)
	if err != nil {
		return "", err
	}
	if len(taken) == 0 {
		return kinds[0], nil // it does not say, and is asked
	}
	for _, k := range kinds {
		if slices.Contains(taken, k) {
			return k, nil
		}
	}
	return "", fmt.Errorf("the system takes no reset of type %s: %w", kinds[0], errors.ErrUnsupported)
}

// resetKinds are the kinds of reset that the system says it takes: with the
// action itself, or in an ActionInfo (DSP0266 section 9.5.13.2), as Supermicro,
// AMI and OpenBMC do.
func (m *machine) resetKinds(ctx context.Context, s system) ([]schemas.ResetType, error) {
	if inline := at[[]schemas.ResetType](s.object, "Actions", resetAction, "ResetType@Redfish.AllowableValues"); len(inline) > 0 {
		return inline, nil
	}
	info := actionInfo(at[object](s.object, "Actions", resetAction))
	if info == "" {
		return nil, nil
	}
	if m.resets == nil {
		o, err := m.client.get(ctx, info)
		if err != nil && !hasStatus(err, http.StatusNotFound) {
			return nil, err
		}
		m.habits.met(resetsInActionInfo)
		m.resets = allowed[schemas.ResetType](o, "ResetType")
	}
	return m.resets, nil
}

const resetAction = "#ComputerSystem.Reset"

// actionInfo is where an action is described, as a path or as a reference.
func actionInfo(action object) string {
	return cmp.Or(at[string](action, "@Redfish.ActionInfo"), link(action, "@Redfish.ActionInfo"))
}

// allowed are the values that an ActionInfo has for a parameter.
func allowed[T any](info object, parameter string) []T {
	for _, p := range at[[]object](info, "Parameters") {
		if at[string](p, "Name") == parameter {
			return at[[]T](p, "AllowableValues")
		}
	}
	return nil
}
