// Package install puts a system onto the disks of a machine. The agent in the ramdisk uses it. It checks everything
// possible before erasing anything, and writes the marker, by which the system proves itself, last. It always
// starts from the beginning, so repeating the call finishes a run that was interrupted at any point. An interrupted
// run leaves no marker. It leaves a boot loader only if the system lacks nothing else.
package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/boot"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/disk"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/image"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/run"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/tree"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// markerFile is the path of an installed system's marker.
const markerFile = "/etc/slipway/marker.json"

// maxMarker bounds a marker, in bytes.
const maxMarker = 64 << 10

// Installer installs systems.
type Installer struct {
	// Machine reports the machine's identity and hardware.
	Machine func(h *inside.Host) wire.Machine
	// Facets are the facets that can be configured in the new system, by name.
	Facets map[string]inside.Facet
	// Source opens an image that the daemon serves.
	Source func(i wire.Image) (image.Source, error)
	// Programs brings wire.Programs into the ramdisk if one of them is missing. It may be nil.
	Programs func(ctx context.Context, h *inside.Host) error
	reports  reports
}

// work is one installation.
type work struct {
	*Installer
	ctx    context.Context
	h      *inside.Host // the ramdisk
	target *inside.Host // the new system
	r      wire.Request
	asked  *wire.Install
	is     *wire.Installed
	image  *image.Checked
	state  disk.State // of the disks, before
	plan   boot.Plan
	whole  disk.Whole // of the whole-disk image
}

// refused is an error that a person must decide about.
func refused(format string, args ...any) error {
	return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf(format, args...)}
}

// Install carries out a request. With an error it also returns what it has done so far.
func (i *Installer) Install(ctx context.Context, h *inside.Host, r wire.Request) (*wire.Installed, error) {
	w := &work{Installer: i, ctx: ctx, h: h, r: r, asked: r.Install, is: &wire.Installed{SHA256: r.Install.Image.SHA256}}
	if r.Op == wire.OpErase {
		return w.is, w.withCleared(w.retire())
	}
	w.target = inside.Real(h.Path(disk.Target), false)
	w.target.Tell, w.target.Fetch = h.Tell, h.Fetch
	if err := w.look(); err != nil {
		return w.is, err
	}
	if there, err := w.already(); there || err != nil {
		return w.is, err
	}
	if w.state == disk.Begun {
		h.Tell("an earlier run was cut off, or something else was written to the disks since they were looked at; all is done from the start")
	}
	if err := w.check(); err != nil {
		return w.is, err
	}
	defer w.image.Close()
	if err := w.clear(); err != nil {
		return w.is, err
	}
	if err := w.make(); err != nil {
		// Without a marker, the disks do not count as a system. The next run would unmount them too.
		return w.is, w.withCleared(errors.Join(err, disk.Unmount(context.WithoutCancel(ctx), h)))
	}
	return w.is, nil
}

// withCleared adds to an error which boot entries were removed before it, even if no disk was written.
func (w *work) withCleared(err error) error {
	if err == nil || len(w.is.Cleared) == 0 {
		return err
	}
	return fmt.Errorf("%w; before it these entries of the firmware's boot manager were removed: %s", err, strings.Join(w.is.Cleared, ", "))
}

// clear removes the firmware's boot entries for the disks, and those of an earlier run.
func (w *work) clear() error {
	if err := boot.Variables(w.ctx, w.h); err != nil {
		return err
	}
	parts, err := disk.Partitions(w.ctx, w.h, w.asked.Layout)
	if err != nil {
		return err
	}
	var guids []string
	for _, p := range parts {
		guids = append(guids, p.GUID)
	}
	for _, p := range w.whole.Parts {
		guids = append(guids, p.GUID) // of an earlier run
	}
	for _, d := range w.asked.Layout.Disks {
		for _, p := range d.Partitions {
			if !d.Keep {
				guids = append(guids, strings.ToLower(p.GUID))
			}
		}
	}
	guids = slices.DeleteFunc(guids, func(g string) bool { return g == "" })
	removed, err := boot.Clear(w.h, guids)
	for _, e := range removed {
		w.is.Cleared = append(w.is.Cleared, e.String())
	}
	if errors.Is(err, boot.ErrUnknown) {
		w.is.EntriesUnknown = err.Error()
		return nil
	}
	return err
}

// make erases the disks and creates the system.
func (w *work) make() error {
	if err := w.erase(); err != nil {
		return err
	}
	if w.isWhole() {
		return w.makeWhole()
	}
	if err := w.layOut(); err != nil {
		return err
	}
	w.h.Tell("unpacking the image")
	put, err := w.image.Unpack(w.ctx, w.target.Root)
	if err != nil {
		return erased(err)
	}
	w.is.Files, w.is.Unpacked = put.Entries, put.Unpacked
	for _, step := range []func() error{w.basics, w.enter, w.configure, w.keys, w.start, w.leave, w.mark, w.finish} {
		if err := step(); err != nil {
			return erased(err)
		}
	}
	w.h.Tell("the system is installed")
	return nil
}

