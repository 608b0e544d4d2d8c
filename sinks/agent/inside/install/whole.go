package install

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/disk"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/image"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/tree"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// isWhole reports whether the image is of a whole disk.
func (w *work) isWhole() bool { return w.asked.Image.Kind == string(image.Disk) }

// targetDisk is the disk for a whole-disk image: the one that is not kept.
func (w *work) targetDisk() item.LayoutDisk {
	i := slices.IndexFunc(w.asked.Layout.Disks, func(d item.LayoutDisk) bool { return !d.Keep })
	return w.asked.Layout.Disks[i]
}

// oneDisk checks that the request has one disk for the image, and nothing else.
func (w *work) oneDisk() error {
	l, disks := w.asked.Layout, 0
	for _, d := range l.Disks {
		if d.Keep {
			continue
		}
		if disks++; d.Table != "" || len(d.Partitions) > 0 {
			return refused("the disk %s must get partitions of the design, and the image of a whole disk has its own; nothing was written", d.Name)
		}
	}
	switch {
	case disks != 1:
		return refused("the image is of a whole disk, and %d disks should be written; nothing was written", disks)
	case len(l.Arrays)+len(l.Groups)+len(l.Filesystems) > 0:
		return refused("the image is of a whole disk, and arrays, volume groups or file systems should be made beside it; nothing was written")
	case w.asked.Boot != "uefi":
		return refused("the system must be started by %q, and only UEFI starts images of whole disks; nothing was written", w.asked.Boot)
	}
	return nil
}

// systems are the kinds of file systems that may hold a system.
var systems = []string{"ext4", "xfs", "btrfs"}

// checkWhole reads the whole image, and checks what is in it as far as that is possible without mounting it.
func (w *work) checkWhole() (err error) {
	source, err := w.Source(w.asked.Image)
	if err != nil {
		return err
	}
	d, a := w.targetDisk(), w.asked.Image
	w.h.Tell("reading the image " + a.SHA256)
	w.image, err = image.Check(w.ctx, source, image.Image{Kind: image.Disk, SHA256: a.SHA256, Bytes: a.Bytes}, image.Options{
		Memory: max(0, Available(w.h)-spare) / 2, Room: d.Bytes,
		Tell: func(done, of int64) {
			w.h.Tell(fmt.Sprintf("read or wrote %d of %d MB, %d %%", done/1e6, of/1e6, 100*done/max(of, 1)))
		},
	})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			w.image.Close()
		}
	}()
	r, done, err := w.image.Reader(w.ctx)
	if err != nil {
		return err
	}
	defer done()
	if w.whole, err = disk.ReadWhole(r, w.image.Unpacked, d.Sector); errors.Is(err, disk.ErrNoTable) {
		return refused("a disk with the image would not start: %v; use another image; nothing was written", err)
	} else if err != nil {
		return err
	}
	switch {
	case len(w.roots()) == 0:
		return refused("no partition of the image has an ext4, xfs or btrfs, where Slipway looks for the system (LVM and LUKS are not supported); use another image; nothing was written")
	case !slices.ContainsFunc(w.whole.Parts, isESP):
		return refused("the image has no EFI system partition with a vfat, so that the firmware would find no boot loader; use an image for UEFI; nothing was written")
	}
	twins, err := disk.Twins(w.ctx, w.h, w.asked.Layout, d.Name, w.whole)
	if err != nil {
		return err
	}
	if len(twins) > 0 {
		return refused("another disk of the machine has what the image has too, so that the system could start from either: %s. Erase that disk, or take it out; nothing was written", strings.Join(twins, ", "))
	}
	return nil
}

func isESP(p disk.WholePart) bool {
	return p.EFI && slices.ContainsFunc(p.Holds, func(s item.Signature) bool { return s.Kind == "vfat" })
}

// roots are the image's file systems that may hold the system.
func (w *work) roots() (all []item.LayoutFilesystem) {
	for _, p := range w.whole.Parts {
		for _, s := range p.Holds {
			if slices.Contains(systems, s.Kind) {
				all = append(all, item.LayoutFilesystem{On: item.Place{Disk: w.targetDisk().Name, Partition: p.Number}, Type: s.Kind, UUID: s.UUID, Mount: "/"})
			}
		}
	}
	return all
}

// noEntries says why the firmware's entries of a whole-disk image are unknown.
const noEntries = "none is made for the image of a whole disk, which the firmware starts by the fallback path"

