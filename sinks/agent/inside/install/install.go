// Package install puts a system onto the disks of a machine, as the agent in memory does it:
// all that can be wrong is looked at before anything is erased, and the marker by which the
// system proves itself is written last. It always begins at its start. So a run that was cut
// at any point is done by the same call again; what the cut has left has no marker, and no
// boot loader but for a system that lacks nothing else.
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

// markerFile is where an installed system has its marker.
const markerFile = "/etc/slipway/marker.json"

// maxMarker bounds a marker, in bytes.
const maxMarker = 64 << 10

// Installer installs systems.
type Installer struct {
	// Machine tells what the machine is.
	Machine func(h *inside.Host) wire.Machine
	// Facets are those that can be configured in the new system, by name.
	Facets map[string]inside.Facet
	// Source opens an image where the daemon serves it.
	Source func(i wire.Image) (image.Source, error)
	// Programs brings wire.Programs into the system in memory, where it lacks one of them. It
	// may be nil.
	Programs func(ctx context.Context, h *inside.Host) error
	reports  reports
}

// work is one installation.
type work struct {
	*Installer
	ctx    context.Context
	h      *inside.Host // the system in memory
	target *inside.Host // the new one
	r      wire.Request
	asked  *wire.Install
	is     *wire.Installed
	image  *image.Checked
	state  disk.State // of the disks, before
	plan   boot.Plan
	whole  disk.Whole // of the image of a whole disk
}

// refused is an error that a person must decide about.
func refused(format string, args ...any) error {
	return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf(format, args...)}
}

// Install does what a request asks for. It gives what it has done so far with an error too.
func (i *Installer) Install(ctx context.Context, h *inside.Host, r wire.Request) (*wire.Installed, error) {
	w := &work{Installer: i, ctx: ctx, h: h, r: r, asked: r.Install, is: &wire.Installed{SHA256: r.Install.Image.SHA256}}
	if r.Op == wire.OpErase {
		return w.is, w.retire()
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
		// Without a marker nobody takes it for a system. The next run would unmount it too.
		err = errors.Join(err, disk.Unmount(context.WithoutCancel(ctx), h))
		if len(w.is.Cleared) > 0 { // also where no disk was written
			err = fmt.Errorf("%w; before it these entries of the firmware's boot manager were removed: %s", err, strings.Join(w.is.Cleared, ", "))
		}
		return w.is, err
	}
	return w.is, nil
}

// clear removes the entries by which the firmware starts what is on the disks, and what an
// earlier run made.
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

// make erases the disks and makes the system.
func (w *work) make() error {
	if err := w.erase(); err != nil {
		return err
	}
	if w.isWhole() {
		return w.makeWhole()
	}
	if err := disk.Apply(w.ctx, w.h, w.asked.Layout); err != nil {
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

// erased is an error after the disks were erased: nobody takes it for a refusal, after which
// all is as before.
func erased(err error) error {
	if e := (*wire.Error)(nil); errors.As(err, &e) && e.Class == wire.Refused {
		return &wire.Error{Class: wire.Failed, Text: "the disks were erased, and then: " + e.Text}
	}
	return err
}

// configure applies the facets in the new system, as they are later applied over SSH: with the
// lock, the fence of terms and the list of what Slipway made in it.
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

// start makes the system start by itself.
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

// mark writes the marker, after all else.
func (w *work) mark() error {
	t, err := tree.Open(w.target.Root)
	if err != nil {
		return err
	}
	defer t.Close()
	syscall.Sync() // what the marker tells of is on the disks before it
	return t.Put(markerFile, []byte(w.asked.Marker), 0o644, 0, 0)
}

// finish unmounts the system and reads it again from the disks.
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

// hasMarker says whether the marker is that of this installation.
func (w *work) hasMarker() bool {
	t, err := tree.Open(w.target.Root)
	if err != nil {
		return false
	}
	defer t.Close()
	is, err := t.Read(markerFile, maxMarker)
	return err == nil && string(is) == w.asked.Marker
}
