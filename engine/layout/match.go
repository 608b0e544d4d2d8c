package layout

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// found is a designed disk with its actual disk.
type found struct {
	name   string // in the Layout
	entry  string // in the design
	design site.Disk
	seen   item.Disk
}

// path is the path of the disk in the design.
func (f found) path() string { return "storage.disks." + f.entry }

// match assigns a seen disk to each designed one. A rule does not consider disks named by a device.
// The rule of a set does not consider disks found by a rule for one disk.
func (b *builder) match() []found {
	var all []found
	taken := map[string]string{} // entries by the names of disks
	take := func(name, entry string, d item.Disk) {
		if before, ok := taken[d.Name]; ok {
			b.object("storage.disks."+entry, fmt.Sprintf("the disks %s and %s are both %s", before, entry, d), "Give each a device or a rule of its own.", whyWrongDisk)
			return
		}
		taken[d.Name] = entry
		all = append(all, found{name, entry, b.node.Storage.Disks[entry], d})
	}
	// Devices first, then rules for one disk, then sets.
	order := func(d site.Disk) int {
		switch {
		case d.Match == nil:
			return 0
		case d.Count == "":
			return 1
		}
		return 2
	}
	entries := slices.SortedFunc(maps.Keys(b.node.Storage.Disks), func(x, y string) int {
		return cmp.Or(order(b.node.Storage.Disks[x])-order(b.node.Storage.Disks[y]), cmp.Compare(x, y))
	})
	left := func(before int) []item.Disk {
		return slices.DeleteFunc(slices.Clone(b.seen), func(d item.Disk) bool {
			entry, is := taken[d.Name]
			return is && order(b.node.Storage.Disks[entry]) < before
		})
	}
	for _, entry := range entries {
		d := b.node.Storage.Disks[entry]
		switch order(d) {
		case 0:
			if one, ok := b.byDevice(entry, d); ok {
				take(entry, entry, one)
			}
		case 1:
			fits := fitting(*d.Match, left(1))
			if len(fits) == 1 {
				take(entry, entry, fits[0])
				continue
			}
			b.noneOrMany(entry, "the rule for the disk "+entry+" ("+d.Match.String()+")", ".match", fits)
		default:
			for i, one := range b.set(entry, d, fitting(*d.Match, left(2))) {
				take(entry+"-"+strconv.Itoa(i+1), entry, one)
			}
		}
	}
	b.identified(all)
	slices.SortStableFunc(all, func(x, y found) int { return cmp.Compare(x.entry, y.entry) })
	return all
}

const whyWrongDisk = "The wrong disk may be the one that is erased."

// set returns the disks of a set, sorted by serial number.
func (b *builder) set(entry string, d site.Disk, fits []item.Disk) []item.Disk {
	slices.SortFunc(fits, func(x, y item.Disk) int { return cmp.Or(cmp.Compare(x.ID(), y.ID()), cmp.Compare(x.Name, y.Name)) })
	at, rule := "storage.disks."+entry, "the rule for the disks "+entry+" ("+d.Match.String()+")"
	count, more := d.Count.Least()
	if more && len(fits) == 0 {
		b.noneOrMany(entry, rule, ".match", nil)
		return nil
	}
	if !more && count != len(fits) {
		b.object(at+".count", fmt.Sprintf("%s must fit %s, and %d do: %s", disksText(count), rule, len(fits), item.NameDisks(fits)),
			`Narrow the rule, correct count, or write count: "all".`, whyWrongDisk)
		return nil
	}
	return fits
}

// noneOrMany objects that there is not exactly one disk.
func (b *builder) noneOrMany(entry, what, field string, fits []item.Disk) {
	at := "storage.disks." + entry + field
	if len(fits) == 0 {
		b.object(at, fmt.Sprintf("no disk fits %s; there are %s", what, item.NameDisks(b.seen)),
			"Correct it, or put the disk in. A removable or read-only disk, and one that a device names, fits no rule.", "Without the disk nothing is installed.")
		return
	}
	b.object(at, fmt.Sprintf("%d disks fit %s: %s", len(fits), what, item.NameDisks(fits)),
		"Narrow the rule by model, minSize or maxSize, name a device, or set count for a set of disks.", whyWrongDisk)
}

