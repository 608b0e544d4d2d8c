package redfish

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish/schemas"
)

// slot is a VirtualMedia resource (DSP0268 6.152) as it was just read.
type slot struct {
	object
	path string
	// stale is set where the BMC is known to leave Inserted as it was after an
	// ejection.
	stale bool
}

// image is the URL of the inserted image, empty for none. Some BMCs keep
// Image after ejecting.
func (s slot) image() string {
	if !s.inserted() {
		return ""
	}
	return at[string](s.object, "Image")
}

func (s slot) inserted() bool {
	if s.stale && at[string](s.object, "ConnectedVia") == "NotConnected" {
		return false
	}
	if in := at[*bool](s.object, "Inserted"); in != nil { // it is optional (DSP0268 6.152)
		return *in
	}
	return at[string](s.object, "Image") != ""
}

func (s slot) action(name string) string {
	return at[string](s.object, "Actions", "#VirtualMedia."+name, "target")
}

// holdsCDs says whether what is inserted is seen as a CD or DVD. Slots without
// a list of types take anything.
func (s slot) holdsCDs() bool {
	types := at[[]schemas.VirtualMediaType](s.object, "MediaTypes")
	return len(types) == 0 || slices.Contains(types, schemas.CDVirtualMediaType) || slices.Contains(types, schemas.DVDVirtualMediaType)
}

// media reads the slot that images go into.
func (m *machine) media(ctx context.Context, s system) (slot, error) {
	if m.slot != "" {
		s, err := m.readSlot(ctx, m.slot)
		if !hasStatus(err, http.StatusNotFound) {
			return s, err
		}
		m.slot = "" // an update of the BMC may have moved it
	}
	all, err := m.slots(ctx, s)
	if err != nil {
		return slot{}, err
	}
	if len(all) == 0 {
		return slot{}, fmt.Errorf("the BMC has no virtual media slot that takes a CD image: %w", errors.ErrUnsupported)
	}
	// With two CDs in it a machine may boot either, so the one that is there
	// has to make room.
	best := all[max(0, slices.IndexFunc(all, slot.inserted))]
	m.slot = best.path
	return best, nil
}

func (m *machine) readSlot(ctx context.Context, path string) (slot, error) {
	o, err := m.client.get(ctx, path)
	return m.slotOf(o, path), err
}

func (m *machine) slotOf(o object, path string) slot { return slot{o, path, m.has(staleInserted)} }

// slots are the usable slots, the best first: those of the system, or else of
// the manager that manages it. A manager is never guessed, since its slots may
// belong to the neighbour. Slots without InsertMedia are for consoles only;
// where no slot has it, images are inserted by writing to them, as the XCC
// wants it (bmclib, providers/lenovo).
func (m *machine) slots(ctx context.Context, s system) ([]slot, error) {
	var silent []slot
	var last error
	for collection, err := range m.mediaSources(ctx, s) {
		var all []slot
		if err == nil {
			all, err = m.slotsOf(ctx, collection)
		}
		if last = err; lasting(err) {
			continue // the next source may have some
		}
		if err != nil {
			return nil, err
		}
		silent = append(silent, slices.DeleteFunc(slices.Clone(all), func(s slot) bool { return s.action("InsertMedia") != "" })...)
		all = slices.DeleteFunc(all, func(s slot) bool { return s.action("InsertMedia") == "" })
		if len(all) > 0 && m.has(firstSlot) {
			all = all[:1]
		}
		if len(all) > 0 {
			return all, nil
		}
	}
	if len(silent) > 0 {
		last = nil
	}
	return silent, last
}

// maxSlots bounds how many slots of a BMC are looked at.
const maxSlots = 16

// slotsOf are the slots of a collection that hold CDs.
func (m *machine) slotsOf(ctx context.Context, collection string) ([]slot, error) {
	if collection == "" {
		return nil, nil
	}
	var all []slot
	err := m.client.members(ctx, collection, maxSlots, func(path string, o object) {
		if s := m.slotOf(o, path); s.holdsCDs() {
			all = append(all, s)
		}
	})
	if hasStatus(err, http.StatusNotFound) { // named, and not there
		return all, nil
	}
	return all, err
}

