package libvirt

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"libvirt.org/go/libvirtxml"
)

// headerSize is how many bytes identify an image.
const headerSize = 512

// Offsets and bits of qcow2's header (docs/interop/qcow2.txt of QEMU).
const (
	qcowBackingFile  = 8
	qcowSize         = 24
	qcowEncryption   = 32
	qcowIncompatible = 72

	qcowDirty, qcowCorrupt, qcowExternalData = 1 << 0, 1 << 1, 1 << 2
	qcowCompression, qcowExtendedEntries     = 1 << 3, 1 << 4
)

var qcowMagic = []byte("QFI\xfb")

// checkImage refuses an image that is not what the design says, or that would make the hypervisor open its own
// files.
func checkImage(format string, header []byte) error {
	is := bytes.HasPrefix(header, qcowMagic)
	switch {
	case format == "raw" && is:
		return refused("the image is a qcow2 one, the design says raw: its \"format\" must be \"qcow2\"")
	case format == "raw":
		return nil
	case format != "qcow2":
		return refused("an image of the format %q cannot be put on the disk of a virtual machine: use qcow2 or raw", format)
	case !is || len(header) < 104:
		return refused("the image is not a qcow2 one, as the design says")
	}
	return checkQcow2(header)
}

func checkQcow2(header []byte) error {
	version := binary.BigEndian.Uint32(header[4:])
	var bits uint64
	if version >= 3 {
		bits = binary.BigEndian.Uint64(header[qcowIncompatible:])
	}
	size := binary.BigEndian.Uint64(header[qcowSize:])
	switch {
	case version != 2 && version != 3:
		return refused("the image is a qcow2 one of version %d; 2 and 3 are known", version)
	case binary.BigEndian.Uint64(header[qcowBackingFile:]) != 0:
		return refused("the image builds on another file (a backing file), which the hypervisor would open: make one that stands alone (qemu-img convert -O qcow2)")
	case bits&qcowExternalData != 0:
		return refused("the image has its data in another file, which the hypervisor would open: make one that stands alone (qemu-img convert -O qcow2)")
	case bits&(qcowDirty|qcowCorrupt) != 0:
		return refused("the image was not closed cleanly or is damaged (qemu-img check)")
	case bits&^(qcowCompression|qcowExtendedEntries) != 0:
		return refused("the image needs features of qcow2 (%#x) that are not known here", bits)
	case binary.BigEndian.Uint32(header[qcowEncryption:]) != 0:
		return refused("the image is encrypted, and the hypervisor does not have its key")
	case size == 0 || size > 1<<50:
		return refused("the image says that its disk has %d bytes", size)
	}
	return nil
}

// takenFor is the format that libvirt assumes for a volume.
func takenFor(d *libvirtxml.StorageVolume) string {
	if d.Target == nil || d.Target.Format == nil {
		return ""
	}
	return d.Target.Format.Type
}

// roughly formats an amount for people.
func roughly(bytes int64) string {
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	amount, unit := float64(bytes), 0
	for amount >= 1024 && unit < len(units)-1 {
		amount, unit = amount/1024, unit+1
	}
	if unit == 0 || amount == float64(int64(amount)) {
		return fmt.Sprintf("%d %s", int64(amount), units[unit])
	}
	return fmt.Sprintf("%.1f %s", amount, units[unit])
}
