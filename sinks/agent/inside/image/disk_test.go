package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/frames"
	"github.com/slipway-gitops/slipway/tests/nspawn"
)

// disk is a file that stands for one, full of what was there before. Its power goes after a
// number of writes.
type disk struct {
	*os.File
	left   int // writes; below 0 for all
	writes int
	log    []int64
	bad    func(b []byte, at int64) // changes what is read
}

var errCut = errors.New("the power is gone")

func newDisk(t *testing.T, size int64) *disk {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "disk"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	stale := bytes.Repeat([]byte("stale"), 1<<18)
	for at := int64(0); at < size; at += int64(len(stale)) {
		if _, err := f.WriteAt(stale[:min(int64(len(stale)), size-at)], at); err != nil {
			t.Fatal(err)
		}
	}
	return &disk{File: f, left: -1}
}

func (d *disk) WriteAt(b []byte, at int64) (int, error) {
	if d.left == 0 {
		n, err := d.File.WriteAt(b[:len(b)/2], at) // half of it may be there
		return n, errors.Join(errCut, err)
	}
	d.left--
	d.writes++
	d.log = append(d.log, at)
	return d.File.WriteAt(b, at)
}

func (d *disk) ReadAt(b []byte, at int64) (int, error) {
	n, err := d.File.ReadAt(b, at)
	if d.bad != nil {
		d.bad(b[:n], at)
	}
	return n, err
}

// whole is an image with a GPT and noise, zeros where a frame has nothing else.
func whole(t *testing.T, size int64) (raw, file []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "raw")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
	sh(t, `printf 'label: gpt\nsize=4MiB\n' | sfdisk -q "$1"`, path)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(uint64(size), 3))
	for i := 2 * mib; i < 5*mib; i++ {
		raw[i] = byte(r.Uint32())
	}
	var b bytes.Buffer
	if _, err := frames.Write(&b, bytes.NewReader(raw), 1<<40); err != nil {
		t.Fatal(err)
	}
	return raw, b.Bytes()
}

// writeWhole writes an image, and its ends after that.
func writeWhole(ctx context.Context, c *Checked, d *disk, size int64) (Result, error) {
	u, err := c.Write(ctx, d, size, mib, c.Unpacked-34*512)
	if err != nil {
		return u.Result, err
	}
	head := make([]byte, mib)
	if _, err := d.File.ReadAt(head, 0); err != nil || len(bytes.Trim(head, "\x00")) > 0 || len(u.Head) != mib {
		return u.Result, fmt.Errorf("a table is there before the end: %w", err)
	}
	if _, err := d.WriteAt(u.Tail, c.Unpacked-int64(len(u.Tail))); err != nil {
		return u.Result, err
	}
	_, err = d.WriteAt(u.Head, 0)
	return u.Result, err
}

