package disk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// Apply makes of the disks what a layout says, and mounts the result under Target. It
// always begins at its start: what is kept is never written, and of what is not, nothing is
// worth keeping once it was begun. So the same call made again after a cut at any point
// leads to the same end. Immediately before the first write that destroys anything the
// disks are compared once more with those of the layout, which somebody approved; where
// they differ, nothing is written. A disk that the layout does not have is not written.
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

// begin finds the disks of a layout, and ends what uses those that are erased.
func begin(ctx context.Context, h *inside.Host, l item.Layout) (*maker, State, error) {
	seen, err := Observe(ctx, h)
	if err != nil {
		return nil, "", err
	}
	state, err := StateOf(l, seen)
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
	// held are the disks, open for nothing but that the kernel gives their names to no others: a
	// program is told a name, long after the disks were compared.
	held taken
}

// take opens the disks that are erased for ourselves alone, and compares all disks once more
// before the first is written.
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

// taken are files of disks, by their names in the layout.
type taken map[string]*os.File

func (t taken) close() {
	for _, f := range t {
		f.Close()
	}
}

// hold keeps all disks of the layout open, the kept ones too.
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

// disks writes the tables.
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

// reread has the kernel read the table of a disk again.
func (m *maker) reread(ctx context.Context, what string, f *os.File, name string) error {
	return m.wait(ctx, what+" of the disk "+m.found[name].String(), func() (string, bool) {
		err := reread(f)
		return fmt.Sprint(err), err == nil
	})
}

// openAlone opens a disk that nothing else uses: the kernel refuses where it, or a partition
// of it, is mounted or a member of something.
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

// isNode holds that an open file is the disk that the kernel tells of, and that this is the one that
// is meant: as long as the file is open, no other one gets its name.
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

// settleWithin is how long the kernel may take to know the partitions that it was told of.
const settleWithin = 20 * time.Second

// settle waits until the kernel has the partitions of a disk as they are laid out.
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

