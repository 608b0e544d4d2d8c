package libvirt

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"libvirt.org/go/libvirtxml"
)

// displaced are the machine's disks that do not use the volumes made for them, by name. This happens when a person
// makes an external snapshot: the machine then writes to that person's file, which is based on the volume.
func (d *domain) displaced() map[string]libvirtxml.DomainDisk {
	all := map[string]libvirtxml.DomainDisk{}
	for _, definition := range []*libvirtxml.Domain{d.next, d.live} {
		if definition == nil {
			continue
		}
		for _, x := range definition.Devices.Disks {
			name := aliased(aliasDisk, x.Alias)
			_, asListed := d.owner.volumeOf(x)
			if _, listed := d.owner.disk(name); listed && !asListed && madeOf(x) != "" {
				all[name] = x
			}
		}
	}
	return all
}

// madeOf is the source of a disk, for people; empty for none.
func madeOf(x libvirtxml.DomainDisk) string {
	switch s := x.Source; {
	case s == nil:
		return ""
	case s.File != nil:
		return s.File.File
	case s.Block != nil:
		return s.Block.Dev
	case s.Volume != nil:
		return s.Volume.Pool + "/" + s.Volume.Volume
	}
	return "something else than a volume"
}

// unmerged says what is wrong with a disk on a snapshot, and what to do. Without --shallow, a merge would write to
// the image below the volume, on which other machines are based.
func (m *machine) unmerged(disk string, x libvirtxml.DomainDisk) string {
	return fmt.Sprintf("disk %s of %s runs on a snapshot (%s); merge it first (virsh blockcommit %s %s --shallow --active --pivot, once for each snapshot)",
		disk, m.name, printable(madeOf(x)), m.name, printable(target(x)))
}

// merged refuses to change a disk that uses a snapshot.
func (m *machine) merged(d *domain, disk string) error {
	if x, ok := d.displaced()[disk]; ok {
		return refused("%s; nothing was written", m.unmerged(disk, x))
	}
	return nil
}

// allMerged refuses to remove a machine that uses a snapshot.
func (m *machine) allMerged(d *domain) error {
	for _, disk := range slices.Sorted(maps.Keys(d.displaced())) {
		if err := m.merged(d, disk); err != nil {
			return err
		}
	}
	return nil
}

// named replaces paths of the machine's own volumes with volume names, as before a snapshot was merged.
func (d *domain) named(ctx context.Context, c *connection) error {
	if !d.ours || len(d.displaced()) == 0 {
		return nil
	}
	paths := map[string]volume{}
	for _, v := range d.owner.Volumes {
		found, err := find(ctx, c, v.Pool, v.Name)
		if err != nil {
			return err
		}
		if found != nil {
			paths[found.ref.Key] = v
		}
	}
	for _, definition := range []*libvirtxml.Domain{d.next, d.live} {
		if definition == nil {
			continue
		}
		for i := range definition.Devices.Disks {
			x := &definition.Devices.Disks[i]
			if v, ours := paths[madeOf(*x)]; ours && aliased(aliasDisk, x.Alias) == v.Disk {
				x.Source = &libvirtxml.DomainDiskSource{Volume: &libvirtxml.DomainDiskSourceVolume{Pool: v.Pool, Volume: v.Name}}
				x.BackingStore = nil
			}
		}
	}
	return nil
}
