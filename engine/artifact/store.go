package artifact

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Options configure a store. Each zero value means the default.
type Options struct {
	// Space is the maximum total size of the files in bytes.
	Space int64
	// Reserve is how many bytes stay free on the disk, for the daemon's records.
	Reserve int64
	// Named returns the digests that must not be removed to make room. If it
	// fails, nothing is removed.
	Named func() (map[string]bool, error)
	// Forget is called before Collect removes files, and none is removed if it fails; nil for nothing.
	Forget func(ctx context.Context, files []Info) error
	// Framer converts whole-disk images to frames; empty if the store only keeps them.
	Framer Framer
	Log    *slog.Logger

	disk disk // replaced in tests
}

// Defaults of Options.
const (
	DefaultSpace   = 50e9
	defaultReserve = 512 << 20
)

// Store keeps files by digest in a folder, which one process writes:
//
//	lock                 held by that process
//	files/DIGEST         a whole, verified file
//	files/DIGEST.json    its name, size and source
//	frames/DIGEST.FORM   the digest of the frames of an image in that form
//	partial/DIGEST       a file that is being fetched, or was in part
//	partial/DIGEST.json  what the server says that the part is of
//	partial/new-…        a file whose digest is not known yet
type Store struct {
	dir  string
	opts Options
	lock *os.File

	mu      sync.Mutex
	files   map[string]Info
	frames  map[string]string // digests of frames, by the file in frames/
	claimed int64             // bytes that writers have yet to write
	// writing has a channel for each digest being written. It is closed when
	// the writing has ended.
	writing map[string]chan struct{}
}

// partialsFor is how long untouched parts are kept.
const partialsFor = 7 * 24 * time.Hour

// Open opens the store in a folder, which it creates if necessary.
func Open(dir string, o Options) (*Store, error) {
	o.Space = cmp.Or(o.Space, int64(DefaultSpace))
	o.Reserve = cmp.Or(o.Reserve, defaultReserve)
	o.disk = cmp.Or[disk](o.disk, realDisk{})
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Named == nil {
		o.Named = func() (map[string]bool, error) { return nil, nil }
	}
	s := &Store{dir: dir, opts: o, files: map[string]Info{}, frames: map[string]string{}, writing: map[string]chan struct{}{}}
	for _, d := range []string{dir, s.path("files"), s.path("frames"), s.path("partial")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("open artifact store: %w", err)
		}
	}
	var err error
	if s.lock, err = lockFile(s.path("lock")); err != nil {
		return nil, fmt.Errorf("open artifact store %s: %w", dir, err)
	}
	if err := errors.Join(s.load(), s.tidy(), s.loadFrames()); err != nil {
		s.lock.Close()
		return nil, fmt.Errorf("open artifact store %s: %w", dir, err)
	}
	return s, nil
}

// ErrLocked is wrapped if another process has the store open.
var ErrLocked = errors.New("another process has it open")

func lockFile(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, ErrLocked
		}
		return nil, err
	}
	return f, nil
}

// Close lets another process open the store.
func (s *Store) Close() error { return s.lock.Close() }

func (s *Store) path(parts ...string) string {
	return filepath.Join(append([]string{s.dir}, parts...)...)
}

func (s *Store) file(digest string) string { return s.path("files", digest) }

// note is the format of files/DIGEST.json.
type note struct {
	Name   string    `json:"name"`
	Size   int64     `json:"size"`
	Source string    `json:"source,omitempty"`
	Added  time.Time `json:"added"`
}

