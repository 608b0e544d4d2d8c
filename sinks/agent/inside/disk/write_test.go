package disk

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/layout"
	"github.com/slipway-gitops/slipway/engine/site"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// laidOut is the one disk of a layout of partitions.
func laidOut(t *testing.T, table string, bytes int64, sector int, sizes ...string) item.LayoutDisk {
	t.Helper()
	parts := map[string]site.Partition{}
	for i, text := range sizes {
		e, err := site.ParseExtent(text)
		if err != nil {
			t.Fatal(err)
		}
		parts[fmt.Sprintf("part-%d", i+1)] = site.Partition{Size: e, Number: i + 1}
	}
	n := &site.Node{Name: "n1", Storage: site.Storage{Disks: map[string]site.Disk{"os": {Match: &site.DiskMatch{Model: "*"}, Table: table, Partitions: parts}}}}
	l, findings := layout.Of(n, []item.Disk{{Name: "sda", Serial: "S1", Bytes: bytes, Sector: sector}})
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	return l.Disks[0]
}

// sparse is a file without any block.
func sparse(t *testing.T, bytes int64) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "disk"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := f.Truncate(bytes); err != nil {
		t.Fatal(err)
	}
	return f
}

// What is written is read again, by our own reader; see oracle_test.go for others.
func TestTablesAreReadAgain(t *testing.T) {
	for _, c := range []struct {
		table  string
		bytes  int64
		sector int
	}{{"gpt", 10 * gib, 512}, {"gpt", 10 * gib, 4096}, {"mbr", 10 * gib, 512}, {"gpt", 3 << 40, 512}, {"gpt", 40 * mib, 512}} {
		sizes := []string{"5MiB", "10%", ">1MiB"}
		d := laidOut(t, c.table, c.bytes, c.sector, sizes...)
		f := sparse(t, c.bytes)
		if err := lay(f, d, nil); err != nil {
			t.Fatal(err)
		}
		p, err := openPart(f, c.bytes)
		if err != nil {
			t.Fatal(err)
		}
		got, ok, err := readTable(p, c.sector)
		if !ok || err != nil {
			t.Fatalf("%+v: no table: %v", c, err)
		}
		want := table{kind: c.table, id: d.GUID}
		for _, x := range d.Partitions {
			e := entry{number: x.Number, first: x.First, last: x.Last, kind: x.Type, guid: x.GUID, name: x.Name, active: x.Active}
			if c.table == "mbr" {
				e.name = ""
			}
			want.parts = append(want.parts, e)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(table{}, entry{})); diff != "" {
			t.Errorf("%+v (-want, +got):\n%s", c, diff)
		}
		if c.table == "gpt" { // the copy alone is a table too
			if _, err := f.WriteAt(make([]byte, 64<<10), 0); err != nil {
				t.Fatal(err)
			}
			p, _ := openPart(f, c.bytes)
			if got, ok, _ := readTable(p, c.sector); !ok || got.id != d.GUID || len(got.parts) != 3 {
				t.Errorf("%+v: the copy at the end gives %+v", c, got)
			}
		}
	}
}

// A table that does not fit on the disk is not written at all.
func TestNoTableOutsideTheDisk(t *testing.T) {
	for name, change := range map[string]func(*item.LayoutDisk){
		"behind the end":  func(d *item.LayoutDisk) { d.Partitions[1].Last += 1 << 30 },
		"in the table":    func(d *item.LayoutDisk) { d.Partitions[0].First = 3 },
		"turned round":    func(d *item.LayoutDisk) { d.Partitions[0].First = d.Partitions[0].Last + 1 },
		"a number of 200": func(d *item.LayoutDisk) { d.Partitions[0].Number = 200 },
		"no GUID":         func(d *item.LayoutDisk) { d.Partitions[0].GUID = "x" },
		"no type":         func(d *item.LayoutDisk) { d.Partitions[0].Type = "" },
		"another table":   func(d *item.LayoutDisk) { d.Table = "bsd" },
	} {
		d := laidOut(t, "gpt", gib, 512, "100MiB", "200MiB")
		change(&d)
		f := &cutting{file: sparse(t, gib), left: -1}
		if err := lay(f, d, nil); err == nil || f.writes > 0 {
			t.Errorf("%s: %d writes, %v", name, f.writes, err)
		}
	}
}