func checkDisk(t *testing.T, s *served, room int64, memory bool) *Checked {
	t.Helper()
	o := Options{Room: room, wait: time.Microsecond}
	if memory {
		o.Memory = 1 << 30
	}
	c, err := Check(t.Context(), s, of(Disk, s.file), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// The disk is the image afterwards, as cmp has it, also where stale bytes were and where
// connections broke off in each frame; behind the image only the last MiB is cleared.
func TestWriteDisk(t *testing.T) {
	nspawn.Require(t, "cmp", "sfdisk")
	for _, size := range []int64{3 * mib, 26*mib + 512, 8 * mib} {
		raw, file := whole(t, size+2*mib)
		size += 2 * mib
		for _, memory := range []bool{true, false} {
			for _, more := range []int64{0, 5 * mib} {
				d := newDisk(t, size+more)
				c := checkDisk(t, &served{file: file, cut: 100_000}, size+more, memory)
				r, err := writeWhole(t.Context(), c, d, size+more)
				if err != nil || r.Unpacked != size {
					t.Fatalf("%d bytes: %+v, %v", size, r, err)
				}
				path := filepath.Join(t.TempDir(), "raw")
				if err := os.WriteFile(path, raw, 0o600); err != nil {
					t.Fatal(err)
				}
				sh(t, `cmp -n "$3" "$1" "$2"`, path, d.Name(), fmt.Sprint(size))
				if more > 0 {
					if rest := sh(t, `tail -c 5M "$1" | tr -d '\000' | wc -c`, d.Name()); strings.TrimSpace(rest) != fmt.Sprint(4*mib) {
						t.Errorf("%d bytes: behind the image %s bytes are left", size, rest)
					}
				}
				if last := d.log[len(d.log)-1]; last != 0 {
					t.Errorf("%d bytes: the last write is at %d", size, last)
				}
			}
		}
	}
}

// A disk that was cut off at any write has no table of partitions that sfdisk finds, but for
// the last write, after which all the rest is there; and the next run comes to its end.
func TestWriteIsCutAnywhere(t *testing.T) {
	nspawn.Require(t, "sfdisk")
	const size = 26*mib + 512
	raw, file := whole(t, size)
	all := newDisk(t, size)
	if _, err := writeWhole(t.Context(), checkDisk(t, &served{file: file}, size, true), all, size); err != nil {
		t.Fatal(err)
	}
	for n := range all.writes {
		d := newDisk(t, size)
		copy := raw[:mib] // a system was there before
		if _, err := d.File.WriteAt(copy, 0); err != nil {
			t.Fatal(err)
		}
		d.left = n
		c := checkDisk(t, &served{file: file}, size, true)
		if _, err := writeWhole(t.Context(), c, d, size); !errors.Is(err, errCut) {
			t.Fatalf("cut at write %d: %v", n, err)
		}
		if n > 0 && n < all.writes-1 {
			head := make([]byte, mib)
			if _, err := d.File.ReadAt(head, 0); err != nil || len(bytes.Trim(head, "\x00")) > 0 {
				t.Errorf("cut at write %d of %d: something is at the begin of the disk, %v", n, all.writes, err)
			}
		}
		d.left = -1
		if _, err := writeWhole(t.Context(), c, d, size); err != nil {
			t.Fatalf("after a cut at write %d: %v", n, err)
		}
		if got, err := os.ReadFile(d.Name()); err != nil || !bytes.Equal(got, raw) {
			t.Errorf("after a cut at write %d the disk is another one, %v", n, err)
		}
	}
}

// A frame with other bytes is asked for again; where it stays so, the disk has no table. An
// image that does not fit is refused before the first write.
func TestFramesThatAreWrong(t *testing.T) {
	nspawn.Require(t, "sfdisk")
	const size = 26*mib + 512
	raw, file := whole(t, size)
	for name, c := range map[string]struct {
		wrong int // connections that give other bytes, from the third on: Check uses two
		says  string
	}{"once": {1, ""}, "always": {100, "frame 1 of 4 has the SHA-256"}} {
		s := &served{file: file}
		checked := checkDisk(t, s, size, false)
		opened := s.opened
		s.damage = func(n int, _ int64, b []byte) []byte {
			if n -= opened; n >= 1 && n <= c.wrong {
				b[100] ^= 1
			}
			return b
		}
		d := newDisk(t, size)
		_, err := writeWhole(t.Context(), checked, d, size)
		if c.says == "" {
			if got, failed := os.ReadFile(d.Name()); err != nil || failed != nil || !bytes.Equal(got, raw) {
				t.Errorf("%s: %v, %v", name, err, failed)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.says) || d.log[len(d.log)-1] == 0 && len(d.log) > 2 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Check(t.Context(), &served{file: file}, of(Disk, file), Options{Room: size - 512, wait: time.Microsecond}); err == nil || !strings.Contains(err.Error(), "and the disk that it is for has") {
		t.Errorf("one that does not fit: %v", err)
	}
	d := newDisk(t, size-512)
	if _, err := writeWhole(t.Context(), checkDisk(t, &served{file: file}, size, true), d, size-512); err == nil || d.writes > 0 {
		t.Errorf("one that does not fit: %d writes, %v", d.writes, err)
	}
}

// A disk that does not hold what was written has no table.
func TestADiskThatLies(t *testing.T) {
	nspawn.Require(t, "sfdisk")
	const size = 10 * mib
	_, file := whole(t, size)
	d := newDisk(t, size)
	d.bad = func(b []byte, at int64) {
		if at <= 3*mib && 3*mib < at+int64(len(b)) {
			b[3*mib-at] ^= 1
		}
	}
	if _, err := writeWhole(t.Context(), checkDisk(t, &served{file: file}, size, true), d, size); err == nil || !strings.Contains(err.Error(), "does not hold what was written") {
		t.Errorf("got %v", err)
	}
	head := make([]byte, mib)
	if _, err := d.File.ReadAt(head, 0); err != nil || len(bytes.Trim(head, "\x00")) > 0 {
		t.Errorf("a table is there, %v", err)
	}
}

// A context that ends ends the writing.
func TestWriteEnds(t *testing.T) {
	nspawn.Require(t, "sfdisk")
	_, file := whole(t, 10*mib)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := writeWhole(ctx, checkDisk(t, &served{file: file}, 10*mib, true), newDisk(t, 10*mib), 10*mib); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// Any bytes of an image are had before it is written, over connections that break off.
func TestReadsFromAnywhere(t *testing.T) {
	nspawn.Require(t, "sfdisk")
	const size = 26*mib + 512
	raw, file := whole(t, size)
	for _, memory := range []bool{true, false} {
		c := checkDisk(t, &served{file: file, cut: 100_000}, size, memory)
		r, done, err := c.Reader(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		for _, at := range []int64{25 * mib, 0, 8*mib - 5, 3 * mib, size - 700} {
			b := make([]byte, 700)
			if n, err := r.ReadAt(b, at); n != 700 || err != nil || !bytes.Equal(b, raw[at:at+700]) {
				t.Errorf("at %d: %d bytes, %v", at, n, err)
			}
		}
		if n, err := r.ReadAt(make([]byte, 10), size-3); n != 3 || err != io.EOF {
			t.Errorf("over the end: %d, %v", n, err)
		}
	}
}
