package item

import (
	"cmp"
	"fmt"
	"strings"
)

// Disk is a disk as the system of a machine sees it.
type Disk struct {
	// Name is the kernel's name, which may change at each boot: "sda".
	Name string `json:"name"`
	// Serial and WWN are reported by the disk, in their normal form (see NormalSerial and
	// NormalWWN); empty if it reports none.
	Serial string `json:"serial,omitempty"`
	WWN    string `json:"wwn,omitempty"`
	Model  string `json:"model,omitempty"`
	// Firmware is the version of the disk's firmware.
	Firmware string `json:"firmware,omitempty"`
	// Kind is "hdd", "ssd" or "nvme"; empty if the kernel does not say.
	Kind  string `json:"kind,omitempty"`
	Bytes int64  `json:"bytes"`
	// Sector is the logical sector size, Physical the physical one, in bytes.
	Sector   int `json:"sector"`
	Physical int `json:"physical,omitempty"`
	// Removable means a removable medium or a USB disk. ReadOnly means that the disk cannot be
	// written.
	Removable bool `json:"removable,omitempty"`
	ReadOnly  bool `json:"readOnly,omitempty"`
	// PCI is the address of the nearest PCI device, "0000:03:00.0". SCSI is the address
	// "host:channel:target:lun" of a disk that the kernel drives as SCSI.
	PCI  string `json:"pci,omitempty"`
	SCSI string `json:"scsi,omitempty"`
	// Paths lead to the disk: under /sys, and under /dev/disk as udev creates or would create them.
	Paths []string `json:"paths,omitempty"`
	// Holds is what is on the disk, in order of place; empty if nothing is recognized. Unread says
	// why the disk could not be read; then its content is unknown.
	Holds  []Signature `json:"holds,omitempty"`
	Unread string      `json:"unread,omitempty"`
}

// Signature is something on a disk that is recognized by a signature.
type Signature struct {
	// Partition is the number of the partition that it is on; 0 for the whole disk.
	Partition int `json:"partition,omitempty"`
	// Start and Bytes give the place of that disk or partition.
	Start int64 `json:"start,omitempty"`
	Bytes int64 `json:"bytes,omitempty"`
	// Kind is "gpt", "mbr", "md", "lvm", "luks", "ext4" (for any ext), "xfs", "btrfs", "vfat",
	// "swap" or, for a partition without any of these, "partition".
	Kind string `json:"kind"`
	// UUID is written as in blkid(8). For a member of an array or volume group it is that of the
	// array or group.
	UUID  string `json:"uuid,omitempty"`
	Label string `json:"label,omitempty"`
	// Name is the name of the array, the volume group or the partition.
	Name string `json:"name,omitempty"`
}

// String names the signature for people: "ext4 \"root\"".
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

// DiskID identifies a disk: its serial number and its WWN, "S1XNNA0/5002538f", or whichever it has;
// empty if it has neither. The serial number alone is not enough: the namespaces of an NVMe drive,
// the halves of a dual-actuator drive and the volumes of an array share it.
func DiskID(serial, wwn string) string {
	if serial != "" && wwn != "" {
		return serial + "/" + wwn
	}
	return serial + wwn
}

// ID identifies the disk, see DiskID.
func (d Disk) ID() string { return DiskID(d.Serial, d.WWN) }

// IsSame reports whether two disks are one disk that is seen over two paths. One path may report
// less than the other.
func (d Disk) IsSame(other Disk) bool {
	if d.WWN != "" && other.WWN != "" {
		return d.WWN == other.WWN
	}
	return d.Serial != "" && d.Serial == other.Serial
}

// String names the disk for people: "S1XNNA0 (sda, SAMSUNG MZ7, 480 GB)".
func (d Disk) String() string {
	id := cmp.Or(d.Serial, d.WWN, "no serial number")
	words := []string{d.Name}
	if d.Model != "" {
		words = append(words, d.Model)
	}
	return fmt.Sprintf("%s (%s, %s)", id, strings.Join(words, ", "), Bytes(d.Bytes))
}

// NameDisks names disks for people, only the first of many.
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

// Bytes formats a size for people, in powers of 1000 as disks are sold.
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

// NormalSerial returns a serial number in the form for comparison: printable, trimmed, with single
// blanks.
func NormalSerial(text string) string {
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, text)), " ")
}

