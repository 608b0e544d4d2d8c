package redfish

import (
	"context"
	"errors"
	"fmt"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// install boots the machine once from the image. The order is off, override,
// medium, on: whatever interrupts it, what is seen afterwards tells how far it
// came, and the machine never boots an installer by accident.
//
//	power   medium   override   what is left to do
//	on      ours     -          nothing: the installer runs
//	off     ours     once       power on
//	off     ours     disabled   nothing: the installer has come and gone
//	off     none     once       insert, power on
//	off     none     disabled   override, insert, power on
//	on      none     -          everything
func (m *machine) install(ctx context.Context, step site.Step, n *site.Node, s system) error {
	if step.Image == nil || step.Image.URL == "" {
		return refused("the step names no image")
	}
	cd, ok := s.override(m.cdTargets()...)
	if !ok {
		return fmt.Errorf("the machine cannot be told to boot from a CD once: %w", errors.ErrUnsupported)
	}
	drive, err := m.media(ctx, s)
	if err != nil {
		return err
	}
	err = m.bootImage(ctx, step, n, cd, drive, s)
	if errors.Is(err, driver.ErrRefused) || errors.Is(err, errors.ErrUnsupported) {
		return m.withdraw(ctx, err)
	}
	return err
}

func (m *machine) bootImage(ctx context.Context, step site.Step, n *site.Node, cd schemas.BootSource, drive slot, s system) (err error) {
	if step.Resumed && drive.image() == step.Image.URL {
		s, err = m.rejoin(ctx, s)
	} else {
		s, err = m.load(ctx, step, n, cd, drive, s)
	}
	if err != nil || s.off() && !s.bootsOnce(cd) {
		return err
	}
	// The installer may be so quick that the machine is off again.
	return m.powerOn(ctx, s, func(s system) bool { return s.on() || s.off() && !s.bootsOnce(cd) })
}

// rejoin waits for where a machine with our image goes by itself.
func (m *machine) rejoin(ctx context.Context, s system) (system, error) {
	if s.heading() == "on" {
		return s, nil
	}
	return m.arrive(ctx, s)
}

// load makes a machine that is off and whose next boot is from the image.
func (m *machine) load(ctx context.Context, step site.Step, n *site.Node, cd schemas.BootSource, drive slot, s system) (system, error) {
	if err := m.powerOff(ctx, s); err != nil { // a medium that is taken from a running system harms it
		return s, err
	}
	if err := m.eject(ctx, drive); err != nil {
		return s, err
	}
	s, err := m.bootOnce(ctx, n, cd)
	if err != nil {
		return s, err
	}
	return s, m.insert(ctx, s, drive, step.Image.URL)
}

// withdraw disarms a machine whose installation was refused: nobody takes it up
// again, and whoever presses the power button later must not start it.
func (m *machine) withdraw(ctx context.Context, refusal error) error {
	s, err := m.reread(ctx)
	if err == nil && s.off() {
		_, err = m.disarm(ctx, s)
	}
	if err != nil {
		return fmt.Errorf("%w; what was prepared could not be taken back, and the machine may boot the installer when it is switched on: %v", refusal, err)
	}
	return refusal
}

// disarm takes from a machine that is off whatever would make its next boot
// that of an installer: the override, and the medium, which may come before
// the disk in the boot order. A drive that the BMC does not show holds nothing
// of ours.
func (m *machine) disarm(ctx context.Context, s system) (system, error) {
	if bootsCD(s) {
		var err error
		if s, err = m.cancelOverride(ctx, s); err != nil {
			return s, err
		}
	}
	drive, err := m.media(ctx, s)
	if errors.Is(err, driver.ErrUnreachable) || errors.Is(err, driver.ErrBusy) {
		return s, err
	}
	return s, m.eject(ctx, drive)
}

// finish takes the installer's medium out and boots the installed system. It
// goes by the drive: a machine that is on with the medium inserted still runs
// the installer, or was switched on by somebody.
func (m *machine) finish(ctx context.Context, n *site.Node, s system) error {
	drive, err := m.media(ctx, s)
	if err != nil {
		return err
	}
	switch {
	case drive.inserted() && !s.off():
		return fmt.Errorf("%w: the machine is %s with the installer's medium inserted: it still installs, or somebody switched it on",
			driver.ErrBusy, s.power())
	case drive.inserted():
		if err := m.eject(ctx, drive); err != nil {
			return err
		}
	}
	if disk, ok := s.override(schemas.HddBootSource); ok && s.off() {
		if s, err = m.bootOnce(ctx, n, disk); err != nil {
			return err
		}
	}
	return m.powerOn(ctx, s, system.on)
}
