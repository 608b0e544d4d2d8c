package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// Apply makes the disks match a layout, and mounts the result under Target. It always starts from the beginning: it
// never writes what is kept, and once it has begun, nothing else is worth keeping. So repeating the call after an
// interruption at any point leads to the same result. Right before the first destructive write it compares the
// disks again with those of the approved layout. If they differ, it writes nothing. It never writes a disk outside
// the layout.
func Apply(ctx context.Context, h *inside.Host, l item.Layout) error {
	m, state, err := begin(ctx, h, l)
	if err != nil {
		return err
	}
	if state != Untouched && l.Erase == "" {
		h.Tell("the disks have changed since the layout was computed: an earlier run began to write it, or something else wrote to the disks. Slipway writes the whole layout from the start.")
	}
	for _, g := range l.Groups {
		if err := m.freeName(g.Name); err != nil {
			return err
		}
	}
	defer func() { m.held.close() }()
	if err := m.disks(ctx); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{m.arrays, m.groups, m.filesystems, m.mounts} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	h.Tell("the disks are laid out")
	return nil
}

// begin finds the disks of a layout, and stops what uses the disks to be erased.
func begin(ctx context.Context, h *inside.Host, l item.Layout) (*maker, State, error) {
	seen, err := Observe(ctx, h)
	if err != nil {
		return nil, "", err
	}
	state, err := stateOf(l, seen)
	if err != nil {
		return nil, "", err
	}
	found, err := compare(l, seen)
	if err != nil {
		return nil, "", err
	}
	if err := severs(l, seen); err != nil {
		return nil, "", err
	}
	var erased []string
	for _, d := range l.Disks {
		if !d.Keep {
			erased = append(erased, found[d.Name].Name)
		}
	}
	return &maker{h: h, layout: l, found: found}, state, release(ctx, h, erased)
}

// maker makes a layout.
type maker struct {
	h      *inside.Host
	layout item.Layout
	found  map[string]item.Disk // by their names in the layout
	// held keeps the disks open, only so that the kernel gives their names to no other disks. Programs get a disk
	// by its name, long after the disks were compared.
	held taken
}

// disks writes the partition tables.
func (m *maker) disks(ctx context.Context) error {
	files, err := m.take(ctx)
	if err != nil {
		return err
	}
	defer files.close()
	if err := m.hold(); err != nil {
		return err
	}
	for _, d := range m.layout.Disks {
		if d.Keep {
			continue
		}
		m.h.Tell("writing the disk " + m.found[d.Name].String())
		if err := lay(files[d.Name], d, m.found[d.Name].Holds); err != nil {
			return fmt.Errorf("writing the disk %s: %w", m.found[d.Name], plain(err))
		}
		if err := m.reread(ctx, "the new table", files[d.Name], d.Name); err != nil {
			return err
		}
	}
	for _, d := range m.layout.Disks {
		if !d.Keep {
			if err := m.settle(ctx, d); err != nil {
				return err
			}
		}
	}
	return nil
}

// reread makes the kernel read a disk's table again.
func (m *maker) reread(ctx context.Context, what string, f *os.File, name string) error {
	return m.wait(ctx, what+" of the disk "+m.found[name].String(), func() (string, bool) {
		err := reread(f)
		return fmt.Sprint(err), err == nil
	})
}

// settle waits until the kernel sees the partitions of a disk as laid out.
func (m *maker) settle(ctx context.Context, d item.LayoutDisk) error {
	name := m.found[d.Name].Name
	has := func() (string, bool) {
		partitions, err := stack{m.h}.partitions(name)
		if err != nil || len(partitions) != len(d.Partitions) {
			return fmt.Sprintf("%d of %d partitions", len(partitions), len(d.Partitions)), false
		}
		for _, p := range d.Partitions {
			at := m.h.Path("/sys/class/block/" + partitions[p.Number])
			first, last := p.First*int64(d.Sector)/512, (p.Last+1)*int64(d.Sector)/512
			if say(at, "start") != strconv.FormatInt(first, 10) || say(at, "size") != strconv.FormatInt(last-first, 10) {
				return fmt.Sprintf("partition %d elsewhere", p.Number), false
			}
			if _, err := os.Stat(node(m.h, partitions[p.Number])); err != nil {
				return fmt.Sprintf("no file for partition %d", p.Number), false
			}
		}
		return "", true
	}
	return m.wait(ctx, "the partitions of the disk "+m.found[d.Name].String(), has)
}

// take opens the disks to be erased exclusively. It compares all disks again before the first write.
func (m *maker) take(ctx context.Context) (files taken, err error) {
	files = taken{}
	defer func() {
		if err != nil {
			files.close()
		}
	}()
	for _, d := range m.layout.Disks {
		if d.Keep {
			continue
		}
		if files[d.Name], err = openAlone(m.h, m.found[d.Name]); err != nil {
			delete(files, d.Name)
			return files, err
		}
	}
	seen, err := Observe(ctx, m.h)
	if err != nil {
		return files, err
	}
	again, err := compare(m.layout, seen)
	if err != nil {
		return files, err
	}
	if err := severs(m.layout, seen); err != nil {
		return files, err
	}
	for name, d := range m.found {
		if again[name].Name != d.Name {
			return files, fmt.Errorf("the disk %s is now %s, and was %s: it disappeared and came back; nothing was written", name, again[name], d)
		}
		if f := files[name]; f != nil {
			if err := isNode(m.h, f, d); err != nil {
				return files, err
			}
		}
	}
	m.found = again
	return files, nil
}

