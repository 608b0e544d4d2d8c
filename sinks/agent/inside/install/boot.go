package install

import (
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/boot"
)

// planBoot plans from which disks and partitions of a layout the system boots. Disks have their names in the
// layout.
func planBoot(l item.Layout, mode, node string) (boot.Plan, error) {
	p := boot.Plan{Mode: boot.Mode(mode), Name: node}
	at := "/"
	if slices.ContainsFunc(l.Filesystems, func(f item.LayoutFilesystem) bool { return f.Mount == "/boot" }) {
		at = "/boot"
	}
	for _, f := range l.Filesystems {
		if (f.Mount == at || strings.HasPrefix(f.Mount, "/boot/")) && isEncrypted(l, f.On, 0) {
			return p, refused("%s is on an encrypted volume, and the boot loader cannot read it: design a partition for /boot that is not encrypted; nothing was written", f.Mount)
		}
	}
	switch p.Mode {
	case boot.UEFI:
		for _, f := range l.Filesystems {
			if !f.EFI || f.Keep {
				continue
			}
			if f.On.Disk == "" || f.On.Partition == 0 {
				return p, refused("the EFI system partition on %s cannot be read by firmware: put it on a partition of a disk; nothing was written", f.On)
			}
			p.ESPs = append(p.ESPs, boot.ESP{Disk: f.On.Disk, Number: f.On.Partition, GUID: guidOf(l, f.On), Mount: f.Mount})
		}
		// Mounted ones come first, and among them the one on the designed boot disk.
		rank := func(e boot.ESP) int {
			switch {
			case e.Mount == "":
				return 2
			case e.Disk != l.BootDisk:
				return 1
			}
			return 0
		}
		slices.SortStableFunc(p.ESPs, func(x, y boot.ESP) int { return rank(x) - rank(y) })
		if len(p.ESPs) == 0 {
			return p, refused("no EFI system partition is designed, so that the firmware would find no boot loader: " +
				"give a partition of a boot disk flag: \"efi\" and filesystem: type: \"vfat\"; nothing was written")
		}
	case boot.BIOS:
		for _, f := range l.Filesystems {
			if f.Mount == at {
				p.Disks = disksUnder(l, f.On, 0)
			}
		}
		if l.BootDisk != "" && !slices.Contains(p.Disks, l.BootDisk) {
			p.Disks = append(p.Disks, l.BootDisk)
		}
		for _, d := range l.Disks {
			if d.Keep && slices.Contains(p.Disks, d.Name) {
				return p, refused("the disk %s is kept, and a BIOS would start the system by it: design another place for %s; nothing was written", d.Name, at)
			}
		}
	default:
		return p, refused("the system must be started by %q, which is neither uefi nor bios; nothing was written", mode)
	}
	return p, nil
}

// guidOf is the GUID of a partition.
func guidOf(l item.Layout, p item.Place) string {
	for _, d := range l.Disks {
		for _, x := range d.Partitions {
			if d.Name == p.Disk && x.Number == p.Partition {
				return strings.ToLower(x.GUID)
			}
		}
	}
	return ""
}

// maxDepth bounds how deep devices may be stacked.
const maxDepth = 16

// isEncrypted reports whether a place is on an encrypted volume, or on a group with such a member.
func isEncrypted(l item.Layout, p item.Place, depth int) bool {
	return p.Opened != "" || depth <= maxDepth && slices.ContainsFunc(l.Groups, func(g item.LayoutGroup) bool {
		return g.Name == p.Group && slices.ContainsFunc(g.Members, func(m item.LayoutMember) bool { return isEncrypted(l, m.On, depth+1) })
	})
}

// disksUnder are the disks under a place, in order.
func disksUnder(l item.Layout, p item.Place, depth int) (all []string) {
	if depth > maxDepth {
		return nil
	}
	add := func(on item.Place) {
		for _, name := range disksUnder(l, on, depth+1) {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	switch {
	case p.Disk != "":
		return []string{p.Disk}
	case p.Array != "":
		for _, a := range l.Arrays {
			if a.Name == p.Array {
				for _, m := range a.Members {
					add(m)
				}
			}
		}
	case p.Group != "":
		for _, g := range l.Groups {
			if g.Name == p.Group {
				for _, m := range g.Members {
					add(m.On)
				}
			}
		}
	}
	return all
}