// erased marks an error after the disks were erased, so that it does not read as a refusal that changed nothing.
func erased(err error) error {
	if e := (*wire.Error)(nil); errors.As(err, &e) && e.Class == wire.Refused {
		return &wire.Error{Class: wire.Failed, Text: afterErase(e.Text)}
	}
	return err
}

// afterErase does not let an error claim that nothing was written, which was so in the step alone that it is from.
func afterErase(text string) string {
	return "the disks were erased, and then: " + strings.TrimSuffix(text, "; nothing was written")
}

// layOut writes the layout. It begins by comparing the disks, which may have been erased before.
func (w *work) layOut() error {
	err := disk.Apply(w.ctx, w.h, w.asked.Layout)
	if err == nil || w.asked.Layout.Erase == "" || w.ctx.Err() != nil {
		return err
	}
	return &wire.Error{Class: wire.Failed, Text: afterErase(err.Error())}
}

// configure applies the facets in the new system in the same way as later over SSH: with the lock, the term check
// and the list of what Slipway made.
func (w *work) configure() error {
	p := &run.Program{Host: w.target, Facets: w.Facets}
	for _, a := range w.asked.Apply {
		w.h.Tell("configuring " + a.Facet)
		a.Remove, a.Owned = nil, ""
		result := p.Do(w.ctx, wire.Request{Version: wire.Version, Op: wire.OpApply, Site: w.r.Site, Node: w.r.Node, Term: w.r.Term, Apply: &a})
		if w.is.Facets == nil {
			w.is.Facets = map[string]wire.Facet{}
		}
		for name, f := range result.Facets {
			w.is.Facets[name] = f
		}
		if e := result.Error; e != nil {
			return &wire.Error{Class: e.Class, Text: fmt.Sprintf("configuring %s in the new system: %s", a.Facet, e.Text)}
		}
	}
	return nil
}

// start makes the system bootable.
func (w *work) start() error {
	devices := func(places ...item.Place) ([]string, error) {
		return disk.Devices(w.ctx, w.h, w.asked.Layout, places...)
	}
	p := w.plan
	p.ESPs = slices.Clone(p.ESPs)
	for i, e := range p.ESPs {
		all, err := devices(item.Place{Disk: e.Disk, Partition: e.Number}, item.Place{Disk: e.Disk})
		if err != nil {
			return err
		}
		p.ESPs[i].Device, p.ESPs[i].Disk = all[0], all[1]
	}
	for i, name := range p.Disks {
		all, err := devices(item.Place{Disk: name})
		if err != nil {
			return err
		}
		p.Disks[i] = all[0]
	}
	made, err := boot.Install(w.ctx, w.h, w.target, p)
	if err != nil {
		return err
	}
	w.is.Kernels = made.Kernels
	for _, e := range made.Entries {
		w.is.Entries = append(w.is.Entries, e.String())
	}
	if made.Unknown != "" {
		w.is.EntriesUnknown = made.Unknown
	}
	return nil
}

// mark writes the marker last.
func (w *work) mark() error {
	t, err := tree.Open(w.target.Root)
	if err != nil {
		return err
	}
	defer t.Close()
	syscall.Sync() // everything before the marker must be on the disks
	return t.Put(markerFile, []byte(w.asked.Marker), 0o644, 0, 0)
}

// finish unmounts the system and reads it back from the disks.
func (w *work) finish() error {
	syscall.Sync()
	if err := disk.Unmount(w.ctx, w.h); err != nil {
		return err
	}
	if err := disk.Mount(w.ctx, w.h, w.asked.Layout, true); err != nil {
		return err
	}
	there := w.hasMarker()
	t, err := tree.Open(w.target.Root)
	if err != nil {
		return err
	}
	fstab, err := t.Read("/etc/fstab", maxMarker)
	t.Close()
	switch {
	case err != nil:
		return err
	case !there || string(fstab) != w.asked.Layout.Fstab:
		return &wire.Error{Class: wire.Failed, Text: "the system was unmounted and read again, and does not have its marker and its fstab as they were written: look at its disks"}
	}
	return disk.Unmount(w.ctx, w.h)
}

// hasMarker reports whether the marker is that of this installation.
func (w *work) hasMarker() bool {
	t, err := tree.Open(w.target.Root)
	if err != nil {
		return false
	}
	defer t.Close()
	is, err := t.Read(markerFile, maxMarker)
	return err == nil && string(is) == w.asked.Marker
}