// cutting is a disk whose power goes after some writes.
type cutting struct {
	file   *os.File
	left   int // writes; below 0 for all
	writes int
}

var errCut = errors.New("the power is gone")

func (c *cutting) ReadAt(b []byte, at int64) (int, error) { return c.file.ReadAt(b, at) }

func (c *cutting) WriteAt(b []byte, at int64) (int, error) {
	if c.left == 0 {
		// Half of it may be there.
		if _, err := c.file.WriteAt(b[:len(b)/2], at); err != nil {
			return 0, err
		}
		return 0, errCut
	}
	c.left--
	c.writes++
	return c.file.WriteAt(b, at)
}

func (c *cutting) Sync() error { return nil }

// The power goes at each write in turn: the disk has its old table, none, or the new one on
// a disk without signatures; and the same call from its start leads to the same bytes.
func TestLayIsCutAnywhere(t *testing.T) {
	const size = 40 * mib
	old := laidOut(t, "gpt", size, 512, "5MiB", "10MiB", ">1MiB")
	for i := range old.Partitions {
		old.Partitions[i].GUID = fmt.Sprintf("11111111-1111-1111-1111-11111111111%d", i)
	}
	old.GUID = "22222222-2222-2222-2222-222222222222"
	for _, table := range []string{"gpt", "mbr", ""} {
		d := laidOut(t, table, size, 512, "7MiB", "20%", ">1MiB")
		if table == "" { // a disk that is used as a whole
			d.Table, d.GUID, d.Partitions = "", "", nil
		}
		begin := func() *os.File {
			f := sparse(t, size)
			if err := lay(f, old, nil); err != nil {
				t.Fatal(err)
			}
			for _, p := range old.Partitions {
				swapOn(t, f, p.First*512)
			}
			return f
		}
		whole := &cutting{file: begin(), left: -1}
		was, err := probe(whole, size, 512)
		if err != nil || len(was) != 4 {
			t.Fatalf("%v, %v", was, err)
		}
		if err := lay(whole, d, was); err != nil {
			t.Fatal(err)
		}
		want := sum(t, whole.file, size)
		if whole.writes < 8 {
			t.Fatalf("%d writes", whole.writes)
		}
		for cut := range whole.writes {
			c := &cutting{file: begin(), left: cut}
			if err := lay(c, d, was); !errors.Is(err, errCut) {
				t.Fatalf("cut at write %d: %v", cut, err)
			}
			now, err := probe(c, size, 512)
			if err != nil {
				t.Fatal(err)
			}
			if i := slices.IndexFunc(now, func(s item.Signature) bool { return s.Kind == "gpt" || s.Kind == "mbr" }); i >= 0 && now[i].UUID == d.GUID {
				for _, s := range now {
					if s.Kind == "swap" {
						t.Errorf("%q, cut at write %d: there is the new table, and %v", table, cut, now)
					}
				}
			}
			c.left = -1
			if err := lay(c, d, now); err != nil {
				t.Fatal(err)
			}
			if got := sum(t, c.file, size); got != want {
				after, _ := probe(c, size, 512)
				t.Errorf("%q, cut at write %d: another end: %v", table, cut, after)
			}
		}
	}
}

// sum is that of all bytes of a disk.
func sum(t *testing.T, f *os.File, size int64) string {
	t.Helper()
	h := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, size)); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// swapOn puts a header of swap at a place.