// NormalWWN returns a WWN in the form for comparison: in lower case, without "naa.", "eui.", "wwn-"
// or "0x" before it.
func NormalWWN(text string) string {
	text = strings.ToLower(NormalSerial(text))
	for _, head := range []string{"naa.", "eui.", "wwn-", "0x"} {
		text = strings.TrimPrefix(text, head)
	}
	return text
}

// Layout is exactly what disks become. Package engine/layout computes it from a design and the
// observed disks, and inside/disk carries it out. Everything in it is in order of creation.
type Layout struct {
	// Disks are the designed disks. No other disk is ever written.
	Disks       []LayoutDisk       `json:"disks"`
	Arrays      []LayoutArray      `json:"arrays,omitempty"`
	Groups      []LayoutGroup      `json:"groups,omitempty"`
	Encrypted   []LayoutEncrypted  `json:"encrypted,omitempty"`
	Filesystems []LayoutFilesystem `json:"filesystems,omitempty"`
	// Homehost is the name that arrays are marked with (mdadm(8), --homehost).
	Homehost string `json:"homehost,omitempty"`
	// Fstab is the content of /etc/fstab, Mdadm the lines on arrays of mdadm.conf(5), Crypttab the
	// content of /etc/crypttab.
	Fstab    string `json:"fstab,omitempty"`
	Mdadm    string `json:"mdadm,omitempty"`
	Crypttab string `json:"crypttab,omitempty"`
	// BootDisk names the entry of Disks that the firmware boots from; empty if the design does not
	// say.
	BootDisk string `json:"bootDisk,omitempty"`
	// Destroys is what is lost.
	Destroys []Destroyed `json:"destroys,omitempty"`
	// Erase is how the disks in Destroys are erased first: EraseSecure, or empty to clear only the
	// signatures found on them.
	Erase string `json:"erase,omitempty"`
}

// LayoutDisk is a disk of a Layout.
type LayoutDisk struct {
	// Name is the disk's name in the design; in a set, with a number: "osd-1".
	Name   string `json:"name"`
	Serial string `json:"serial,omitempty"`
	WWN    string `json:"wwn,omitempty"`
	Bytes  int64  `json:"bytes"`
	Sector int    `json:"sector"`
	// Keep means that nothing writes to the disk, except through its mounted file systems.
	Keep bool `json:"keep,omitempty"`
	// Table is "gpt", "mbr", or empty for a disk without partitions.
	Table string `json:"table,omitempty"`
	// GUID is the GUID of a GPT, or the signature of an MBR as eight hexadecimal digits.
	GUID       string            `json:"guid,omitempty"`
	Partitions []LayoutPartition `json:"partitions,omitempty"`
}

// Is reports whether an observed disk is this disk.
func (d LayoutDisk) Is(seen Disk) bool {
	return d.Serial == seen.Serial && d.WWN == seen.WWN && d.Bytes == seen.Bytes && d.Sector == seen.Sector
}

// LayoutPartition is a partition of a Layout.
type LayoutPartition struct {
	Name   string `json:"name"`
	Number int    `json:"number"`
	// First and Last are its first and last sector, inclusive.
	First int64 `json:"first"`
	Last  int64 `json:"last"`
	// Type is a GUID, or two hexadecimal digits in an MBR.
	Type string `json:"type"`
	// GUID is the partition's GUID in a GPT.
	GUID string `json:"guid,omitempty"`
	// Active is the MBR flag of the partition that a BIOS boots.
	Active bool `json:"active,omitempty"`
}

// Place is where data is stored: a disk of a Layout, a partition, an array, a volume of a group, or
// the inside of an encrypted one of these.
type Place struct {
	Disk      string `json:"disk,omitempty"`
	Partition int    `json:"partition,omitempty"`
	Array     string `json:"array,omitempty"`
	Group     string `json:"group,omitempty"`
	Volume    string `json:"volume,omitempty"`
	// Opened is the LayoutEncrypted.Name of what is encrypted.
	Opened string `json:"opened,omitempty"`
}