// wait asks until something is so.
func (m *maker) wait(ctx context.Context, what string, is func() (instead string, ok bool)) error {
	ctx, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	for {
		instead, ok := is()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the kernel does not have %s after %s: %s", what, settleWithin, instead)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// device is the kernel's name of a place.
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

// mapped is a name within that of a mapped device, where "-" stands between two.
func mapped(name string) string { return strings.ReplaceAll(name, "-", "--") }

// noUdev keeps mdadm(8) from waiting for udev.
var noUdev = []string{"MDADM_NO_UDEV=1"}

// arrays makes the md arrays.
func (m *maker) arrays(ctx context.Context) error {
	for _, a := range m.layout.Arrays {
		m.h.Tell("making the array " + a.Name)
		args := []string{
			"--create", "", "--run", "--metadata=1.2", "--uuid=" + a.MdadmUUID(), "--name=" + a.Name, "--homehost=" + cmp.Or(m.layout.Homehost, "any"),
			"--level=" + strings.TrimPrefix(a.Level, "raid"), "--raid-devices=" + strconv.Itoa(len(a.Members)-a.Spares),
			"--data-offset=" + strconv.FormatInt(a.DataOffset>>10, 10) + "K",
		}
		if a.Spares > 0 {
			args = append(args, "--spare-devices="+strconv.Itoa(a.Spares))
		}
		if a.Chunk > 0 {
			args = append(args, "--chunk="+strconv.FormatInt(a.Chunk>>10, 10)+"K")
		}
		if a.MemberBytes > 0 {
			args = append(args, "--size="+strconv.FormatInt(a.MemberBytes>>10, 10)+"K", "--bitmap=internal")
		}
		number, err := m.freeArray()
		if err != nil {
			return err
		}
		args[1] = "/dev/" + number
		for _, p := range a.Members {
			name, err := m.device(p)
			if err != nil {
				return err
			}
			args = append(args, "/dev/"+name)
		}
		if err := run(ctx, m.h, inside.Command{Path: "mdadm", Args: args, Env: noUdev, Timeout: programWithin}); err != nil {
			return err
		}
		name, err := m.device(item.Place{Array: a.Name})
		if err != nil {
			return err
		}
		if is := say(m.h.Path("/sys/block/"+name), "size"); is != strconv.FormatInt(a.Bytes/512, 10) {
			return fmt.Errorf("the array %s has %s sectors, and should have %d", a.Name, is, a.Bytes/512)
		}
		if err := m.wipeDevice(name, a.Bytes); err != nil {
			return err
		}
	}
	return nil
}

// freeArray is a name that no array has.
func (m *maker) freeArray() (string, error) {
	for n := range maxStack {
		name := "md" + strconv.Itoa(n)
		if _, err := os.Lstat(m.h.Path("/sys/block/" + name)); errors.Is(err, fs.ErrNotExist) {
			return name, nil
		}
	}
	return "", errors.New("the kernel has no number left for an array")
}

// wipeDevice clears the signatures of an array: what was at the same places of its members
// before shows through.
func (m *maker) wipeDevice(name string, bytes int64) error {
	f, err := os.OpenFile(node(m.h, name), os.O_RDWR|os.O_EXCL, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := wipe(f, 0, bytes); err != nil {
		return err
	}
	return f.Sync()
}

// freeName removes the folder of links that LVM left in /dev for a group of the same name,
// whose volumes are gone. LVM makes no group whose name is there.
func (m *maker) freeName(group string) error {
	folder := m.h.Path("/dev/" + group)
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	active := map[string]bool{}
	names, failed := blocks(m.h)
	for _, name := range names {
		active[say(m.h.Path("/sys/block/"+name), "dm/name")] = true
	}
	if err = errors.Join(err, failed); err == nil {
		for _, e := range entries {
			at := filepath.Join(folder, e.Name())
			// What it leads to may be there still: without udev the file of a mapped device
			// outlives the device.
			if to, failed := os.Readlink(at); failed != nil || active[filepath.Base(to)] {
				err = fmt.Errorf("%s is in use", at)
				break
			}
			if err = os.Remove(at); err != nil {
				break
			}
		}
	}
	if err == nil {
		err = os.Remove(folder)
	}
	if err != nil {
		return fmt.Errorf("the volume group %s cannot be made, since the system has a /dev/%s: %w: choose another name; nothing was written", group, group, err)
	}
	return nil
}

// lvmConfig is what holds for each run of LVM: nothing of the system's own configuration,
// and no part of it that waits for udev or for a daemon.
const lvmConfig = `activation{udev_sync=0 udev_rules=0 monitoring=0} devices{obtain_device_list_from_udev=0 external_device_info_source="none" ` +
	`use_devicesfile=0 data_alignment_detection=0 data_alignment_offset_detection=0 md_chunk_alignment=0 multipath_component_detection=0} ` +
	`backup{backup=0 archive=0} global{event_activation=0 use_lvmlockd=0 use_lvmpolld=0}`

// groups makes the volume groups.
func (m *maker) groups(ctx context.Context) error {
	for _, g := range m.layout.Groups {
		m.h.Tell("making the volume group " + g.Name)
		var members []string
		for _, p := range g.Members {
			name, err := m.device(p.On)
			if err != nil {
				return err
			}
			members = append(members, "/dev/"+name)
		}
		lvm := func(command string, args ...string) error {
			all := append([]string{command, "--config", lvmConfig, "--devices", strings.Join(members, ","), "--yes"}, args...)
			return run(ctx, m.h, inside.Command{Path: "lvm", Args: all, Timeout: programWithin})
		}
		for i, p := range g.Members {
			if err := lvm("pvcreate", "--uuid", p.UUID, "--norestorefile", "--force", "--force", "--zero", "y", "--dataalignment", "1m", members[i]); err != nil {
				return err
			}
		}
		if err := lvm("vgcreate", append([]string{"--physicalextentsize", strconv.Itoa(item.ExtentBytes>>20) + "m", g.Name}, members...)...); err != nil {
			return err
		}
		for _, v := range g.Volumes {
			if err := lvm("lvcreate", "--zero", "y", "--wipesignatures", "y", "--extents", strconv.FormatInt(v.Extents, 10), "--name", v.Name, g.Name); err != nil {
				return err
			}
			name, err := m.device(item.Place{Group: g.Name, Volume: v.Name})
			if err != nil {
				return err
			}
			if err := m.wipeDevice(name, v.Extents*item.ExtentBytes); err != nil {
				return err
			}
		}
	}
	return nil
}

// programWithin is how long a program may take that makes something: mkfs writes little, but
// on a disk that may be slow.
const programWithin = 15 * time.Minute

// filesystems makes the file systems.
func (m *maker) filesystems(ctx context.Context) error {
	for _, f := range m.layout.Filesystems {
		if f.Keep {
			continue
		}
		m.h.Tell(fmt.Sprintf("making %s on %s", f.Type, f.On))
		name, err := m.device(f.On)
		if err != nil {
			return err
		}
		c, err := mkfs(f, "/dev/"+name)
		if err != nil {
			return err
		}
		if err := run(ctx, m.h, c); err != nil {
			return err
		}
		if err := m.reads(f, name); err != nil {
			return err
		}
	}
	return nil
}

// efiLarge is from which size on a partition for the firmware is made as FAT32, which the
// UEFI specification asks for; a smaller one has too few clusters for it.
const efiLarge = 64 << 20

// mkfs is the program that makes a file system.
func mkfs(f item.LayoutFilesystem, device string) (inside.Command, error) {
	c := inside.Command{Path: "mkfs." + f.Type, Timeout: programWithin}
	label := func(option string) {
		if f.Label != "" {
			c.Args = append(c.Args, option, f.Label)
		}
	}
	switch f.Type {
	case "ext4":
		c.Args = []string{"-F", "-q", "-U", f.UUID, "-E", "nodiscard"}
		label("-L")
	case "xfs":
		c.Args = []string{"-f", "-q", "-K", "-m", "uuid=" + f.UUID}
		label("-L")
	case "btrfs":
		c.Args = []string{"-f", "-q", "-K", "-U", f.UUID}
		label("-L")
	case "vfat":
		c.Args = []string{"-I", "-i", strings.ReplaceAll(f.UUID, "-", "")}
		if f.EFI && f.Bytes >= efiLarge {
			c.Args = append(c.Args, "-F", "32")
		}
		label("-n")
	case "swap":
		c.Path, c.Args = "mkswap", []string{"-f", "-U", f.UUID}
		label("-L")
	default:
		return c, fmt.Errorf("%s must have the file system %q, which Slipway cannot make", f.On, f.Type)
	}
	c.Args = append(c.Args, device)
	return c, nil
}

// reads holds that a file system is there, by what is on the device.
func (m *maker) reads(f item.LayoutFilesystem, name string) error {
	file, err := os.Open(node(m.h, name))
	if err != nil {
		return err
	}
	defer file.Close()
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	p, err := openPart(file, size)
	if err != nil {
		return err
	}
	on, err := signatures(p)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(on, func(s item.Signature) bool { return s.Kind == f.Type && strings.EqualFold(s.UUID, f.UUID) }) {
		return fmt.Errorf("on %s there is %v, and was to be %s %s", f.On, on, f.Type, f.UUID)
	}
	return nil
}

// mounts mounts the file systems under Target, those of kept disks too.
func (m *maker) mounts(ctx context.Context) error {
	for _, f := range m.layout.Filesystems {
		if f.Mount == "" || f.Type == "swap" {
			continue
		}
		m.h.Tell("mounting " + f.Mount)
		if path.Clean(f.Mount) != f.Mount || !path.IsAbs(f.Mount) {
			return fmt.Errorf("%q is not a path in its shortest form", f.Mount)
		}
		name, err := m.device(f.On)
		if err != nil {
			return err
		}
		if err := m.folder(f.Mount); err != nil {
			return err
		}
		args := []string{"-t", f.Type, "-o", cmp.Or(f.Options, "defaults"), "/dev/" + name, path.Join(Target, f.Mount)}
		if err := run(ctx, m.h, inside.Command{Path: "mount", Args: args}); err != nil {
			return err
		}
	}
	return nil
}

// folder makes the folder that a file system is mounted on. What is there already may be of
// a kept disk: a link would lead out of the new system.
func (m *maker) folder(mount string) error {
	at := m.h.Path(Target)
	for _, word := range append([]string{""}, strings.Split(strings.Trim(mount, "/"), "/")...) {
		at = filepath.Join(at, word)
		info, err := os.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if err := os.Mkdir(at, 0o755); err != nil {
				return err
			}
		case err != nil:
			return err
		case !info.IsDir():
			return fmt.Errorf("%s cannot be mounted: %s is not a folder", mount, at)
		}
	}
	return nil
}

// run runs a program that must succeed.
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
