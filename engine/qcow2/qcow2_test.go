package qcow2_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/qcow2"
)

const mib = 1 << 20

// disk is some disk: noise, text that is easy to pack, and long holes.
func disk(size int) []byte {
	b := make([]byte, size)
	r := rand.New(rand.NewPCG(uint64(size), 2))
	for i := 0; i < min(size, mib); i++ {
		b[i] = byte(r.Uint32())
	}
	for i := 3 * mib; i < min(size, 5*mib); i++ {
		b[i] = "some text "[i%10]
	}
	if size > 8*mib {
		copy(b[size-700:], "the end")
	}
	return b
}

func qemu(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("qemu-img", args...).CombinedOutput(); err != nil {
		t.Fatalf("qemu-img %q: %v\n%s", args, err, out)
	}
}

func write(t *testing.T, raw []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "raw")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t *testing.T, path string) (*qcow2.Image, error) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	i, err := qcow2.Open(f, info.Size())
	if err == nil {
		t.Cleanup(i.Close)
	}
	return i, err
}

// holds compares all of an image with a disk, in pieces whose ends fit no cluster.
func holds(t *testing.T, i *qcow2.Image, want []byte) {
	t.Helper()
	if i.Size() != int64(len(want)) {
		t.Fatalf("the disk has %d bytes, want %d", i.Size(), len(want))
	}
	for at := 0; at < len(want); {
		b := make([]byte, min(777_777, len(want)-at))
		if n, err := i.ReadAt(b, int64(at)); err != nil || !bytes.Equal(b, want[at:at+len(b)]) {
			t.Fatalf("at %d: %d bytes, %v, or other bytes", at, n, err)
		}
		at += len(b)
	}
	if n, err := i.ReadAt(make([]byte, 10), i.Size()-3); n != 3 || err != io.EOF {
		t.Errorf("over the end: %d, %v", n, err)
	}
}

// What qemu-img makes is read as it was, in each form.
func TestImagesOfQEMU(t *testing.T) {
	for name, options := range map[string][]string{
		"plain":                  {},
		"version 2":              {"-o", "compat=0.10"},
		"clusters of 512":        {"-o", "cluster_size=512"},
		"clusters of 2 MiB":      {"-o", "cluster_size=2M"},
		"compressed":             {"-c"},
		"compressed, version 2":  {"-c", "-o", "compat=0.10"},
		"compressed, small":      {"-c", "-o", "cluster_size=4k"},
		"compressed, large":      {"-c", "-o", "cluster_size=2M"},
		"zstd":                   {"-c", "-o", "compression_type=zstd"},
		"zstd, small":            {"-c", "-o", "compression_type=zstd,cluster_size=512"},
		"zstd, large":            {"-c", "-o", "compression_type=zstd,cluster_size=2M"},
		"zeros that are written": {"-S", "0"},
		"preallocated":           {"-o", "preallocation=metadata"},
		"counts that are late":   {"-o", "lazy_refcounts=on"},
		"wide counts":            {"-o", "refcount_bits=64"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{11*mib + 512, 512} {
				raw := disk(size)
				to := filepath.Join(t.TempDir(), "image")
				qemu(t, append(append([]string{"convert", "-f", "raw", "-O", "qcow2"}, options...), write(t, raw), to)...)
				i, err := open(t, to)
				if err != nil {
					t.Fatal(err)
				}
				holds(t, i, raw)
			}
		})
	}
}

