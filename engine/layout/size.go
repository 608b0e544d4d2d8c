package layout

import (
	"math"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Align is the alignment of partitions in bytes: a multiple of all sectors, pages and stripes of
// today's disks.
const Align = 1 << 20

// The sectors of a disk, in bytes.
const (
	sectorLeast = 512
	sectorMost  = 4096
)

// tableBytes is the size of the GPT at the end of a disk: its second header, and 128 entries of 128
// bytes (UEFI specification 2.10, section 5.3.1).
func tableBytes(sector int) site.Size {
	return site.Size(sector) + site.Size((128*128+sector-1)/sector*sector)
}

// TableRoom returns how much of a disk is left for partitions, in whole mebibytes. The argument
// sector is its sector size in bytes, or 0 if unknown; then the largest size is assumed.
func TableRoom(table string, disk site.Size, sector int) site.Size {
	if sector == 0 {
		sector = sectorMost
	}
	if table != "mbr" {
		disk -= tableBytes(sector)
	}
	return max(disk/Align*Align-Align, 0)
}

// PartitionBytes returns how much a partition asks for of the room on its disk: a size rounded up
// to whole mebibytes, or a share rounded down.
func PartitionBytes(e site.Extent, room site.Size) site.Size { return rounded(e, room, Align) }

// VolumeBytes returns how much a logical volume asks for of its group: a size rounded up to whole
// extents, or a share rounded down.
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

// memberHeader is what LVM reserves on each member (lvm.conf(5), default_data_alignment).
const memberHeader = 1 << 20

// MemberRoom returns how much a member contributes to its volume group.
func MemberRoom(member site.Size) site.Size {
	return max(member-memberHeader, 0) / item.ExtentBytes * item.ExtentBytes
}

// OpenedBytes returns how much of a device is left for what is on it, if encrypt says that it is
// encrypted.
func OpenedBytes(device site.Size, encrypt string) site.Size {
	if encrypt == "" {
		return device
	}
	return max(device-item.LUKSBytes, 0)
}

// chunk is how many bytes an array writes to one member before the next, the default of mdadm(8).
const chunk = 512 << 10

// maxDataOffset is the most that mdadm(8) reserves on a large member, for reshaping the array and
// for its bitmap.
const maxDataOffset = 128 << 20

// dataOffset is how much an array reserves on each member, by its smallest one.
func dataOffset(least site.Size) site.Size {
	return min(max(least/1024/Align*Align, Align), maxDataOffset)
}

// least is the smallest of some sizes, 0 if there are none.
func least(sizes []site.Size) site.Size {
	var small site.Size
	for i, s := range sizes {
		if i == 0 || s < small {
			small = s
		}
	}
	return small
}

// memberBytes is how much each member contributes to an array, by the smallest one.
func memberBytes(small site.Size) site.Size {
	return max(small-dataOffset(small), 0) / Align * Align
}

// ArrayBytes returns the capacity of an array whose members have the given sizes, the last ones
// being spares. It is 0 if the members are too few or too small.
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

// leastMembers are the minimum numbers of members without spares (md(4)).
var leastMembers = map[string]int{"raid0": 2, "raid1": 2, "raid5": 3, "raid6": 4, "raid10": 2}

// LeastMembers returns the minimum number of members of an array without spares; 0 for an unknown
// level.
func LeastMembers(level string) int { return leastMembers[level] }
