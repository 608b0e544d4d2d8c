package disk

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/slipway-gitops/slipway/engine/item"
)

// little and big are the byte orders of stored numbers.
var (
	little = binary.LittleEndian
	big    = binary.BigEndian
)

// headBytes is how much of the beginning of a disk or partition the readers look at. The farthest superblock is
// that of btrfs, 4 KiB at 64 KiB.
const headBytes = 68 << 10

// part is a readable disk, partition or other part of a disk.
type part struct {
	r    io.ReaderAt
	size int64
	head []byte // its first headBytes, or all of a smaller part
}

func openPart(r io.ReaderAt, size int64) (part, error) {
	p := part{r: r, size: size}
	var err error
	p.head, err = p.read(0, headBytes)
	return p, err
}

// read reads at an offset. It returns fewer bytes, or none, past the end of the part.
func (p part) read(at int64, length int) ([]byte, error) {
	if at < 0 || at >= p.size {
		return nil, nil
	}
	b := make([]byte, min(int64(length), p.size-at))
	n, err := p.r.ReadAt(b, at)
	if n == len(b) || err == io.EOF || err == io.ErrUnexpectedEOF {
		return b[:n], nil
	}
	return nil, err
}

// at is a range of the head; nil if the head is too short.
func (p part) at(offset, length int) []byte {
	if offset+length > len(p.head) {
		return nil
	}
	return p.head[offset : offset+length]
}

// reader finds one kind of superblock; ok is false if there is none. An error is a read error: invalid bytes are
// not a superblock.
type reader struct {
	kind string
	read func(p part) (h item.Signature, ok bool, err error)
}

// readers are all kinds, in the order of the output. Each recognizes its superblock by a magic number, and by a
// checksum or fields that must match the place.
var readers = []reader{
	{"md", md}, {"lvm", lvm}, {"luks", luks}, {"ext4", ext}, {"xfs", xfs}, {"btrfs", btrfs}, {"vfat", vfat}, {"swap", swap},
}

// signatures lists all superblocks of a part.
func signatures(p part) (all []item.Signature, err error) {
	for _, r := range readers {
		h, ok, err := r.read(p)
		if err != nil {
			return nil, err
		}
		if ok {
			h.Kind = r.kind
			all = append(all, h)
		}
	}
	return all, nil
}

// text is a zero-terminated field without unprintable characters.
func text(b []byte) string {
	b, _, _ = bytes.Cut(b, []byte{0})
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r == utf8.RuneError || r == 0x7f {
			return -1
		}
		return r
	}, string(b)))
}

// uuid formats 16 bytes in stored order.
func uuid(b []byte) string {
	x := hex.EncodeToString(b)
	return x[:8] + "-" + x[8:12] + "-" + x[12:16] + "-" + x[16:20] + "-" + x[20:]
}

// powerOfTwo reports whether n is a power of two between least and most.
func powerOfTwo(n, least, most uint32) bool { return n >= least && n <= most && n&(n-1) == 0 }

// The superblock of an md array (the kernel's include/uapi/linux/raid/md_p.h). Version 1.x is at the end, at the
// beginning, or 4 KiB after the beginning. Version 0.90 is within the last 128 KiB, on a boundary of 64 KiB.
const (
	mdMagic    = 0xa92b4efc
	mdBytes    = 256
	mdMaxDevs  = 1920 // as many as fit into 4 KiB with the superblock
	mdOldBytes = 64
)

func md(p part) (item.Signature, bool, error) {
	for _, at := range []int64{4096, 0, (p.size/512 - 16) &^ 7 * 512} {
		b, err := p.read(at, 4096)
		if err != nil {
			return item.Signature{}, false, err
		}
		if h, ok := mdAt(b, at); ok {
			return h, true, nil
		}
	}
	b, err := p.read(p.size&^(64<<10-1)-64<<10, mdOldBytes)
	if err != nil || len(b) < mdOldBytes || little.Uint32(b) != mdMagic || little.Uint32(b[4:]) != 0 {
		return item.Signature{}, false, err
	}
	var id [16]byte // four numbers, the first stored separately
	for i, from := range []int{20, 52, 56, 60} {
		big.PutUint32(id[4*i:], little.Uint32(b[from:]))
	}
	return item.Signature{UUID: uuid(id[:])}, true, nil
}

