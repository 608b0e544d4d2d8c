package item

import (
	"cmp"
	"fmt"
	"strings"
)

// Disk is a disk as the system of a machine sees it.
type Disk struct {
	// Name is the kernel's, which changes from boot to boot: "sda".
	Name string `json:"name"`
	// Serial and WWN are what the disk tells of itself, in their normal form (see
	// NormalSerial and NormalWWN); empty where it does not.
	Serial string `json:"serial,omitempty"`
	WWN    string `json:"wwn,omitempty"`
	Model  string `json:"model,omitempty"`
	// Firmware is the version of its own.
	Firmware string `json:"firmware,omitempty"`
	// Kind is "hdd", "ssd" or "nvme"; empty where the kernel does not say.
	Kind  string `json:"kind,omitempty"`
	Bytes int64  `json:"bytes"`
	// Sector is what the disk is addressed in, Physical what it writes at once, in bytes.
	Sector   int `json:"sector"`
	Physical int `json:"physical,omitempty"`
	// Removable is a medium that can be taken out, or a disk on USB. ReadOnly cannot be
	// written.
	Removable bool `json:"removable,omitempty"`
	ReadOnly  bool `json:"readOnly,omitempty"`
	// PCI is the address of the nearest PCI device, "0000:03:00.0", and SCSI the address
	// "host:channel:target:lun" of a disk that the kernel drives as SCSI.
	PCI  string `json:"pci,omitempty"`
	SCSI string `json:"scsi,omitempty"`
	// Paths lead to it: under /sys, and under /dev/disk as udev has or would have them.
	Paths []string `json:"paths,omitempty"`
	// Holds is what is on it, in order of place; empty for a disk on which nothing is
	// known. Unread is why that could not be read; then nothing is known of it.
	Holds  []Signature `json:"holds,omitempty"`
	Unread string      `json:"unread,omitempty"`
}

// Signature is something on a disk that has a signature of its own.
type Signature struct {
	// Partition is the number of the one that it is on; 0 for the disk itself.
	Partition int `json:"partition,omitempty"`
	// Start and Bytes are where the disk or the partition is that it is on.
	Start int64 `json:"start,omitempty"`
	Bytes int64 `json:"bytes,omitempty"`
	// Kind is "gpt", "mbr", "md", "lvm", "luks", "ext4" (of all of ext), "xfs", "btrfs",
	// "vfat", "swap", or for a partition without any of these, "partition".
	Kind string `json:"kind"`
	// UUID is its own, as blkid(8) writes it; of a member of an array that of the array,
	// of a member of a volume group that of the group.
	UUID  string `json:"uuid,omitempty"`
	Label string `json:"label,omitempty"`
	// Name is that of the array, of the volume group, or of the partition.
	Name string `json:"name,omitempty"`
}

// String is what people call it: "ext4 \"root\"".
func (h Signature) String() string {
	text := h.Kind
	switch h.Kind {
	case "gpt":
		text = "GPT"
	case "mbr":
		text = "MBR"
	case "md":
		text = "member of an md array"
	case "lvm":
		text = "member of an LVM group"
	case "luks":
		text = "LUKS"
	}
	if h.Partition != 0 && h.Kind != "partition" {
		text += fmt.Sprintf(" on partition %d", h.Partition)
	} else if h.Partition != 0 {
		text += fmt.Sprintf(" %d", h.Partition)
	}
	if name := h.Label + h.Name; name != "" {
		text += fmt.Sprintf(" %q", name)
	}
	return text
}

// DiskID is what tells a disk from all others: its serial number and its WWN, "S1XNNA0/5002538f",
// or the one of them that it has; empty where it has neither. The namespaces of an NVMe drive, the
// halves of a drive with two actuators and the volumes of an array have one serial number.
func DiskID(serial, wwn string) string {
	if serial != "" && wwn != "" {
		return serial + "/" + wwn
	}
	return serial + wwn
}

// ID is what tells the disk from all others, as DiskID has it.
func (d Disk) ID() string { return DiskID(d.Serial, d.WWN) }

// IsSame says whether two disks are one that is seen on two paths, of which one may tell less than
// the other.
func (d Disk) IsSame(other Disk) bool {
	if d.WWN != "" && other.WWN != "" {
		return d.WWN == other.WWN
	}
	return d.Serial != "" && d.Serial == other.Serial
}

