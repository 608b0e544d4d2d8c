package install

import (
	"errors"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/disk"
)

// already says whether the system is there as it was asked for: a run came to its end, and
// nobody was told. Its marker says so, which is written last, and which no other installation
// has: the system may have run since, and have changed tables and file systems, as many do at
// their first start. Nothing is written.
func (w *work) already() (bool, error) {
	if err := disk.Unmount(w.ctx, w.h); err != nil {
		return false, err
	}
	if err := disk.Assemble(w.ctx, w.h, w.asked.Layout); err != nil {
		return false, err
	}
	roots, err := w.madeRoots()
	if err != nil {
		return false, err
	}
	for _, root := range roots {
		there := w.mount(root, true) == nil && w.hasMarker()
		if there {
			w.is.Already, w.is.Erased = true, w.reports.of(w.asked.Marker)
			w.h.Tell("the system is there already, with its marker")
			err = w.readKeys()
		}
		if err := errors.Join(err, disk.Unmount(w.ctx, w.h)); there || err != nil {
			return there, err
		}
	}
	return false, nil
}

// asItIs are the options of file systems by which the kernel writes nothing to them when they are
// mounted read-only: it would finish what their journals have.
var asItIs = map[string]string{"ext4": "noload", "xfs": "norecovery", "btrfs": "rescue=nologreplay"}

// madeRoots are the file systems that the system of an earlier run may be on: of an image of a
// whole disk all that are on the disk, and else the one that is to be made, where it is there.
func (w *work) madeRoots() (all []item.LayoutFilesystem, err error) {
	seen, err := disk.Observe(w.ctx, w.h)
	if err != nil {
		return nil, err
	}
	add := func(f item.LayoutFilesystem, ways ...string) {
		for _, options := range ways {
			f.Options = strings.Trim(options+","+asItIs[f.Type], ",")
			all = append(all, f)
		}
	}
	for _, f := range w.asked.Layout.Filesystems {
		if f.Mount == "/" && !f.Keep && (f.On.Disk == "" || w.isThere(f, seen)) { // what is on arrays and groups is not seen on a disk
			add(f, f.Options)
		}
	}
	if !w.isWhole() {
		return all, nil
	}
	w.is.EntriesUnknown = noEntries
	target := w.targetDisk()
	for _, d := range seen {
		for _, s := range d.Holds {
			if target.Is(d) && s.Partition > 0 && slices.Contains(systems, s.Kind) {
				add(item.LayoutFilesystem{On: item.Place{Disk: target.Name, Partition: s.Partition}, Type: s.Kind, UUID: s.UUID, Mount: "/"}, subvolumes(s.Kind)...)
			}
		}
	}
	return all, nil
}

// isThere says whether a file system of the layout is on its disk.
func (w *work) isThere(f item.LayoutFilesystem, seen []item.Disk) bool {
	return slices.ContainsFunc(w.asked.Layout.Disks, func(is item.LayoutDisk) bool {
		return is.Name == f.On.Disk && slices.ContainsFunc(seen, func(d item.Disk) bool {
			return is.Is(d) && slices.ContainsFunc(d.Holds, func(s item.Signature) bool {
				return s.Partition == f.On.Partition && s.Kind == f.Type && strings.EqualFold(s.UUID, f.UUID)
			})
		})
	})
}
