package repo

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// Files returns a commit's files, which are read from the store when opened.
// Only folders and regular files can be opened. Symbolic links and submodules
// are only listed, with their mode (fs.ModeSymlink, fs.ModeIrregular). All
// files have the commit's time. The result is safe for concurrent use and stays
// valid as long as the store.
func (s *Store) Files(id string) (fs.FS, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.commit(plumbing.NewHash(id))
	if err != nil {
		return nil, err
	}
	return newFiles(s, c.TreeHash, c.Committer.When), nil
}

// files is a tree of Git objects as a file system.
type files struct {
	store *Store
	root  plumbing.Hash
	when  time.Time
	trees map[plumbing.Hash]*object.Tree // recently decoded; guarded by store.mu
	made  made                           // what is not in the store
}

func newFiles(store *Store, root plumbing.Hash, when time.Time) *files {
	return &files{store: store, root: root, when: when, trees: map[plumbing.Hash]*object.Tree{}}
}

// tree reads a folder's listing.
func (f *files) tree(id plumbing.Hash) (*object.Tree, error) {
	const most = 256
	if t, ok := f.made.trees[id]; ok {
		return t, nil
	}
	if t, ok := f.trees[id]; ok {
		return t, nil
	}
	t, err := object.GetTree(f.store.objects, id)
	if err != nil {
		return nil, err
	}
	if len(f.trees) >= most {
		clear(f.trees)
	}
	f.trees[id] = t
	return t, nil
}

// Open opens a folder or a regular file.
func (f *files) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	opened, err := f.open(name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return opened, nil
}

func (f *files) open(name string) (fs.File, error) {
	e, err := f.find(name)
	if err != nil {
		return nil, err
	}
	info := f.info(e, name)
	switch {
	case info.IsDir():
		return f.folder(e.Hash, info)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%w: it is not a regular file", fs.ErrInvalid)
	case info.size > MaxObject:
		return nil, tooLarge(uint64(info.size))
	}
	data, made := f.made.blobs[e.Hash]
	if !made {
		blob, err := object.GetBlob(f.store.objects, e.Hash)
		if err != nil {
			return nil, err
		}
		if data, err = content(blob); err != nil {
			return nil, err
		}
	}
	return &openFile{*bytes.NewReader(data), info}, nil
}

func content(blob *object.Blob) ([]byte, error) {
	r, err := blob.Reader()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// find walks to the entry of a path.
func (f *files) find(name string) (object.TreeEntry, error) {
	at := object.TreeEntry{Name: ".", Mode: filemode.Dir, Hash: f.root}
	if name == "." {
		return at, nil
	}
	for part := range strings.SplitSeq(name, "/") {
		if at.Mode != filemode.Dir {
			return at, fs.ErrNotExist
		}
		tree, err := f.tree(at.Hash)
		if err != nil {
			return at, err
		}
		i := slices.IndexFunc(tree.Entries, func(e object.TreeEntry) bool { return e.Name == part })
		if i < 0 {
			return at, fs.ErrNotExist
		}
		at = tree.Entries[i]
	}
	return at, nil
}

func (f *files) folder(id plumbing.Hash, info fileInfo) (fs.File, error) {
	tree, err := f.tree(id)
	if err != nil {
		return nil, err
	}
	var entries []fs.DirEntry
	for _, e := range tree.Entries {
		if validName(e.Name) {
			entries = append(entries, dirEntry{f, e})
		}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return &openFolder{info: info, entries: entries}, nil
}

// validName excludes names that a git checkout would not write either.
func validName(name string) bool {
	return fs.ValidPath(name) && name != "." && !strings.Contains(name, "/") && !strings.EqualFold(name, ".git")
}

// dirEntry is an entry of a folder. Its size is looked up on demand.
type dirEntry struct {
	files *files
	entry object.TreeEntry
}

func (d dirEntry) Name() string      { return d.entry.Name }
func (d dirEntry) IsDir() bool       { return d.entry.Mode == filemode.Dir }
func (d dirEntry) Type() fs.FileMode { return mode(d.entry.Mode).Type() }

// ContentID returns the id of the file's content.
func (d dirEntry) ContentID() string { return d.entry.Hash.String() }

func (d dirEntry) Info() (fs.FileInfo, error) {
	d.files.store.mu.Lock()
	defer d.files.store.mu.Unlock()
	return d.files.info(d.entry, d.entry.Name), nil
}

// mode converts git's mode of a file to Go's.
func mode(m filemode.FileMode) fs.FileMode {
	switch m {
	case filemode.Dir:
		return fs.ModeDir | 0o555
	case filemode.Symlink:
		return fs.ModeSymlink | 0o777
	case filemode.Regular, filemode.Deprecated:
		return 0o444
	case filemode.Executable:
		return 0o555
	}
	return fs.ModeIrregular // a submodule, or a mode that git does not know
}

// info describes an entry. The size of an unreadable file is 0; opening it
// returns the reason.
func (f *files) info(e object.TreeEntry, name string) fileInfo {
	i := fileInfo{name: path.Base(name), mode: mode(e.Mode), when: f.when}
	if data, made := f.made.blobs[e.Hash]; made {
		i.size = int64(len(data))
	} else if i.mode.IsRegular() {
		i.size, _ = f.store.objects.EncodedObjectSize(e.Hash)
	}
	return i
}

type fileInfo struct {
	name string
	size int64
	mode fs.FileMode
	when time.Time
}

func (i fileInfo) Name() string       { return i.name }
func (i fileInfo) Size() int64        { return i.size }
func (i fileInfo) Mode() fs.FileMode  { return i.mode }
func (i fileInfo) ModTime() time.Time { return i.when }
func (i fileInfo) IsDir() bool        { return i.mode.IsDir() }
func (i fileInfo) Sys() any           { return nil }

type openFile struct {
	bytes.Reader
	info fileInfo
}

func (f *openFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *openFile) Close() error               { return nil }

type openFolder struct {
	info    fileInfo
	entries []fs.DirEntry // not yet read
}

func (f *openFolder) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *openFolder) Close() error               { return nil }

func (f *openFolder) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: f.info.name, Err: fs.ErrInvalid}
}

// ReadDir returns the next entries, as specified by fs.ReadDirFile.
func (f *openFolder) ReadDir(n int) ([]fs.DirEntry, error) {
	if n > 0 && len(f.entries) == 0 {
		return nil, io.EOF
	}
	if n <= 0 || n > len(f.entries) {
		n = len(f.entries)
	}
	read := f.entries[:n]
	f.entries = f.entries[n:]
	return read, nil
}
