// Package layout computes what the disks of a machine become, from the designed storage and the
// disks that were seen: which disk is which, the exact partition tables, arrays, volume groups and
// file systems, and what is lost. It is pure: no I/O, no clock, no randomness. The same design on
// the same disks gives the same layout with the same identities, so an existing layout can be
// recognized.
package layout

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Of returns the layout of a node on the disks that were seen of its machine. If there are
// findings, there is no layout. Each finding says which designed value is not possible, and names
// disks by their serial numbers.
func Of(n *site.Node, seen []item.Disk) (item.Layout, []site.Finding) {
	b := &builder{
		node: n, disks: map[string]item.Disk{}, arrays: map[string]item.LayoutArray{}, groupIDs: map[string]string{},
		seen: slices.SortedFunc(slices.Values(seen), func(x, y item.Disk) int { return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.ID(), y.ID())) }),
	}
	b.layout.Homehost, b.layout.BootDisk, b.layout.Erase = n.Name, n.Storage.BootDisk, n.Storage.Erase
	all := b.match()
	if len(n.Storage.Disks) == 0 {
		b.object("storage.disks", "no disk is designed", "Design storage.disks.", "There is nothing to install on.")
	}
	if len(b.findings) > 0 {
		return item.Layout{}, b.findings
	}
	for _, f := range all {
		b.disks[f.name] = f.seen
		b.disk(f)
	}
	b.makeArrays()
	b.makeGroups()
	b.makeFilesystems()
	b.destroys(all)
	if len(b.findings) > 0 {
		return item.Layout{}, b.findings
	}
	b.layout.Fstab, b.layout.Mdadm, b.layout.Crypttab = fstab(b.layout.Filesystems), mdadm(b.layout.Arrays), crypttab(b.layout.Encrypted)
	return b.layout, nil
}

// builder builds a layout.
type builder struct {
	node     *site.Node
	seen     []item.Disk
	layout   item.Layout
	findings []site.Finding
	disks    map[string]item.Disk        // by name in the layout
	arrays   map[string]item.LayoutArray // made so far
	groupIDs map[string]string           // IDs of the members, by group
	parts    []part
}

// part is a place that holds data.
type part struct {
	on    item.Place
	path  string // in the design
	use   site.Use
	bytes site.Size
	efi   bool
	// kept is what was seen on it, if its disk is kept.
	kept *item.Signature
}

// object adds a finding at the origin of a designed value, or of what contains it.
func (b *builder) object(where, message, fix, why string) {
	f := site.Finding{Code: "layout", Severity: site.SeverityError, Node: b.node.Name, Path: where, Message: message, Fix: fix, Why: why}
	for p := where; p != ""; p = p[:max(strings.LastIndex(p, "."), 0)] {
		if at := b.node.Origins.Of(p); !at.IsZero() {
			f.File, f.Line, f.Col = at.File.Value(), at.Line, at.Col
			break
		}
	}
	b.findings = append(b.findings, f)
}

const whyHalf = "The installation would end with the disks erased and no system on them."

// disk lays out one disk.
func (b *builder) disk(f found) {
	d := item.LayoutDisk{Name: f.name, Serial: f.seen.Serial, WWN: f.seen.WWN, Bytes: f.seen.Bytes, Sector: f.seen.Sector, Keep: f.design.Keep}
	switch s := f.seen.Sector; {
	case s < sectorLeast || s > sectorMost || s&(s-1) != 0 || f.seen.Bytes <= 0 || f.seen.Bytes%int64(s) != 0:
		b.object(f.path(), fmt.Sprintf("the disk %s is %s, with %d bytes in sectors of %d bytes", f.name, f.seen, f.seen.Bytes, s),
			"Use another disk.", "A table of partitions cannot be written for it.")
		return
	case f.design.Keep:
		b.keep(f)
	case len(f.design.Partitions) > 0:
		b.partition(f, &d)
	case f.design.Encrypt != "" && f.seen.Bytes%item.LUKSSector != 0:
		b.object(f.path()+".encrypt", fmt.Sprintf("the disk %s is %s, with %d bytes, and LUKS2 encrypts a device whose size is a multiple of %d bytes", f.name, f.seen, f.seen.Bytes, item.LUKSSector),
			`Encrypt a partition that takes the whole disk: partitions: all: {number: 1, size: ">1MiB", encrypt: …}.`, whyHalf)
	default:
		b.add(part{on: item.Place{Disk: f.name}, path: f.path(), use: f.design.Use, bytes: site.Size(f.seen.Bytes) / Align * Align})
	}
	b.layout.Disks = append(b.layout.Disks, d)
}

