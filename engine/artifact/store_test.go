package artifact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// image is content that repeats nowhere.
func image(size int) []byte {
	b := make([]byte, 0, size+sha256.Size)
	for next := sha256.Sum256([]byte("image")); len(b) < size; next = sha256.Sum256(next[:]) {
		b = append(b, next[:]...)
	}
	return b[:size]
}

func openStore(t *testing.T, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func add(t *testing.T, s *Store, content []byte, name string) Info {
	t.Helper()
	i, err := s.Add(t.Context(), bytes.NewReader(content), 0, "", name, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func content(t *testing.T, s *Store, digest string) string {
	t.Helper()
	f, _, err := s.Reader(digest)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// left are the files below a store that are not whole ones.
func left(t *testing.T, s *Store) []string {
	t.Helper()
	parts, err := filepath.Glob(filepath.Join(s.dir, "partial", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return parts
}

func TestAFileIsKeptByItsDigest(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, Options{})
	i := add(t, s, []byte("abc"), "/some where/Debian 12.iso")
	if i.SHA256 != digestOf([]byte("abc")) || i.Size != 3 || i.Name != "Debian-12.iso" {
		t.Errorf("it is %+v", i)
	}
	if again := add(t, s, []byte("abc"), "other.iso"); again.Name != i.Name {
		t.Errorf("added again it is %+v", again)
	}
	if left := left(t, s); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	s.Close()
	s = openStore(t, dir, Options{})
	if all := s.List(); len(all) != 1 || all[0].SHA256 != i.SHA256 || all[0].Name != i.Name || !all[0].Added.Equal(i.Added) {
		t.Errorf("after reopening there is %+v, before %+v", all, i)
	}
	if got := content(t, s, i.SHA256); got != "abc" {
		t.Errorf("its content is %q", got)
	}
	if _, _, err := s.Reader(digestOf([]byte("x"))); !errors.Is(err, ErrNotFound) {
		t.Errorf("another one: %v", err)
	}
}

func TestAnotherDigestIsNotKept(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{})
	want := digestOf([]byte("abc"))
	_, err := s.Add(t.Context(), strings.NewReader("abd"), 0, want, "x.iso", "", nil)
	if !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), digestOf([]byte("abd"))) {
		t.Errorf("got %v, want a mismatch that names both digests", err)
	}
	if all, rest := s.List(), left(t, s); len(all)+len(rest) > 0 {
		t.Errorf("kept: %v, left: %v", all, rest)
	}
}

func TestOneProcessHasTheStore(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, Options{})
	if _, err := Open(dir, Options{}); !errors.Is(err, ErrLocked) {
		t.Errorf("a second one: %v", err)
	}
	s.Close()
	openStore(t, dir, Options{})
}

// What a crash or a person left in the folder is never taken for a whole file.
func TestOnlyWholeFilesCountAfterACrash(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, Options{})
	short, whole := add(t, s, image(1000), "short.iso"), add(t, s, image(2000), "whole.iso")
	s.Close()
	gone := digestOf([]byte("gone"))
	old := filepath.Join(dir, "partial", digestOf([]byte("old")))
	for name, text := range map[string]string{
		filepath.Join("files", gone+".json"):                  `{"name":"gone.iso","size":4}`,
		filepath.Join("files", digestOf([]byte("n"))):         "n", // without its note
		filepath.Join("partial", "new-x"):                     "half",
		filepath.Join("partial", digestOf([]byte("resumed"))): "half",
		filepath.Join("partial", digestOf([]byte("old"))):     "half",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-30 * 24 * time.Hour)
	if err := errors.Join(os.Truncate(s.file(short.SHA256), 999), os.Chtimes(old, long, long)); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, dir, Options{})
	if all := s.List(); len(all) != 1 || all[0].SHA256 != whole.SHA256 {
		t.Errorf("there is %+v, want the whole file alone", all)
	}
	if got := left(t, s); !slices.Equal(got, []string{filepath.Join(dir, "partial", digestOf([]byte("resumed")))}) {
		t.Errorf("parts that stay: %v, want the one that can be resumed", got)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "files", "*"))
	if len(files) != 2 {
		t.Errorf("files that stay: %v", files)
	}
}