// mdAt reads a superblock of version 1.x, which contains its own place and a checksum.
func mdAt(b []byte, at int64) (item.Signature, bool) {
	if len(b) < mdBytes || little.Uint32(b) != mdMagic || little.Uint32(b[4:]) != 1 || little.Uint64(b[144:]) != uint64(at/512) {
		return item.Signature{}, false
	}
	devs := little.Uint32(b[220:])
	if devs > mdMaxDevs || len(b) < mdBytes+2*int(devs) {
		return item.Signature{}, false
	}
	var sum uint64
	all := b[:mdBytes+2*int(devs)]
	for i := 0; i+4 <= len(all); i += 4 {
		if i != 216 {
			sum += uint64(little.Uint32(all[i:]))
		}
	}
	if len(all)%4 == 2 {
		sum += uint64(little.Uint16(all[len(all)-2:]))
	}
	if uint32(sum&0xffffffff+sum>>32) != little.Uint32(b[216:]) {
		return item.Signature{}, false
	}
	name := text(b[32:64])
	if _, after, ok := strings.Cut(name, ":"); ok {
		name = after // the host comes before it
	}
	return item.Signature{UUID: uuid(b[16:32]), Name: name}, true
}

// maxGroupText is how much of a volume group's text is read. The group's name and id are at the beginning.
const maxGroupText = 4096

// lvm reads the LVM2 label, in one of the first four sectors, and the beginning of the group's text, to which the
// label points.
func lvm(p part) (item.Signature, bool, error) {
	for sector := range 4 {
		b := p.at(sector*512, 512)
		if b == nil || string(b[:8]) != "LABELONE" || little.Uint64(b[8:]) != uint64(sector) || string(b[24:32]) != "LVM2 001" {
			continue
		}
		header := int(min(little.Uint32(b[20:]), 512))
		if header < 32 || header+40 > 512 {
			continue
		}
		areas := b[header+40:] // after the member's id and size
		for lists := 0; len(areas) >= 16; areas = areas[16:] {
			at, size := little.Uint64(areas), little.Uint64(areas[8:])
			switch {
			case at == 0 && lists == 1:
				return item.Signature{}, true, nil // no place for the text
			case at == 0:
				lists++
			case lists == 1:
				h, err := group(p, at, size)
				return h, err == nil, err
			}
		}
		return item.Signature{}, true, nil
	}
	return item.Signature{}, false, nil
}

// group reads the beginning of a volume group's text in a metadata area. The text is in a ring buffer after the
// area's header.
func group(p part, at, size uint64) (item.Signature, error) {
	if at > uint64(p.size) || size > uint64(p.size) {
		return item.Signature{}, nil
	}
	b, err := p.read(int64(at), 512)
	if err != nil || len(b) < 512 || string(b[4:20]) != " LVM2 x[5A%r0N*>" {
		return item.Signature{}, err
	}
	offset, length := little.Uint64(b[40:]), little.Uint64(b[48:])
	if offset < 512 || offset >= size || length == 0 {
		return item.Signature{}, nil // no group yet
	}
	length = min(length, maxGroupText, size-offset)
	b, err = p.read(int64(at+offset), int(length))
	if err != nil {
		return item.Signature{}, err
	}
	name, rest, ok := strings.Cut(string(b), " {")
	if !ok || len(name) > 127 || strings.Trim(name, nameLetters) != "" {
		return item.Signature{}, nil
	}
	h := item.Signature{Name: name}
	if _, id, ok := strings.Cut(rest, "id = \""); ok {
		if id, _, ok = strings.Cut(id, "\""); ok && len(id) == 38 && strings.Trim(id, nameLetters) == "" {
			h.UUID = id
		}
	}
	return h, nil
}

