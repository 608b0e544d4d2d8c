package repo

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/memory"
)

// Tree is the files of a branch as names and digests, for changing a few paths
// and pushing. It reads folders only on a path that leads through them, and
// never the content of files.
type Tree struct {
	store *Store
	head  plumbing.Hash // the commit that the tree continues; zero for none
	root  *folder
	fresh *memory.Storage // objects that the remote may not have
	blobs []plumbing.Hash // the files among these
}

// folder is one level of a Tree.
type folder struct {
	hash    plumbing.Hash // zero when an entry was changed
	entries map[string]*entry
}

// entry is a file, or a folder that is opened on demand.
type entry struct {
	mode   filemode.FileMode
	hash   plumbing.Hash
	folder *folder
}

// NewTree returns an empty tree: the beginning of a branch.
func NewTree() *Tree {
	return &Tree{store: &Store{objects: memory.NewStorage()}, root: &folder{entries: map[string]*entry{}}, fresh: memory.NewStorage()}
}

// Tree returns a commit's files, to be changed and pushed on top of it.
func (s *Store) Tree(commit string) (*Tree, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.commit(plumbing.NewHash(commit))
	if err != nil {
		return nil, err
	}
	root, err := s.folder(c.TreeHash)
	return &Tree{store: s, head: c.Hash, root: root, fresh: memory.NewStorage()}, err
}

func (s *Store) folder(id plumbing.Hash) (*folder, error) {
	t, err := object.GetTree(s.objects, id)
	if err != nil {
		return nil, fmt.Errorf("folder %s: %w", id, err)
	}
	f := &folder{hash: id, entries: make(map[string]*entry, len(t.Entries))}
	for _, e := range t.Entries {
		f.entries[e.Name] = &entry{mode: e.Mode, hash: e.Hash}
	}
	return f, nil
}

// open returns the folder of an entry.
func (t *Tree) open(e *entry) (*folder, error) {
	if e.folder != nil {
		return e.folder, nil
	}
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	f, err := t.store.folder(e.hash)
	e.folder = f
	return f, err
}

// Head returns the commit that the tree continues, empty for none.
func (t *Tree) Head() string {
	if t.head.IsZero() {
		return ""
	}
	return t.head.String()
}

// Changed reports whether the files differ from those of Head.
func (t *Tree) Changed() bool { return t.root.hash.IsZero() }

// Set sets the content of a regular file, and creates the folders on its path.
// It replaces anything else under its name, or under the name of one of its
// folders. A file that already has this content stays unchanged.
func (t *Tree) Set(name string, data []byte) error {
	if !fs.ValidPath(name) || name == "." {
		return fmt.Errorf("file %q: no path inside a repository", name)
	}
	id := plumbing.ComputeHash(plumbing.BlobObject, data)
	along, err := t.walk(name, true)
	if err != nil {
		return err
	}
	last := along[len(along)-1]
	base := path.Base(name)
	if e := last.entries[base]; e != nil && e.hash == id && e.mode == filemode.Regular {
		return nil
	}
	last.entries[base] = &entry{mode: filemode.Regular, hash: id}
	touch(along)
	t.blobs = append(t.blobs, id)
	o := &plumbing.MemoryObject{}
	o.SetType(plumbing.BlobObject)
	if _, err := o.Write(data); err != nil {
		return err
	}
	_, err = t.fresh.SetEncodedObject(o)
	return err
}

// Remove removes a file or a folder, and folders that become empty.
func (t *Tree) Remove(name string) error {
	along, err := t.walk(name, false)
	if err != nil || along == nil {
		return err
	}
	parts := strings.Split(name, "/")
	for i, f := range slices.Backward(along) {
		if f.entries[parts[i]] == nil {
			return nil
		}
		delete(f.entries, parts[i])
		touch(along[:i+1])
		if len(f.entries) > 0 {
			break
		}
	}
	return nil
}

// setIrregular sets an entry that is neither a folder nor a regular file: a
// symbolic link, or something that git cannot store.
func (t *Tree) setIrregular(name string, mode fs.FileMode) error {
	along, err := t.walk(name, true)
	if err != nil {
		return err
	}
	e := &entry{mode: filemode.Submodule}
	if mode&fs.ModeSymlink != 0 {
		e.mode = filemode.Symlink
	}
	along[len(along)-1].entries[path.Base(name)] = e
	touch(along)
	return nil
}

