package disk

import (
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/slipway-gitops/slipway/engine/item"
)

// table is a partition table as read from a disk.
type table struct {
	kind  string // "gpt" or "mbr"
	id    string // the GUID of a GPT, or the signature of an MBR in eight digits
	parts []entry
}

// entry is a partition of a table.
type entry struct {
	number      int
	first, last int64 // sectors, both included
	kind        string
	guid, name  string
	active      bool
}

// These are the bounds on reading: a table has at most maxEntries, in at most maxEntryBytes.
const (
	maxEntries    = 256
	maxEntryBytes = 1 << 20
)

// These are sizes of a GPT (UEFI specification 2.10, table 5.5).
const (
	gptHeaderBytes = 92
	gptEntryBytes  = 128
	gptEntries     = 128
)

// readTable reads the partition table of a disk with a sector size in bytes. ok is false if there is no valid
// table.
func readTable(p part, sector int) (t table, ok bool, err error) {
	b := p.at(0, 512)
	if b == nil {
		return table{}, false, nil
	}
	sectors := p.size / int64(sector)
	for _, at := range []int64{1, sectors - 1} {
		if t, ok, err = readGPT(p, sector, at); ok || err != nil {
			return t, ok, err
		}
	}
	if _, isFAT, _ := vfat(p); isFAT || b[510] != 0x55 || b[511] != 0xaa {
		return table{}, false, nil
	}
	return readMBR(p, sector)
}

// readGPT reads the table whose header is in the given sector.
func readGPT(p part, sector int, at int64) (table, bool, error) {
	none := table{}
	b, err := p.read(at*int64(sector), sector)
	if err != nil || len(b) < sector || string(b[:8]) != "EFI PART" {
		return none, false, err
	}
	size := little.Uint32(b[12:])
	if size < gptHeaderBytes || size > uint32(sector) || little.Uint64(b[24:]) != uint64(at) {
		return none, false, nil
	}
	header := slices.Clone(b[:size])
	little.PutUint32(header[16:], 0)
	if crc32.ChecksumIEEE(header) != little.Uint32(b[16:]) {
		return none, false, nil
	}
	count, each, from := little.Uint32(b[80:]), little.Uint32(b[84:]), little.Uint64(b[72:])
	sectors := uint64(p.size / int64(sector))
	if each < gptEntryBytes || each > 4096 || each%8 != 0 || uint64(count)*uint64(each) > maxEntryBytes || from >= sectors {
		return none, false, nil
	}
	entries, err := p.read(int64(from)*int64(sector), int(count*each))
	if err != nil || len(entries) < int(count*each) || crc32.ChecksumIEEE(entries) != little.Uint32(b[88:]) {
		return none, false, err
	}
	t := table{kind: "gpt", id: guid(b[56:72])}
	for i := range int(count) {
		e := entries[i*int(each) : (i+1)*int(each)]
		first, last := little.Uint64(e[32:]), little.Uint64(e[40:])
		if [16]byte(e[:16]) == [16]byte{} || first > last || last >= sectors || len(t.parts) == maxEntries {
			continue
		}
		name := make([]uint16, 36)
		for k := range name {
			name[k] = little.Uint16(e[56+2*k:])
		}
		t.parts = append(t.parts, entry{
			number: i + 1, first: int64(first), last: int64(last), kind: guid(e[:16]), guid: guid(e[16:32]), name: text([]byte(string(utf16.Decode(name)))),
		})
	}
	return t, true, nil
}

// guid formats a GUID from its stored form, in which the first three numbers are little-endian.
func guid(b []byte) string {
	x := slices.Clone(b[:16])
	slices.Reverse(x[:4])
	slices.Reverse(x[4:6])
	slices.Reverse(x[6:8])
	return uuid(x)
}

// putGUID stores a GUID.
func putGUID(b []byte, text string) error {
	x, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(x) != 16 {
		return fmt.Errorf("%q is not a GUID", text)
	}
	slices.Reverse(x[:4])
	slices.Reverse(x[4:6])
	slices.Reverse(x[6:8])
	copy(b, x)
	return nil
}

// readMBR reads the first sector and the chain of logical partitions.
func readMBR(p part, sector int) (table, bool, error) {
	b := p.head[:512]
	t := table{kind: "mbr", id: fmt.Sprintf("%08x", little.Uint32(b[440:]))}
	sectors := p.size / int64(sector)
	extended := int64(0)
	for i := range 4 {
		e, ok := mbrEntry(b[446+16*i:], sectors, 0)
		if !ok {
			return table{}, false, nil
		}
		if e.kind == "00" {
			continue
		}
		e.number = i + 1
		if isExtended(e.kind) && extended == 0 {
			extended = e.first
		}
		t.parts = append(t.parts, e)
	}
	if len(t.parts) == 0 {
		return table{}, false, nil
	}
	for at := extended; at > 0 && len(t.parts) < maxEntries; {
		b, err := p.read(at*int64(sector), 512)
		if err != nil {
			return table{}, false, err
		}
		if len(b) < 512 || b[510] != 0x55 || b[511] != 0xaa {
			break
		}
		if e, ok := mbrEntry(b[446:], sectors, at); ok && e.kind != "00" {
			e.number = 5 + len(slices.DeleteFunc(slices.Clone(t.parts), func(x entry) bool { return x.number < 5 }))
			t.parts = append(t.parts, e)
		}
		next, ok := mbrEntry(b[462:], sectors, extended)
		if !ok || !isExtended(next.kind) || next.first <= at {
			break // the chain only goes forward, so it ends
		}
		at = next.first
	}
	return t, true, nil
}

func isExtended(kind string) bool { return kind == "05" || kind == "0f" || kind == "85" }