func swapOn(t *testing.T, f *os.File, at int64) {
	t.Helper()
	b := make([]byte, 4096)
	copy(b[4086:], "SWAPSPACE2")
	little.PutUint32(b[1024:], 1)
	copy(b[1036:], bytes.Repeat([]byte{7}, 16))
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

// A large disk is neither read nor written whole: of 100 TB with 128 partitions it is less
// than a gigabyte.
func TestLargeDisks(t *testing.T) {
	sizes := []string{}
	for range 127 {
		sizes = append(sizes, "100GiB")
	}
	d := laidOut(t, "gpt", 100e12/512*512, 512, append(sizes, ">1MiB")...)
	m := &counting{}
	if err := lay(m, d, nil); err != nil {
		t.Fatal(err)
	}
	if m.written > gib {
		t.Errorf("%d bytes are written", m.written)
	}
	if _, err := probe(m, d.Bytes, 512); err != nil {
		t.Fatal(err)
	}
	if m.read > 128*mib {
		t.Errorf("%d bytes are read", m.read)
	}
}

// counting is a disk of zeros, and of what was written last at the places of a table.
type counting struct {
	read, written int64
	kept          []write
}

func (c *counting) Sync() error { return nil }

func (c *counting) WriteAt(b []byte, at int64) (int, error) {
	if c.written += int64(len(b)); len(b) <= 16<<10 && bytes.ContainsFunc(b, func(r rune) bool { return r != 0 }) {
		c.kept = append(c.kept, write{at, slices.Clone(b)})
	}
	return len(b), nil
}

func (c *counting) ReadAt(b []byte, at int64) (int, error) {
	c.read += int64(len(b))
	clear(b)
	for _, w := range c.kept {
		if from := w.at - at; from >= 0 && from < int64(len(b)) {
			copy(b[from:], w.bytes)
		}
	}
	return len(b), nil
}

// compare refuses each set of disks that is not that of the layout.
func TestAnotherSetOfDisksIsRefused(t *testing.T) {
	l := item.Layout{
		Disks:       []item.LayoutDisk{{Name: "a", Serial: "A", Bytes: 100, Sector: 512}, {Name: "k", Serial: "K", Bytes: 200, Sector: 512, Keep: true}},
		Filesystems: []item.LayoutFilesystem{{On: item.Place{Disk: "k", Partition: 1}, Type: "xfs", UUID: "u", Keep: true}},
		Destroys:    []item.Destroyed{{Name: "a", Held: []item.Signature{{Kind: "swap"}}}},
	}
	a := item.Disk{Name: "sda", Serial: "A", Bytes: 100, Sector: 512, Holds: []item.Signature{{Kind: "swap"}}}
	k := item.Disk{Name: "sdk", Serial: "K", Bytes: 200, Sector: 512, Holds: []item.Signature{{Partition: 1, Kind: "xfs", UUID: "u"}}}
	with := func(d item.Disk, change func(*item.Disk)) item.Disk { change(&d); return d }
	for name, c := range map[string]struct {
		seen []item.Disk
		says string
	}{
		"gone":             {[]item.Disk{k}, "the disk A (a, 100 B) is gone; there are: K (sdk, 200 B)"},
		"larger":           {[]item.Disk{with(a, func(d *item.Disk) { d.Bytes = 101 }), k}, "had 100 bytes in sectors of 512, and has 101"},
		"other sectors":    {[]item.Disk{with(a, func(d *item.Disk) { d.Sector = 4096 }), k}, "in sectors of 4096"},
		"another WWN":      {[]item.Disk{with(a, func(d *item.Disk) { d.WWN = "5" }), k}, "is gone"},
		"there twice":      {[]item.Disk{a, with(a, func(d *item.Disk) { d.Name = "sdb" }), k}, "is there 2 times"},
		"on another path":  {[]item.Disk{a, with(a, func(d *item.Disk) { d.Name, d.WWN = "sdb", "5" }), k}, "is there 2 times"},
		"read-only":        {[]item.Disk{with(a, func(d *item.Disk) { d.ReadOnly = true }), k}, "is read-only"},
		"not readable":     {[]item.Disk{with(a, func(d *item.Disk) { d.Unread = "input/output error" }), k}, "cannot be read: input/output error"},
		"the kept is gone": {[]item.Disk{a}, "the disk K (k, 200 B) is gone"},
		"the kept is new":  {[]item.Disk{a, with(k, func(d *item.Disk) { d.Holds = nil })}, "is to be kept, and its xfs u is not on it"},
	} {
		_, err := stateOf(l, c.seen)
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.HasSuffix(err.Error(), "nothing was written") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for want, seen := range map[State][]item.Disk{
		Untouched: {a, k, {Name: "other", Serial: "X"}},
		Laid:      {with(a, func(d *item.Disk) { d.Holds = nil }), k},
	} {
		if got, err := stateOf(l, seen); got != want || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	l.Disks[0].Table, l.Disks[0].GUID = "gpt", "g"
	if got, err := stateOf(l, []item.Disk{with(a, func(d *item.Disk) { d.Holds = nil }), k}); got != Begun || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}