// numbered returns the partitions of a disk in order, with their numbers. Designed numbers come
// first. The others follow by name and get the lowest free numbers.
func numbered(partitions map[string]site.Partition) (names []string, numbers map[string]int) {
	numbers = map[string]int{}
	used := map[int]bool{}
	for name, p := range partitions {
		numbers[name], used[p.Number] = p.Number, true
	}
	names = slices.SortedFunc(maps.Keys(partitions), func(x, y string) int {
		if unset := cmp.Compare(min(numbers[y], 1), min(numbers[x], 1)); unset != 0 {
			return unset
		}
		return cmp.Or(numbers[x]-numbers[y], cmp.Compare(x, y))
	})
	next := 1
	for _, name := range names {
		if numbers[name] == 0 {
			for used[next] {
				next++
			}
			numbers[name], used[next] = next, true
		}
	}
	return names, numbers
}

// mbrPartitions is the number of partitions of an MBR, mbrSectors its reach.
const (
	mbrPartitions = 4
	mbrSectors    = 1 << 32
)

// maxPartitions is how many partitions Slipway puts into a GPT.
const maxPartitions = 128

// partition divides a disk.
func (b *builder) partition(f found, d *item.LayoutDisk) {
	d.Table = cmp.Or(f.design.Table, "gpt")
	id := b.identity("table", f.seen.ID())
	d.GUID = id.uuid()
	if d.Table == "mbr" {
		d.GUID = id.short()
	}
	names, numbers := numbered(f.design.Partitions)
	room := TableRoom(d.Table, site.Size(f.seen.Bytes), f.seen.Sector)
	sizes, ok := b.share(shares{of: "the disk " + f.name + ", which is " + f.seen.String(), room: room, bytes: PartitionBytes}, names,
		func(name string) (site.Extent, string) {
			return f.design.Partitions[name].Size, f.path() + ".partitions." + name
		})
	if !ok {
		return
	}
	begin := site.Size(Align)
	for i, name := range names {
		p, number, at := f.design.Partitions[name], numbers[name], f.path()+".partitions."+name
		one := item.LayoutPartition{
			Name: name, Number: number,
			First: int64(begin) / int64(d.Sector), Last: int64(begin+sizes[i])/int64(d.Sector) - 1,
			Type: b.partitionType(p, d.Table),
		}
		begin += sizes[i]
		if d.Table == "gpt" {
			one.GUID = b.identity("partition", f.seen.ID(), fmt.Sprint(number)).uuid()
		}
		switch {
		case d.Table == "mbr" && number > mbrPartitions, number > maxPartitions:
			b.object(at, fmt.Sprintf("the partition %s of the disk %s is the %dth, and the table has no place for it", name, f.name, number), `Write table: "gpt", or remove partitions.`, whyHalf)
		case d.Table == "mbr" && one.Last >= mbrSectors:
			b.object(at, fmt.Sprintf("the partition %s of the disk %s ends after the sector %d, which is as far as an MBR table reaches on %s", name, f.name, int64(mbrSectors)-1, f.seen),
				`Write table: "gpt", or make it smaller.`, whyHalf)
		case len(name) > 36:
			b.object(at, fmt.Sprintf("the name of the partition %s has %d letters, and a GPT holds 36", name, len(name)), "Shorten it.", whyHalf)
		}
		d.Partitions = append(d.Partitions, one)
		b.add(part{on: item.Place{Disk: f.name, Partition: number}, path: at, use: p.Use, bytes: sizes[i], efi: p.Flag == "efi"})
	}
	b.activate(f.design, d)
}

// activate marks the MBR partition that a BIOS boots from.
func (b *builder) activate(design site.Disk, d *item.LayoutDisk) {
	if d.Table != "mbr" || b.node.Boot.Mode == "uefi" {
		return
	}
	for _, mount := range []string{"/boot", "/"} {
		for i, p := range d.Partitions {
			if f := design.Partitions[p.Name].Filesystem; f != nil && f.Mount == mount {
				d.Partitions[i].Active = true
				return
			}
		}
	}
}

// The types of partitions: for GPT from the UEFI Forum and the Discoverable Partitions
// Specification, for MBR as two digits.
var types = map[string][2]string{
	"linux":     {"0fc63daf-8483-4772-8e79-3d69d8477de4", "83"},
	"swap":      {"0657fd6d-a4ab-43c4-84e5-0933c84b4f4f", "82"},
	"raid":      {"a19d880f-05fc-4d3b-a006-743f0f84911e", "fd"},
	"lvm":       {"e6d6d379-f507-44c2-a23c-238f2a3df928", "8e"},
	"luks":      {"ca7d7ccb-63ed-4c53-861c-1742536059cc", "e8"},
	"efi":       {"c12a7328-f81f-11d2-ba4b-00a0c93ec93b", "ef"},
	"bios-boot": {"21686148-6449-6e6f-744e-656564454649", ""},
	"prep":      {"9e1a2d38-c612-4316-aa26-8b49521e5a8b", "41"},
	"vfat":      {"ebd0a0a2-b9e5-4433-87c0-68b6b72699c7", "0c"},
}

