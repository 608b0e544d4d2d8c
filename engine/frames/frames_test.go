package frames_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/frames"
)

const mib = 1 << 20

// image is some disk: noise, text, and long runs of zeros, of which one is a whole frame.
func image(size int) []byte {
	b := make([]byte, size)
	r := rand.New(rand.NewPCG(1, 2))
	for i := 0; i+8 <= min(size, 3*mib); i += 8 {
		for k := range 8 {
			b[i+k] = byte(r.Uint32())
		}
	}
	for i := 17 * mib; i < size; i += 97 {
		b[i] = 'x'
	}
	return b
}

func write(t *testing.T, raw []byte) (file []byte, w frames.Written) {
	t.Helper()
	var b bytes.Buffer
	w, err := frames.Write(&b, bytes.NewReader(raw), 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), w
}

// list reads the list as a program does that has the file.
func list(file []byte) (*frames.List, error) {
	if len(file) < frames.TailBytes {
		return nil, io.ErrUnexpectedEOF
	}
	at, err := frames.ListAt(file[len(file)-frames.TailBytes:], int64(len(file)))
	if err != nil {
		return nil, err
	}
	return frames.Parse(file[at:], int64(len(file)))
}

// Debian's zstd unpacks the file to the image, whose digest is the one that sha256sum has;
// and so does each frame by itself, in any order.
func TestOthersReadFrames(t *testing.T) {
	for _, size := range []int{512, 8 * mib, 8*mib + 512, 19*mib + 1024, 26 * mib} {
		raw := image(size)
		file, w := write(t, raw)
		path := filepath.Join(t.TempDir(), "image.zst")
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("sh", "-c", `zstd -dcq "$0" | sha256sum; sha256sum "$0"`, path).Output()
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(out), "\n")
		if sum := hex.EncodeToString(w.List.SHA256[:]); !strings.HasPrefix(lines[0], sum) {
			t.Errorf("%d bytes: zstd unpacks %s, want %s", size, lines[0], sum)
		}
		if sum := hex.EncodeToString(w.SHA256[:]); !strings.HasPrefix(lines[1], sum) || w.Bytes != int64(len(file)) {
			t.Errorf("%d bytes: the file is %s, want %s", size, lines[1], sum)
		}
		l, err := list(file)
		if err != nil {
			t.Fatal(err)
		}
		d, err := frames.NewDecoder()
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		for i := len(l.Frames) - 1; i >= 0; i-- {
			f := l.Frames[i]
			got, err := d.Frame(l, i, file[f.At:f.At+int64(f.Packed)])
			if want := raw[i*frames.Bytes:][:l.Size(i)]; err != nil || !bytes.Equal(got, want) || f.Zero != bytes.Equal(want, make([]byte, len(want))) {
				t.Errorf("%d bytes, frame %d: %v", size, i, err)
			}
		}
	}
}

// The same image gives the same bytes, however it is read.
func TestFramesAreTheSame(t *testing.T) {
	raw := image(20 * mib)
	file, _ := write(t, raw)
	var b bytes.Buffer
	if _, err := frames.Write(&b, &stuttering{raw}, 1<<40); err != nil || !bytes.Equal(b.Bytes(), file) {
		t.Errorf("it gives other bytes: %v", err)
	}
}

// stuttering gives odd amounts.
type stuttering struct{ left []byte }

func (s *stuttering) Read(b []byte) (int, error) {
	if len(s.left) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), 12345)], s.left)
	s.left = s.left[n:]
	return n, nil
}

func TestWhatIsNoImage(t *testing.T) {
	for name, c := range map[string]struct {
		size int
		most int64
		says string
	}{
		"nothing":          {0, mib, "has 0 bytes"},
		"half a sector":    {mib + 256, 2 * mib, "is a multiple of 512"},
		"more than may be": {mib + 512, mib, "more than 1048576 bytes"},
	} {
		if _, err := frames.Write(io.Discard, bytes.NewReader(make([]byte, c.size)), c.most); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// No changed byte of a file goes unnoticed: a changed frame has another digest, and a changed
// list does not hold together or has other digests than the frames.
func TestDamageIsNoticed(t *testing.T) {
	raw := image(17 * mib)
	file, _ := write(t, raw)
	r := rand.New(rand.NewPCG(5, 6))
	at := []int{0, len(file) - 1}
	for i := len(file) - 220; i < len(file); i++ { // all of the list
		at = append(at, i)
	}
	for range 100 {
		at = append(at, r.IntN(len(file)))
	}
	for _, i := range at {
		was := file[i]
		file[i] ^= 1 << r.IntN(8)
		if noticed := func() bool {
			l, err := list(file)
			if err != nil {
				return true
			}
			d, err := frames.NewDecoder()
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			whole := sha256.New()
			for k, f := range l.Frames {
				got, err := d.Frame(l, k, file[f.At:f.At+int64(f.Packed)])
				if err != nil {
					return true
				}
				whole.Write(got)
			}
			return !bytes.Equal(whole.Sum(nil), l.SHA256[:])
		}(); !noticed {
			t.Errorf("a change of byte %d of %d goes unnoticed", i, len(file))
		}
		file[i] = was
	}
}

// Whatever a file is, its list is read within bounds; one that is read holds together.
func FuzzList(f *testing.F) {
	for _, size := range []int{512, 8*mib + 512} {
		var b bytes.Buffer
		if _, err := frames.Write(&b, bytes.NewReader(make([]byte, size)), 1<<40); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	d, err := frames.NewDecoder()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		l, err := list(file)
		if err != nil {
			return
		}
		sum := int64(0)
		for i, frame := range l.Frames {
			if frame.At < 0 || frame.At+int64(frame.Packed) > int64(len(file)) {
				t.Fatalf("frame %d is from %d with %d bytes in a file of %d", i, frame.At, frame.Packed, len(file))
			}
			sum += int64(l.Size(i))
			if got, err := d.Frame(l, i, file[frame.At:][:frame.Packed]); err == nil && len(got) != l.Size(i) {
				t.Fatalf("frame %d has %d bytes", i, len(got))
			}
		}
		if sum != l.Image {
			t.Fatalf("the frames have %d bytes of %d", sum, l.Image)
		}
	})
}

// What is in a frame is unpacked within bounds, also where its digest is right.
func FuzzFrame(f *testing.F) {
	var b bytes.Buffer
	if _, err := frames.Write(&b, bytes.NewReader(make([]byte, mib)), 1<<40); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	d, err := frames.NewDecoder()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, packed []byte) {
		l := &frames.List{Image: mib, Frames: []frames.Frame{{Packed: len(packed), SHA256: sha256.Sum256(packed)}}}
		if got, err := d.Frame(l, 0, packed); err == nil && len(got) != mib {
			t.Errorf("%d bytes", len(got))
		}
	})
}