func TestVerifyRemovesWhatIsDamaged(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{})
	bad, good := add(t, s, image(5000), "bad.iso"), add(t, s, image(5001), "good.iso")
	b := image(5000)
	b[77] ^= 1
	if err := errors.Join(os.Chmod(s.file(bad.SHA256), 0o600), os.WriteFile(s.file(bad.SHA256), b, 0o600)); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	var have, of int64
	err := s.Verify(t.Context(), func(h, o int64) { have, of = h, o }, func(c Checked) { got[c.Name] = c.Got })
	if err != nil || got["bad.iso"] != digestOf(b) || got["good.iso"] != good.SHA256 || have != 10001 || of != 10001 {
		t.Errorf("found %v, %d of %d bytes, %v", got, have, of, err)
	}
	if all := s.List(); len(all) != 1 || all[0].SHA256 != good.SHA256 {
		t.Errorf("there is %+v, want the good file", all)
	}
}

// Files that nothing names make room for another, the one that was not used for
// longest first; what is named never does.
func TestRoomIsMade(t *testing.T) {
	named := map[string]bool{}
	s := openStore(t, t.TempDir(), Options{Space: 1000, Named: func() (map[string]bool, error) { return named, nil }})
	var all []Info
	for n := range 3 {
		all = append(all, add(t, s, image(300-n), "x.iso"))
	}
	s.Use(all[0].SHA256)
	named[all[1].SHA256] = true
	last := add(t, s, image(290), "new.iso")
	has := func() (have []bool) {
		for _, i := range append(all[:3:3], last) {
			_, ok := s.Get(i.SHA256)
			have = append(have, ok)
		}
		return have
	}
	if got, want := has(), []bool{true, true, false, true}; !slices.Equal(got, want) {
		t.Errorf("after one more there are %v, want %v", got, want)
	}
	named[all[0].SHA256], named[last.SHA256] = true, true
	_, err := s.Add(t.Context(), bytes.NewReader(image(700)), 0, "", "large.iso", "", nil)
	if !errors.Is(err, ErrNoRoom) || !strings.Contains(err.Error(), "more do not fit into the artifact store") || !strings.Contains(err.Error(), "raise --artifact-space") {
		t.Errorf("with everything in use: %v", err)
	}
	if got, want := has(), []bool{true, true, false, true}; !slices.Equal(got, want) || len(left(t, s)) > 0 {
		t.Errorf("after a refusal there are %v and the parts %v", got, left(t, s))
	}
	if used, most := s.Space(); used != 300+299+290 || most != 1000 {
		t.Errorf("used are %d of %d bytes", used, most)
	}
}

// Nothing makes room while nobody knows what is in use.
func TestNothingMakesRoomBlindly(t *testing.T) {
	unknown := errors.New("no design yet")
	s := openStore(t, t.TempDir(), Options{Space: 1000, Named: func() (map[string]bool, error) { return nil, unknown }})
	i := add(t, s, image(600), "x.iso")
	if _, err := s.Add(t.Context(), bytes.NewReader(image(601)), 0, "", "y.iso", "", nil); !errors.Is(err, ErrNoRoom) {
		t.Errorf("got %v, want no room", err)
	}
	if _, err := s.Collect(t.Context(), 0, false); !errors.Is(err, unknown) {
		t.Errorf("collect: %v", err)
	}
	if _, ok := s.Get(i.SHA256); !ok {
		t.Error("it made room")
	}
}

func TestCollect(t *testing.T) {
	named := map[string]bool{}
	s := openStore(t, t.TempDir(), Options{Named: func() (map[string]bool, error) { return named, nil }})
	kept, fresh, gone := add(t, s, image(10), "kept.iso"), add(t, s, image(11), "fresh.iso"), add(t, s, image(12), "gone.iso")
	named[kept.SHA256] = true
	for _, i := range []Info{kept, gone} {
		s.mu.Lock()
		i.Used = time.Now().Add(-48 * time.Hour)
		s.files[i.SHA256] = i
		s.mu.Unlock()
	}
	for _, dry := range []bool{true, false} {
		got, err := s.Collect(t.Context(), 24*time.Hour, dry)
		if err != nil || len(got) != 1 || got[0].SHA256 != gone.SHA256 {
			t.Fatalf("dry %t: %v, %v", dry, got, err)
		}
		if _, there := s.Get(gone.SHA256); there != dry {
			t.Errorf("dry %t: it is there: %t", dry, there)
		}
	}
	if all := s.List(); len(all) != 2 || all[0].SHA256 != fresh.SHA256 {
		t.Errorf("there is %+v", all)
	}
}

