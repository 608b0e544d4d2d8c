package disk

import (
	"bytes"
	"encoding/hex"
	"hash/crc32"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
)

// Each reader takes any bytes: it ends, and what it tells is printable and bounded.
func fuzz(f *testing.F, kind string, seeds ...[]byte) {
	for _, s := range append(seeds, nil, make([]byte, headBytes)) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := openPart(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range readers {
			if r.kind != kind {
				continue
			}
			s, ok, err := r.read(p)
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				sane(t, s)
			}
		}
	})
}

func sane(t *testing.T, s item.Signature) {
	t.Helper()
	for _, text := range []string{s.UUID, s.Label, s.Name} {
		if len(text) > 300 || bytes.ContainsFunc([]byte(text), func(r rune) bool { return r < ' ' }) {
			t.Errorf("%+v", s)
		}
	}
}

// at is bytes with some at a place.
func at(b []byte, offset int, x string) []byte {
	copy(b[offset:], x)
	return b
}

func FuzzMD(f *testing.F) {
	b := at(make([]byte, 16<<10), 4096, "\xfc\x4e\x2b\xa9\x01\x00\x00\x00")
	little.PutUint64(b[4096+144:], 8)
	var sum uint64
	for i := 0; i < mdBytes; i += 4 {
		sum += uint64(little.Uint32(b[4096+i:]))
	}
	little.PutUint32(b[4096+216:], uint32(sum&0xffffffff+sum>>32))
	fuzz(f, "md", b, at(make([]byte, 128<<10), 0, "\xfc\x4e\x2b\xa9\x00\x00\x00\x00"))
}

func FuzzLVM(f *testing.F) {
	b := at(at(at(make([]byte, 16<<10), 512, "LABELONE\x01"), 512+20, "\x20\x00\x00\x00"), 512+24, "LVM2 001")
	little.PutUint64(b[512+32+40:], 1<<20)
	little.PutUint64(b[512+32+40+32:], 4096)
	little.PutUint64(b[512+32+40+40:], 8192)
	at(b, 4096+4, " LVM2 x[5A%r0N*>")
	little.PutUint64(b[4096+40:], 512)
	little.PutUint64(b[4096+48:], 200)
	at(b, 4096+512, "vg {\nid = \"abcdef-abcd-abcd-abcd-abcd-abcd-abcdef\"\n")
	p, _ := openPart(bytes.NewReader(b), int64(len(b)))
	if s, ok, err := lvm(p); !ok || err != nil || s.Name != "vg" || len(s.UUID) != 38 {
		f.Fatalf("%+v, %v, %v", s, ok, err)
	}
	fuzz(f, "lvm", b)
}

func FuzzLUKS(f *testing.F) {
	fuzz(f, "luks", at(at(make([]byte, 4096), 0, "LUKS\xba\xbe\x00\x02"), 168, "0b1c2d3e"))
}

func FuzzExt(f *testing.F) {
	fuzz(f, "ext4", at(at(at(make([]byte, 4096), 1024+56, "\x53\xef"), 1024+4, "\x01"), 1024+40, "\x01"))
}

func FuzzXFS(f *testing.F) {
	fuzz(f, "xfs", at(make([]byte, 4096), 0, "XFSB\x00\x00\x10\x00\x00\x00\x00\x00\x00\x00\x00\x01"))
}

func FuzzBtrfs(f *testing.F) {
	fuzz(f, "btrfs", at(at(make([]byte, headBytes), btrfsAt+64, "_BHRfS_M"), btrfsAt+48, "\x00\x00\x01"))
}

func FuzzVFAT(f *testing.F) {
	b := at(make([]byte, 512), 0, "\xeb\x58\x90mkfs.fat\x00\x02\x08\x20\x00\x02\x00\x00\x00\x00\xf8")
	fuzz(f, "vfat", at(at(b, 82, "FAT32   "), 510, "\x55\xaa"))
}

func FuzzSwap(f *testing.F) {
	fuzz(f, "swap", at(at(make([]byte, 8192), 4086, "SWAPSPACE2"), 1024, "\x01"))
}

// FuzzGPT changes the header and a partition of a table, and sets the sums right again.
func FuzzGPT(f *testing.F) {
	f.Add(uint32(92), uint64(2), uint32(128), uint32(128), uint64(34), uint64(40), []byte("x\x00"), true)
	f.Add(uint32(512), uint64(1<<63), uint32(0xffffffff), uint32(8), uint64(0), uint64(1<<63), []byte{}, false)
	f.Fuzz(func(t *testing.T, size uint32, from uint64, count, each uint32, first, last uint64, name []byte, second bool) {
		b := make([]byte, 256<<10)
		header := b[512:1024]
		copy(header, "EFI PART")
		little.PutUint32(header[12:], size)
		little.PutUint64(header[24:], 1)
		little.PutUint64(header[72:], from)
		little.PutUint32(header[80:], count)
		little.PutUint32(header[84:], each)
		e := b[1024:1152]
		e[0] = 1
		little.PutUint64(e[32:], first)
		little.PutUint64(e[40:], last)
		copy(e[56:], name)
		if length := uint64(count) * uint64(each); from < 100 && length < 100<<10 {
			little.PutUint32(header[88:], crc32.ChecksumIEEE(b[from*512:from*512+length]))
		}
		if size <= 512 {
			little.PutUint32(header[16:], crc32.ChecksumIEEE(header[:size]))
		}
		tables(t, b)
	})
}

func FuzzMBR(f *testing.F) {
	entry, _ := hex.DecodeString("80fefffff83fefffff0800000064000000"[:32])
	f.Add(entry, entry, entry)
	f.Add(entry, []byte{0, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 200}, []byte{0, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 200})
	f.Fuzz(func(t *testing.T, one, two, chain []byte) {
		b := make([]byte, 256<<10)
		for at := 0; at < len(b); at += 512 {
			b[at+510], b[at+511] = 0x55, 0xaa
			copy(b[at+446:at+462], one)
			copy(b[at+462:at+478], chain)
		}
		copy(b[462:478], two)
		tables(t, b)
	})
}

// tables holds that what is read of a table lies on the disk and is bounded.
func tables(t *testing.T, b []byte) {
	t.Helper()
	for _, sector := range []int{512, 4096} {
		all, err := probe(bytes.NewReader(b), int64(len(b)), sector)
		if err != nil {
			t.Fatal(err)
		}
		if len(all) > maxHolds {
			t.Errorf("%d are told", len(all))
		}
		for _, s := range all {
			if sane(t, s); s.Start < 0 || s.Bytes <= 0 || s.Start+s.Bytes > int64(len(b)) {
				t.Errorf("%+v is not on a disk of %d bytes", s, len(b))
			}
		}
	}
}