// mediaSources are the collections of slots, each looked up when its turn comes.
func (m *machine) mediaSources(ctx context.Context, s system) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if !yield(link(s.object, "VirtualMedia"), nil) {
			return
		}
		paths, err := m.relatives(ctx, s, itsManagers)
		if err != nil {
			yield("", err)
			return
		}
		for _, path := range paths {
			if !yield(m.managersMedia(ctx, path)) {
				return
			}
		}
	}
}

func (m *machine) managersMedia(ctx context.Context, path string) (string, error) {
	o, err := m.known[key(path)], error(nil)
	if o == nil {
		o, err = m.client.get(ctx, path)
	}
	m.habits.learn(managerMakers(o))
	if err == nil {
		err = m.unshared(ctx, o)
	}
	return link(o, "VirtualMedia"), err
}

// unshared refuses the slots of a manager from which other machines boot, too:
// an installer for this one would be in the drive of those. A manager that names
// others only has no slots of this machine, whatever those boot from.
func (m *machine) unshared(ctx context.Context, manager object) error {
	if link(manager, "VirtualMedia") == "" {
		return nil
	}
	own := func(path string) bool { return key(path) == key(m.path) }
	served := links(manager, "Links", "ManagerForServers")
	if len(served) > 0 && !slices.ContainsFunc(served, own) {
		return fmt.Errorf("the BMC names a manager for %s that serves %s instead, so an image in its virtual media would reach the wrong machine; boot the installer in another way: %w",
			printable(m.path), printable(strings.Join(served, ", ")), errors.ErrUnsupported)
	}
	for _, path := range served {
		if own(path) {
			continue
		}
		o, err := m.client.get(ctx, path)
		if err != nil && !lasting(err) {
			return err
		}
		targets := bootTargets(system{o})
		if slices.Contains(targets, string(schemas.CdBootSource)) || slices.Contains(targets, string(usbCd)) {
			return fmt.Errorf("the BMC's virtual media are those of %s too, which may boot what is put into them; boot the installer in another way: %w",
				printable(path), errors.ErrUnsupported)
		}
	}
	return nil
}

// insert puts an image into the drive, or into the next one that takes it, and
// proves it.
func (m *machine) insert(ctx context.Context, s system, drive slot, image string) error {
	err := m.insertInto(ctx, drive, image)
	if slotRefuses(err) {
		drive, err = m.insertElsewhere(ctx, s, drive, image, err)
	}
	if err != nil {
		return err
	}
	return m.untilMedia(ctx, drive, "the image to be inserted", func(d slot) bool { return d.image() == image })
}

// insertElsewhere tries the other drives after one has refused.
func (m *machine) insertElsewhere(ctx context.Context, s system, first slot, image string, refusal error) (slot, error) {
	all, err := m.slots(ctx, s)
	if err != nil {
		return first, err
	}
	for _, other := range all {
		if other.path == first.path {
			continue
		}
		m.habits.met(nextSlot)
		m.slot = other.path
		if err := m.eject(ctx, other); err != nil {
			return other, err
		}
		if refusal = m.insertInto(ctx, other, image); !slotRefuses(refusal) {
			return other, refusal
		}
	}
	return first, refusal
}

// slotRefuses says whether another slot may do: some list the action and do
// not have it.
func slotRefuses(err error) bool {
	return hasStatus(err, http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented)
}

// insertion is how an image is put to a BMC: with which parameters.
type insertion struct {
	flags    bool // Inserted and WriteProtected
	transfer bool // TransferProtocolType and TransferMethod
	login    bool // UserName and Password, which some want for a public image too
}

func (i insertion) body(image string) map[string]any {
	b := map[string]any{"Image": image}
	if i.flags {
		b["Inserted"], b["WriteProtected"] = true, true
	}
	if i.transfer {
		b["TransferMethod"], b["TransferProtocolType"] = "Stream", transferProtocol(image)
	}
	if i.login {
		b["UserName"], b["Password"] = "none", "none"
	}
	return b
}

