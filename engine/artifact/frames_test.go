package artifact

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/frames"
)

// asFramer is the argument by which the test's own program is the process of a Framer.
const asFramer = "-frame-image"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == asFramer {
		os.Exit(FrameImage(os.Args[2], os.Stdin, os.Stdout, os.Stderr))
	}
	if len(os.Args) == 4 && os.Args[1] == asFramer {
		FrameImage(os.Args[2], os.Stdin, io.Discard, io.Discard)
		_, err := os.ReadFile("/proc/self/status")
		fmt.Print(err)
		return
	}
	os.Exit(m.Run())
}

// TestFramerIsConfined: the process of a Framer opens nothing.
func TestFramerIsConfined(t *testing.T) {
	out, err := exec.Command(os.Args[0], asFramer, Raw, "and look").Output()
	if err != nil || string(out) != "open /proc/self/status: operation not permitted" {
		t.Errorf("got %q, %v", out, err)
	}
}

func framer(t *testing.T) Framer {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Framer{self, asFramer}
}

const mib = 1 << 20

// aDisk is some disk with noise and long holes.
func aDisk(size int) []byte {
	b := make([]byte, size)
	r := rand.New(rand.NewPCG(uint64(size), 4))
	for i := range min(size, 100_000) {
		b[i] = byte(r.Uint32())
	}
	copy(b[size-20:], "the end")
	return b
}

