package repo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage"
	"github.com/go-git/go-git/v5/storage/filesystem"
	"github.com/go-git/go-git/v5/storage/memory"
)

// Store keeps Git objects in a bare repository in a folder, or in memory. It is
// safe for concurrent use.
type Store struct {
	dir     string
	mu      sync.Mutex // go-git's storage is not safe for concurrent use
	objects storage.Storer
	history history // guarded by mu, like objects
}

// OpenStore opens the store in a folder, and creates it if necessary. An empty
// dir keeps the objects in memory.
func OpenStore(dir string) (*Store, error) {
	if dir == "" {
		return &Store{objects: memory.NewStorage()}, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the store of fetched commits: %w", err)
	}
	objects := filesystem.NewStorage(osfs.New(dir), cache.NewObjectLRU(16*cache.MiByte))
	if err := objects.Init(); err != nil {
		return nil, fmt.Errorf("open the store of fetched commits: %w", err)
	}
	return &Store{dir: dir, objects: objects}, nil
}

// Commit is the description of a commit.
type Commit struct {
	Subject, Message string
	// Author is a name without an address; When is the committer's time, or the nearest one that can be written.
	Author string
	When   time.Time
}

// lastSecond is the end of the last year of which RFC 3339 can write a time (section 1), in seconds since 1970.
const lastSecond = 253402300799

// writable is a commit's time, which whoever makes the commit is free to choose. One that cannot be written in JSON would take
// with it whatever it is written beside.
func writable(t time.Time) time.Time { return time.Unix(min(max(t.Unix(), 0), lastSecond), 0).UTC() }

// Commit reads a commit.
func (s *Store) Commit(id string) (Commit, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.commit(plumbing.NewHash(id))
	if err != nil {
		return Commit{}, err
	}
	subject, _, _ := strings.Cut(strings.TrimSpace(c.Message), "\n")
	return Commit{Subject: plain(subject), Message: c.Message, Author: plain(c.Author.Name), When: writable(c.Committer.When)}, nil
}

func (s *Store) commit(id plumbing.Hash) (*object.Commit, error) {
	c, err := object.GetCommit(s.objects, id)
	if err != nil {
		return nil, fmt.Errorf("commit %s: %w", id, err)
	}
	return c, nil
}

// Has reports whether a commit is in the store.
func (s *Store) Has(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return plumbing.IsHash(id) && s.objects.HasEncodedObject(plumbing.NewHash(id)) == nil
}

// Descends reports whether a commit has another in its history, as far as the
// store has it.
func (s *Store) Descends(id, ancestor string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := plumbing.NewHash(ancestor)
	seen := map[plumbing.Hash]bool{}
	next := []plumbing.Hash{plumbing.NewHash(id)}
	for len(next) > 0 {
		at := next[len(next)-1]
		next = next[:len(next)-1]
		if at == wanted {
			return true, nil
		}
		c, err := object.GetCommit(s.objects, at)
		switch {
		case errors.Is(err, plumbing.ErrObjectNotFound): // before the first fetch
			continue
		case err != nil:
			return false, fmt.Errorf("commit %s: %w", at, err)
		}
		for _, p := range c.ParentHashes {
			if !seen[p] {
				seen[p] = true
				next = append(next, p)
			}
		}
	}
	return false, nil
}

// followed returns the reference where the store remembers the accepted commit
// of a branch.
func followed(branch string) plumbing.ReferenceName {
	return plumbing.ReferenceName("refs/slipway/followed/" + branch)
}

// Accepted returns the commit that Accept was last called with for a branch,
// even before a restart; empty for none.
func (s *Store) Accepted(branch string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ref, err := s.objects.Reference(followed(branch))
	switch {
	case errors.Is(err, plumbing.ErrReferenceNotFound):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("read the commit in force: %w", err)
	}
	return ref.Hash().String(), nil
}

// Accept remembers a branch's commit. From time to time it repacks the store,
// which would otherwise grow by a pack with every fetch.
func (s *Store) Accept(branch, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.setFollowed(branch, plumbing.NewHash(id)); err != nil {
		return fmt.Errorf("remember the commit in force: %w", err)
	}
	if err := s.repack(); err != nil {
		return fmt.Errorf("pack the store of fetched commits: %w", err)
	}
	return nil
}

// setFollowed replaces the reference of a branch atomically. The library would
// empty its file first, and an empty file reads as no reference. If the process
// died in between, Slipway would follow a rewritten branch.
func (s *Store) setFollowed(branch string, id plumbing.Hash) error {
	if s.dir == "" {
		return s.objects.SetReference(plumbing.NewHashReference(followed(branch), id))
	}
	path := filepath.Join(s.dir, followed(branch).String())
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(s.dir, "followed-")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, id)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// Tidy repacks the store when it consists of many packs.
func (s *Store) Tidy() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.repack()
}

// Size returns how many bytes the store takes on disk; 0 for one in memory.
func (s *Store) Size() (size int64, err error) {
	if s.dir == "" {
		return 0, nil
	}
	err = filepath.WalkDir(s.dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	return size, err
}

// repack puts everything into one pack when there are many, because a lookup
// searches each of them.
func (s *Store) repack() error {
	const many = 32
	packed, ok := s.objects.(storer.PackedObjectStorer)
	if !ok {
		return nil
	}
	old, err := packed.ObjectPacks()
	if err != nil || len(old) < many {
		return err
	}
	all, err := s.packAll()
	if err != nil {
		return err
	}
	for _, pack := range old {
		if pack == all {
			continue
		}
		if err := packed.DeleteOldObjectPackAndIndex(pack, time.Time{}); err != nil {
			return err
		}
	}
	s.objects.(interface{ Reindex() }).Reindex()
	return nil
}

// packAll writes every object into one new pack.
func (s *Store) packAll() (pack plumbing.Hash, err error) {
	iter, err := s.objects.IterEncodedObjects(plumbing.AnyObject)
	if err != nil {
		return pack, err
	}
	var ids []plumbing.Hash
	err = iter.ForEach(func(o plumbing.EncodedObject) error {
		ids = append(ids, o.Hash())
		return nil
	})
	if err != nil {
		return pack, err
	}
	w, err := s.objects.(storer.PackfileWriter).PackfileWriter()
	if err != nil {
		return pack, err
	}
	const window = 10 // git's own
	pack, err = packfile.NewEncoder(w, s.objects, false).Encode(ids, window)
	return pack, errors.Join(err, w.Close())
}

// DropContents drops the content of every file of a store in memory, and keeps
// the folders. That is enough for a Tree, with a fraction of the memory.
func (s *Store) DropContents() {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.objects.(*memory.Storage)
	if !ok {
		return
	}
	for id := range m.Blobs {
		delete(m.Objects, id)
	}
	clear(m.Blobs)
}

// shallow lists the commits whose parents were not fetched.
func (s *Store) shallow() []plumbing.Hash {
	s.mu.Lock()
	defer s.mu.Unlock()
	commits, _ := s.objects.Shallow() // only a hint to the server
	return commits
}

func (s *Store) addShallow(more []plumbing.Hash) error {
	have, err := s.objects.Shallow()
	if err != nil {
		return err
	}
	all := slices.Clone(have)
	for _, c := range more {
		if !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	if len(all) == len(have) {
		return nil
	}
	return s.objects.SetShallow(all)
}