// load reads what the store has. It removes a file whose size has changed since
// its verification.
func (s *Store) load() error {
	entries, err := os.ReadDir(s.path("files"))
	if err != nil {
		return err
	}
	for _, e := range entries {
		digest := e.Name()
		if !IsDigest(digest) {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		var n note
		text, err := os.ReadFile(s.file(digest) + ".json")
		if err == nil {
			err = json.Unmarshal(text, &n)
		}
		if err != nil || !info.Mode().IsRegular() || n.Size != info.Size() {
			s.opts.Log.Warn("artifact removed: its file is not as Slipway stored it", "sha256", digest, "size", info.Size(), "stored", n.Size)
			if err := s.unlink(digest); err != nil {
				return err
			}
			continue
		}
		s.files[digest] = Info{SHA256: digest, Size: n.Size, Name: n.Name, Source: n.Source, Added: n.Added, Used: info.ModTime()}
	}
	return nil
}

// tidy removes unfinished work of earlier processes that nobody will continue.
func (s *Store) tidy() error {
	notes, err := filepath.Glob(s.path("files", "*.json"))
	if err != nil {
		return err
	}
	for _, n := range notes {
		if _, ok := s.files[strings.TrimSuffix(filepath.Base(n), ".json")]; !ok {
			err = errors.Join(err, os.Remove(n))
		}
	}
	parts, rerr := os.ReadDir(s.path("partial"))
	for _, p := range parts {
		info, ierr := p.Info()
		digest := strings.TrimSuffix(p.Name(), ".json")
		_, whole := s.files[digest]
		if ierr != nil || !IsDigest(digest) || whole || time.Since(info.ModTime()) > partialsFor {
			err = errors.Join(err, os.Remove(s.path("partial", p.Name())))
		}
	}
	return errors.Join(err, rerr)
}

func (s *Store) unlink(digest string) error {
	err := os.Remove(s.file(digest))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if jerr := os.Remove(s.file(digest) + ".json"); !errors.Is(jerr, fs.ErrNotExist) {
		err = errors.Join(err, jerr)
	}
	return err
}

// List describes the files in the store, sorted by name.
func (s *Store) List() []Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Info, 0, len(s.files))
	for _, i := range s.files {
		all = append(all, i)
	}
	slices.SortFunc(all, func(a, b Info) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.SHA256, b.SHA256)) })
	return all
}

// Originals describes the files without the frames that were made of them here, by digest.
func (s *Store) Originals() map[string]Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := maps.Clone(s.files)
	for _, its := range s.frames {
		delete(all, its)
	}
	return all
}

// Get describes one file.
func (s *Store) Get(digest string) (Info, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.files[digest]
	return i, ok
}

// Space returns the present and the maximum size of the store in bytes.
func (s *Store) Space() (used, most int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.usedLocked(), s.opts.Space
}

// Reader opens a file for reading.
func (s *Store) Reader(digest string) (*os.File, Info, error) {
	i, ok := s.Get(digest)
	if !ok {
		return nil, Info{}, fmt.Errorf("%w: %s", ErrNotFound, digest)
	}
	f, err := os.Open(s.file(digest))
	if err != nil {
		return nil, Info{}, err
	}
	return f, i, nil
}

// Content returns a file's content and its size. Its error wraps ErrNotFound if the
// store does not have the file.
func (s *Store) Content(digest string) (io.ReadCloser, int64, error) {
	f, i, err := s.Reader(digest)
	if err != nil {
		return nil, 0, err
	}
	return f, i.Size, nil
}

// Use notes that a file is needed now.
func (s *Store) Use(digest string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.files[digest]
	if !ok {
		return
	}
	i.Used = time.Now()
	s.files[digest] = i
	if err := os.Chtimes(s.file(digest), time.Time{}, i.Used); err != nil {
		s.opts.Log.Warn("use of an artifact not noted", "sha256", digest, "err", err)
	}
}

// begin makes the caller the only writer of a digest. It waits for another writer
// to end, and returns false if the file exists then.
func (s *Store) begin(ctx context.Context, digest string) (end func(), needed bool, err error) {
	for {
		s.mu.Lock()
		if _, ok := s.files[digest]; ok {
			s.mu.Unlock()
			return nil, false, nil
		}
		busy := s.writing[digest]
		if busy == nil {
			done := make(chan struct{})
			s.writing[digest] = done
			s.mu.Unlock()
			return func() {
				s.mu.Lock()
				delete(s.writing, digest)
				s.mu.Unlock()
				close(done)
			}, true, nil
		}
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		case <-busy:
		}
	}
}

