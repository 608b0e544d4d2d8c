package site

import (
	"path"
	"strconv"
	"strings"
)

// Storage says how a node's disks are used.
type Storage struct {
	Disks       map[string]Disk           `json:"disks,omitempty"`
	Arrays      map[string]Array          `json:"arrays,omitempty"`
	Controllers map[string]RAIDController `json:"controllers,omitempty"`
	Groups      map[string]VolumeGroup    `json:"groups,omitempty"`
	// BootDisk names the disk that the firmware boots from.
	BootDisk string `json:"bootDisk,omitempty"`
	// Erase is "secure" if an installation erases the disks before it uses them.
	Erase string `json:"erase,omitempty"`
}

// Use is the use of a device that holds data: at most one of these.
type Use struct {
	Filesystem *Filesystem `json:"filesystem,omitempty"`
	// Group is the volume group, Array the array that the device is a part of.
	Group string `json:"group,omitempty"`
	Array string `json:"array,omitempty"`
	// Encrypt says what opens the encrypted device at a start: "tpm", or "console" for a person
	// who types the passphrase. It is empty for a device that is not encrypted.
	Encrypt string `json:"encrypt,omitempty"`
}

// Disk is one disk: the device of that name, the volume "CONTROLLER/VOLUME" of a RAID
// controller, or the disk that matches. With Count it is a set of matching disks.
type Disk struct {
	Device string     `json:"device,omitempty"`
	Match  *DiskMatch `json:"match,omitempty"`
	// Count is empty for one disk, "all", or a number.
	Count DiskCount `json:"count,omitempty"`
	// Keep means that the disk is never erased or partitioned.
	Keep       bool                 `json:"keep,omitempty"`
	Partitions map[string]Partition `json:"partitions,omitempty"`
	// Table is "gpt" (the default) or "mbr".
	Table string `json:"table,omitempty"`
	Use
}

// DiskCount is the number of disks in a set: "all" matching disks, or a number.
type DiskCount string

// maxDiskCount is the largest number that the schema accepts.
const maxDiskCount = 1024

// Least returns the minimum number of disks, and whether there may be more.
func (c DiskCount) Least() (count int, more bool) {
	n, err := strconv.Atoi(string(c))
	return min(max(n, 1), maxDiskCount), err != nil && c != ""
}

// DiskMatch finds a disk by rule.
type DiskMatch struct {
	Kind    string `json:"kind,omitempty"`
	Model   string `json:"model,omitempty"`
	MinSize Size   `json:"minSize,omitempty"`
	MaxSize Size   `json:"maxSize,omitempty"`
}

// globbed escapes a pattern for path.Match so that only "*" is special.
var globbed = strings.NewReplacer(`\`, `\\`, "[", `\[`, "?", `\?`, "/", "_")

// FitsModel reports whether a disk of that model matches.
func (m DiskMatch) FitsModel(model string) bool {
	if m.Model == "" {
		return true
	}
	fits, _ := path.Match(globbed.Replace(m.Model), strings.ReplaceAll(model, "/", "_"))
	return fits
}

// FitsKind reports whether a disk of that kind matches: "hdd", "ssd" or "nvme". An NVMe disk
// is an SSD, too.
func (m DiskMatch) FitsKind(kind string) bool {
	return m.Kind == "" || m.Kind == kind || m.Kind == "ssd" && kind == "nvme"
}

// FitsSize reports whether a disk of that size matches.
func (m DiskMatch) FitsSize(size Size) bool {
	return size >= m.MinSize && (m.MaxSize == 0 || size <= m.MaxSize)
}

// String is the rule in words.
func (m DiskMatch) String() string {
	var words []string
	if m.Kind != "" {
		words = append(words, m.Kind)
	}
	if m.Model != "" {
		words = append(words, "model "+strconv.Quote(m.Model))
	}
	if m.MinSize > 0 {
		words = append(words, "at least "+m.MinSize.String())
	}
	if m.MaxSize > 0 {
		words = append(words, "at most "+m.MaxSize.String())
	}
	return strings.Join(words, ", ")
}

// Partition is a part of a disk; without a use it is left raw.
type Partition struct {
	Size   Extent `json:"size,omitzero"`
	Number int    `json:"number,omitempty"`
	Flag   string `json:"flag,omitempty"`
	Use
}

// Filesystem is a file system on a partition, volume, array or disk.
type Filesystem struct {
	// Type defaults to "ext4".
	Type    string   `json:"type,omitempty"`
	Mount   string   `json:"mount,omitempty"`
	Options []string `json:"options,omitempty"`
	Label   string   `json:"label,omitempty"`
}

// Array is a RAID array of the Linux kernel.
type Array struct {
	Level  string `json:"level"`
	Spares int    `json:"spares,omitempty"`
	Use
}

// RAIDController is a RAID controller with its volumes by name.
type RAIDController struct {
	Device  string                `json:"device"`
	Volumes map[string]RAIDVolume `json:"volumes,omitempty"`
}

// RAIDVolume is a volume that a RAID controller makes from drives.
type RAIDVolume struct {
	Level  string   `json:"level"`
	Drives []string `json:"drives"`
	Size   Extent   `json:"size,omitzero"`
}

// VolumeGroup is an LVM volume group with its volumes by name.
type VolumeGroup struct {
	Volumes map[string]LogicalVolume `json:"volumes,omitempty"`
}

// LogicalVolume is an LVM logical volume.
type LogicalVolume struct {
	Size       Extent      `json:"size,omitzero"`
	Filesystem *Filesystem `json:"filesystem,omitempty"`
	// Encrypt is as in Use.
	Encrypt string `json:"encrypt,omitempty"`
}

// Use returns what the volume is for.
func (v LogicalVolume) Use() Use { return Use{Filesystem: v.Filesystem, Encrypt: v.Encrypt} }
