package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// edge bounds how far into an image its partition table reaches. These bytes are held back until everything else is
// written.
const edge = 1 << 20

// Whole is the image of a whole disk: its partition table and the contents of the partitions.
type Whole struct {
	// Kind is the kind of the table, "gpt" or "mbr".
	Kind string
	// Parts are its partitions, in order of place.
	Parts []WholePart

	bytes  int64 // of the image
	sector int
}

// WholePart is a partition of an image of a whole disk.
type WholePart struct {
	Number int
	// Start and Bytes are its place, in bytes.
	Start, Bytes int64
	// GUID is the partition's GUID in a GPT, in lower case. EFI reports whether firmware looks there for boot
	// loaders.
	GUID string
	EFI  bool
	// Holds lists what is on it.
	Holds []item.Signature
}

// ErrNoTable is wrapped in the error for an image without a partition table from which a disk could boot.
var ErrNoTable = errors.New("no table of partitions")

// ReadWhole reads the partition table of an image of size bytes for a disk with sectors of sector bytes, and what
// is on the partitions. If the image is at fault, the error wraps ErrNoTable.
func ReadWhole(r io.ReaderAt, size int64, sector int) (Whole, error) {
	wrong := func(format string, a ...any) (Whole, error) {
		return Whole{}, fmt.Errorf("%w: %s", ErrNoTable, fmt.Sprintf(format, a...))
	}
	if !powerOfTwo(uint32(sector), 512, 65536) || size < 2*int64(sector) {
		return wrong("the image has %d bytes, and the disk sectors of %d", size, sector)
	}
	p, err := openPart(r, size)
	if err != nil {
		return Whole{}, err
	}
	t, ok, err := readGPT(p, sector, 1)
	if err == nil && !ok && len(p.head) >= 512 && p.head[510] == 0x55 && p.head[511] == 0xaa {
		t, ok, err = readMBR(p, sector)
	}
	if err != nil {
		return Whole{}, err
	}
	if !ok {
		return wrong("the image has none for a disk with sectors of %d bytes", sector)
	}
	w := Whole{Kind: t.kind, bytes: size, sector: sector}
	for _, e := range t.parts {
		switch {
		case e.kind == "ee":
			return wrong("the GPT of the image is damaged, or for a disk with sectors of another size than %d bytes", sector)
		case isExtended(e.kind):
			return wrong("the image has an extended partition in an MBR, which is not supported: make it again with a GPT")
		}
		w.Parts = append(w.Parts, WholePart{
			Number: e.number, Start: e.first * int64(sector), Bytes: (e.last - e.first + 1) * int64(sector), GUID: strings.ToLower(e.guid),
			EFI: strings.EqualFold(e.kind, efiType) || e.kind == "ef",
		})
	}
	slices.SortFunc(w.Parts, func(x, y WholePart) int { return int(min(max(x.Start-y.Start, -1), 1)) })
	if len(w.Parts) == 0 {
		return wrong("the image's table has no partition")
	}
	for i, part := range w.Parts {
		if i > 0 && part.Start < w.Parts[i-1].Start+w.Parts[i-1].Bytes {
			return wrong("the partitions %d and %d of the image overlap", w.Parts[i-1].Number, part.Number)
		}
	}
	if w.Kind == "gpt" {
		if _, err := w.gpt(p.head); err != nil {
			return wrong("%v", err)
		}
	}
	holds, err := probe(r, size, sector)
	for i := range w.Parts {
		for _, h := range holds {
			if h.Partition == w.Parts[i].Number && h.Kind != "partition" {
				w.Parts[i].Holds = append(w.Parts[i].Holds, h)
			}
		}
	}
	return w, err
}

// efiType is the type of an EFI system partition in a GPT.
const efiType = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b"

// Ends are the start of the first partition and the end of the last one.
func (w Whole) Ends() (first, last int64) {
	end := w.Parts[len(w.Parts)-1]
	return w.Parts[0].Start, end.Start + end.Bytes
}

// gpt parses the GPT at the beginning of an image.
func (w Whole) gpt(head []byte) (g gptPlaces, err error) {
	s := int64(w.sector)
	first, last := w.Ends()
	if int64(len(head)) < 2*s {
		return g, errors.New("the GPT of the image is cut off")
	}
	h := head[s : 2*s]
	g.size, g.list = int(little.Uint32(h[12:])), int64(little.Uint64(h[72:]))*s
	g.bytes = int64(little.Uint32(h[80:])) * int64(little.Uint32(h[84:]))
	g.taken = (g.bytes + s - 1) / s
	switch {
	case little.Uint64(h[32:]) >= uint64(w.bytes/s):
		return g, errors.New("the image ends before its second GPT: it was cut off")
	case g.list < 2*s || g.list+g.bytes > min(first, edge):
		return g, errors.New("the list of the image's GPT is not before its first partition")
	case last > w.bytes-(g.taken+1)*s:
		return g, errors.New("the image's last partition leaves no room for the second GPT")
	}
	return g, nil
}

// gptPlaces describes a GPT at the beginning of a disk: the size of its header, its list in bytes, and how many
// sectors the list takes.
type gptPlaces struct {
	size        int
	list, bytes int64
	taken       int64
}