// taken holds open disks, by their names in the layout.
type taken map[string]*os.File

func (t taken) close() {
	for _, f := range t {
		f.Close()
	}
}

// hold keeps all disks of the layout open, including the kept ones.
func (m *maker) hold() error {
	m.held = taken{}
	for name, d := range m.found {
		f, err := os.OpenFile(node(m.h, d.Name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return fmt.Errorf("the disk %s cannot be opened: %w; nothing was written", d, plain(err))
		}
		m.held[name] = f
		if err := isNode(m.h, f, d); err != nil {
			return err
		}
	}
	return nil
}

// openAlone opens a disk that nothing else uses. The kernel refuses if the disk or one of its partitions is mounted
// or a member of something.
func openAlone(h *inside.Host, d item.Disk) (*os.File, error) {
	f, err := os.OpenFile(node(h, d.Name), os.O_RDWR|os.O_EXCL, 0)
	if errors.Is(err, errBusy) {
		return nil, fmt.Errorf("the disk %s is in use: stop what uses it; nothing was written", d)
	}
	if err != nil {
		return nil, fmt.Errorf("the disk %s cannot be opened: %w; nothing was written", d, plain(err))
	}
	if err := isNode(h, f, d); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// isNode checks that an open file is the disk in /sys, with the expected size. While the file is open, no other
// disk gets its name.
func isNode(h *inside.Host, f *os.File, d item.Disk) error {
	number, err := deviceNumber(f)
	if err != nil {
		return err
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if is := say(h.Path("/sys/block/"+d.Name), "dev"); number != is || size != d.Bytes {
		return fmt.Errorf("%s has %d bytes and is the device %s, and the disk %s is %s; nothing was written", f.Name(), size, number, d, is)
	}
	if is, ok := known(h, d.Name); !ok || is.Serial != d.Serial || is.WWN != d.WWN {
		return fmt.Errorf("the disk %s is now %s: the disk disappeared, and another disk now has its name; nothing was written", d, is)
	}
	return nil
}

// settleWithin bounds how long the kernel may take to show new partitions.
const settleWithin = 20 * time.Second

// wait polls until a condition holds.
func (m *maker) wait(whole context.Context, what string, is func() (instead string, ok bool)) error {
	ctx, cancel := context.WithTimeout(whole, settleWithin)
	defer cancel()
	for {
		instead, ok := is()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			if err := whole.Err(); err != nil {
				return fmt.Errorf("the kernel does not have %s yet: %w", what, err)
			}
			return fmt.Errorf("the kernel does not have %s after %s: %s", what, settleWithin, instead)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// device is the kernel's name of a place in the layout.
func (m *maker) device(p item.Place) (string, error) {
	s := stack{m.h}
	switch {
	case p.Array != "":
		i := slices.IndexFunc(m.layout.Arrays, func(a item.LayoutArray) bool { return a.Name == p.Array })
		if i < 0 {
			return "", fmt.Errorf("the layout has no array %s", p.Array)
		}
		member, err := m.device(m.layout.Arrays[i].Members[0])
		if err != nil {
			return "", err
		}
		holders, err := s.below(member, "holders")
		if err != nil {
			return "", err
		}
		if len(holders) != 1 || !strings.HasPrefix(holders[0], "md") {
			return "", fmt.Errorf("the array %s is not there: on its member %s there is %q", p.Array, member, holders)
		}
		return holders[0], nil
	case p.Volume != "":
		want := mapped(p.Group) + "-" + mapped(p.Volume)
		names, err := blocks(m.h)
		if err != nil {
			return "", err
		}
		for _, name := range names {
			if strings.HasPrefix(name, "dm-") && say(m.h.Path("/sys/block/"+name), "dm/name") == want {
				return name, nil
			}
		}
		return "", fmt.Errorf("the volume %s/%s is not there", p.Group, p.Volume)
	}
	d, ok := m.found[p.Disk]
	if !ok {
		return "", fmt.Errorf("the layout has no disk %s", p.Disk)
	}
	if f := m.held[p.Disk]; f != nil {
		if err := isNode(m.h, f, d); err != nil {
			return "", fmt.Errorf("%w to %s", err, p)
		}
	}
	if p.Partition == 0 {
		return d.Name, nil
	}
	partitions, err := s.partitions(d.Name)
	if err != nil {
		return "", err
	}
	if name, ok := partitions[p.Partition]; ok {
		return name, nil
	}
	return "", fmt.Errorf("the kernel has no partition %d of the disk %s", p.Partition, d)
}

// programWithin bounds a program that creates something. mkfs writes little, but the disk may be slow.
const programWithin = 15 * time.Minute

// run runs a program and returns an error if it fails.
func run(ctx context.Context, h *inside.Host, c inside.Command) error {
	o, err := h.Exec(ctx, c)
	if err != nil {
		return err
	}
	if o.Code != 0 {
		return fmt.Errorf("%s %s ended with %d: %s", c.Path, strings.Join(c.Args, " "), o.Code, o.LastLines(5))
	}
	return nil
}
