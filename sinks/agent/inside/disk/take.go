package disk

import (
	"context"
	"fmt"
	"os"
	"syscall"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// Take opens the disks of a layout that are not kept, exclusively, and passes them to do by their names in the
// layout. It refuses what Apply refuses, and compares the disks in the same way right before. Afterwards it drops
// the kernel's cache of the disks.
func Take(ctx context.Context, h *inside.Host, l item.Layout, do func(files map[string]*os.File, found map[string]item.Disk) error) error {
	m, _, err := begin(ctx, h, l)
	if err != nil {
		return err
	}
	files, err := m.take(ctx)
	if err != nil {
		return err
	}
	defer files.close()
	if err := do(files, m.found); err != nil {
		return err
	}
	for name, f := range files {
		if err := forget(f); err != nil {
			return fmt.Errorf("the kernel does not forget what was on the disk %s: %w", m.found[name], err)
		}
		if err := m.reread(ctx, "the table", f, name); err != nil {
			return err
		}
	}
	return nil
}

// Reach opens the disks of a layout that are not kept for reading, even if their contents are unreadable. It leaves
// a missing or ambiguous disk to Check.
func Reach(h *inside.Host, l item.Layout, do func(f *os.File, d item.Disk) error) error {
	seen, err := List(h)
	if err != nil {
		return err
	}
	for _, d := range l.Disks {
		var like []item.Disk
		for _, s := range seen {
			if s.IsSame(item.Disk{Serial: d.Serial, WWN: d.WWN}) {
				like = append(like, s)
			}
		}
		if d.Keep || len(like) != 1 || !d.Is(like[0]) {
			continue
		}
		f, err := os.OpenFile(node(h, like[0].Name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return fmt.Errorf("the disk %s cannot be opened: %w", like[0], plain(err))
		}
		err = isNode(h, f, like[0])
		if err == nil {
			err = do(f, like[0])
		}
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