func touch(along []*folder) {
	for _, f := range along {
		f.hash = plumbing.ZeroHash
	}
}

// walk returns the folders on the path to a name, the root first. If one is
// missing, walk creates it or returns nil.
func (t *Tree) walk(name string, make bool) ([]*folder, error) {
	at := t.root
	along := []*folder{at}
	parts := strings.Split(name, "/")
	for _, part := range parts[:len(parts)-1] {
		e := at.entries[part]
		if e == nil || e.mode != filemode.Dir {
			if !make {
				return nil, nil
			}
			e = &entry{mode: filemode.Dir, folder: &folder{entries: map[string]*entry{}}}
			at.entries[part] = e
		}
		next, err := t.open(e)
		if err != nil {
			return nil, err
		}
		at = next
		along = append(along, at)
	}
	return along, nil
}

// Names lists the content of a folder, in order, with "/" after the names of
// folders. dir is "." for the top.
func (t *Tree) Names(dir string) ([]string, error) {
	along, err := t.walk(path.Join(dir, "x"), false)
	if err != nil || along == nil {
		return nil, err
	}
	var names []string
	for name, e := range along[len(along)-1].entries {
		if e.mode == filemode.Dir {
			name += "/"
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// Walk lists all files below a folder, with their paths from the top.
func (t *Tree) Walk(dir string) ([]string, error) {
	names, err := t.Names(dir)
	var all []string
	for _, name := range names {
		sub, isFolder := strings.CutSuffix(name, "/")
		if !isFolder {
			all = append(all, path.Join(dir, name))
			continue
		}
		below, err := t.Walk(path.Join(dir, sub))
		if err != nil {
			return nil, err
		}
		all = append(all, below...)
	}
	return all, err
}

// Message describes a commit to make.
type Message struct {
	Text string
	When time.Time
	// Author and Email are used for both author and committer.
	Author, Email string
}

// commit makes the objects of a commit of the current files. It returns its id
// and every object that the remote may lack.
func (t *Tree) commit(m Message) (id plumbing.Hash, objects []plumbing.Hash, err error) {
	objects = slices.Clone(t.blobs)
	root, err := t.write(t.root, &objects)
	if err != nil {
		return id, nil, err
	}
	by := object.Signature{Name: m.Author, Email: m.Email, When: m.When}
	c := &object.Commit{Author: by, Committer: by, Message: m.Text, TreeHash: root}
	if !t.head.IsZero() {
		c.ParentHashes = []plumbing.Hash{t.head}
	}
	id, err = t.encode(c)
	objects = append(objects, id)
	plumbing.HashesSort(objects)
	return id, slices.Compact(objects), err
}

// write makes the objects of changed folders.
func (t *Tree) write(f *folder, objects *[]plumbing.Hash) (plumbing.Hash, error) {
	if !f.hash.IsZero() {
		return f.hash, nil
	}
	tree := &object.Tree{}
	for name, e := range f.entries {
		if e.folder != nil {
			hash, err := t.write(e.folder, objects)
			if err != nil {
				return hash, err
			}
			e.hash = hash
		}
		tree.Entries = append(tree.Entries, object.TreeEntry{Name: name, Mode: e.mode, Hash: e.hash})
	}
	sort.Sort(object.TreeEntrySorter(tree.Entries))
	id, err := t.encode(tree)
	f.hash = id
	*objects = append(*objects, id)
	return id, err
}

func (t *Tree) encode(v object.Object) (plumbing.Hash, error) {
	o := &plumbing.MemoryObject{}
	if err := v.Encode(o); err != nil {
		return plumbing.ZeroHash, err
	}
	return t.fresh.SetEncodedObject(o)
}

// Snapshot returns a set of files, by path, as a file system like that of a
// commit. It also returns the digest of all of it, as of git's tree. Irregular
// entries are listed by mode, as in a commit, and cannot be opened.
func Snapshot(content map[string][]byte, irregular map[string]fs.FileMode, when time.Time) (fs.FS, string, error) {
	t := NewTree()
	for name, data := range content {
		if err := t.Set(name, data); err != nil {
			return nil, "", err
		}
	}
	for name, mode := range irregular {
		if err := t.setIrregular(name, mode); err != nil {
			return nil, "", err
		}
	}
	var objects []plumbing.Hash
	root, err := t.write(t.root, &objects)
	if err != nil {
		return nil, "", err
	}
	return newFiles(&Store{objects: t.fresh}, root, when), root.String(), nil
}