// seal lists the writes that a disk still lacks after everything but the ends of an image was written, in order.
// The second GPT goes to the end of the disk.
func (w Whole) seal(head, tail []byte, disk int64) (first, last []write, err error) {
	head = slices.Clone(head)
	if w.Kind == "mbr" {
		if len(tail) > 0 {
			first = []write{{w.bytes - int64(len(tail)), tail}}
		}
		return first, []write{{0, head}}, nil
	}
	g, err := w.gpt(head)
	if err != nil {
		return nil, nil, err
	}
	s := int64(w.sector)
	sectors := disk / s
	header := func(b []byte, at, other, list int64) []byte {
		b = slices.Clone(b)
		little.PutUint64(b[24:], uint64(at))
		little.PutUint64(b[32:], uint64(other))
		little.PutUint64(b[48:], uint64(sectors-2-g.taken))
		little.PutUint64(b[72:], uint64(list))
		little.PutUint32(b[16:], 0)
		little.PutUint32(b[16:], crc32.ChecksumIEEE(b[:g.size]))
		return b
	}
	its := head[s : 2*s]
	entries := make([]byte, g.taken*s)
	copy(entries, head[g.list:g.list+g.bytes])
	second := header(its, sectors-1, 1, sectors-1-g.taken)
	copy(its, header(its, 1, sectors-1, g.list/s))
	for i := range 4 {
		if e := head[446+16*i:][:16]; e[4] == 0xee && little.Uint32(e[8:]) == 1 {
			little.PutUint32(e[12:], uint32(min(sectors-1, 0xffffffff)))
		}
	}
	return []write{{(sectors - 1 - g.taken) * s, append(entries, second...)}}, []write{{0, head}}, nil
}

// sealed writes the missing ends, the second table before the first, and reads them back.
func sealed(m medium, w Whole, head, tail []byte, disk int64) error {
	first, last, err := w.seal(head, tail, disk)
	if err != nil {
		return err
	}
	for _, writes := range [][]write{first, last} {
		for _, x := range writes {
			if _, err := m.WriteAt(x.bytes, x.at); err != nil {
				return err
			}
		}
		if err := m.Sync(); err != nil {
			return err
		}
		for _, x := range writes {
			is := make([]byte, len(x.bytes))
			if _, err := m.ReadAt(is, x.at); err != nil || !bytes.Equal(is, x.bytes) {
				return errors.Join(fmt.Errorf("the disk does not hold the table of partitions that was written at byte %d", x.at), err)
			}
		}
	}
	return nil
}

// Seal writes the ends of an image to a disk that has the rest of it. After that the disk can boot.
func (d *Device) Seal(w Whole, head, tail []byte) error {
	size, err := d.Size()
	if err == nil {
		// The kernel's cache of the disk may be older than later writes through its partitions.
		err = forget(d.file)
	}
	if err != nil {
		return err
	}
	return sealed(d, w, head, tail, size)
}

// Lend tells the kernel the partitions of an image that was written but not sealed, so no table has them. They
// disappear when the disk is opened and closed again.
func Lend(ctx context.Context, h *inside.Host, l item.Layout, name string, w Whole) error {
	m, err := places(ctx, h, l)
	if err != nil {
		return err
	}
	d := m.found[name]
	f, err := os.OpenFile(node(h, d.Name), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, p := range w.Parts {
		if err := lend(f, p.Number, p.Start, p.Bytes); err != nil {
			return fmt.Errorf("the partition %d of the disk %s: %w", p.Number, d, err)
		}
	}
	return m.settle(ctx, w.laidOut(name))
}

// Settle waits until the kernel sees the partitions of an image, as in the disk's table.
func Settle(ctx context.Context, h *inside.Host, l item.Layout, name string, w Whole) error {
	m, err := places(ctx, h, l)
	if err != nil {
		return err
	}
	return m.settle(ctx, w.laidOut(name))
}

// laidOut is the disk of a layout with the partitions of an image.
func (w Whole) laidOut(name string) item.LayoutDisk {
	d := item.LayoutDisk{Name: name, Sector: w.sector}
	for _, p := range w.Parts {
		s := int64(w.sector)
		d.Partitions = append(d.Partitions, item.LayoutPartition{Number: p.Number, First: p.Start / s, Last: (p.Start+p.Bytes)/s - 1})
	}
	return d
}

// Twins are other disks of the machine that contain something with a UUID of the image. A system that looks for the
// UUID could find either.
func Twins(ctx context.Context, h *inside.Host, l item.Layout, name string, w Whole) (twins []string, err error) {
	seen, err := Observe(ctx, h)
	if err != nil {
		return nil, err
	}
	found, err := compare(l, seen)
	if err != nil {
		return nil, err
	}
	for _, d := range seen {
		if d.Name == found[name].Name {
			continue
		}
		for _, p := range w.Parts {
			for _, its := range p.Holds {
				if slices.ContainsFunc(d.Holds, func(h item.Signature) bool { return h.Kind == its.Kind && h.UUID != "" && h.UUID == its.UUID }) {
					twins = append(twins, fmt.Sprintf("%s has %s %s", d, its.Kind, its.UUID))
				}
			}
		}
	}
	return twins, nil
}
