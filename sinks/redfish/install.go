package redfish

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

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
//
// Some BMCs refuse the override while there is no medium. There the override leads to
// the disk while the medium goes in, so that neither the boot order nor a person at
// the power button boots the installer, and it is still seen how far it came:
//
//	off     ours     once, disk  everything
//
// Others keep the override after its boot. It is taken back when the installer is
// done. Until then it is not seen whether the installer has come and gone; one that
// is booted again does what it did, on a machine that has not run what it installed.
func (m *machine) install(ctx context.Context, step site.Step, n *site.Node, s system, may driver.Permit) error {
	if step.Image == nil || step.Image.URL == "" {
		return refused("the step names no image, or no medium of the agent")
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
		return m.withdraw(ctx, n, err)
	}
	return err
}

func (m *machine) bootImage(ctx context.Context, step site.Step, n *site.Node, w way, s system, may driver.Permit) (err error) {
	loaded := step.Resumed && w.image(s) == step.Image.URL
	if loaded {
		if s, err = m.rejoin(ctx, s); err == nil {
			loaded, err = m.wasArmed(ctx, n, w, s)
		}
	}
	if step.Action == site.ActionStartAgent && s.off() && !w.armed(s) {
		loaded = false // the agent has switched it off, which is no end of a start
	}
	if err == nil && !loaded {
		s, err = m.load(ctx, step, n, w, s, may)
	}
	if err != nil || s.off() && !w.armed(s) {
		return err
	}
	if err := may.Ask(ctx, step); err != nil {
		return err
	}
	// The installer may be so quick that the machine is off again.
	return m.powerOn(ctx, s, func(s system) bool { return s.on() || s.off() && !w.armed(s) })
}

// rejoin waits for where a machine with our image goes by itself.
func (m *machine) rejoin(ctx context.Context, s system) (system, error) {
	if s.heading() == "on" {
		return s, nil
	}
	return m.arrive(ctx, s)
}

// wasArmed says whether a machine with our image has had the override that leads to
// it. Where the medium goes in first it has one that leads to the disk before that.
// One that leads there for all boots may be so for another reason: a BMC that is
// asked for one boot then tells by what it shows.
func (m *machine) wasArmed(ctx context.Context, n *site.Node, w way, s system) (bool, error) {
	switch {
	case w.byHTTP() || !s.off():
		return true, nil
	case s.bootsOnce(schemas.HddBootSource):
		return false, nil
	case !s.bootsAlways(schemas.HddBootSource):
		return true, nil
	}
	_, err := m.bootNext(ctx, n, schemas.HddBootSource)
	if err != nil {
		return true, err
	}
	_, err = m.until(ctx, m.opts.Settle/10, "only the next boot to be from the disk", func(s system) bool { return s.bootsOnce(schemas.HddBootSource) })
	var lasts *noEffectError
	if errors.As(err, &lasts) {
		return false, nil
	}
	return true, err
}

// load makes a machine that is off and whose next boot is from the image.
func (m *machine) load(ctx context.Context, step site.Step, n *site.Node, w way, s system, may driver.Permit) (system, error) {
	if step.Action == site.ActionStartAgent { // it erases nothing, and takes the machine out of service
		if err := may.Ask(ctx, step); err != nil {
			return s, err
		}
	}
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
	if w.byHTTP() {
		s, err := m.bootOnce(ctx, n, w.target)
		if err != nil {
			return s, err
		}
		return m.giveURI(ctx, s, step.Image.URL)
	}
	now, err := m.bootNext(ctx, n, w.target)
	if wantsMedium(err) {
		return m.loadFirst(ctx, step, n, w, s, err)
	}
	if err != nil {
		return now, err
	}
	return now, m.insert(ctx, now, w.drive, step.Image.URL)
}

// wantsMedium says whether an override may have been refused because there is no
// medium yet. sushy-tools answers 500 then.
func wantsMedium(err error) bool {
	return hasStatus(err, http.StatusBadRequest, http.StatusConflict, http.StatusInternalServerError, http.StatusNotImplemented) && !hasMessage(err, notNow...)
}

