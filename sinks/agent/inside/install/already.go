package install

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/disk"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// already reports whether the requested system is already installed: an earlier run finished, but its answer was
// lost. The marker proves it, because it is written last and is unique to this installation. That all encrypted volumes
// open is proven here again, because the earlier run may have been cut before its proof. The system may have run since
// and, like many at their first boot, changed tables and file systems. already writes nothing.
func (w *work) already() (bool, error) {
	if err := disk.Unmount(w.ctx, w.h); err != nil {
		return false, err
	}
	if err := disk.Assemble(w.ctx, w.h, w.asked.Layout, w.asked.Passphrase); errors.Is(err, disk.ErrOtherPassphrase) {
		return false, refused("%v. The system may be there already, and another site key, UUID or site name has made the passphrase: start the daemon with the earlier site key, or raise generation to install again; nothing was written", err)
	} else if err != nil {
		return false, err
	}
	roots, err := w.madeRoots()
	if err != nil {
		return false, err
	}
	for _, root := range roots {
		there := w.mount(root, true) == nil && w.hasMarker()
		if there {
			err = w.stillOpens()
		}
		if there && err == nil {
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

// stillOpens checks that the passphrase opens all encrypted volumes of a system that is there.
func (w *work) stillOpens() error {
	if err := disk.Opens(w.ctx, w.h, w.asked.Layout, w.asked.Passphrase); err != nil {
		return &wire.Error{Class: wire.Failed, Text: fmt.Sprintf("the system is there already, with its marker, and %v. It would not start: look at its disks, or raise generation to install again; nothing was written", err)}
	}
	return nil
}

// asItIs are mount options that keep the kernel from writing to a file system that is mounted read-only. Without
// them it would replay the journal.
var asItIs = map[string]string{"ext4": "noload", "xfs": "norecovery", "btrfs": "rescue=nologreplay"}

// madeRoots are the file systems that may hold an earlier run's system. For a whole-disk image these are all on the
// disk. Otherwise it is the designed root, if it exists.
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
		if f.Mount == "/" && !f.Keep && (f.On.Disk == "" || w.isThere(f, seen)) { // a disk does not show what is on arrays and groups
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

// isThere reports whether a file system of the layout is on its disk.
func (w *work) isThere(f item.LayoutFilesystem, seen []item.Disk) bool {
	return slices.ContainsFunc(w.asked.Layout.Disks, func(is item.LayoutDisk) bool {
		return is.Name == f.On.Disk && slices.ContainsFunc(seen, func(d item.Disk) bool {
			return is.Is(d) && slices.ContainsFunc(d.Holds, func(s item.Signature) bool {
				return s.Partition == f.On.Partition && s.Kind == f.Type && strings.EqualFold(s.UUID, f.UUID)
			})
		})
	})
}