// transferProtocol is VirtualMedia.TransferProtocolType of an image.
func transferProtocol(image string) string {
	u, err := url.Parse(image)
	if err != nil {
		return ""
	}
	return strings.ToUpper(u.Scheme)
}

// next is what to try after a refusal. Each parameter is changed once.
func (i insertion) next(err error) (insertion, bool) {
	switch {
	case !hasStatus(err, http.StatusBadRequest):
		return i, false
	case hasMessage(err, "ActionParameterMissing", "PropertyMissing", "CreateFailedMissingReqProperties"):
		if i.transfer && i.login {
			return i, false
		}
		return insertion{i.flags, true, i.transfer}, true
	case i.flags:
		return insertion{false, i.transfer, i.login}, true
	}
	return i, false
}

// insertInto asks for an image in one slot. DSP0268 has all but Image optional;
// X11 and X12 boards refuse Inserted and WriteProtected, others demand more.
func (m *machine) insertInto(ctx context.Context, drive slot, image string) error {
	how := insertion{flags: !m.has(plainInsert)}
	ejected := false
	for {
		err := m.writeSlot(ctx, drive, "InsertMedia", how.body(image))
		if hasStatus(err, http.StatusConflict) && !ejected { // what it holds, it does not show
			ejected = true
			m.habits.met(staleInserted)
			if err := m.askEject(ctx, drive); err != nil {
				return err
			}
			continue
		}
		next, again := how.next(err)
		if !again {
			return err
		}
		m.habits.met(insertParameters)
		how = next
	}
}

// writeSlot asks for an action of a slot, or writes to a slot without actions.
func (m *machine) writeSlot(ctx context.Context, drive slot, action string, body map[string]any) error {
	if target := drive.action(action); target != "" {
		return m.client.post(ctx, target, body)
	}
	if drive.action("InsertMedia") != "" {
		return fmt.Errorf("virtual media slot %s has no %s: %w", drive.path, action, errors.ErrUnsupported)
	}
	m.habits.met(patchMedia)
	return m.client.patch(ctx, drive.path, drive.object, body)
}

// ejectAll empties every drive that the machine could boot an image from: of two
// media it may boot either. Drives that the BMC does not show cannot be.
func (m *machine) ejectAll(ctx context.Context, s system) error {
	all, err := m.slots(ctx, s)
	if err != nil && !lasting(err) {
		return err
	}
	for _, drive := range all {
		if err := m.eject(ctx, drive); err != nil {
			return err
		}
	}
	return nil
}

// eject empties the drive, and proves it.
func (m *machine) eject(ctx context.Context, drive slot) error {
	if !drive.inserted() {
		return nil
	}
	if err := m.askEject(ctx, drive); err != nil {
		return err
	}
	return m.untilMedia(ctx, drive, "the drive to be empty", func(d slot) bool { return !d.inserted() })
}

// askEject asks for an ejection. EjectMedia has no parameters, and iLO wants an
// empty object all the same. Actions may come and go with the medium, so a slot
// that was read without EjectMedia is read again.
func (m *machine) askEject(ctx context.Context, drive slot) error {
	if drive.action("InsertMedia") != "" && drive.action("EjectMedia") == "" {
		now, err := m.readSlot(ctx, drive.path)
		if err != nil {
			return err
		}
		drive = now
	}
	if drive.action("EjectMedia") != "" {
		return m.writeSlot(ctx, drive, "EjectMedia", map[string]any{})
	}
	err := m.writeSlot(ctx, drive, "EjectMedia", map[string]any{"Image": nil, "Inserted": false})
	if hasStatus(err, http.StatusBadRequest) {
		return m.writeSlot(ctx, drive, "EjectMedia", map[string]any{"Image": nil})
	}
	return err
}

func (m *machine) untilMedia(ctx context.Context, drive slot, what string, ok func(slot) bool) error {
	return m.wait(ctx, m.opts.Settle, what, func() (bool, error) {
		now, err := m.readSlot(ctx, drive.path)
		return err == nil && ok(now), err
	})
}
