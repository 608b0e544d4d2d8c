package drivertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

func (b *bmc) Apply(ctx context.Context, step site.Step, n *site.Node, may driver.Permit) error {
	if err := b.read(ctx); err != nil {
		return err
	}
	w := &writer{bmc: b, step: step, may: may}
	if !step.Machine.Known() {
		return fmt.Errorf("%w: the step names no machine", driver.ErrRefused)
	}
	if err := w.compare(); err != nil {
		return err
	}
	unlock := b.m.look()
	lies := b.m.fault == Lies
	unlock()
	if lies {
		return w.write(ctx, func(*FakeMachine) {})
	}
	switch step.Action {
	case site.ActionPowerOn:
		return w.power(ctx, true)
	case site.ActionPowerOff:
		return w.power(ctx, false)
	case site.ActionBootOrder:
		return w.write(ctx, func(m *FakeMachine) { m.setBoot(n.Boot) })
	case site.ActionFirmware, site.ActionBIOS:
		return w.stage(ctx, n.Want(step.Facet))
	case site.ActionRestart:
		return w.restart(ctx)
	case site.ActionStartAgent:
		return w.startAgent(ctx, n)
	case site.ActionInstall:
		return w.install(ctx, n)
	case site.ActionFinishInstall:
		return w.finish(ctx)
	case site.ActionFinishErase:
		if err := w.power(ctx, false); err != nil {
			return err
		}
		return w.write(ctx, func(m *FakeMachine) { m.media, m.ramdisk, m.once = nil, "", false })
	}
	return errors.ErrUnsupported
}

// writer carries out one step on a BMC.
type writer struct {
	*bmc
	step    site.Step
	may     driver.Permit
	session site.Identity // the machine that was read last
	written bool
}

func (w *writer) write(ctx context.Context, change func(*FakeMachine)) error {
	return w.ask(ctx, func() { w.m.changed(func() { change(w.m) }) })
}

// destroy is a write that may lose data.
func (w *writer) destroy(ctx context.Context, change func(*FakeMachine)) error {
	unlock := w.m.look()
	w.m.tellOf(cmp.Or(w.step.Machine.UUID, w.m.plate()), Asked, time.Now(), site.Marker{})
	unlock()
	return w.write(ctx, change)
}

func (w *writer) ask(ctx context.Context, change func()) error {
	first := !w.written
	return w.login.write(ctx, w.step, w.session, first, func() {
		w.written = true
		change()
	})
}

// compare refuses to continue if another machine answers, and notes which
// machine does: a machine accepts no change over the session of another.
func (w *writer) compare() error {
	defer w.m.look()()
	seen := w.m.answered()
	if !w.step.Machine.Matches(seen) {
		return fmt.Errorf("%w: another machine answers: the step is for %s, this machine is %s", driver.ErrRefused, w.step.Machine, seen)
	}
	w.session = seen
	return nil
}

// power asks for a power state and waits for it. An installer may have powered
// the machine off again by then. It cuts the power of a system that does not shut
// down in time. It does not wait forever if somebody else reverts the change.
func (w *writer) power(ctx context.Context, on bool) error {
	before, now := w.m.state()
	if now == on {
		return nil
	}
	forced := on || w.step.Force
	grace := max(w.m.settings().GraceTime, 2*w.m.settings().PowerTime)
	longest := grace + max(time.Minute, 4*w.m.settings().PowerTime)
	if err := w.ask(ctx, func() { w.m.ask(on, w.step.Force) }); err != nil {
		return err
	}
	over := func() {}
	if !forced {
		over = driver.Waiting(ctx, "its system to shut down", grace)
	}
	defer func() { over() }()
	for began := time.Now(); ; {
		boots, now := w.m.state()
		if now == on || on && boots > before {
			return nil
		}
		if err := w.wait(ctx); err != nil {
			return fmt.Errorf("power %s: %w", state(on), err)
		}
		if time.Since(began) > longest {
			return fmt.Errorf("%w: the request was accepted, and the machine is not %s after %s", driver.ErrRefused, state(on), longest)
		}
		if !forced && time.Since(began) > grace {
			forced = true
			over()
			over = func() {}
			if err := w.ask(ctx, func() { w.m.ask(on, true) }); err != nil {
				return err
			}
		}
	}
}

// wait lets a little time pass, a fraction of PowerTime, and looks again.
func (w *writer) wait(ctx context.Context) error {
	if err := sleep(ctx, max(time.Millisecond, w.m.settings().PowerTime/16)); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
	}
	if err := w.read(ctx); err != nil {
		return err
	}
	return w.compare()
}

// ask is a request for a power state as the machine receives it.
func (m *FakeMachine) ask(on, force bool) {
	unlock := m.look()
	deaf, takes := m.fault == Rebellious && !on && !force, m.config.PowerTime
	unlock()
	if deaf {
		return
	}
	if force {
		takes /= 8
	}
	m.reset(on, takes)
}

