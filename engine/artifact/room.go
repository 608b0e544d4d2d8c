package artifact

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// disk is the store's access to a disk that may be full.
type disk interface {
	// Open opens a file for reading and writing, and creates it if necessary.
	Open(name string) (diskFile, error)
	// Free returns how many bytes can be written in a folder.
	Free(dir string) (int64, error)
}

type diskFile interface {
	io.ReadWriteSeeker
	io.Closer
	Truncate(size int64) error
	Sync() error
}

type realDisk struct{}

func (realDisk) Open(name string) (diskFile, error) {
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
}

func (realDisk) Free(dir string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// usedLocked returns the total size of files and parts in bytes.
func (s *Store) usedLocked() int64 {
	var used int64
	for _, i := range s.files {
		used += i.Size
	}
	parts, _ := os.ReadDir(s.path("partial"))
	for _, p := range parts {
		if info, err := p.Info(); err == nil {
			used += info.Size()
		}
	}
	return used
}

// claimFree reserves bytes for a writer if there is room for them.
func (s *Store) claimFree(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	why, err := s.lacksLocked(n)
	if err != nil || why != "" {
		return false
	}
	s.claimed += n
	return true
}

// claim reserves bytes for a writer. Files that nothing names make room, least
// recently used first.
func (s *Store) claim(n int64) error {
	named, nerr := s.opts.Named() // calls others, so it runs before the lock
	s.mu.Lock()
	defer s.mu.Unlock()
	named = s.withFramesLocked(named)
	var unneeded int64
	for _, i := range s.files {
		if !named[i.SHA256] {
			unneeded += i.Size
		}
	}
	for {
		why, err := s.lacksLocked(n)
		if err != nil || why == "" {
			if err == nil {
				s.claimed += n
			}
			return err
		}
		victim, ok := s.victimLocked(named)
		if still, err := s.lacksLocked(n - unneeded); nerr != nil || !ok || still != "" || err != nil {
			return sentence(ErrNoRoom, "%s", why) // removing everything unneeded would not be enough
		}
		unneeded -= victim.Size
		s.opts.Log.Info("artifact removed to make room", "name", victim.Name, "sha256", victim.SHA256, "size", victim.Size)
		delete(s.files, victim.SHA256)
		if err := s.unlink(victim.SHA256); err != nil {
			return err
		}
	}
}

// lacksLocked says why there is no room for a number of bytes, empty if there is.
func (s *Store) lacksLocked(n int64) (why string, err error) {
	used := s.usedLocked()
	if used+s.claimed+n > s.opts.Space {
		return fmt.Sprintf("%s more do not fit into the artifact store, which holds %s and may hold %s; "+
			"remove images from the design and run `slipway artifact gc`, or raise --artifact-space", Bytes(n), Bytes(used+s.claimed), Bytes(s.opts.Space)), nil
	}
	free, err := s.opts.disk.Free(s.dir)
	if err == nil && free-s.claimed-n < s.opts.Reserve {
		return fmt.Sprintf("%s more do not fit onto the disk of %s, which has %s free, of which %s stay free for the daemon's records; make room there",
			Bytes(n), s.dir, Bytes(free-s.claimed), Bytes(s.opts.Reserve)), nil
	}
	return "", err
}

// victimLocked returns the next file to remove. It ignores parts that nobody
// fetches; Collect removes those.
func (s *Store) victimLocked(named map[string]bool) (Info, bool) {
	var victim Info
	for _, i := range s.files {
		if !named[i.SHA256] && (victim.SHA256 == "" || i.Used.Before(victim.Used)) {
			victim = i
		}
	}
	return victim, victim.SHA256 != ""
}

func (s *Store) giveBack(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claimed -= n
}

// Collect removes files that nothing names and that have not been used for some
// time, and parts that nobody fetches. With dry it only lists the files.
func (s *Store) Collect(ctx context.Context, unusedFor time.Duration, dry bool) ([]Info, error) {
	named, err := s.opts.Named()
	if err != nil {
		return nil, fmt.Errorf("what is in use is unknown: %w", err)
	}
	unused := s.unused(named, unusedFor)
	if dry {
		return unused, nil
	}
	if s.opts.Forget != nil {
		if err := s.opts.Forget(ctx, unused); err != nil {
			return nil, err
		}
		if named, err = s.opts.Named(); err != nil { // a commit may have come meanwhile
			return nil, fmt.Errorf("what is in use is unknown: %w", err)
		}
	}
	return s.discard(named, unused)
}

// unused are the files that nothing names and that have not been used for some time.
func (s *Store) unused(named map[string]bool, since time.Duration) (all []Info) {
	s.mu.Lock()
	defer s.mu.Unlock()
	named = s.withFramesLocked(named)
	for _, i := range s.files {
		if !named[i.SHA256] && time.Since(i.Used) >= since {
			all = append(all, i)
		}
	}
	slices.SortFunc(all, func(a, b Info) int { return strings.Compare(a.Name+a.SHA256, b.Name+b.SHA256) })
	return all
}

// discard removes files unless they were used or named meanwhile, and parts that nobody fetches.
func (s *Store) discard(named map[string]bool, unused []Info) (gone []Info, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	named = s.withFramesLocked(named)
	for _, i := range unused {
		if s.files[i.SHA256] != i || named[i.SHA256] {
			continue
		}
		gone = append(gone, i)
		delete(s.files, i.SHA256)
		err = errors.Join(err, s.unlink(i.SHA256))
	}
	return gone, errors.Join(err, s.dropPartsLocked(func(digest string) bool { return !named[digest] }))
}

// DropParts removes parts of files that nobody writes.
func (s *Store) DropParts(of func(digest string) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dropPartsLocked(of)
}

func (s *Store) dropPartsLocked(of func(digest string) bool) error {
	parts, err := os.ReadDir(s.path("partial"))
	for _, p := range parts {
		digest := strings.TrimSuffix(p.Name(), ".json")
		if IsDigest(digest) && of(digest) && s.writing[digest] == nil {
			err = errors.Join(err, os.Remove(s.path("partial", p.Name())))
		}
	}
	return err
}

// part is a file being written.
type part struct {
	s    *Store
	name string
	f    diskFile
	sum  hash.Hash
	size int64
	left int64 // reserved and not written
	keep bool  // for a later try
	// spare is set if no file is removed to make room for it.
	spare bool
}

// newPart opens a part, which may contain what an earlier try wrote.
func (s *Store) newPart(name string) (*part, error) {
	path := s.path("partial", name)
	f, err := s.opts.disk.Open(path)
	if err != nil {
		return nil, fmt.Errorf("write to the artifact store: %w", err)
	}
	return &part{s: s, name: path, f: f, sum: sha256.New()}, nil
}

// resume reads what an earlier try wrote. Damage by a power cut shows in the
// digest of the whole file.
func (p *part) resume(ctx context.Context) error {
	n, err := io.Copy(p.sum, &watched{ctx: ctx, Reader: p.f})
	p.size = n
	return err
}

// restart discards what was written.
func (p *part) restart() error {
	p.sum.Reset()
	p.size = 0
	_, err := p.f.Seek(0, io.SeekStart)
	return errors.Join(err, p.f.Truncate(0))
}

// unknownClaim is how much is reserved at a time for a file of unknown size, if
// that much is free.
const unknownClaim = 16 << 20

// expect reserves room for the rest of a file.
func (p *part) expect(n int64) error {
	if n <= p.left {
		return nil
	}
	switch {
	case p.s.claimFree(n - p.left):
	case p.spare:
		return sentence(ErrNoRoom, "%s more do not fit without removing others, and nothing needs this file now; raise --artifact-space, or run `slipway artifact gc`", Bytes(n-p.left))
	default:
		if err := p.s.claim(n - p.left); err != nil {
			return err
		}
	}
	p.left = n
	return nil
}

// Write stores bytes. It fails with ErrNoRoom before it fills the disk.
func (p *part) Write(b []byte) (int, error) {
	switch need := int64(len(b)); {
	case need <= p.left:
	case p.s.claimFree(unknownClaim):
		p.left += unknownClaim
	default:
		if err := p.expect(need); err != nil {
			return 0, err
		}
	}
	n, err := p.f.Write(b)
	p.sum.Write(b[:n])
	p.size += int64(n)
	p.left -= int64(n)
	p.s.giveBack(int64(n))
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		err = sentence(ErrNoRoom, "the disk of %s is full; make room there", p.s.dir)
	}
	return n, err
}

func (p *part) copy(ctx context.Context, from io.Reader, progress func(int64)) error {
	_, err := io.Copy(p, &watched{ctx: ctx, Reader: from, read: func(int64) {
		if progress != nil {
			progress(p.size)
		}
	}})
	return err
}

// complete makes the part a file of the store.
func (p *part) complete(digest, name, source string) (Info, error) {
	if err := p.f.Sync(); err != nil {
		return Info{}, fmt.Errorf("write to the artifact store: %w", err)
	}
	i := Info{SHA256: digest, Size: p.size, Name: fileName(name), Source: source, Added: time.Now(), Used: time.Now()}
	return i, p.s.finish(p.name, i)
}

// abandon closes the part and removes it, unless it is kept or complete.
func (p *part) abandon() {
	p.f.Close()
	p.s.giveBack(p.left)
	p.left = 0
	if p.keep {
		return
	}
	for _, name := range []string{p.name, p.name + ".json", p.name + ".note"} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			p.s.opts.Log.Warn("part of an artifact not removed", "file", name, "err", err)
		}
	}
}
