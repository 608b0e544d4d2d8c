package disk

import (
	"fmt"
	"io"
	"slices"

	"github.com/slipway-gitops/slipway/engine/item"
)

// medium is a disk to be written.
type medium interface {
	io.ReaderAt
	io.WriterAt
	Sync() error
}

// wipeBytes is how much is cleared at each end of a disk, a partition or an array. The superblocks of everything
// known here, and of ZFS, are within it.
const wipeBytes = 2 << 20

// further are the offsets of additional btrfs superblocks.
var further = []int64{64 << 20, 256 << 30}

// wipe clears the places of signatures in a part of a disk.
func wipe(m io.WriterAt, at, size int64) error {
	clear := func(from, to int64) error {
		if from = max(from, 0); from >= min(to, size) {
			return nil
		}
		_, err := m.WriteAt(make([]byte, min(to, size)-from), at+from)
		return err
	}
	if err := clear(0, wipeBytes); err != nil {
		return err
	}
	for _, f := range further {
		if err := clear(f, f+4096); err != nil {
			return err
		}
	}
	return clear(max(size-wipeBytes, wipeBytes), size)
}

// lay writes a disk of a layout. It first clears all signatures, both of old and of new partitions, then those of
// the disk itself with its table, and finally writes the new table. An interruption leaves the old table, none, or
// the new one on a disk without any other signature.
func lay(m medium, d item.LayoutDisk, was []item.Signature) error {
	var first, last []write
	if d.Table != "" {
		var err error
		if first, last, err = tableWrites(d); err != nil {
			return err
		}
	}
	parts := [][2]int64{}
	for _, s := range was {
		if s.Partition != 0 {
			parts = append(parts, [2]int64{s.Start, s.Bytes})
		}
	}
	for _, p := range d.Partitions {
		parts = append(parts, [2]int64{p.First * int64(d.Sector), (p.Last - p.First + 1) * int64(d.Sector)})
	}
	slices.SortFunc(parts, func(x, y [2]int64) int { return slices.Compare(x[:], y[:]) })
	for _, p := range slices.Compact(parts) {
		if p[0] < 0 || p[1] <= 0 || p[0] > d.Bytes-p[1] {
			return fmt.Errorf("a partition from byte %d with %d bytes is not on the disk %s", p[0], p[1], d.Name)
		}
		if err := wipe(m, p[0], p[1]); err != nil {
			return err
		}
	}
	if err := m.Sync(); err != nil {
		return err
	}
	// The table goes last: until then a second run finds all partitions again.
	if err := wipe(m, 0, d.Bytes); err != nil {
		return err
	}
	if err := m.Sync(); err != nil {
		return err
	}
	for _, writes := range [][]write{first, last} {
		for _, w := range writes {
			if _, err := m.WriteAt(w.bytes, w.at); err != nil {
				return err
			}
		}
		if err := m.Sync(); err != nil {
			return err
		}
	}
	return nil
}