// fullDisk has room for so many bytes, and says that it is full in the middle of
// a write as a real one does. It claims to have more, as quotas do.
type fullDisk struct {
	realDisk
	room  int64
	claim int64
	mu    sync.Mutex
}

type fullFile struct {
	diskFile
	disk *fullDisk
}

func (d *fullDisk) Open(name string) (diskFile, error) {
	f, err := d.realDisk.Open(name)
	return &fullFile{f, d}, err
}

func (d *fullDisk) Free(string) (int64, error) { return d.claim, nil }

func (f *fullFile) Write(p []byte) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	n := min(int64(len(p)), f.disk.room)
	m, err := f.diskFile.Write(p[:n])
	f.disk.room -= int64(m)
	if err == nil && m < len(p) {
		err = &os.PathError{Op: "write", Path: "x", Err: syscall.EDQUOT}
	}
	return m, err
}

func TestFullDisk(t *testing.T) {
	d := &fullDisk{room: 100_000, claim: 1 << 40}
	s := openStore(t, t.TempDir(), Options{disk: d})
	_, err := s.Add(t.Context(), bytes.NewReader(image(200_000)), 0, "", "x.iso", "", nil)
	if !errors.Is(err, ErrNoRoom) || !strings.Contains(err.Error(), "full") {
		t.Errorf("got %v, want that the disk is full", err)
	}
	if all, rest := s.List(), left(t, s); len(all)+len(rest) > 0 {
		t.Errorf("kept: %v, left: %v", all, rest)
	}
	if s.claimed != 0 {
		t.Errorf("%d bytes are still claimed", s.claimed)
	}
}

// The disk is not filled: the records are on it too.
func TestReserveOfTheDisk(t *testing.T) {
	d := &fullDisk{room: 1 << 40, claim: 10_000}
	s := openStore(t, t.TempDir(), Options{disk: d, Reserve: 9_000})
	if _, err := s.Add(t.Context(), bytes.NewReader(image(1001)), 0, "", "x.iso", "", nil); !errors.Is(err, ErrNoRoom) || !strings.Contains(err.Error(), "records") {
		t.Errorf("got %v, want that the records need the room", err)
	}
	if _, err := s.Add(t.Context(), bytes.NewReader(image(1000)), 0, "", "x.iso", "", nil); err != nil {
		t.Errorf("what fits: %v", err)
	}
}

// Of many who bring one file one writes it.
func TestOneWriterOfADigest(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{})
	digest := digestOf(image(1000))
	first, needed, err := s.begin(t.Context(), digest)
	if err != nil || !needed {
		t.Fatal(needed, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.begin(ctx, digest); !errors.Is(err, context.Canceled) {
		t.Errorf("who waits is not cancelled: %v", err)
	}
	var group sync.WaitGroup
	var mu sync.Mutex
	writers := 0
	for range 8 {
		group.Go(func() {
			end, needed, err := s.begin(t.Context(), digest)
			if err != nil {
				t.Error(err)
			}
			if !needed {
				return
			}
			mu.Lock()
			writers++
			mu.Unlock()
			defer end()
			p, err := s.newPart(digest)
			if err != nil {
				t.Error(err)
				return
			}
			defer p.abandon()
			if err := p.copy(t.Context(), bytes.NewReader(image(1000)), nil); err != nil {
				t.Error(err)
			}
			if _, err := p.complete(digest, "x.iso", ""); err != nil {
				t.Error(err)
			}
		})
	}
	first()
	group.Wait()
	if writers != 1 {
		t.Errorf("%d have written it", writers)
	}
}

func TestFileNames(t *testing.T) {
	for from, want := range map[string]string{
		"http://h/a/debian12.iso":         "debian12.iso",
		"http://h/a/debian12.iso?token=x": "debian12.iso",
		"http://h/":                       "image",
		"http://h/%2e%2e%2fetc%2fpasswd":  "passwd",
		"http://h/b\u00fcro image.img":    "b-ro-image.img",
		"C:\\x y.iso":                     "C--x-y.iso",
		".iso":                            "image.iso",
		"http://h/" + strings.Repeat("x", 200) + ".iso": strings.Repeat("x", 60) + ".iso",
		"http://h/x." + strings.Repeat("y", 200):        ("x." + strings.Repeat("y", 200))[:64],
	} {
		if got := fileName(from); got != want {
			t.Errorf("%s is called %q, want %q", from, got, want)
		}
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1 kB", 310e6: "310 MB", 4_700_000_000: "4.7 GB", 50e9: "50 GB"} {
		if got := Bytes(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}
