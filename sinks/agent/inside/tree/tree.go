// Package tree reads and changes the files of a system under its root folder. No
// symbolic link leads out of the root, each file is replaced as a whole, and a
// call that was cut off is repaired by the same call.
package tree

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
)

// Tree is the file system under a root folder.
type Tree struct {
	root *os.Root
	// Before is called before each write, if set. An error stops the write; tests
	// cut calls off with it.
	Before func(what string) error
	// Label is called for each file, link and folder that is new at its path, if set.
	Label func(name string) error
}

// Open opens the file system under a root folder.
func Open(root string) (*Tree, error) {
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	return &Tree{root: r}, nil
}

// Close ends the use of the tree.
func (t *Tree) Close() { t.root.Close() }

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

// Entry is what is at a path. Links are not followed.
type Entry struct {
	Kind     Kind
	Target   string // of a link
	Mode     uint32 // permissions, setuid, setgid and sticky bit
	UID, GID int
	Size     int64
	// Stamp is another one after each change of a file's content or attributes.
	Stamp string
}

// ModeText is a mode in the form that designs have: "0644".
func ModeText(mode uint32) string { return fmt.Sprintf("%04o", mode) }

// maxLinks bounds the links of one path, as the kernel does.
const maxLinks = 40

// errEscape is for paths that cannot be named below the root.
var errEscape = errors.New("not a path below the root")

// Resolve gives a path without the links in its folders, relative to the root.
// Absolute targets are those of the system. With last, a link at the end is
// followed too.
func (t *Tree) Resolve(name string, last bool) (string, error) {
	if !path.IsAbs(name) || strings.ContainsRune(name, 0) {
		return "", fmt.Errorf("%q: %w", name, errEscape)
	}
	done, rest, links := ".", strings.Split(name, "/"), 0
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			done = path.Dir(done) // the root is its own parent
			continue
		}
		next := path.Join(done, part)
		if !last && !slices.ContainsFunc(rest, func(p string) bool { return p != "" && p != "." }) {
			return next, nil
		}
		info, err := t.root.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) {
			return path.Join(append([]string{next}, rest...)...), below(rest)
		}
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			done = next
			continue
		}
		if links++; links > maxLinks {
			return "", &fs.PathError{Op: "resolve", Path: name, Err: syscall.ELOOP}
		}
		target, err := t.root.Readlink(next)
		if err != nil {
			return "", err
		}
		if path.IsAbs(target) {
			done = "."
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return done, nil
}

// below refuses to go up from a folder that does not exist.
func below(parts []string) error {
	if slices.Contains(parts, "..") {
		return fs.ErrNotExist
	}
	return nil
}

// Look tells what is at a path.
func (t *Tree) Look(name string) (Entry, error) {
	at, err := t.Resolve(name, false)
	if err != nil {
		return Entry{}, err
	}
	return t.look(at)
}

func (t *Tree) look(at string) (Entry, error) {
	info, err := t.root.Lstat(at)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return Entry{}, nil
	}
	if err != nil {
		return Entry{}, err
	}
	stat := info.Sys().(*syscall.Stat_t)
	e := Entry{Kind: kind(info.Mode()), Mode: stat.Mode & 0o7777, UID: int(stat.Uid), GID: int(stat.Gid), Size: info.Size(),
		Stamp: fmt.Sprintf("%d:%d:%d:%d:%d", stat.Dev, stat.Ino, stat.Size, syscall.TimespecToNsec(stat.Mtim), syscall.TimespecToNsec(stat.Ctim))}
	if e.Kind == Link {
		e.Target, err = t.root.Readlink(at)
	}
	return e, err
}

func kind(mode fs.FileMode) Kind {
	switch mode.Type() {
	case 0:
		return File
	case fs.ModeDir:
		return Folder
	case fs.ModeSymlink:
		return Link
	case fs.ModeNamedPipe:
		return Pipe
	case fs.ModeSocket:
		return Socket
	}
	return Device
}

