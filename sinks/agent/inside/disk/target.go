package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// Check compares the disks of the machine with a layout, and changes nothing. It refuses what Apply refuses before
// its first write: different disks, and disks in use. It returns how far the layout has been made.
func Check(ctx context.Context, h *inside.Host, l item.Layout) (State, error) {
	seen, err := Observe(ctx, h)
	if err != nil {
		return "", err
	}
	found, err := compare(l, seen)
	if err != nil {
		return "", err
	}
	if err := severs(l, seen); err != nil {
		return "", err
	}
	var erased []string
	for _, d := range l.Disks {
		if !d.Keep {
			erased = append(erased, found[d.Name].Name)
		}
	}
	above, err := stack{h}.aloneOn(erased)
	if err == nil {
		err = unused(h, erased, above, func(m mount) bool { return !m.ofTarget(h) }) // Apply unmounts these
	}
	if err != nil {
		return "", err
	}
	return stateOf(l, seen)
}

// places is a maker that only finds what exists.
func places(ctx context.Context, h *inside.Host, l item.Layout) (*maker, error) {
	seen, err := Observe(ctx, h)
	if err != nil {
		return nil, err
	}
	found, err := compare(l, seen)
	return &maker{h: h, layout: l, found: found}, err
}

// Devices are the device paths of places in a layout, in the same order.
func Devices(ctx context.Context, h *inside.Host, l item.Layout, all ...item.Place) (paths []string, err error) {
	m, err := places(ctx, h, l)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		name, err := m.device(p)
		if err != nil {
			return nil, err
		}
		paths = append(paths, "/dev/"+name)
	}
	return paths, nil
}

// Mount mounts the file systems of a finished layout under Target. If readOnly is set, it mounts those that are not
// kept read-only, and the kept ones not at all.
func Mount(ctx context.Context, h *inside.Host, l item.Layout, readOnly bool) error {
	m, err := places(ctx, h, l)
	if err != nil {
		return err
	}
	if readOnly {
		m.layout.Filesystems = slices.DeleteFunc(slices.Clone(l.Filesystems), func(f item.LayoutFilesystem) bool { return f.Keep })
		for i := range m.layout.Filesystems {
			f := &m.layout.Filesystems[i]
			f.Options = strings.Trim(f.Options+",ro", ",")
		}
	}
	return m.mounts(ctx)
}

// Unmount unmounts everything under Target, which also flushes it to the disks.
func Unmount(ctx context.Context, h *inside.Host) error { return unmount(ctx, h) }

// Partition is a partition that is on a disk now.
type Partition struct {
	Number int
	// GUID is the partition's GUID in a GPT, in lower case; empty in an MBR.
	GUID string
}

// Partitions lists the partitions on the layout's disks that are not kept, as in their tables. A disk without a
// table has none.
func Partitions(ctx context.Context, h *inside.Host, l item.Layout) (all []Partition, err error) {
	m, err := places(ctx, h, l)
	if err != nil {
		return nil, err
	}
	for _, d := range l.Disks {
		if d.Keep {
			continue
		}
		f, err := os.Open(node(h, m.found[d.Name].Name))
		if err != nil {
			return nil, err
		}
		p, err := openPart(f, d.Bytes)
		var t table
		if err == nil {
			t, _, err = readTable(p, d.Sector)
		}
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("the table of the disk %s: %w", m.found[d.Name], plain(err))
		}
		for _, e := range t.parts {
			all = append(all, Partition{e.number, strings.ToLower(e.guid)})
		}
	}
	return all, nil
}

// Device is a disk opened for exclusive use.
type Device struct{ file *os.File }

// Open opens a disk of a layout for writing it as a whole.
func Open(ctx context.Context, h *inside.Host, l item.Layout, name string) (*Device, error) {
	m, err := places(ctx, h, l)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(l.Disks, func(d item.LayoutDisk) bool { return d.Name == name })
	if i < 0 || l.Disks[i].Keep {
		return nil, fmt.Errorf("the layout has no disk %q that may be written; nothing was written", name)
	}
	f, err := openAlone(h, m.found[name])
	if err != nil {
		return nil, err
	}
	return &Device{f}, nil
}

// ReadAt implements io.ReaderAt.
func (d *Device) ReadAt(b []byte, at int64) (int, error) { return d.file.ReadAt(b, at) }

// WriteAt implements io.WriterAt.
func (d *Device) WriteAt(b []byte, at int64) (int, error) { return d.file.WriteAt(b, at) }

// Sync flushes writes to the disk and drops the kernel's cache, so that later reads come from the disk.
func (d *Device) Sync() error { return errors.Join(d.file.Sync(), forget(d.file)) }

// Size is the size of the disk in bytes.
func (d *Device) Size() (int64, error) { return d.file.Seek(0, io.SeekEnd) }

// Close makes the kernel read the partition table, and closes the disk.
func (d *Device) Close() error { return errors.Join(reread(d.file), d.file.Close()) }