// String names the place for people.
func (p Place) String() string {
	switch {
	case p.Opened != "":
		return "the encrypted volume " + p.Opened
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
	// Members are the members that hold data, followed by Spares spare members.
	Members []Place `json:"members"`
	Spares  int     `json:"spares,omitempty"`
	// DataOffset is what each member reserves. MemberBytes is what each contributes; 0 for raid0,
	// where each gives all it has. Chunk is 0 for raid1. All are in bytes.
	DataOffset  int64 `json:"dataOffset"`
	MemberBytes int64 `json:"memberBytes,omitempty"`
	Chunk       int64 `json:"chunk,omitempty"`
	// Bytes is the capacity of the array.
	Bytes int64 `json:"bytes"`
}

// MdadmUUID is the array's UUID as mdadm(8) writes it.
func (a LayoutArray) MdadmUUID() string {
	digits := strings.ReplaceAll(a.UUID, "-", "")
	if len(digits) != 32 {
		return a.UUID
	}
	return digits[:8] + ":" + digits[8:16] + ":" + digits[16:24] + ":" + digits[24:]
}

// ExtentBytes is the unit in which volume groups allocate (lvm.conf(5), physical_extent_size).
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
	UUID    string `json:"uuid"` // in LVM's form
	Extents int64  `json:"extents"`
}

// LayoutVolume is a logical volume.
type LayoutVolume struct {
	Name    string `json:"name"`
	Extents int64  `json:"extents"`
}

// LUKSBytes is what LUKS2 reserves at the beginning of a device for its headers and keys
// (cryptsetup-luksFormat(8), --offset).
const LUKSBytes = 16 << 20

// LUKSSector is the sector size of encrypted volumes in bytes. All of them have the same one, because LVM refuses members
// with different ones in a volume group.
const LUKSSector = 4096

// The ways in which an encrypted volume is opened at a start.
const (
	// OpenedByTPM: by a key that is sealed to the TPM of the machine.
	OpenedByTPM = "tpm"
	// OpenedAtConsole: by a passphrase that a person types at the console.
	OpenedAtConsole = "console"
)

// LayoutEncrypted is a LUKS2 volume.
type LayoutEncrypted struct {
	// Name is the name of its mapped device, unique among all machines.
	Name string `json:"name"`
	On   Place  `json:"on"`
	UUID string `json:"uuid"`
	// Opens is OpenedByTPM or OpenedAtConsole.
	Opens string `json:"opens"`
}

// DerivedFrom is what the passphrase of the encrypted volumes of a machine was derived from. None of it
// is secret.
type DerivedFrom struct {
	// Site is the site's name.
	Site string `json:"site"`
	// Machine is the UUID of the machine.
	Machine string `json:"machine"`
	// Generation is that of the installation.
	Generation int `json:"generation"`
	// Key is the public half of the site key.
	Key string `json:"key"`
}

// tokenType is the type of the LUKS2 token with a DerivedFrom.
const tokenType = "slipway"

// LUKSToken is the token of LUKS2 that says what the passphrase in the key slot 0 was derived from.
type LUKSToken struct {
	Type  string   `json:"type"`
	Slots []string `json:"keyslots"`
	DerivedFrom
}

// Token returns the token for an encrypted volume.
func Token(d DerivedFrom) LUKSToken { return LUKSToken{tokenType, []string{"0"}, d} }

// IsOurs reports whether Slipway has written the token.
func (t LUKSToken) IsOurs() bool { return t.Type == tokenType }

// LayoutFilesystem is a file system, or swap.
type LayoutFilesystem struct {
	On   Place  `json:"on"`
	Type string `json:"type"`
	// UUID is written as in blkid(8): "1A2B-3C4D" for vfat.
	UUID  string `json:"uuid"`
	Label string `json:"label,omitempty"`
	// Mount is the mount point; empty for none.
	Mount string `json:"mount,omitempty"`
	// Options are the mount options, as in fstab(5).
	Options string `json:"options,omitempty"`
	// Keep means that the file system exists and is not created.
	Keep bool `json:"keep,omitempty"`
	// EFI means that the firmware looks for boot loaders in it.
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
	// Held is what was seen on the disk. Unread says why that could not be read.
	Held   []Signature `json:"held,omitempty"`
	Unread string      `json:"unread,omitempty"`
	// Breaks is what also lies on disks that stay, and may be useless without this disk.
	Breaks []Broken `json:"breaks,omitempty"`
}

// Broken is something that loses a part while another part stays.
type Broken struct {
	Shared
	// On is the ID of the disk that stays; empty if it reports none.
	On string `json:"on,omitempty"`
}