func (b *builder) partitionType(p site.Partition, table string) string {
	kind := "linux"
	switch {
	case p.Flag != "":
		kind = p.Flag
	case p.Array != "":
		kind = "raid"
	case p.Encrypt != "":
		kind = "luks"
	case p.Group != "":
		kind = "lvm"
	case p.Filesystem != nil && (p.Filesystem.Type == "swap" || p.Filesystem.Type == "vfat"):
		kind = p.Filesystem.Type
	}
	if table == "mbr" {
		return types[kind][1]
	}
	return types[kind][0]
}

// shares describes a whole that is divided.
type shares struct {
	of    string // for people
	room  site.Size
	bytes func(site.Extent, site.Size) site.Size
}

// share returns how much each part of a whole takes. The part with Rest gets what the others leave.
func (b *builder) share(w shares, names []string, extent func(name string) (site.Extent, string)) (sizes []site.Size, ok bool) {
	var asked site.Size
	rest := -1
	for i, name := range names {
		e, at := extent(name)
		size := w.bytes(e, w.room)
		switch {
		case e.IsZero():
			b.object(at, fmt.Sprintf("%s of %s has no size", name, w.of), `Set size; size: ">1MiB" takes what is left.`, whyHalf)
			return nil, false
		case e.Rest && rest >= 0:
			b.object(at+".size", fmt.Sprintf("a second part of %s takes the rest, %s", w.of, name), "Give it a size.", whyHalf)
			return nil, false
		case size <= 0:
			b.object(at+".size", fmt.Sprintf("%s of %s is smaller than the smallest possible size", e, w.of), "Write a larger size.", whyHalf)
			return nil, false
		case e.Rest:
			rest = i
		}
		if asked = asked.Plus(size); asked > w.room {
			b.object(at+".size", fmt.Sprintf("the parts of %s ask for %s up to %s, and there is room for %s", w.of, asked, name, w.room),
				`Lower a size, or use a larger disk; ">" and a size takes what is left.`, whyHalf)
			return nil, false
		}
		sizes = append(sizes, size)
	}
	if rest >= 0 {
		sizes[rest] += w.room - asked
	}
	return sizes, true
}

// keep finds the file systems of a kept disk.
func (b *builder) keep(f found) {
	if f.seen.Unread != "" {
		b.object(f.path(), fmt.Sprintf("the disk %s is %s, and cannot be read: %s", f.name, f.seen, f.seen.Unread), "Check the disk.", "What is kept on it could not be mounted.")
		return
	}
	if f.design.Filesystem != nil {
		b.keepOne(f, f.path(), 0, f.design.Use)
	}
	names, _ := numbered(f.design.Partitions)
	for _, name := range names {
		p, at := f.design.Partitions[name], f.path()+".partitions."+name
		if p.Number == 0 {
			b.object(at, fmt.Sprintf("the partition %s of the kept disk %s has no number", name, f.name), "Set number: it is what the partition is found by.", whyKept)
			continue
		}
		if p.Filesystem != nil {
			b.keepOne(f, at, p.Number, p.Use)
		}
	}
}

const whyKept = "Slipway mounts a kept disk as it is, and never changes it to match the design."

func (b *builder) keepOne(f found, at string, partition int, use site.Use) {
	on := item.Place{Disk: f.name, Partition: partition}
	if use.Encrypt != "" {
		b.object(at+".encrypt", fmt.Sprintf("%s is kept, and is to be encrypted", on), "Remove encrypt, or keep: then the disk is erased.",
			"Slipway has the key of this installation alone, and cannot open what an earlier one has encrypted.")
		return
	}
	kind := cmp.Or(use.Filesystem.Type, "ext4")
	var there []string
	for i, h := range f.seen.Holds {
		if h.Partition != partition || h.Kind == "gpt" || h.Kind == "mbr" {
			continue
		}
		if h.Kind == kind && h.UUID != "" {
			b.parts = append(b.parts, part{on: on, path: at, use: use, bytes: site.Size(h.Bytes), kept: &f.seen.Holds[i]})
			return
		}
		there = append(there, h.String())
	}
	b.object(at+".filesystem", fmt.Sprintf("%s is kept and must have %s, but the disk %s holds %s", on, kind, f.seen, cmp.Or(strings.Join(there, ", "), "nothing that is known")),
		"Correct type or number, use the disk that has it, or remove keep: then the disk is erased.", whyKept)
}

