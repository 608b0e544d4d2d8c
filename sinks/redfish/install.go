package redfish

import (
	"context"
	"errors"
	"fmt"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

var errNoCDBoot = fmt.Errorf("the machine cannot be told to boot from a CD once: %w", errors.ErrUnsupported)

// install boots the machine once from the image. The order is off, override,
// medium, on: whatever interrupts it, what is seen afterwards tells how far it
// came, and the machine never boots an installer by accident. By HTTP the image's
// URL is the medium.
//
//	power   medium   override   what is left to do
//	on      ours     -          nothing: the installer runs
//	off     ours     once       power on
//	off     ours     disabled   nothing: the installer has come and gone
//	off     none     once       insert, power on
//	off     none     disabled   override, insert, power on
//	on      none     -          everything
func (m *machine) install(ctx context.Context, step site.Step, n *site.Node, s system, may driver.Permit) error {
	if step.Image == nil || step.Image.URL == "" {
		return refused("the step names no image")
	}
	w, err := m.way(ctx, n, s)
	if err != nil {
		return err
	}
	if w.target == "" {
		return errNoCDBoot
	}
	err = m.bootImage(ctx, step, n, w, s, may)
	if errors.Is(err, errors.ErrUnsupported) && !w.byHTTP() && s.takesHTTP() {
		err = fmt.Errorf("%w; the machine can boot an installer by HTTP, if the design's boot.installBy is \"http\"", err)
	}
	if errors.Is(err, driver.ErrRefused) || errors.Is(err, driver.ErrNotPermitted) || errors.Is(err, errors.ErrUnsupported) {
		return m.withdraw(ctx, err)
	}
	return err
}

func (m *machine) bootImage(ctx context.Context, step site.Step, n *site.Node, w way, s system, may driver.Permit) (err error) {
	if step.Resumed && w.image(s) == step.Image.URL {
		s, err = m.rejoin(ctx, s)
	} else {
		s, err = m.load(ctx, step, n, w, s, may)
	}
	if err != nil || s.off() && !s.bootsOnce(w.target) {
		return err
	}
	if err := may.Ask(ctx, step); err != nil {
		return err
	}
	// The installer may be so quick that the machine is off again.
	return m.powerOn(ctx, s, func(s system) bool { return s.on() || s.off() && !s.bootsOnce(w.target) })
}

// rejoin waits for where a machine with our image goes by itself.
func (m *machine) rejoin(ctx context.Context, s system) (system, error) {
	if s.heading() == "on" {
		return s, nil
	}
	return m.arrive(ctx, s)
}

// load makes a machine that is off and whose next boot is from the image.
func (m *machine) load(ctx context.Context, step site.Step, n *site.Node, w way, s system, may driver.Permit) (system, error) {
	if err := m.switchOff(ctx, step, s); err != nil { // a medium that is taken from a running system harms it
		return s, err
	}
	if err := m.ejectAll(ctx, s); err != nil {
		return s, err
	}
	// From the override on, whoever switches the machine on starts the installer.
	if err := may.Ask(ctx, step); err != nil {
		return s, err
	}
	s, err := m.bootOnce(ctx, n, w.target)
	if err != nil {
		return s, err
	}
	if w.byHTTP() {
		return m.giveURI(ctx, s, step.Image.URL)
	}
	return s, m.insert(ctx, s, w.drive, step.Image.URL)
}

// withdraw disarms a machine whose installation was refused: nobody takes it up
// again, and whoever presses the power button later must not start it.
func (m *machine) withdraw(ctx context.Context, refusal error) error {
	if m.client.bound.ended != nil {
		return fmt.Errorf("%w; what was prepared before was not taken back, and the machine of the step may boot the installer when it is switched on", refusal)
	}
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
// that of an installer: the override, with the URL that it leads to, and the
// media, which may come before the disk in the boot order. A drive that the BMC
// does not show holds nothing of ours.
func (m *machine) disarm(ctx context.Context, s system) (system, error) {
	var err error
	switch {
	case bootsCD(s):
		s, err = m.cancelOverride(ctx, s)
	case bootsHTTP(s):
		s, err = m.cancelHTTP(ctx, s)
	}
	if err != nil {
		return s, err
	}
	return s, m.ejectAll(ctx, s)
}

// finish takes the installer's medium out and boots the installed system. It
// goes by the drive, or the URL: a machine that is on with the medium
// inserted still runs the installer, or was switched on by somebody.
func (m *machine) finish(ctx context.Context, n *site.Node, s system) error {
	w, err := m.way(ctx, n, s)
	if err != nil {
		return err
	}
	if w.loaded(s) && !s.off() {
		return fmt.Errorf("%w: the machine is %s with the installer's medium inserted: it still installs, or somebody switched it on",
			driver.ErrBusy, s.power())
	}
	if err := m.unload(ctx, w, s); err != nil {
		return err
	}
	if disk, ok := s.override(schemas.HddBootSource); ok && s.off() {
		if s, err = m.bootOnce(ctx, n, disk); err != nil {
			return err
		}
	}
	return m.powerOn(ctx, s, system.on)
}