// mbrEntry reads an entry of 16 bytes. Its sectors count from the sector from.
func mbrEntry(b []byte, sectors, from int64) (entry, bool) {
	first, count := from+int64(little.Uint32(b[8:])), int64(little.Uint32(b[12:]))
	e := entry{first: first, last: first + count - 1, kind: hex.EncodeToString(b[4:5]), active: b[0] == 0x80}
	if b[0]&0x7f != 0 {
		return e, false
	}
	if e.kind == "00" || count == 0 {
		e.kind = "00"
		return e, true
	}
	if e.kind == "ee" {
		return e, true // of a GPT: it may exceed the disk
	}
	return e, first > from && e.first < sectors && e.last < sectors
}

// write is bytes for an offset of a disk.
type write struct {
	at    int64
	bytes []byte
}

// tableWrites are the writes that make a disk's table. The partition lists come first and the headers last, so that
// an interrupted disk has no table.
func tableWrites(d item.LayoutDisk) (first, last []write, err error) {
	switch d.Table {
	case "gpt":
		return gptWrites(d)
	case "mbr":
		last, err = mbrWrites(d)
		return nil, last, err
	}
	return nil, nil, fmt.Errorf("the disk %s must have the partition table %q, which Slipway cannot write", d.Name, d.Table)
}

// gptWrites are the two tables of a GPT, and the protective MBR (UEFI specification 2.10, section 5.3).
func gptWrites(d item.LayoutDisk) (first, last []write, err error) {
	sector := int64(d.Sector)
	sectors := d.Bytes / sector
	taken := (gptEntries*gptEntryBytes + sector - 1) / sector
	entries := make([]byte, gptEntries*gptEntryBytes)
	for _, p := range d.Partitions {
		if p.Number < 1 || p.Number > gptEntries || p.First < 2+taken || p.Last < p.First || p.Last > sectors-2-taken {
			return nil, nil, fmt.Errorf("the partition %d of the disk %s, from sector %d to %d, is not within the disk", p.Number, d.Name, p.First, p.Last)
		}
		e := entries[(p.Number-1)*gptEntryBytes:][:gptEntryBytes]
		if err := putGUID(e, p.Type); err != nil {
			return nil, nil, err
		}
		if err := putGUID(e[16:], p.GUID); err != nil {
			return nil, nil, err
		}
		little.PutUint64(e[32:], uint64(p.First))
		little.PutUint64(e[40:], uint64(p.Last))
		for i, c := range utf16.Encode([]rune(p.Name)) {
			if i < 36 {
				little.PutUint16(e[56+2*i:], c)
			}
		}
	}
	header := func(at, other, list int64) ([]byte, error) {
		b := make([]byte, sector)
		copy(b, "EFI PART")
		little.PutUint32(b[8:], 0x10000)
		little.PutUint32(b[12:], gptHeaderBytes)
		little.PutUint64(b[24:], uint64(at))
		little.PutUint64(b[32:], uint64(other))
		little.PutUint64(b[40:], uint64(2+taken))
		little.PutUint64(b[48:], uint64(sectors-2-taken))
		if err := putGUID(b[56:], d.GUID); err != nil {
			return nil, err
		}
		little.PutUint64(b[72:], uint64(list))
		little.PutUint32(b[80:], gptEntries)
		little.PutUint32(b[84:], gptEntryBytes)
		little.PutUint32(b[88:], crc32.ChecksumIEEE(entries))
		little.PutUint32(b[16:], crc32.ChecksumIEEE(b[:gptHeaderBytes]))
		return b, nil
	}
	main, err := header(1, sectors-1, 2)
	if err != nil {
		return nil, nil, err
	}
	second, err := header(sectors-1, 1, sectors-1-taken)
	if err != nil {
		return nil, nil, err
	}
	protects := make([]byte, sector)
	putMBR(protects[446:], 0xee, false, 1, min(sectors-1, 0xffffffff))
	protects[510], protects[511] = 0x55, 0xaa
	return []write{{2 * sector, entries}, {(sectors - 1 - taken) * sector, entries}},
		[]write{{(sectors - 1) * sector, second}, {sector, main}, {0, protects}}, nil
}

// putMBR stores an entry. Its cylinder address, for old programs, marks the place as out of their range.
func putMBR(b []byte, kind byte, active bool, first, count int64) {
	if active {
		b[0] = 0x80
	}
	copy(b[1:], []byte{0xfe, 0xff, 0xff, kind, 0xfe, 0xff, 0xff})
	little.PutUint32(b[8:], uint32(first))
	little.PutUint32(b[12:], uint32(count))
	if kind == 0xee {
		copy(b[1:], []byte{0, 2, 0}) // the second sector, as specified
	}
}

func mbrWrites(d item.LayoutDisk) ([]write, error) {
	b := make([]byte, d.Sector)
	id, err := hex.DecodeString(d.GUID)
	if err != nil || len(id) != 4 {
		return nil, fmt.Errorf("%q is not a signature of an MBR", d.GUID)
	}
	little.PutUint32(b[440:], big.Uint32(id))
	for _, p := range d.Partitions {
		kind, err := hex.DecodeString(p.Type)
		if err != nil || len(kind) != 1 || p.Number < 1 || p.Number > 4 || p.First < 1 || p.Last < p.First || p.Last >= d.Bytes/int64(d.Sector) || p.Last > 0xffffffff {
			return nil, fmt.Errorf("the partition %d of the disk %s, of type %q from sector %d to %d, does not fit into an MBR", p.Number, d.Name, p.Type, p.First, p.Last)
		}
		putMBR(b[446+16*(p.Number-1):], kind[0], p.Active, p.First, p.Last-p.First+1)
	}
	b[510], b[511] = 0x55, 0xaa
	return []write{{0, b}}, nil
}