// String names it for people: "S1XNNA0 (sda, SAMSUNG MZ7, 480 GB)".
func (d Disk) String() string {
	id := cmp.Or(d.Serial, d.WWN, "no serial number")
	words := []string{d.Name}
	if d.Model != "" {
		words = append(words, d.Model)
	}
	return fmt.Sprintf("%s (%s, %s)", id, strings.Join(words, ", "), Bytes(d.Bytes))
}

// NameDisks names some disks for people, of many the first.
func NameDisks(disks []Disk) string {
	const most = 8
	var names []string
	for _, d := range disks[:min(len(disks), most)] {
		names = append(names, d.String())
	}
	switch more := len(disks) - len(names); {
	case len(names) == 0:
		return "none"
	case more > 0:
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// Bytes is an amount for people, in powers of 1000 as disks are sold.
func Bytes(n int64) string {
	unit, at := []string{"B", "kB", "MB", "GB", "TB", "PB", "EB"}, 0
	x := float64(n)
	for ; x >= 999.5 && at < len(unit)-1; at++ {
		x /= 1000
	}
	if x < 10 && at > 0 {
		return fmt.Sprintf("%.1f %s", x, unit[at])
	}
	return fmt.Sprintf("%.0f %s", x, unit[at])
}

// NormalSerial is a serial number in the form in which two are compared: printable, without
// blanks around it and with one for several.
func NormalSerial(text string) string {
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, text)), " ")
}

// NormalWWN is a WWN in the form in which two are compared: in small letters, without
// "naa.", "eui.", "wwn-" or "0x" before it.
func NormalWWN(text string) string {
	text = strings.ToLower(NormalSerial(text))
	for _, head := range []string{"naa.", "eui.", "wwn-", "0x"} {
		text = strings.TrimPrefix(text, head)
	}
	return text
}

// Layout is exactly what disks become: what engine/layout computes of a design and of the
// disks that were seen, and what inside/disk makes of it. All in it is in order of being
// made.
type Layout struct {
	// Disks are those that are designed, and no others: nothing else is ever written.
	Disks       []LayoutDisk       `json:"disks"`
	Arrays      []LayoutArray      `json:"arrays,omitempty"`
	Groups      []LayoutGroup      `json:"groups,omitempty"`
	Filesystems []LayoutFilesystem `json:"filesystems,omitempty"`
	// Homehost is the name that arrays are marked with (mdadm(8), --homehost).
	Homehost string `json:"homehost,omitempty"`
	// Fstab is the content of /etc/fstab, Mdadm the lines on arrays of mdadm.conf(5).
	Fstab string `json:"fstab,omitempty"`
	Mdadm string `json:"mdadm,omitempty"`
	// BootDisk names the one of Disks that the firmware boots from; empty where the
	// design does not say.
	BootDisk string `json:"bootDisk,omitempty"`
	// Destroys is what is lost.
	Destroys []Destroyed `json:"destroys,omitempty"`
	// Erase is how the disks in Destroys are erased before: EraseSecure, or empty for that
	// only what is found on them by its signatures is cleared.
	Erase string `json:"erase,omitempty"`
}

// LayoutDisk is a disk of a Layout.
type LayoutDisk struct {
	// Name is that in the design; of a set, with a number: "osd-1".
	Name   string `json:"name"`
	Serial string `json:"serial,omitempty"`
	WWN    string `json:"wwn,omitempty"`
	Bytes  int64  `json:"bytes"`
	Sector int    `json:"sector"`
	// Keep says that nothing is written on it but by the file systems on it that are
	// mounted.
	Keep bool `json:"keep,omitempty"`
	// Table is "gpt", "mbr", or empty for a disk without partitions.
	Table string `json:"table,omitempty"`
	// GUID is that of a GPT, or the signature of an MBR in eight hexadecimal digits.
	GUID       string            `json:"guid,omitempty"`
	Partitions []LayoutPartition `json:"partitions,omitempty"`
}

// Is says whether a disk that is seen is the one that is meant.
func (d LayoutDisk) Is(seen Disk) bool {
	return d.Serial == seen.Serial && d.WWN == seen.WWN && d.Bytes == seen.Bytes && d.Sector == seen.Sector
}

// LayoutPartition is a partition of a Layout.
type LayoutPartition struct {
	Name   string `json:"name"`
	Number int    `json:"number"`
	// First and Last are its sectors, both included.
	First int64 `json:"first"`
	Last  int64 `json:"last"`
	// Type is a GUID, or two hexadecimal digits in an MBR.
	Type string `json:"type"`
	// GUID is its own in a GPT.
	GUID string `json:"guid,omitempty"`
	// Active is the flag by which a BIOS finds what it boots in an MBR.
	Active bool `json:"active,omitempty"`
}