// loadFirst puts the image in before the override leads to it, on a BMC that has
// refused the override without. The one to the disk comes before both: where it
// is not available, the refusal stands.
func (m *machine) loadFirst(ctx context.Context, step site.Step, n *site.Node, w way, s system, refusal error) (system, error) {
	disk, ok := s.override(schemas.HddBootSource)
	if !ok {
		return s, refusal
	}
	s, err := m.bootNext(ctx, n, disk)
	var slow *noEffectError
	var answer *answerError
	if errors.As(err, &slow) || errors.As(err, &answer) {
		return s, refusal
	}
	if err != nil {
		return s, err
	}
	if err := m.insert(ctx, s, w.drive, step.Image.URL); err != nil {
		return s, err
	}
	if s, err = m.bootNext(ctx, n, w.target); err != nil {
		if left := m.ejectAll(ctx, s); left != nil {
			return s, fmt.Errorf("%w; the image could not be ejected: %w", err, left)
		}
		return s, err
	}
	m.habits.met(mediumFirst)
	return s, nil
}

// withdraw disarms a machine whose installation was refused: nobody takes it up
// again, and whoever presses the power button later must not start it.
func (m *machine) withdraw(ctx context.Context, n *site.Node, refusal error) error {
	if m.client.bound.ended != nil {
		return fmt.Errorf("%w; the earlier preparation was not undone, and the machine may boot the installer when it is switched on", refusal)
	}
	s, err := m.reread(ctx)
	if err == nil && s.off() {
		_, err = m.disarm(ctx, n, s)
	}
	if err != nil {
		return fmt.Errorf("%w; the preparation could not be undone, and the machine may boot the installer when it is switched on: %v", refusal, err)
	}
	return refusal
}

// disarm takes from a machine that is off whatever would make its next boot
// that of an installer: the override, with the URL that it leads to, and the
// media, which may come before the disk in the boot order. A drive that the BMC
// does not show holds nothing of ours. An override that lasts is taken back after the
// media: it may go with them.
func (m *machine) disarm(ctx context.Context, n *site.Node, s system) (system, error) {
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
	if err := m.ejectAll(ctx, s); err != nil || !slices.ContainsFunc(installerSources, s.bootsAlways) {
		return s, err
	}
	if s, err = m.reread(ctx); err == nil {
		err = m.cancelLasting(ctx, n, s)
	}
	return s, err
}

// finish takes the installer's medium out and boots the installed system. It
// goes by the drive, or the URL: a machine that is on with the medium
// inserted still runs the installer, or was switched on by somebody. One that runs
// Slipway's agent is switched off first.
func (m *machine) finish(ctx context.Context, step site.Step, n *site.Node, s system) error {
	w, err := m.way(ctx, n, s)
	if err != nil {
		return err
	}
	if step.FromMemory && !(step.Resumed && !w.loaded(s) && s.heading() == "on") { // which was booted from disk already
		if err := m.switchOff(ctx, step, s); err != nil {
			return err
		}
		if s, err = m.reread(ctx); err != nil {
			return err
		}
	}
	if w.loaded(s) && !s.off() {
		return fmt.Errorf("%w: the machine is %s with the installer's medium inserted: it still installs, or somebody switched it on",
			driver.ErrBusy, s.power())
	}
	if err := m.unload(ctx, w, s); err != nil {
		return err
	}
	if s.off() {
		if s, err = m.leadToDisk(ctx, n, s); err != nil {
			return err
		}
	}
	if err := m.powerOn(ctx, s, system.on); err != nil || !s.bootsAlways(schemas.HddBootSource) {
		return err
	}
	return m.freeFromDisk(ctx, n)
}

// leaveOff switches a machine off on which Slipway's agent has erased the disks, and takes the agent's
// medium out: nothing is left that it could boot.
func (m *machine) leaveOff(ctx context.Context, step site.Step, n *site.Node, s system) error {
	err := m.switchOff(ctx, step, s)
	if err == nil {
		s, err = m.reread(ctx)
	}
	if err == nil {
		_, err = m.disarm(ctx, n, s)
	}
	return err
}

// leadToDisk has the next boot of a machine that is off be from its disk, where the
// BMC can be told so for one boot. An override that lasts is taken back instead.
func (m *machine) leadToDisk(ctx context.Context, n *site.Node, s system) (system, error) {
	if slices.ContainsFunc(installerSources, s.bootsAlways) {
		now, err := m.reread(ctx) // it may have gone with the medium
		if err == nil {
			err = m.cancelLasting(ctx, n, now)
		}
		return now, err
	}
	disk, ok := s.override(schemas.HddBootSource)
	if !ok {
		return s, nil
	}
	return m.bootNext(ctx, n, disk)
}