// An image with snapshots is what it is now; clusters that were set to zero are zeros, not what
// the snapshot has.
func TestSnapshotsAndZeros(t *testing.T) {
	raw := disk(6 * mib)
	at := filepath.Join(t.TempDir(), "image")
	qemu(t, "convert", "-f", "raw", "-O", "qcow2", write(t, raw), at)
	qemu(t, "snapshot", "-c", "before", at)
	for _, command := range []string{"write -P 7 64k 64k", "write -z 3M 1M", "discard 0 64k"} {
		if out, err := exec.Command("qemu-io", "-f", "qcow2", "-c", command, at).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	now := filepath.Join(t.TempDir(), "now")
	qemu(t, "convert", "-f", "qcow2", "-O", "raw", at, now)
	want, err := os.ReadFile(now)
	if err != nil || bytes.Equal(want, raw) {
		t.Fatal("nothing was changed", err)
	}
	i, err := open(t, at)
	if err != nil {
		t.Fatal(err)
	}
	holds(t, i, want)
}

// What needs another file or a key is refused, before anything else is read.
func TestRefused(t *testing.T) {
	folder := t.TempDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	base := write(t, disk(6*mib))
	qemu(t, "create", "-q", "-f", "qcow2", "-b", base, "-F", "raw", in("backed"))
	qemu(t, "create", "-q", "-f", "qcow2", "-b", "/etc/passwd", "-u", "-F", "raw", in("thief"), "1M")
	qemu(t, "create", "-q", "-f", "qcow2", "-o", "data_file="+in("data"), in("outside"), "1M")
	qemu(t, "create", "-q", "-f", "qcow2", "-o", "extended_l2=on", in("subclusters"), "1M")
	// qemu-img measures the processor to make LUKS, and fails where other programs use it: the header
	// of a plain image gets the method (crypt_method, 2 is LUKS).
	qemu(t, "create", "-q", "-f", "qcow2", in("encrypted"), "1M")
	plain, err := os.OpenFile(in("encrypted"), os.O_WRONLY, 0)
	if err == nil {
		_, err = plain.WriteAt([]byte{0, 0, 0, 2}, 32)
	}
	if err = errors.Join(err, plain.Close()); err != nil {
		t.Fatal(err)
	}
	qemu(t, "create", "-q", "-f", "qcow2", in("huge"), "3T")
	qemu(t, "create", "-q", "-f", "vmdk", in("vmdk"), "1M")
	for name, says := range map[string]string{
		"backed": "a backing file", "thief": "a backing file", "outside": "its data is in another file", "subclusters": "has subclusters",
		"encrypted": "is encrypted", "huge": "may have up to", "vmdk": "is not a qcow2 image",
	} {
		if _, err := open(t, in(name)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", name, err, says)
		}
	}
}

// An image that was cut off in a table or in its clusters is an error where it is read.
func TestCutOff(t *testing.T) {
	raw := disk(6 * mib)
	at := filepath.Join(t.TempDir(), "image")
	qemu(t, "convert", "-c", "-f", "raw", "-O", "qcow2", write(t, raw), at)
	whole, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{0, 60, 100, 200 << 10, len(whole) / 2} {
		i, err := qcow2.Open(bytes.NewReader(whole[:size]), int64(size))
		if err == nil {
			_, err = io.Copy(io.Discard, io.NewSectionReader(i, 0, i.Size()))
			i.Close()
		}
		if err == nil {
			t.Errorf("%d of %d bytes: no error", size, len(whole))
		}
	}
}

// made is an image of one cluster of 512 bytes with an entry of the second table.
func made(entry uint64, rest ...byte) []byte {
	b := make([]byte, 3*512)
	big := binary.BigEndian
	copy(b, "QFI\xfb")
	big.PutUint32(b[4:], 2)
	big.PutUint32(b[20:], 9)
	big.PutUint64(b[24:], 512)
	big.PutUint32(b[36:], 1)
	big.PutUint64(b[40:], 512)
	big.PutUint64(b[512:], 1024)
	big.PutUint64(b[1024:], entry)
	return append(b, rest...)
}

// Whatever a file is, reading it ends, gives errors, and takes little memory.
func FuzzOpen(f *testing.F) {
	f.Add(made(0))
	f.Add(made(1536, bytes.Repeat([]byte("x"), 512)...))
	f.Add(made(1<<62|1536, 0x4b, 0x04, 0x00))
	for _, options := range [][]string{{"-o", "cluster_size=512"}, {"-c", "-o", "cluster_size=512"}, {"-c", "-o", "compression_type=zstd,cluster_size=512"}, {"-o", "compat=0.10,cluster_size=1k"}} {
		folder := f.TempDir()
		raw, to := filepath.Join(folder, "raw"), filepath.Join(folder, "to")
		if err := os.WriteFile(raw, bytes.Repeat([]byte("text"), 4096), 0o600); err != nil {
			f.Fatal(err)
		}
		if out, err := exec.Command("qemu-img", append(append([]string{"convert", "-f", "raw", "-O", "qcow2"}, options...), raw, to)...).CombinedOutput(); err != nil {
			f.Fatalf("%v\n%s", err, out)
		}
		b, err := os.ReadFile(to)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		i, err := qcow2.Open(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			return
		}
		defer i.Close()
		if i.Size() <= 0 || i.Size() > qcow2.MaxSize {
			t.Fatalf("the disk has %d bytes", i.Size())
		}
		b := make([]byte, 5000)
		for _, at := range []int64{0, i.Size()/2 - 2500, i.Size() - 100} {
			if n, err := i.ReadAt(b, max(0, at)); n > len(b) || n < len(b) && err == nil {
				t.Fatalf("%d bytes at %d, %v", n, at, err)
			}
		}
	})
}