// makeWhole erases the disk and writes the image to it. It writes the partition table only when the system is
// complete, including its marker. Until then only the kernel knows the partitions, and a machine that restarts
// finds nothing on the disk.
func (w *work) makeWhole() error {
	l, name := w.asked.Layout, w.targetDisk().Name
	if err := w.layOut(); err != nil { // this clears all signatures
		return err
	}
	put, err := w.write(name)
	if err != nil {
		return erased(err)
	}
	w.is.Unpacked = put.Unpacked
	if err := disk.Lend(w.ctx, w.h, l, name, w.whole); err != nil {
		return erased(err)
	}
	if err := w.hasLoader(); err != nil {
		return erased(err)
	}
	root, err := w.findRoot()
	if err != nil {
		return erased(err)
	}
	if err := w.mount(root, false); err != nil {
		return erased(err)
	}
	for _, step := range []func() error{w.firstStart, w.enter, w.configure, w.keys, w.leave, w.mark} {
		if err := step(); err != nil {
			return erased(err)
		}
	}
	syscall.Sync()
	if err := disk.Unmount(w.ctx, w.h); err != nil {
		return erased(err)
	}
	if err := w.proves(root); err != nil {
		return erased(err)
	}
	w.h.Tell("writing the tables of partitions")
	if err := w.seal(name, put); err != nil {
		return erased(err)
	}
	if err := w.proves(root); err != nil {
		// A disk that cannot be read back must not boot.
		return erased(errors.Join(err, disk.Apply(w.ctx, w.h, l)))
	}
	w.is.EntriesUnknown = noEntries
	w.h.Tell("the image is on the disk")
	return nil
}

// write writes the image except its ends.
func (w *work) write(name string) (put image.Unsealed, err error) {
	d, err := disk.Open(w.ctx, w.h, w.asked.Layout, name)
	if err != nil {
		return put, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	size, err := d.Size()
	if err != nil {
		return put, err
	}
	w.h.Tell("writing the image")
	first, last := w.whole.Ends()
	return w.image.Write(w.ctx, d, size, first, last)
}

// seal writes the ends of the image.
func (w *work) seal(name string, put image.Unsealed) error {
	d, err := disk.Open(w.ctx, w.h, w.asked.Layout, name)
	if err != nil {
		return err
	}
	if err := errors.Join(d.Seal(w.whole, put.Head, put.Tail), d.Close()); err != nil {
		return err
	}
	return disk.Settle(w.ctx, w.h, w.asked.Layout, name, w.whole)
}

// mount mounts one file system of the image as the new system.
func (w *work) mount(f item.LayoutFilesystem, readOnly bool) error {
	l := w.asked.Layout
	l.Filesystems = []item.LayoutFilesystem{f}
	return disk.Mount(w.ctx, w.h, l, readOnly)
}

// loaders are the boot loaders that firmware tries by default (UEFI specification 2.10, section 3.5.1.1).
var loaders = []string{"BOOTX64.EFI", "BOOTAA64.EFI"}

// hasLoader checks that the firmware will find a boot loader.
func (w *work) hasLoader() error {
	for _, p := range w.whole.Parts {
		if !isESP(p) {
			continue
		}
		f := item.LayoutFilesystem{On: item.Place{Disk: w.targetDisk().Name, Partition: p.Number}, Type: "vfat", Mount: "/"}
		if err := w.mount(f, true); err != nil {
			return err
		}
		there := slices.ContainsFunc(loaders, func(name string) bool {
			_, err := os.Stat(w.target.Path(path.Join("EFI/BOOT", name)))
			return err == nil
		})
		if err := disk.Unmount(w.ctx, w.h); err != nil {
			return err
		}
		if there {
			return nil
		}
	}
	return refused("the image has no boot loader at the path where firmware looks for it, EFI/BOOT/%s of its EFI system partition: use another image", loaders[0])
}

// findRoot finds the one file system of the image that has a system.
func (w *work) findRoot() (root item.LayoutFilesystem, err error) {
	var found []string
	for _, f := range w.roots() {
		for _, options := range subvolumes(f.Type) {
			f.Options = options
			if err := w.mount(f, true); err != nil {
				if options != "" {
					continue // no such subvolume
				}
				return root, err
			}
			is := w.isSystem()
			if err := disk.Unmount(w.ctx, w.h); err != nil {
				return root, err
			}
			if is {
				root = f
				found = append(found, strings.TrimSpace(f.On.String()+" "+options))
				break
			}
		}
	}
	if len(found) != 1 {
		return root, refused("the image has %d systems (%s), that is file systems with /etc/os-release and /usr/bin, and only one can be installed: use another image", len(found), strings.Join(found, ", "))
	}
	return root, nil
}

// subvolumes are mount options for the root of a file system: the usual names of btrfs subvolumes.
func subvolumes(kind string) []string {
	if kind == "btrfs" {
		return []string{"", "subvol=root", "subvol=@"}
	}
	return []string{""}
}

// isSystem reports whether a system is mounted.
func (w *work) isSystem() bool {
	t, err := tree.Open(w.target.Root)
	if err != nil {
		return false
	}
	defer t.Close()
	return (t.Exists("/etc/os-release") || t.Exists("/usr/lib/os-release")) && t.Exists("/usr/bin")
}

// proves mounts the system again, and checks its marker.
func (w *work) proves(root item.LayoutFilesystem) error {
	if err := w.mount(root, true); err != nil {
		return err
	}
	there := w.hasMarker()
	if err := disk.Unmount(w.ctx, w.h); err != nil {
		return err
	}
	if !there {
		return &wire.Error{Class: wire.Failed, Text: "the system was unmounted and read again, and does not have its marker as it was written: look at its disk"}
	}
	return nil
}