// erases reports whether the content of a disk is lost.
func (b *builder) erases(d item.Disk) bool {
	return slices.ContainsFunc(b.layout.Disks, func(l item.LayoutDisk) bool { return !l.Keep && l.Is(d) })
}

// Limits on the size of file systems: mkfs.xfs(8) refuses less than 300 MiB, and mkfs.btrfs(8)
// about 109 MiB; a vfat counts its sectors of 512 bytes in 32 bits.
var (
	leastFilesystem = map[string]site.Size{"xfs": 300 << 20, "btrfs": 128 << 20, "ext4": 4 << 20, "vfat": 1 << 20, "swap": 1 << 20}
	mostFilesystem  = map[string]site.Size{"vfat": 2<<40 - Align}
)

// makeFilesystems lists the file systems, mounted ones first, in mount order.
func (b *builder) makeFilesystems() {
	mounted := map[string]item.Place{}
	for _, p := range b.parts {
		design := p.use.Filesystem
		if design == nil {
			continue
		}
		f := item.LayoutFilesystem{
			On: p.on, Type: cmp.Or(design.Type, "ext4"), Label: design.Label, Mount: design.Mount, EFI: p.efi, Bytes: int64(p.bytes),
		}
		f.Options = options(f.Type, design.Options)
		switch id := b.identity("file system", b.idOf(p.on)); {
		case p.kept != nil:
			f.Keep, f.UUID, f.Label = true, p.kept.UUID, p.kept.Label
		case f.Type == "vfat":
			short := strings.ToUpper(id.short())
			f.UUID = short[:4] + "-" + short[4:]
		default:
			f.UUID = id.uuid()
		}
		before, twice := mounted[f.Mount]
		least, most := leastFilesystem[f.Type], mostFilesystem[f.Type]
		switch {
		case f.Mount != "" && (!path.IsAbs(f.Mount) || path.Clean(f.Mount) != f.Mount):
			b.object(p.path+".filesystem.mount", fmt.Sprintf("%s is mounted on %q, which is not a path in its shortest form", p.on, f.Mount), fmt.Sprintf("Write %q.", path.Clean("/"+f.Mount)), whyHalf)
		case f.Mount != "" && twice:
			b.object(p.path+".filesystem.mount", fmt.Sprintf("%s and %s are both mounted on %s", before, p.on, f.Mount), "Mount one of them elsewhere.", whyHalf)
		case !f.Keep && p.bytes < least:
			b.object(p.path, fmt.Sprintf("%s has %s, and %s needs %s", p.on, p.bytes, f.Type, least), "Make it larger, or choose another type.", whyHalf)
		case !f.Keep && most > 0 && p.bytes > most:
			b.object(p.path, fmt.Sprintf("%s has %s, and %s can have %s", p.on, p.bytes, f.Type, most), "Make it smaller, or choose another type.", whyHalf)
		}
		mounted[f.Mount] = p.on
		b.layout.Filesystems = append(b.layout.Filesystems, f)
	}
	slices.SortStableFunc(b.layout.Filesystems, func(x, y item.LayoutFilesystem) int {
		switch {
		case x.Mount == y.Mount:
			return 0
		case x.Mount == "":
			return 1
		case y.Mount == "":
			return -1
		}
		return slices.Compare(strings.Split(strings.TrimRight(x.Mount, "/"), "/"), strings.Split(strings.TrimRight(y.Mount, "/"), "/"))
	})
}

// destroys lists what is lost, and what becomes unusable on other disks.
func (b *builder) destroys(all []found) {
	for _, f := range all {
		if f.design.Keep {
			continue
		}
		d := item.Destroyed{Name: f.name, Serial: f.seen.Serial, WWN: f.seen.WWN, Model: f.seen.Model, Bytes: f.seen.Bytes, Held: f.seen.Holds, Unread: f.seen.Unread}
		for _, other := range b.seen {
			if b.erases(other) {
				continue
			}
			for _, shared := range b.layout.Severs(f.seen, other) {
				if i := slices.IndexFunc(all, func(o found) bool { return o.seen.Name == other.Name }); i >= 0 {
					b.object(all[i].path()+".keep", fmt.Sprintf("the kept disk %s has a part of %s, and so has the disk %s, which is erased", other, shared, f.seen),
						"Keep both, or neither.", "What is kept could not be used without the other disk.")
				}
				d.Breaks = append(d.Breaks, item.Broken{Shared: shared, On: other.ID()})
			}
		}
		b.layout.Destroys = append(b.layout.Destroys, d)
	}
}
