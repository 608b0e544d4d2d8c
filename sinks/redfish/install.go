package redfish

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// usbCd is how some vendors call virtual CDs; gofish has no name for it.
const usbCd schemas.BootSource = "UsbCd"

// slot is a VirtualMedia resource (DSP0268 6.152) as it was just read.
type slot struct {
	object
	path string
}

// image is the URL of the inserted image, empty for none. Some BMCs keep
// Image after ejecting.
func (s slot) image() string {
	if !at[bool](s.object, "Inserted") {
		return ""
	}
	return at[string](s.object, "Image")
}

func (s slot) inserted() bool { return at[bool](s.object, "Inserted") }

func (s slot) action(name string) string {
	return at[string](s.object, "Actions", "#VirtualMedia."+name, "target")
}

// takesCDs says whether an image can be inserted as a CD or DVD. Slots without
// a list of types take anything.
func (s slot) takesCDs() bool {
	types := at[[]schemas.VirtualMediaType](s.object, "MediaTypes")
	return s.action("InsertMedia") != "" && (len(types) == 0 ||
		slices.Contains(types, schemas.CDVirtualMediaType) || slices.Contains(types, schemas.DVDVirtualMediaType))
}

// media reads the slot that images go into: the first that takes CDs, of the
// system or of the manager that manages it. A manager is never guessed, since
// its slots may belong to the neighbour.
func (m *machine) media(ctx context.Context, s system) (slot, error) {
	if m.slot != "" {
		o, err := m.client.get(ctx, m.slot)
		return slot{o, m.slot}, err
	}
	collections, err := m.mediaCollections(ctx, s)
	if err != nil {
		return slot{}, err
	}
	for _, c := range collections {
		o, err := m.client.get(ctx, c)
		if err != nil {
			return slot{}, err
		}
		for _, path := range links(o, "Members") {
			o, err := m.client.get(ctx, path)
			if err != nil {
				return slot{}, err
			}
			if candidate := (slot{o, path}); candidate.takesCDs() {
				m.slot = path
				return candidate, nil
			}
		}
	}
	return slot{}, fmt.Errorf("the BMC has no virtual media slot that takes a CD image: %w", errors.ErrUnsupported)
}

func (m *machine) mediaCollections(ctx context.Context, s system) ([]string, error) {
	var collections []string
	if c := link(s.object, "VirtualMedia"); c != "" {
		collections = append(collections, c)
	}
	for _, manager := range links(s.object, "Links", "ManagedBy") {
		o, err := m.client.get(ctx, manager)
		if err != nil {
			return nil, err
		}
		m.habits.learn(managerMakers(o))
		if c := link(o, "VirtualMedia"); c != "" {
			collections = append(collections, c)
		}
	}
	return collections, nil
}

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
func (m *machine) install(ctx context.Context, step site.Step, s system) error {
	if step.Image == nil || step.Image.URL == "" {
		return refused("the step names no image")
	}
	cd, ok := s.override(schemas.CdBootSource, usbCd)
	if !ok {
		return fmt.Errorf("the machine cannot be told to boot from a CD once: %w", errors.ErrUnsupported)
	}
	drive, err := m.media(ctx, s)
	if err != nil {
		return err
	}
	err = m.bootImage(ctx, step, cd, drive, s)
	if errors.Is(err, driver.ErrRefused) || errors.Is(err, errors.ErrUnsupported) {
		return m.withdraw(ctx, err)
	}
	return err
}

func (m *machine) bootImage(ctx context.Context, step site.Step, cd schemas.BootSource, drive slot, s system) (err error) {
	if step.Resumed && drive.image() == step.Image.URL {
		s, err = m.rejoin(ctx, s)
	} else {
		s, err = m.load(ctx, step, cd, drive, s)
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
func (m *machine) load(ctx context.Context, step site.Step, cd schemas.BootSource, drive slot, s system) (system, error) {
	if err := m.eject(ctx, drive); err != nil {
		return s, err
	}
	if err := m.powerOff(ctx, s); err != nil {
		return s, err
	}
	s, err := m.bootOnce(ctx, cd)
	if err != nil {
		return s, err
	}
	body := map[string]any{"Image": step.Image.URL, "Inserted": true, "WriteProtected": true}
	if err := m.client.post(ctx, drive.action("InsertMedia"), body); err != nil {
		return s, err
	}
	err = m.untilMedia(ctx, "the image to be inserted", func(d slot) bool { return d.image() == step.Image.URL })
	return s, err
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
		err := m.client.patch(ctx, m.path, boot{Enabled: schemas.DisabledBootSourceOverrideEnabled}.body())
		if err == nil {
			s, err = m.until(ctx, m.opts.Settle, "the boot override to be disabled", func(s system) bool { return !bootsCD(s) })
		}
		if err != nil {
			return s, err
		}
	}
	drive, err := m.media(ctx, s)
	if errors.Is(err, driver.ErrUnreachable) || errors.Is(err, driver.ErrBusy) {
		return s, err
	}
	return s, m.eject(ctx, drive)
}

func bootsCD(s system) bool { return s.bootsOnce(schemas.CdBootSource) || s.bootsOnce(usbCd) }

// bootOnce sets the override for the next boot, and proves it.
func (m *machine) bootOnce(ctx context.Context, target schemas.BootSource) (system, error) {
	s, err := m.reread(ctx)
	if err != nil || s.bootsOnce(target) {
		return s, err
	}
	once := boot{Enabled: schemas.OnceBootSourceOverrideEnabled, Target: target}
	if err := m.client.patch(ctx, m.path, once.body()); err != nil {
		return s, err
	}
	return m.until(ctx, m.opts.Settle, "the next boot to be from "+string(target), func(s system) bool { return s.bootsOnce(target) })
}

// eject empties the drive, and proves it.
func (m *machine) eject(ctx context.Context, drive slot) error {
	if !drive.inserted() {
		return nil
	}
	target := drive.action("EjectMedia")
	if target == "" {
		return fmt.Errorf("virtual media slot %s cannot be emptied: %w", drive.path, errors.ErrUnsupported)
	}
	if err := m.client.post(ctx, target, struct{}{}); err != nil {
		return err
	}
	return m.untilMedia(ctx, "the drive to be empty", func(d slot) bool { return !d.inserted() })
}

func (m *machine) untilMedia(ctx context.Context, what string, ok func(slot) bool) error {
	return m.wait(ctx, m.opts.Settle, what, func() (bool, error) {
		drive, err := m.media(ctx, system{})
		return err == nil && ok(drive), err
	})
}

// finish takes the installer's medium out and boots the installed system. It
// goes by the drive: a machine that is on with the medium inserted still runs
// the installer, or was switched on by somebody.
func (m *machine) finish(ctx context.Context, s system) error {
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
		if s, err = m.bootOnce(ctx, disk); err != nil {
			return err
		}
	}
	return m.powerOn(ctx, s, system.on)
}