// Place is something that holds data: a disk of a Layout, a partition of one, an array or
// a volume of a group.
type Place struct {
	Disk      string `json:"disk,omitempty"`
	Partition int    `json:"partition,omitempty"`
	Array     string `json:"array,omitempty"`
	Group     string `json:"group,omitempty"`
	Volume    string `json:"volume,omitempty"`
}

// String is what people call it.
func (p Place) String() string {
	switch {
	case p.Array != "":
		return "the array " + p.Array
	case p.Volume != "":
		return "the volume " + p.Group + "/" + p.Volume
	case p.Partition != 0:
		return fmt.Sprintf("the partition %d of the disk %s", p.Partition, p.Disk)
	}
	return "the disk " + p.Disk
}

// LayoutArray is an md array with a superblock of version 1.2.
type LayoutArray struct {
	Name  string `json:"name"`
	UUID  string `json:"uuid"`
	Level string `json:"level"`
	// Members are those that hold data, and after them as many Spares.
	Members []Place `json:"members"`
	Spares  int     `json:"spares,omitempty"`
	// DataOffset is what each member keeps for itself, MemberBytes what it gives, 0 in
	// raid0, where each gives all it has. Chunk is 0 in raid1. All in bytes.
	DataOffset  int64 `json:"dataOffset"`
	MemberBytes int64 `json:"memberBytes,omitempty"`
	Chunk       int64 `json:"chunk,omitempty"`
	// Bytes is how much the array holds.
	Bytes int64 `json:"bytes"`
}

// MdadmUUID is its UUID as mdadm(8) writes it.
func (a LayoutArray) MdadmUUID() string {
	digits := strings.ReplaceAll(a.UUID, "-", "")
	if len(digits) != 32 {
		return a.UUID
	}
	return digits[:8] + ":" + digits[8:16] + ":" + digits[16:24] + ":" + digits[24:]
}

// ExtentBytes is in what volume groups give room (lvm.conf(5), physical_extent_size).
const ExtentBytes = 4 << 20

// LayoutGroup is an LVM volume group.
type LayoutGroup struct {
	Name    string         `json:"name"`
	Members []LayoutMember `json:"members"`
	Volumes []LayoutVolume `json:"volumes,omitempty"`
}

// LayoutMember is a member of a volume group.
type LayoutMember struct {
	On      Place  `json:"on"`
	UUID    string `json:"uuid"` // as LVM writes it
	Extents int64  `json:"extents"`
}

// LayoutVolume is a logical volume.
type LayoutVolume struct {
	Name    string `json:"name"`
	Extents int64  `json:"extents"`
}

// LayoutFilesystem is a file system, or swap.
type LayoutFilesystem struct {
	On   Place  `json:"on"`
	Type string `json:"type"`
	// UUID is as blkid(8) writes it: of vfat "1A2B-3C4D".
	UUID  string `json:"uuid"`
	Label string `json:"label,omitempty"`
	// Mount is where it is mounted; empty for nowhere.
	Mount string `json:"mount,omitempty"`
	// Options are those that it is mounted with, as fstab(5) has them.
	Options string `json:"options,omitempty"`
	// Keep says that it is there, and is not made.
	Keep bool `json:"keep,omitempty"`
	// EFI says that the firmware looks for boot loaders in it.
	EFI   bool  `json:"efi,omitempty"`
	Bytes int64 `json:"bytes,omitempty"`
}

// Destroyed is a disk whose content is lost.
type Destroyed struct {
	Name   string `json:"name"` // in the Layout
	Serial string `json:"serial,omitempty"`
	WWN    string `json:"wwn,omitempty"`
	Model  string `json:"model,omitempty"`
	Bytes  int64  `json:"bytes"`
	// Held is what was seen on it. Unread is why that could not be read.
	Held   []Signature `json:"held,omitempty"`
	Unread string      `json:"unread,omitempty"`
	// Breaks is what lies on other disks too, which stay, and may be of no use without it.
	Breaks []Broken `json:"breaks,omitempty"`
}

// Broken is something of which a part is erased and another part stays.
type Broken struct {
	Shared
	// On is the disk that stays, by its ID; empty for one that tells none.
	On string `json:"on,omitempty"`
}
