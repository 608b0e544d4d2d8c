package disk

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/tests/nspawn"
)

// madeBy is a file of some bytes that sfdisk has written a table to.
func madeBy(t *testing.T, size int64, script string) *os.File {
	t.Helper()
	nspawn.Require(t, "sfdisk")
	f := sparse(t, size)
	cmd := exec.Command("sfdisk", "-q", f.Name())
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return f
}

const usualDisk = "label: gpt\nsize=8MiB, type=U\nsize=3MiB, type=21686148-6449-6E6F-744E-656564454649\ntype=L\n"

// readTableOf is what sfdisk reads of a disk, and what it objects to.
func readTableOf(t *testing.T, path string) (parts []string, last int64, verdict string) {
	t.Helper()
	out, err := exec.Command("sfdisk", "--json", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	var read struct {
		Table struct {
			LastLBA int64
			Parts   []struct {
				Start, Size json.Number
				UUID        string
			} `json:"partitions"`
		} `json:"partitiontable"`
	}
	if err := json.Unmarshal(out, &read); err != nil {
		t.Fatal(err)
	}
	for _, p := range read.Table.Parts {
		parts = append(parts, string(p.Start)+"+"+string(p.Size)+" "+p.UUID)
	}
	said, _ := exec.Command("sfdisk", "--verify", path).CombinedOutput()
	return parts, read.Table.LastLBA, string(said)
}

// An image of sfdisk's is sealed onto disks that are as large as it and larger: sfdisk reads the
// same partitions of both tables, the second one at the end of the disk, and objects to nothing.
func TestSealedOntoALargerDisk(t *testing.T) {
	const size = 40 * mib
	im := madeBy(t, size, usualDisk)
	w, err := ReadWhole(im, size, 512)
	if err != nil {
		t.Fatal(err)
	}
	first, last := w.Ends()
	if w.Kind != "gpt" || len(w.Parts) != 3 || !w.Parts[0].EFI || w.Parts[2].EFI || w.Parts[0].GUID == "" || first != mib {
		t.Fatalf("read is %+v", w)
	}
	want, _, _ := readTableOf(t, im.Name())
	head, tail := make([]byte, first), make([]byte, size-last)
	im.ReadAt(head, 0)
	im.ReadAt(tail, last)
	for _, disk := range []int64{size, size + 512, 100 * mib, 3 << 40} {
		d := sparse(t, disk)
		if err := sealed(d, w, head, tail, disk); err != nil {
			t.Fatal(err)
		}
		got, lastLBA, said := readTableOf(t, d.Name())
		if strings.Join(got, "\n") != strings.Join(want, "\n") || lastLBA != disk/512-34 || !strings.Contains(said, "No errors detected") {
			t.Errorf("%d bytes: %q, up to %d, %s", disk, got, lastLBA, said)
		}
		if table, ok, err := readGPT(mustPart(t, d, disk), 512, disk/512-1); err != nil || !ok || len(table.parts) != 3 {
			t.Errorf("%d bytes: the second table: %+v, %t, %v", disk, table, ok, err)
		}
	}
}

func mustPart(t *testing.T, f *os.File, size int64) part {
	t.Helper()
	p, err := openPart(f, size)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A disk with an MBR gets it as it is.
func TestSealedMBR(t *testing.T) {
	const size = 20 * mib
	im := madeBy(t, size, "label: dos\nsize=8MiB, type=ef\ntype=83, bootable\n")
	w, err := ReadWhole(im, size, 512)
	if err != nil || w.Kind != "mbr" || !w.Parts[0].EFI {
		t.Fatalf("%+v, %v", w, err)
	}
	first, last := w.Ends()
	head, tail := make([]byte, first), make([]byte, size-last)
	im.ReadAt(head, 0)
	d := sparse(t, 30*mib)
	if err := sealed(d, w, head, tail, 30*mib); err != nil {
		t.Fatal(err)
	}
	want, _, _ := readTableOf(t, im.Name())
	if got, _, said := readTableOf(t, d.Name()); strings.Join(got, " ") != strings.Join(want, " ") || !strings.Contains(said, "No errors") {
		t.Errorf("%q, %s", got, said)
	}
}

// A cut of the sealing leaves a disk without a table or with one of the two, which is whole.
func TestSealingIsCut(t *testing.T) {
	const size, disk = 40 * mib, 50 * mib
	im := madeBy(t, size, usualDisk)
	w, err := ReadWhole(im, size, 512)
	if err != nil {
		t.Fatal(err)
	}
	first, last := w.Ends()
	head, tail := make([]byte, first), make([]byte, size-last)
	im.ReadAt(head, 0)
	for n := range 2 {
		d := &cutting{file: sparse(t, disk), left: n}
		if err := sealed(d, w, head, tail, disk); err == nil {
			t.Fatalf("cut at write %d: no error", n)
		}
		for _, at := range []int64{1, disk/512 - 1} {
			if table, ok, err := readGPT(mustPart(t, d.file, disk), 512, at); err != nil || ok && len(table.parts) != 3 {
				t.Errorf("cut at write %d: %+v, %v", n, table, err)
			}
		}
	}
}

// What a disk would not start with, or only half, is told before anything is written.
func TestImagesThatWouldNotStart(t *testing.T) {
	big := madeBy(t, 40*mib, usualDisk)
	cut := sparse(t, 30*mib)
	b := make([]byte, 30*mib)
	big.ReadAt(b, 0)
	cut.WriteAt(b, 0)
	noise := filepath.Join(t.TempDir(), "noise")
	if err := os.WriteFile(noise, []byte(strings.Repeat("noise ", 100_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := os.Open(noise)
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	for name, c := range map[string]struct {
		r      io.ReaderAt
		size   int64
		sector int
		says   string
	}{
		"nothing":           {sparse(t, 4*mib), 4 * mib, 512, "none for a disk with sectors of 512 bytes"},
		"noise":             {text, 600_000 / 512 * 512, 512, "none for a disk"},
		"another sector":    {big, 40 * mib, 4096, "sectors of another size than 4096 bytes"},
		"cut off":           {cut, 30 * mib, 512, "it was cut off"},
		"no partition":      {madeBy(t, 4*mib, "label: gpt\n"), 4 * mib, 512, "has no partition"},
		"extended":          {madeBy(t, 40*mib, "label: dos\nsize=8MiB\ntype=E\nsize=2MiB\n"), 40 * mib, 512, "an extended partition"},
		"of a few bytes":    {sparse(t, 512), 512, 512, "has 512 bytes"},
		"odd sectors":       {big, 40 * mib, 513, "sectors of 513"},
		"a list far behind": {madeBy(t, 40*mib, "label: gpt\ntable-length: 4\nfirst-lba: 10\nstart=10, size=8MiB\n"), 40 * mib, 512, ""},
	} {
		w, err := ReadWhole(c.r, c.size, c.sector)
		switch {
		case c.says == "" && err == nil && len(w.Parts) > 0:
		case !errors.Is(err, ErrNoTable) || !strings.Contains(err.Error(), c.says):
			t.Errorf("%s: %+v, %v, want %q", name, w, err, c.says)
		}
	}
}

// Whatever an image is, reading its table ends, and what is sealed lies within the disk.
func FuzzReadWhole(f *testing.F) {
	for _, script := range []string{"label: gpt\nsize=1MiB, type=U\ntype=L\n", "label: dos\nsize=1MiB, type=ef\ntype=83\n"} {
		path := filepath.Join(f.TempDir(), "disk")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			f.Fatal(err)
		}
		if err := os.Truncate(path, 4*mib); err != nil {
			f.Fatal(err)
		}
		cmd := exec.Command("sfdisk", "-q", path)
		cmd.Stdin = strings.NewReader(script)
		if out, err := cmd.CombinedOutput(); err != nil {
			f.Fatalf("%v\n%s", err, out)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[:20<<10], 512)
	}
	f.Fuzz(func(t *testing.T, head []byte, sector int) {
		const size, disk = 4 * mib, 5 * mib
		image := make([]byte, size)
		copy(image, head)
		w, err := ReadWhole(readerAt(image), size, sector)
		if err != nil {
			return
		}
		first, last := w.Ends()
		if first < 0 || last > size || first >= last {
			t.Fatalf("the partitions are from %d to %d of %d", first, last, size)
		}
		edges := min(first, edge)
		before, after, err := w.seal(image[:edges], image[max(last, size-edge):], disk)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range append(before, after...) {
			if x.at < 0 || x.at+int64(len(x.bytes)) > disk || x.at < last && x.at+int64(len(x.bytes)) > first {
				t.Fatalf("%d bytes are written at %d, and the partitions are from %d to %d", len(x.bytes), x.at, first, last)
			}
		}
	})
}

type readerAt []byte

func (r readerAt) ReadAt(b []byte, at int64) (int, error) {
	n := 0
	if at < int64(len(r)) {
		n = copy(b, r[at:])
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}
