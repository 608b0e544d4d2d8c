// Package tree reads and changes the files of a system under its root folder. No symbolic link leads out of the
// root or lends root's rights to its owner. Each file is replaced as a whole. Repeating an interrupted call repairs
// its leftovers.
package tree

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"
)

// Tree is the file system under a root folder.
type Tree struct {
	root  int // handle
	owner int // of the root folder
	// Before is called before each write, if set. An error stops the write; tests use it to interrupt calls.
	Before func(what string) error
	// Label is called for each new file, link and folder, if set.
	Label func(name string) error
}

// Open opens the file system under a root folder.
func Open(root string) (*Tree, error) {
	handle, err := openAt(atWorking, root, oPath|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: root, Err: err}
	}
	var s syscall.Stat_t
	if err := syscall.Fstat(handle, &s); err != nil {
		syscall.Close(handle)
		return nil, &fs.PathError{Op: "stat", Path: root, Err: err}
	}
	return &Tree{root: handle, owner: int(s.Uid)}, nil
}

// Close releases the tree.
func (t *Tree) Close() { syscall.Close(t.root) }

// Kind says what is at a path.
type Kind string

// The kinds.
const (
	Nothing Kind = ""
	File    Kind = "file"
	Folder  Kind = "folder"
	Link    Kind = "link"
	Pipe    Kind = "pipe"
	Socket  Kind = "socket"
	Device  Kind = "device"
)

// Entry describes what is at a path. Links are not followed.
type Entry struct {
	Kind     Kind
	Target   string // of a link
	Mode     uint32 // permissions, setuid, setgid and sticky bit
	UID, GID int
	Size     int64
	// Stamp changes with each change of a file's content or attributes.
	Stamp string
}

// ModeText formats a mode as in designs: "0644".
func ModeText(mode uint32) string { return fmt.Sprintf("%04o", mode) }

// Resolve returns a path without the links in its folders, relative to the root. With last, it also follows a link
// at the end. For a link that it does not follow, the error is an *UnsafeLink.
func (t *Tree) Resolve(name string, last bool) (string, error) {
	p, err := t.find(name, last)
	if err != nil {
		return "", err
	}
	defer p.close()
	return p.at(), nil
}

// Look describes what is at a path.
func (t *Tree) Look(name string) (Entry, error) {
	p, err := t.find(name, false)
	if err != nil {
		return Entry{}, err
	}
	defer p.close()
	return p.look(p.name())
}

// Read reads a regular file and follows links below the root. A file of more than max bytes is an error.
func (t *Tree) Read(name string, max int64) ([]byte, error) {
	f, err := t.open(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, max+1))
	if err == nil && int64(len(text)) > max {
		err = fmt.Errorf("%s has more than %d bytes", name, max)
	}
	if err != nil {
		return nil, err
	}
	return text, nil
}

// ReadPublic reads a regular file that everyone on the system may read, by its own permissions and those of its
// folders. Otherwise it returns fs.ErrPermission. For a file of more than max bytes it returns only the size.
func (t *Tree) ReadPublic(name string, max int64) (text []byte, size int64, err error) {
	p, err := t.find(name, true)
	if err != nil {
		return nil, 0, err
	}
	defer p.close()
	if !p.public {
		return nil, 0, fs.ErrPermission
	}
	f, err := p.open(os.O_RDONLY)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, 0, err
	case info.Mode().Perm()&0o004 == 0:
		return nil, info.Size(), fs.ErrPermission
	case info.Size() > max:
		return nil, info.Size(), nil
	}
	text, err = io.ReadAll(io.LimitReader(f, max+1))
	if err == nil && int64(len(text)) > max { // the file is growing
		return nil, int64(len(text)), nil
	}
	return text, int64(len(text)), err
}

// open opens a regular file and follows links at its end.
func (t *Tree) open(name string, flags int) (*os.File, error) {
	p, err := t.find(name, true)
	if err != nil {
		return nil, err
	}
	defer p.close()
	return p.open(flags)
}

// Digest is item.Digest of a file's content. It stops when the context ends. A file of more than max bytes is an
// error.
func (t *Tree) Digest(ctx context.Context, name string, max int64) (string, error) {
	f, err := t.open(name, os.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	read, sum := info.Size(), sha256.New()
	if read <= max { // otherwise do not start
		block := make([]byte, min(read+1, 32<<10))
		read, err = io.CopyBuffer(sum, io.LimitReader(awaited{ctx, f}, max+1), block)
	}
	if err == nil && read > max {
		err = fmt.Errorf("%s has more than %d bytes", name, max)
	}
	if err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)[:16]), nil
}

// awaited reads until its context ends.
type awaited struct {
	ctx context.Context
	r   io.Reader
}

func (a awaited) Read(block []byte) (int, error) {
	if a.ctx.Err() != nil {
		return 0, context.Cause(a.ctx)
	}
	return a.r.Read(block)
}

// Names returns the sorted names in a folder; none if it is missing.
func (t *Tree) Names(name string) ([]string, error) {
	p, err := t.find(name, true)
	if err != nil {
		return nil, err
	}
	defer p.close()
	return p.namesIn(p.name())
}

// Exists reports whether something is at a path, following links.
func (t *Tree) Exists(name string) bool {
	there, err := t.exists(name)
	return there && err == nil
}

func (t *Tree) exists(name string) (bool, error) {
	p, err := t.find(name, true)
	if err != nil {
		return false, err
	}
	defer p.close()
	e, err := p.look(p.name())
	return e.Kind != Nothing, err
}

// MissingFolders are the missing folders above a path, highest first.
func (t *Tree) MissingFolders(name string) ([]string, error) {
	var missing []string
	for folder := path.Dir(name); folder != "/" && folder != "."; folder = path.Dir(folder) {
		there, err := t.exists(folder)
		if err != nil {
			return nil, err
		}
		if there {
			break
		}
		missing = append(missing, folder)
	}
	slices.Reverse(missing)
	return missing, nil
}