// asQcow2 is the image of a disk as qemu-img makes it.
func asQcow2(t *testing.T, raw []byte, options ...string) []byte {
	t.Helper()
	from, to := filepath.Join(t.TempDir(), "raw"), filepath.Join(t.TempDir(), "qcow2")
	if err := os.WriteFile(from, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("qemu-img", append(append([]string{"convert", "-f", "raw", "-O", "qcow2"}, options...), from, to)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func put(t *testing.T, s *Store, content []byte, name string) Info {
	t.Helper()
	i, err := s.Add(t.Context(), bytes.NewReader(content), 0, "", name, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// unpacked is the disk in a file of frames of a store.
func unpacked(t *testing.T, s *Store, digest string) []byte {
	t.Helper()
	f, i, err := s.Reader(digest)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	file, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	at, err := frames.ListAt(file[len(file)-frames.TailBytes:], i.Size)
	if err != nil {
		t.Fatal(err)
	}
	l, err := frames.Parse(file[at:], i.Size)
	if err != nil {
		t.Fatal(err)
	}
	d, err := frames.NewDecoder()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var raw []byte
	for k, f := range l.Frames {
		b, err := d.Frame(l, k, file[f.At:][:f.Packed])
		if err != nil {
			t.Fatal(err)
		}
		raw = append(raw, b...)
	}
	return raw
}

// Images of each form become the same frames, made by another process; both files are found
// again by the next process, and frames that are gone are made again.
func TestImagesArePutIntoFrames(t *testing.T) {
	raw, dir := aDisk(19*mib+512), t.TempDir()
	s, err := Open(dir, Options{Framer: framer(t)})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]Info{Raw: put(t, s, raw, "a.raw"), Qcow2: put(t, s, asQcow2(t, raw, "-c"), "a.qcow2")}
	for form, i := range all {
		if _, ok := s.Frames(i.SHA256, form); ok {
			t.Errorf("%s: frames are there before they are made", form)
		}
		told := int64(0)
		its, err := s.frame(t.Context(), i.SHA256, form, func(n int64) { told = n })
		if err != nil || its.Name != "a.frames" || told != its.Size {
			t.Fatalf("%s: %+v, told %d, %v", form, its, told, err)
		}
		if !bytes.Equal(unpacked(t, s, its.SHA256), raw) {
			t.Errorf("%s: the frames have another disk", form)
		}
	}
	a, _ := s.Frames(all[Raw].SHA256, Raw)
	b, _ := s.Frames(all[Qcow2].SHA256, Qcow2)
	if a.SHA256 == "" || a.SHA256 != b.SHA256 || len(s.List()) != 3 {
		t.Errorf("one disk has two files of frames: %+v, %+v", a, b)
	}
	s.Close()
	if s, err = Open(dir, Options{Framer: framer(t)}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if again, ok := s.Frames(all[Raw].SHA256, Raw); !ok || again.SHA256 != a.SHA256 {
		t.Errorf("the next process does not find them: %+v", again)
	}
	if err := s.Remove(a.SHA256); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Frames(all[Raw].SHA256, Raw); ok {
		t.Error("frames are told that were removed")
	}
	if again, err := s.frame(t.Context(), all[Raw].SHA256, Raw, nil); err != nil || again.SHA256 != a.SHA256 {
		t.Errorf("they are not made again: %+v, %v", again, err)
	}
}

// What is no image is refused with a sentence, and leaves nothing behind.
func TestWhatIsNoImage(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{Framer: framer(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	backed := filepath.Join(t.TempDir(), "backed")
	if out, err := exec.Command("qemu-img", "create", "-q", "-f", "qcow2", "-b", "/etc/hostname", "-u", "-F", "raw", backed, "1M").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	thief, err := os.ReadFile(backed)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		content []byte
		form    string
		says    string
	}{
		"a backing file": {thief, Qcow2, "a backing file), which is not followed"},
		"raw as qcow2":   {aDisk(mib), Qcow2, "is not a qcow2 image"},
		"qcow2 as raw":   {asQcow2(t, aDisk(mib)), Raw, `write format: "qcow2"`},
		"packed":         {[]byte("\xfd7zXZ and so on"), Raw, "it is packed by xz: unpack it"},
		"half a sector":  {aDisk(mib + 100), Raw, "is a multiple of 512"},
		"another form":   {aDisk(mib + 512), "vmdk", "are known"},
	} {
		i := put(t, s, c.content, name)
		if _, err := s.frame(t.Context(), i.SHA256, c.form, nil); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	if left, err := os.ReadDir(filepath.Join(dir, "partial")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	s.opts.Framer = Framer{"/bin/echo", "no frames"}
	if _, err := s.frame(t.Context(), put(t, s, aDisk(2*mib), "x").SHA256, Raw, nil); err == nil || !strings.Contains(err.Error(), "has no list of frames") {
		t.Errorf("another process that gives no frames: %v", err)
	}
	s.opts.Framer = Framer{"/bin/false"}
	if _, err := s.frame(t.Context(), put(t, s, aDisk(3*mib), "y").SHA256, Raw, nil); err == nil || errors.Is(err, ErrRefused) {
		t.Errorf("a process that dies: %v", err)
	}
}

// The environment of the process is empty, and its time is bounded.
func TestTheFramerIsBounded(t *testing.T) {
	image, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer image.Close()
	t.Setenv("SECRET", "x")
	var out bytes.Buffer
	if err := (Framer{"/usr/bin/env"}).run(t.Context(), image, "-0", &out); err != nil || out.Len() > 0 {
		t.Errorf("the environment is %q, %v", out.String(), err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := (Framer{"/bin/sleep"}).run(ctx, image, "60", io.Discard); err == nil {
		t.Error("it goes on when its time is over")
	}
}

// A full store refuses frames as it refuses other files, and they are needed as long as their
// image is named.
func TestFramesTakeRoom(t *testing.T) {
	named := map[string]bool{}
	s, err := Open(t.TempDir(), Options{Framer: framer(t), Space: 3 * mib, Named: func() (map[string]bool, error) { return named, nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r := rand.New(rand.NewPCG(1, 9))
	noise := make([]byte, 2*mib)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	large := put(t, s, noise, "large.raw")
	named[large.SHA256] = true
	if _, err := s.frame(t.Context(), large.SHA256, Raw, nil); !errors.Is(err, ErrNoRoom) {
		t.Errorf("a full store: %v", err)
	}
	if err := s.Remove(large.SHA256); err != nil {
		t.Fatal(err)
	}
	small := put(t, s, aDisk(mib), "small.raw")
	its, err := s.frame(t.Context(), small.SHA256, Raw, nil)
	if err != nil {
		t.Fatal(err)
	}
	named = map[string]bool{small.SHA256: true}
	if gone, err := s.Collect(t.Context(), 0, false); err != nil || len(gone) > 0 {
		t.Errorf("collected: %+v, %v", gone, err)
	}
	if l, err := s.Listing(t.Context()); err != nil || len(l.Files) != 2 || !*l.Files[0].Needed || !*l.Files[1].Needed {
		t.Errorf("listed: %+v, %v", l, err)
	}
	named = nil
	if gone, err := s.Collect(t.Context(), 0, false); err != nil || len(gone) != 2 {
		t.Errorf("collected: %+v, %v", gone, err)
	}
	if _, ok := s.Frames(small.SHA256, Raw); ok || its.Size == 0 {
		t.Error("frames are told that were collected")
	}
}

// The fetcher is done with an image of a disk when it is in frames. One that is none is told.
func TestTheFetcherPutsImagesIntoFrames(t *testing.T) {
	folder := t.TempDir()
	good, bad := aDisk(mib), []byte("\x1f\x8b no image")
	for name, content := range map[string][]byte{"good.raw": good, "bad.raw": bad} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := OpenService(Config{Dir: t.TempDir(), Files: folder, Framer: framer(t)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	defer func() { cancel(); <-done; s.Close() }()
	s.Want([]File{
		{SHA256: digestOf(good), URL: "file://" + folder + "/good.raw", Form: Raw, For: "image good"},
		{SHA256: digestOf(bad), URL: "file://" + folder + "/bad.raw", Form: Raw, For: "image bad"},
	})
	for {
		g, b := s.State(digestOf(good)), s.State(digestOf(bad))
		if g.Ready && b.Why != "" {
			if !b.Person || !strings.Contains(b.Why, "it is packed by gzip") || b.Ready {
				t.Errorf("the bad one: %+v", b)
			}
			break
		}
		select {
		case <-s.Changes():
		case <-time.After(time.Minute):
			t.Fatalf("%+v, %+v", g, b)
		}
	}
	if i, ok := s.Frames(digestOf(good), Raw); !ok || !bytes.Equal(unpacked(t, s.Store, i.SHA256), good) {
		t.Error("the good one is not in frames")
	}
}
