package layout

import (
	"math"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Align is what partitions begin and end at, in bytes: a multiple of all sectors, pages and
// stripes of today's disks.
const Align = 1 << 20

// The sectors of a disk, in bytes.
const (
	sectorLeast = 512
	sectorMost  = 4096
)

// tableBytes is what a GPT keeps at the end of a disk: its second header, and 128 entries
// of 128 bytes (UEFI specification 2.10, section 5.3.1).
func tableBytes(sector int) site.Size {
	return site.Size(sector) + site.Size((128*128+sector-1)/sector*sector)
}

// TableRoom is how much of a disk is left to partitions, in whole mebibytes. Sector is the
// size of its sectors in bytes, or 0 where it is not known: then it is the room that is left
// with the largest ones.
func TableRoom(table string, disk site.Size, sector int) site.Size {
	if sector == 0 {
		sector = sectorMost
	}
	if table != "mbr" {
		disk -= tableBytes(sector)
	}
	return max(disk/Align*Align-Align, 0)
}

// PartitionBytes is how much a partition asks for of the room on its disk: a size rounded
// up to whole mebibytes, or a share rounded down to them.
func PartitionBytes(e site.Extent, room site.Size) site.Size { return rounded(e, room, Align) }

// VolumeBytes is how much a logical volume asks for of its group: a size rounded up to whole
// extents, or a share rounded down to them.
func VolumeBytes(e site.Extent, room site.Size) site.Size { return rounded(e, room, item.ExtentBytes) }

func rounded(e site.Extent, room, unit site.Size) site.Size {
	if e.Share != 0 {
		share := site.Size(e.Share)
		return (room/100*share + room%100*share/100) / unit * unit
	}
	if e.Size > math.MaxInt64-unit {
		return math.MaxInt64 / unit * unit
	}
	return (e.Size + unit - 1) / unit * unit
}

// memberHeader is what LVM keeps of each member for itself (lvm.conf(5),
// default_data_alignment).
const memberHeader = 1 << 20

// MemberRoom is how much room a member gives to its volume group.
func MemberRoom(member site.Size) site.Size {
	return max(member-memberHeader, 0) / item.ExtentBytes * item.ExtentBytes
}

// chunk is what an array writes to one member before it goes on to the next, in bytes;
// mdadm(8) has the same where nothing is said.
const chunk = 512 << 10

// maxDataOffset is as much as mdadm(8) keeps of a large member, for changes of the array's
// shape, and for its bitmap.
const maxDataOffset = 128 << 20

// dataOffset is how much of each member an array keeps for itself, by its smallest one.
func dataOffset(least site.Size) site.Size {
	return min(max(least/1024/Align*Align, Align), maxDataOffset)
}

// least is the smallest of some sizes; 0 of none.
func least(sizes []site.Size) site.Size {
	var small site.Size
	for i, s := range sizes {
		if i == 0 || s < small {
			small = s
		}
	}
	return small
}

// memberBytes is how much each member gives to an array, by the smallest one.
func memberBytes(small site.Size) site.Size {
	return max(small-dataOffset(small), 0) / Align * Align
}

// ArrayBytes is how much an array holds whose members have some sizes, of which the last ones
// are spares; 0 where there are too few of them, or where they are too small.
func ArrayBytes(level string, members []site.Size, spares int) site.Size {
	active := len(members) - spares
	if spares < 0 || active < leastMembers[level] || active < 1 {
		return 0
	}
	small := least(members)
	each := memberBytes(small)
	switch level {
	case "raid0":
		var sum site.Size
		for _, m := range members {
			sum = sum.Plus(max(m-dataOffset(small), 0) / chunk * chunk)
		}
		return sum
	case "raid1":
		return each
	case "raid5":
		return each.Times(active - 1)
	case "raid6":
		return each.Times(active - 2)
	case "raid10":
		return (each / chunk).Times(active) / 2 * chunk
	}
	return 0
}

// leastMembers are the fewest members of an array besides its spares (md(4)).
var leastMembers = map[string]int{"raid0": 2, "raid1": 2, "raid5": 3, "raid6": 4, "raid10": 2}

// LeastMembers is how many members an array of some level has at least besides its spares;
// 0 where the level is not known.
func LeastMembers(level string) int { return leastMembers[level] }
