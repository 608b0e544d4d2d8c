package disk

import (
	"context"
	"fmt"
	"os"
	"syscall"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// Take gives the disks of a layout that are not kept, each open for nobody else, by their names
// in the layout: Apply refuses what it refuses, and it is compared in the same way right before.
// What the kernel knows of the disks is forgotten afterwards.
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

// Reach opens those disks of a layout that are not kept, for reading, also where what is on them
// cannot be read. One that is not there, or not once, is left to Check.
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
