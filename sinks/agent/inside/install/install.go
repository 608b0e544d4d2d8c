// Package install puts a system onto the disks of a machine, as the agent in memory does it:
// all that can be wrong is looked at before anything is erased, and the marker by which the
// system proves itself is written last. It always begins at its start. So a run that was cut
// at any point is done by the same call again; what the cut has left has no marker, and no
// boot loader but for a system that lacks nothing else.
package install

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

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

// erased is an error after the disks were erased: nobody takes it for a refusal, after which
// all is as before.
func erased(err error) error {
	if e := (*wire.Error)(nil); errors.As(err, &e) && e.Class == wire.Refused {
		return &wire.Error{Class: wire.Failed, Text: "the disks were erased, and then: " + e.Text}
	}
	return err
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

// look holds the request, the machine and its disks to each other, and writes nothing.
func (w *work) look() error {
	a := w.asked
	var marker map[string]any
	switch {
	case len(a.Marker) > maxMarker || json.Unmarshal([]byte(a.Marker), &marker) != nil:
		return refused("the marker of the installation is not JSON of at most %d bytes; nothing was written", maxMarker)
	case w.isWhole():
		if err := w.oneDisk(); err != nil {
			return err
		}
	case !slices.ContainsFunc(a.Layout.Filesystems, func(f item.LayoutFilesystem) bool { return f.Mount == "/" && !f.Keep }):
		return refused("no file system that is made is mounted at /, so there is no place for the system: design one; nothing was written")
	}
	for _, apply := range a.Apply {
		if _, ok := w.Facets[apply.Facet]; !ok {
			return refused("the agent cannot configure %q; install daemon and ramdisk from one release; nothing was written", apply.Facet)
		}
	}
	if err := w.identify(); err != nil {
		return err
	}
	if err := w.tools(); err != nil {
		return err
	}
	if err := w.recover(); err != nil {
		return err
	}
	if !w.isWhole() {
		var err error
		if w.plan, err = planBoot(a.Layout, a.Boot, w.r.Node); err != nil {
			return err
		}
	}
	var err error
	if w.state, err = disk.Check(w.ctx, w.h, a.Layout); err != nil {
		return refused("%v", err)
	}
	return nil
}

// tools holds that the system in memory has the programs that the layout needs: one that is
// missed later is missed when the disks are erased.
func (w *work) tools() error {
	missing := w.missing()
	if len(missing) > 0 && w.Programs != nil {
		if err := w.Programs(w.ctx, w.h); err != nil {
			return err
		}
		missing = w.missing()
	}
	if len(missing) > 0 {
		return refused("the agent's system in memory lacks %s, which the design of the disks needs: build the ramdisk with these programs; nothing was written", strings.Join(missing, ", "))
	}
	return nil
}

// missing are the programs that the layout needs and the system in memory does not have.
func (w *work) missing() (names []string) {
	l := w.asked.Layout
	needs := []string{"mount", "umount", "chroot"}
	for _, f := range l.Filesystems {
		switch {
		case f.Keep:
		case f.Type == "swap":
			needs = append(needs, "mkswap")
		default:
			needs = append(needs, "mkfs."+f.Type)
		}
	}
	if len(l.Arrays) > 0 {
		needs = append(needs, "mdadm")
	}
	if len(l.Groups) > 0 {
		needs = append(needs, "lvm", "dmsetup")
	}
	for _, name := range needs {
		if !slices.Contains(names, name) && !slices.ContainsFunc(strings.Split(inside.SearchPath, ":"), func(folder string) bool {
			info, err := os.Stat(w.h.Path(path.Join(folder, name)))
			return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
		}) {
			names = append(names, name)
		}
	}
	return names
}

// identify holds that it is the machine that was approved.
func (w *work) identify() error {
	m := w.Machine(w.h)
	if w.asked.UUID == "" && w.asked.Serial == "" {
		return refused("the request names no machine, neither by UUID nor by serial number; nothing was written")
	}
	for _, c := range []struct{ what, want, is string }{{"UUID", w.asked.UUID, m.UUID}, {"serial number", w.asked.Serial, m.Serial}} {
		switch {
		case c.want == "" || strings.EqualFold(c.want, c.is):
		case c.is == "":
			return refused("this machine reports no %s, and the installation of %s is for the one with %s: it may be another machine; nothing was written", c.what, w.r.Node, c.want)
		default:
			return refused("the installation of %s is for the machine with the %s %s, and this one has %s: it is another machine; nothing was written", w.r.Node, c.what, c.want, c.is)
		}
	}
	return nil
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

// spare is how much of the memory is not for an image.
const spare = 1 << 30

// check reads the image whole.
func (w *work) check() error {
	if w.isWhole() {
		return w.checkWhole()
	}
	source, err := w.Source(w.asked.Image)
	if err != nil {
		return err
	}
	room, kept := int64(0), []string{}
	for _, f := range w.asked.Layout.Filesystems {
		switch {
		case f.Mount == "":
		case f.Keep:
			kept = append(kept, f.Mount)
		default:
			room += f.Bytes
		}
	}
	a := w.asked.Image
	w.h.Tell("reading the image " + a.SHA256)
	lacks := &lacking{w.needs()}
	w.image, err = image.Check(w.ctx, source, image.Image{Kind: image.Kind(a.Kind), SHA256: a.SHA256, Bytes: a.Bytes}, image.Options{
		Memory: max(0, Available(w.h)-spare) / 2, Room: room, Kept: kept, Name: lacks.see,
		Tell: func(done, of int64) {
			w.h.Tell(fmt.Sprintf("read %d of %d MB of the image, %d %%", done/1e6, of/1e6, 100*done/max(of, 1)))
		},
	})
	if err != nil {
		return err
	}
	if err := lacks.check(w.brought()); err != nil {
		w.image.Close()
		return err
	}
	return nil
}

// Available is how much memory the machine has left, in bytes; 0 where that is not known.
func Available(h *inside.Host) int64 {
	f, err := os.Open(h.Path("/proc/meminfo"))
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if words := strings.Fields(lines.Text()); len(words) == 3 && words[0] == "MemAvailable:" {
			kib, _ := strconv.ParseInt(words[1], 10, 53)
			return kib << 10
		}
	}
	return 0
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

// mdadmFiles are where systems have mdadm.conf(5): Debian, and others.
var mdadmFiles = []string{"/etc/mdadm/mdadm.conf", "/etc/mdadm.conf"}

// basics writes what is known of the disks, and takes away what is not the new system's own.
func (w *work) basics() error {
	t, err := tree.Open(w.target.Root)
	if err != nil {
		return err
	}
	defer t.Close()
	l := w.asked.Layout
	if err := t.Put("/etc/fstab", []byte(l.Fstab), 0o644, 0, 0); err != nil {
		return err
	}
	if l.Mdadm != "" {
		file := mdadmFiles[0]
		if !t.Exists(path.Dir(file)) {
			file = mdadmFiles[1]
		}
		text := "# Written by Slipway when it laid out the disks.\nHOMEHOST <system>\n" + l.Mdadm
		if err := t.Put(file, []byte(text), 0o644, 0, 0); err != nil {
			return err
		}
	}
	if err := disown(t, w.target.Root); err != nil {
		return err
	}
	return boot.Prepare(w.target)
}

// disown takes away what each system has of its own and the image may have from the one that it
// was made of.
func disown(t *tree.Tree, root string) error {
	// An empty one is made at the first start (machine-id(5)).
	if e, err := t.Look("/etc/machine-id"); err != nil {
		return err
	} else if e.Kind == tree.File {
		if err := t.Put("/etc/machine-id", nil, e.Mode, 0, 0); err != nil {
			return err
		}
	}
	for _, own := range []string{"/var/lib/systemd/random-seed", "/var/lib/systemd/credential.secret", markerFile} {
		if err := t.Remove(own); err != nil {
			return err
		}
	}
	if e, err := t.Look("/var/lib/dbus/machine-id"); err == nil && e.Kind == tree.File {
		if err := t.Remove("/var/lib/dbus/machine-id"); err != nil {
			return err
		}
	}
	// By the list in it Slipway would own, and remove, what is the image's own; its terms are those of another site.
	if err := removeAll(t, root, inside.Folder); err != nil {
		return err
	}
	names, err := hostKeyFiles(t)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := t.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

// removeAll removes what is at a path with all that is in it. Links in its folders are followed below
// the root alone, others are removed.
func removeAll(t *tree.Tree, root, name string) error {
	at, err := t.Resolve(name, false)
	if err != nil {
		return err
	}
	r, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer r.Close()
	return r.RemoveAll(at)
}

// hostKeyFiles are the files of keys of an SSH server, private and public.
func hostKeyFiles(t *tree.Tree) (files []string, err error) {
	if !t.Exists("/etc/ssh") {
		return nil, nil
	}
	names, err := t.Names("/etc/ssh")
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		if strings.HasPrefix(n, "ssh_host_") {
			files = append(files, "/etc/ssh/"+n)
		}
	}
	return files, nil
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

// keysWithin is how long making the keys of an SSH server may take: that for RSA is found by chance.
const keysWithin = 5 * time.Minute

// keys makes the keys of the SSH server on the machine; only their public halves leave it.
func (w *work) keys() error {
	t, err := tree.Open(w.target.Root)
	if err != nil {
		return err
	}
	defer t.Close()
	if !t.Exists("/usr/sbin/sshd") || !t.Exists("/usr/bin/ssh-keygen") {
		return refused("the image has no SSH server, so Slipway could not see whether the system runs: add the package openssh-server to it, or design it")
	}
	w.h.Tell("making the keys of the SSH server")
	o, err := w.target.Exec(w.ctx, inside.Command{Path: "ssh-keygen", Args: []string{"-A"}, Timeout: keysWithin})
	if err != nil {
		return err
	}
	if o.Code != 0 {
		return &wire.Error{Class: wire.Failed, Text: fmt.Sprintf("ssh-keygen -A ended with %d in the new system: %s", o.Code, o.LastLines(3))}
	}
	err = w.readKeys()
	if err == nil && w.h.TellHostKeys != nil {
		w.h.TellHostKeys(w.is.HostKeys)
	}
	return err
}

// maxKey bounds the public half of a key, in bytes.
const maxKey = 16 << 10

func (w *work) readKeys() error {
	t, err := tree.Open(w.target.Root)
	if err != nil {
		return err
	}
	defer t.Close()
	files, err := hostKeyFiles(t)
	if err != nil {
		return err
	}
	w.is.HostKeys = nil
	for _, file := range files {
		if !strings.HasSuffix(file, ".pub") {
			continue
		}
		text, err := t.Read(file, maxKey)
		if err != nil {
			return err
		}
		if words := strings.Fields(string(text)); len(words) >= 2 {
			w.is.HostKeys = append(w.is.HostKeys, words[0]+" "+words[1])
		}
	}
	if len(w.is.HostKeys) == 0 {
		return &wire.Error{Class: wire.Failed, Text: "the new system has no keys of an SSH server after they were made"}
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