// nameLetters are the characters of LVM names and ids.
const nameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+_.-"

// luks reads the header of LUKS (its on-disk format specifications 1.2.3 and 2).
func luks(p part) (item.Signature, bool, error) {
	b := p.at(0, 512)
	if b == nil || string(b[:6]) != "LUKS\xba\xbe" {
		return item.Signature{}, false, nil
	}
	h := item.Signature{UUID: text(b[168:208])}
	switch big.Uint16(b[6:]) {
	case 1:
	case 2:
		h.Label = text(b[24:72])
	default:
		return item.Signature{}, false, nil
	}
	return h, true, nil
}

// ext reads the superblock of ext2, ext3 and ext4, at 1 KiB.
func ext(p part) (item.Signature, bool, error) {
	b := p.at(1024, 1024)
	if b == nil || little.Uint16(b[56:]) != 0xef53 || little.Uint32(b[24:]) > 6 || little.Uint32(b[4:]) == 0 || little.Uint32(b[40:]) == 0 {
		return item.Signature{}, false, nil
	}
	return item.Signature{UUID: uuid(b[104:120]), Label: text(b[120:136])}, true, nil
}

func xfs(p part) (item.Signature, bool, error) {
	b := p.at(0, 512)
	if b == nil || string(b[:4]) != "XFSB" || !powerOfTwo(big.Uint32(b[4:]), 512, 65536) || big.Uint64(b[8:]) == 0 {
		return item.Signature{}, false, nil
	}
	return item.Signature{UUID: uuid(b[32:48]), Label: text(b[108:120])}, true, nil
}

// btrfsAt is the offset of the first btrfs superblock, which also contains it.
const btrfsAt = 64 << 10

func btrfs(p part) (item.Signature, bool, error) {
	b := p.at(btrfsAt, 4096)
	if b == nil || string(b[64:72]) != "_BHRfS_M" || little.Uint64(b[48:]) != btrfsAt {
		return item.Signature{}, false, nil
	}
	return item.Signature{UUID: uuid(b[32:48]), Label: text(b[299 : 299+256])}, true, nil
}

// vfat reads the first sector of a FAT. Boot sectors have the same end, so all numbers must be plausible.
func vfat(p part) (item.Signature, bool, error) {
	b := p.at(0, 512)
	if b == nil || b[510] != 0x55 || b[511] != 0xaa || b[0] != 0xeb && b[0] != 0xe9 {
		return item.Signature{}, false, nil
	}
	if !powerOfTwo(uint32(little.Uint16(b[11:])), 512, 4096) || !powerOfTwo(uint32(b[13]), 1, 128) || little.Uint16(b[14:]) == 0 ||
		b[16] == 0 || b[16] > 2 || b[21] != 0xf0 && b[21] < 0xf8 {
		return item.Signature{}, false, nil
	}
	serial, label, kind := b[67:71], b[71:82], b[82:90]
	if little.Uint16(b[22:]) != 0 {
		serial, label, kind = b[39:43], b[43:54], b[54:62]
	}
	if !strings.HasPrefix(string(kind), "FAT") {
		return item.Signature{}, false, nil
	}
	id := strings.ToUpper(hex.EncodeToString([]byte{serial[3], serial[2], serial[1], serial[0]}))
	h := item.Signature{UUID: id[:4] + "-" + id[4:], Label: text(label)}
	if h.Label == "NO NAME" {
		h.Label = ""
	}
	return h, true, nil
}

// swap reads the header of a swap area. The magic is at the end of the first page, whose size depends on the
// machine that wrote it.
func swap(p part) (item.Signature, bool, error) {
	for page := 4096; page <= 65536; page *= 2 {
		b := p.at(page-10, 10)
		if b == nil || string(b) != "SWAPSPACE2" || little.Uint32(p.head[1024:]) != 1 {
			continue
		}
		return item.Signature{UUID: uuid(p.head[1036:1052]), Label: text(p.head[1052:1068])}, true, nil
	}
	return item.Signature{}, false, nil
}