// stage makes values take effect at the next boot.
func (w *writer) stage(ctx context.Context, want site.Values) error {
	unlock := w.m.look()
	pending, have := w.m.pending[w.step.Facet], w.m.inside[w.step.Facet]
	staged := maps.Equal(pending, want) || pending == nil && maps.Equal(have, want)
	unlock()
	if staged {
		return nil
	}
	if err := w.write(ctx, func(*FakeMachine) {}); err != nil {
		return err
	}
	if err := sleep(ctx, w.m.settings().StepTime[w.step.Action]); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
	}
	return w.write(ctx, func(m *FakeMachine) {
		if m.pending[w.step.Facet] = want; maps.Equal(m.inside[w.step.Facet], want) {
			delete(m.pending, w.step.Facet) // what was staged is taken back
		}
	})
}

// restart boots the machine and waits until staged values, and changes inside that
// wait for a boot, are in effect. If there are none, the machine was booted
// already. It gives up if somebody switches the machine off.
func (w *writer) restart(ctx context.Context) error {
	staged := func() bool {
		defer w.m.look()()
		return len(w.m.pending) > 0 || slices.Contains(slices.Collect(maps.Values(w.m.waits)), true)
	}
	if !staged() {
		return nil
	}
	if err := w.ask(ctx, w.m.boot); err != nil {
		return err
	}
	for staged() {
		if err := w.wait(ctx); err != nil {
			return fmt.Errorf("restart: %w", err)
		}
		if w.m.staysOff() {
			return fmt.Errorf("%w: restart: the machine went off and stays off", driver.ErrUnreachable)
		}
	}
	defer w.m.look()()
	if w.m.fault == Failing {
		return fmt.Errorf("%w: the job that applies the settings completed with errors", driver.ErrRefused)
	}
	return nil
}

// install goes off, override, medium, on. In this order the state shows how far
// an interrupted installation came.
func (w *writer) install(ctx context.Context, n *site.Node) error {
	step := w.step
	image := site.Marker{Node: n.Name, Generation: step.Generation, Image: step.Image.SHA256}
	unlock := w.m.look()
	inserted := step.Resumed && w.m.media != nil && *w.m.media == image
	once, on, holds := w.m.once, w.m.on, w.m.media != nil
	unlock()
	switch {
	case inserted && !once && !on:
		return nil // the installer has run and ended
	case inserted:
		return w.start(ctx)
	case !step.Resumed || holds:
		if err := w.write(ctx, func(m *FakeMachine) { m.media = nil }); err != nil {
			return err
		}
	}
	if err := w.power(ctx, false); err != nil {
		return err
	}
	if err := w.may.Ask(ctx, step); err != nil {
		return err
	}
	if err := w.destroy(ctx, func(m *FakeMachine) { m.once = true }); err != nil {
		return err
	}
	if err := w.destroy(ctx, func(m *FakeMachine) { m.media = &image }); err != nil {
		return err
	}
	return w.power(ctx, true)
}

// start boots the installer whose medium is inserted, or ejects the medium if
// it may not.
func (w *writer) start(ctx context.Context) error {
	err := w.may.Ask(ctx, w.step)
	if err == nil {
		return w.power(ctx, true)
	}
	if w.m.Power() == "off" {
		err = errors.Join(err, w.write(ctx, func(m *FakeMachine) { m.media, m.once = nil, false }))
	}
	return err
}

// startAgent boots the machine once from the agent's medium. It joins a start with the same
// medium. Without a medium it boots over the network, if that is designed.
func (w *writer) startAgent(ctx context.Context, n *site.Node) error {
	url := OverNetwork + w.m.name
	switch {
	case w.step.OverNetwork() && n.References.Start == site.StartNetwork:
	case w.step.Image == nil || w.step.Image.URL == "":
		return fmt.Errorf("%w: the step names no medium of the agent", driver.ErrRefused)
	default:
		url = w.step.Image.URL
	}
	unlock := w.m.look()
	joins := w.step.Resumed && w.m.ramdisk == url && !w.m.once && w.m.on
	unlock()
	if joins {
		return nil
	}
	if err := w.power(ctx, false); err != nil {
		return err
	}
	if err := w.may.Ask(ctx, w.step); err != nil {
		return err
	}
	if err := w.write(ctx, func(m *FakeMachine) { m.media, m.ramdisk, m.once = nil, url, true }); err != nil {
		return err
	}
	return w.power(ctx, true)
}

func (w *writer) finish(ctx context.Context) error {
	if w.step.FromMemory && w.m.fromMemory() {
		if err := w.power(ctx, false); err != nil {
			return err
		}
	}
	if w.m.Power() == "on" {
		if w.m.Media() == nil {
			return nil
		}
		return fmt.Errorf("%w: the machine is on with the medium inserted", driver.ErrBusy)
	}
	if err := w.write(ctx, func(m *FakeMachine) { m.media, m.ramdisk, m.once = nil, "", false }); err != nil {
		return err
	}
	return w.power(ctx, true)
}

// fromMemory reports whether the machine runs the agent, or has its medium inserted.
func (m *FakeMachine) fromMemory() bool {
	defer m.look()()
	return m.on && (m.memory || m.ramdisk != "")
}