// finish makes a complete, verified and synced part visible under its digest.
func (s *Store) finish(part string, i Info) error {
	text, err := json.Marshal(note{Name: i.Name, Size: i.Size, Source: i.Source, Added: i.Added})
	if err != nil {
		return err
	}
	temp := part + ".note"
	if err := writeSynced(temp, text); err != nil {
		return err
	}
	err = errors.Join(
		os.Rename(temp, s.file(i.SHA256)+".json"),
		os.Chmod(part, 0o400),
		os.Chtimes(part, time.Time{}, i.Used))
	if err == nil {
		err = os.Rename(part, s.file(i.SHA256))
	}
	if err == nil {
		err = syncFolder(s.path("files"))
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[i.SHA256] = i
	return nil
}

func writeSynced(name string, text []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

func syncFolder(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Add stores what a reader returns: size bytes, or 0 if unknown. A given digest
// must match. progress is called with the bytes so far.
func (s *Store) Add(ctx context.Context, from io.Reader, size int64, digest, name, source string, progress func(int64)) (Info, error) {
	if digest != "" {
		end, needed, err := s.begin(ctx, digest)
		if err != nil {
			return Info{}, err
		}
		if !needed {
			i, _ := s.Get(digest)
			return i, nil
		}
		defer end()
	}
	p, err := s.newPart("new-" + rand.Text())
	if err != nil {
		return Info{}, err
	}
	defer p.abandon()
	if err := p.expect(size); err != nil {
		return Info{}, err
	}
	if err := p.copy(ctx, from, progress); err != nil {
		return Info{}, err
	}
	got := hex.EncodeToString(p.sum.Sum(nil))
	if digest == "" {
		end, needed, err := s.begin(ctx, got)
		if err != nil {
			return Info{}, err
		}
		if !needed {
			i, _ := s.Get(got)
			return i, nil
		}
		defer end()
	} else if got != digest {
		return Info{}, mismatch(digest, got, p.size, cmp.Or(source, name))
	}
	return p.complete(got, name, source)
}

func mismatch(want, got string, size int64, from string) error {
	return sentence(ErrMismatch, "the file from %s has the SHA-256 %s (%s), and %s is expected: either the file was replaced, "+
		"or the digest is not the file's; compare with `sha256sum`, then change the digest in the design or put the file back",
		from, got, Bytes(size), want)
}

// Checked is the result of Verify for one file.
type Checked struct {
	Info
	// Got is its present digest. A file with another one was damaged and has been removed.
	Got string `json:"got"`
	Err string `json:"error,omitempty"`
}

// Verify reads all files again, and removes those that have changed. It calls
// each with the result for a file, and progress with the bytes read so far and
// in total.
func (s *Store) Verify(ctx context.Context, progress func(have, of int64), each func(Checked)) error {
	var have, of int64
	all := s.List()
	for _, i := range all {
		of += i.Size
	}
	for _, i := range all {
		c := Checked{Info: i}
		f, _, err := s.Reader(i.SHA256)
		if err != nil {
			if _, still := s.Get(i.SHA256); !still {
				continue // removed meanwhile
			}
			c.Err = err.Error()
			each(c)
			continue
		}
		sum := sha256.New()
		_, err = io.Copy(sum, &watched{ctx: ctx, Reader: f, read: func(n int64) {
			have += n
			progress(have, of)
		}})
		f.Close()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if c.Got = hex.EncodeToString(sum.Sum(nil)); err != nil || c.Got != i.SHA256 {
			if err != nil {
				c.Got, c.Err = "", err.Error()
			}
			if rerr := s.Remove(i.SHA256); rerr != nil {
				c.Err = errors.Join(err, rerr).Error()
			}
		}
		each(c)
	}
	return nil
}

// watched is a reader that reports how much was read, and ends with its context.
type watched struct {
	io.Reader
	ctx  context.Context
	read func(n int64)
}

func (w *watched) Read(p []byte) (int, error) {
	if w.ctx.Err() != nil {
		return 0, context.Cause(w.ctx)
	}
	n, err := w.Reader.Read(p)
	if n > 0 && w.read != nil {
		w.read(int64(n))
	}
	return n, err
}

// Remove removes a file. Present readers can continue.
func (s *Store) Remove(digest string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.files, digest)
	return s.unlink(digest)
}
