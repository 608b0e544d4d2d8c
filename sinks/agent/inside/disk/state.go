package disk

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
)

// State is how far a layout has been made, judged only from its disks.
type State string

// The states.
const (
	// Untouched: everything to be destroyed is still as it was seen.
	Untouched State = "untouched"
	// Begun: neither of the others.
	Begun State = "begun"
	// Laid: the tables and everything directly on the disks match the layout. The contents of arrays and groups are
	// not visible from the disks.
	Laid State = "laid"
)

// stateOf tells how far a layout has been made on the observed disks.
func stateOf(l item.Layout, seen []item.Disk) (State, error) {
	found, err := compare(l, seen)
	if err != nil {
		return "", err
	}
	untouched, laid := true, true
	for _, d := range l.Disks {
		if d.Keep {
			continue
		}
		was := slices.IndexFunc(l.Destroys, func(x item.Destroyed) bool { return x.Name == d.Name })
		untouched = untouched && was >= 0 && slices.Equal(found[d.Name].Holds, l.Destroys[was].Held)
		laid = laid && isLaid(l, d, found[d.Name])
	}
	switch {
	case laid:
		return Laid, nil
	case untouched:
		return Untouched, nil
	}
	return Begun, nil
}

// isLaid reports whether a disk has what the layout puts there.
func isLaid(l item.Layout, d item.LayoutDisk, seen item.Disk) bool {
	holds := func(partition int, kind, id string) bool {
		return slices.ContainsFunc(seen.Holds, func(s item.Signature) bool {
			return s.Partition == partition && s.Kind == kind && strings.EqualFold(s.UUID, id)
		})
	}
	used := d.Table != ""
	if used && !holds(0, d.Table, d.GUID) {
		return false
	}
	for _, p := range d.Partitions {
		if !slices.ContainsFunc(seen.Holds, func(s item.Signature) bool {
			return s.Partition == p.Number && s.Start == p.First*int64(d.Sector) && s.Bytes == (p.Last-p.First+1)*int64(d.Sector)
		}) {
			return false
		}
	}
	for _, a := range l.Arrays {
		for _, m := range a.Members {
			used = used || m.Disk == d.Name
			if m.Disk == d.Name && !holds(m.Partition, "md", a.UUID) {
				return false
			}
		}
	}
	for _, g := range l.Groups {
		for _, m := range g.Members {
			used = used || m.On.Disk == d.Name
			if m.On.Disk == d.Name && !slices.ContainsFunc(seen.Holds, func(s item.Signature) bool {
				return s.Partition == m.On.Partition && s.Kind == "lvm" && s.Name == g.Name
			}) {
				return false
			}
		}
	}
	for _, f := range l.Filesystems {
		used = used || f.On.Disk == d.Name
		if f.On.Disk == d.Name && !holds(f.On.Partition, f.Type, f.UUID) {
			return false
		}
	}
	return used || len(seen.Holds) == 0 // a raw disk has nothing
}

// compare checks the observed disks against a layout: each occurs exactly once with its size, and what is kept is
// there. It returns the disks by their names in the layout.
func compare(l item.Layout, seen []item.Disk) (map[string]item.Disk, error) {
	found, taken := map[string]item.Disk{}, map[string]string{}
	for _, d := range l.Disks {
		var like, paths []item.Disk
		is := item.Disk{Name: d.Name, Serial: d.Serial, WWN: d.WWN, Bytes: d.Bytes}
		for _, s := range seen {
			if s.Serial == d.Serial && s.WWN == d.WWN {
				like = append(like, s)
			}
			if s.IsSame(is) {
				paths = append(paths, s)
			}
		}
		switch {
		case d.Serial == "" && d.WWN == "":
			return nil, fmt.Errorf("the disk %s has neither a serial number nor a WWN to recognize it by; nothing was written", d.Name)
		case len(like) == 0:
			return nil, fmt.Errorf("the disk %s is gone; there are: %s; nothing was written", is, item.NameDisks(seen))
		case len(paths) > 1:
			return nil, fmt.Errorf("the disk %s is there %d times: %s; nothing was written", is, len(paths), item.NameDisks(paths))
		case like[0].Bytes != d.Bytes || like[0].Sector != d.Sector:
			return nil, fmt.Errorf("the disk %s had %d bytes in sectors of %d, and has %d in sectors of %d; nothing was written", is, d.Bytes, d.Sector, like[0].Bytes, like[0].Sector)
		case like[0].ReadOnly && !d.Keep:
			return nil, fmt.Errorf("the disk %s is read-only; nothing was written", like[0])
		case like[0].Unread != "" && !d.Keep:
			return nil, fmt.Errorf("the disk %s cannot be read: %s; nothing was written", like[0], like[0].Unread)
		case taken[like[0].Name] != "":
			return nil, fmt.Errorf("the disks %s and %s of the layout are both %s; nothing was written", taken[like[0].Name], d.Name, like[0])
		}
		found[d.Name], taken[like[0].Name] = like[0], d.Name
	}
	for _, f := range l.Filesystems {
		if !f.Keep {
			continue
		}
		d, ok := found[f.On.Disk]
		if !ok || !slices.ContainsFunc(d.Holds, func(s item.Signature) bool {
			return s.Partition == f.On.Partition && s.Kind == f.Type && s.UUID == f.UUID
		}) {
			return nil, fmt.Errorf("%s is to be kept, and its %s %s is not on it; nothing was written", f.On, f.Type, f.UUID)
		}
	}
	return found, nil
}

// severs refuses to erase a disk with a part of an array, a volume group or a btrfs if another part stays. If the
// other part is on a kept disk, it always refuses. If it is on a disk outside the design, the layout's Breaks can
// allow it.
func severs(l item.Layout, seen []item.Disk) error {
	found, err := compare(l, seen)
	if err != nil {
		return err
	}
	stays := map[string]bool{} // by the kernel's names; true if kept
	for _, s := range seen {
		stays[s.Name] = false
	}
	for _, d := range l.Disks {
		if stays[found[d.Name].Name] = true; !d.Keep {
			delete(stays, found[d.Name].Name)
		}
	}
	for _, d := range l.Disks {
		if d.Keep {
			continue
		}
		erased := found[d.Name]
		for _, other := range seen {
			kept, is := stays[other.Name]
			if !is {
				continue
			}
			if kept && other.Unread != "" {
				return fmt.Errorf("the kept disk %s cannot be read (%s), so Slipway does not know whether something on a disk that is erased also has a part on it; nothing was written", other, other.Unread)
			}
			for _, shared := range item.SharedBy(erased, other) {
				switch {
				case kept:
					return fmt.Errorf("the kept disk %s has a part of %s, and so has the disk %s, which is to be erased: keep both, or neither; nothing was written", other, shared, erased)
				case !breaks(l, d.Name, shared):
					return fmt.Errorf("the disk %s, which stays, has a part of %s, and so has the disk %s, which is to be erased: nobody has approved that; nothing was written", other, shared, erased)
				}
			}
		}
	}
	return nil
}

// breaks reports whether a layout names what erasing one of its disks breaks.
func breaks(l item.Layout, disk string, shared item.Shared) bool {
	return slices.ContainsFunc(l.Destroys, func(d item.Destroyed) bool {
		return d.Name == disk && slices.ContainsFunc(d.Breaks, func(b item.Broken) bool {
			return b.Kind == shared.Kind && b.UUID == shared.UUID && (b.UUID != "" || b.Name == shared.Name)
		})
	})
}