// identified objects to disks that cannot be distinguished from others.
func (b *builder) identified(all []found) {
	for _, f := range all {
		if f.seen.ID() == "" {
			b.object(f.path(), fmt.Sprintf("the disk %s is %s, which tells neither a serial number nor a WWN", f.name, f.seen),
				"Give the virtual disk a serial number, or use another disk.", "Slipway could not recognize it before it erases it.")
			continue
		}
		var same []item.Disk
		for _, d := range b.seen {
			if f.seen.IsSame(d) {
				same = append(same, d)
			}
		}
		if len(same) > 1 {
			b.object(f.path(), fmt.Sprintf("the disk %s is there %d times: %s", f.name, len(same), item.NameDisks(same)),
				"Leave one path to it: several paths to one disk are not supported.", "Writes over different paths could overtake each other on the same disk.")
		}
	}
}

// byDevice finds the disk that is a device of the design.
func (b *builder) byDevice(entry string, d site.Disk) (item.Disk, bool) {
	at := "storage.disks." + entry + ".device"
	if strings.Contains(d.Device, "/") {
		b.object(at, fmt.Sprintf("the disk %s is the volume %s of a RAID controller, and no disk reports which volume it is", entry, d.Device),
			"Find it by a rule.", whyWrongDisk)
		return item.Disk{}, false
	}
	device, ok := b.node.Hardware.Devices[d.Device]
	if !ok {
		b.object(at, fmt.Sprintf("the disk %s is the device %q, which the design does not have", entry, d.Device), "Declare it in hardware.devices.", whyWrongDisk)
		return item.Disk{}, false
	}
	how, is := foundBy(device)
	if is == nil {
		b.object(at, fmt.Sprintf("the device %s of the disk %s is not found by anything that a disk has", d.Device, entry), "Find it by pci, scsi or path.", whyWrongDisk)
		return item.Disk{}, false
	}
	var fits []item.Disk
	for _, s := range b.seen {
		if is(s) {
			fits = append(fits, s)
		}
	}
	if len(fits) != 1 {
		b.noneOrMany(entry, fmt.Sprintf("the device %s of the disk %s (%s)", d.Device, entry, how), ".device", fits)
		return item.Disk{}, false
	}
	one := fits[0]
	switch {
	case device.Size > 0 && site.Size(one.Bytes) < device.Size:
		b.object("hardware.devices."+d.Device+".size", fmt.Sprintf("the device %s is to have %s, and is %s", d.Device, device.Size, one),
			"Correct the size, or exchange the disk.", whyWrongDisk)
		return item.Disk{}, false
	case one.ReadOnly && !d.Keep:
		b.object(at, fmt.Sprintf("the disk %s is %s, which is read-only", entry, one), "Use another disk, or switch its write protection off.", "Nothing can be installed on it.")
		return item.Disk{}, false
	}
	return one, true
}

// foundBy says how a device is found, and returns a function that matches its disks; nil if no disk can match.
func foundBy(d site.Device) (how string, is func(item.Disk) bool) {
	switch {
	case d.SCSI != "":
		return "scsi " + d.SCSI, func(s item.Disk) bool { return s.SCSI == d.SCSI }
	case d.PCI != "":
		return "pci " + d.PCI, func(s item.Disk) bool { return strings.EqualFold(s.PCI, d.PCI) }
	case d.Path != "":
		return "path " + d.Path, func(s item.Disk) bool { return slices.Contains(s.Paths, path.Clean(d.Path)) }
	}
	return "", nil
}

// fitting returns the disks that fit a rule. A value that a disk does not report does not fit.
func fitting(m site.DiskMatch, disks []item.Disk) (fits []item.Disk) {
	for _, d := range disks {
		if !d.Removable && !d.ReadOnly && m.FitsModel(d.Model) && m.FitsKind(d.Kind) && m.FitsSize(site.Size(d.Bytes)) {
			fits = append(fits, d)
		}
	}
	return fits
}

func disksText(count int) string {
	if count == 1 {
		return "1 disk"
	}
	return fmt.Sprintf("%d disks", count)
}