// Read reads a regular file and follows links below the root. Of a file with more
// than max bytes it gives an error.
func (t *Tree) Read(name string, max int64) ([]byte, error) {
	f, err := t.open(name)
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

// ReadPublic reads a regular file that everybody on the system may read: by its own
// permissions and by those of the folders that it is in. Otherwise it gives
// fs.ErrPermission. Of a file with more than max bytes it gives its size alone.
func (t *Tree) ReadPublic(name string, max int64) (text []byte, size int64, err error) {
	at, err := t.Resolve(name, true)
	if err != nil {
		return nil, 0, err
	}
	folder, err := t.openPublic(path.Dir(at))
	if err != nil {
		return nil, 0, err
	}
	defer folder.Close()
	f, err := openFile(folder, path.Base(at), name)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	named, err := folder.Lstat(path.Base(at))
	switch {
	case err != nil:
		return nil, 0, err
	case !os.SameFile(info, named): // a link was put in its place
		return nil, 0, fs.ErrPermission
	case info.Mode().Perm()&0o004 == 0:
		return nil, info.Size(), fs.ErrPermission
	case info.Size() > max:
		return nil, info.Size(), nil
	}
	text, err = io.ReadAll(io.LimitReader(f, max+1))
	if err == nil && int64(len(text)) > max { // it grows
		return nil, int64(len(text)), nil
	}
	return text, int64(len(text)), err
}

// openPublic opens a folder, by a path without links, that everybody may reach. Each
// folder on the way is opened before it is judged, so that whoever may rename one of
// them cannot put another in its place meanwhile.
func (t *Tree) openPublic(at string) (*os.Root, error) {
	folder, err := t.root.OpenRoot(".")
	if err != nil {
		return nil, err
	}
	for part := range strings.SplitSeq("./"+at, "/") {
		below, err := folder.OpenRoot(part)
		if err == nil {
			err = isPublic(folder, part, below)
		}
		folder.Close()
		if err != nil {
			if below != nil {
				below.Close()
			}
			return nil, err
		}
		folder = below
	}
	return folder, nil
}

// isPublic says whether everybody may go into an open folder, which has to be the one
// that has the name, and no link to another.
func isPublic(above *os.Root, name string, folder *os.Root) error {
	is, err := folder.Stat(".")
	if err != nil {
		return err
	}
	named, err := above.Lstat(name)
	if err != nil {
		return err
	}
	if is.Mode().Perm()&0o001 == 0 || !os.SameFile(is, named) {
		return fs.ErrPermission
	}
	return nil
}

// open opens a regular file and never waits for what a pipe or a device gives.
func (t *Tree) open(name string) (*os.File, error) {
	at, err := t.Resolve(name, true)
	if err != nil {
		return nil, err
	}
	return openFile(t.root, at, name)
}

func openFile(root *os.Root, at, name string) (*os.File, error) {
	f, err := root.OpenFile(at, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if errors.Is(err, syscall.ENOTDIR) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, fmt.Errorf("%s is not a file", name)
	}
	return f, nil
}

// Digest is item.Digest of a file's content, whatever its size.
func (t *Tree) Digest(name string) (string, error) {
	f, err := t.open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)[:16]), nil
}

// Names are the names in a folder, in order; none where it is missing.
func (t *Tree) Names(name string) ([]string, error) {
	at, err := t.Resolve(name, true)
	if err != nil {
		return nil, err
	}
	f, err := t.root.Open(at)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	slices.Sort(names)
	return names, err
}

// Exists tells whether something is at a path, with links followed.
func (t *Tree) Exists(name string) bool {
	at, err := t.Resolve(name, true)
	if err != nil {
		return false
	}
	_, err = t.root.Lstat(at)
	return err == nil
}

// MissingFolders are the folders above a path that do not exist, the highest first.
func (t *Tree) MissingFolders(name string) ([]string, error) {
	var missing []string
	for folder := path.Dir(name); folder != "/" && folder != "."; folder = path.Dir(folder) {
		if t.Exists(folder) {
			break
		}
		missing = append(missing, folder)
	}
	slices.Reverse(missing)
	return missing, nil
}
