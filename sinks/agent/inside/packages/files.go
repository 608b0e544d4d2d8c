package packages

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/tree"
)

// maxFile bounds the size of a file to read, in bytes. The largest is dpkg's status.
const maxFile = 256 << 20

// resolve is our path of a file of the system. It follows links like package tree: they stay below the root, and
// lend root's rights to no other account.
func resolve(h *inside.Host, name string) (string, error) {
	t, err := tree.Open(h.Root)
	if err != nil {
		return "", err
	}
	defer t.Close()
	at, err := t.Resolve(name, true)
	if err != nil {
		return "", err
	}
	return h.Path(at), nil
}

// read reads a file of the system; more than maxFile is an error.
func read(h *inside.Host, name string) ([]byte, error) {
	where, err := resolve(h, name)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(where, os.O_RDONLY|syscall.O_NONBLOCK, 0) // do not block on a pipe
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, fmt.Errorf("%s: not a file of at most %d bytes", name, maxFile)
	}
	text := make([]byte, info.Size())
	n, err := io.ReadFull(f, text)
	if err == io.ErrUnexpectedEOF || err == io.EOF { // the file shrank meanwhile
		err = nil
	}
	return text[:n], err
}

// readIfThere is read, with nil for a missing file.
func readIfThere(h *inside.Host, name string) ([]byte, error) {
	text, err := read(h, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

// write writes a file that everyone can read. If the file already has the content, write changes nothing.
func write(h *inside.Host, name string, content []byte) error {
	where, err := resolve(h, name)
	if err != nil {
		return err
	}
	have, err := os.ReadFile(where)
	if err == nil && string(have) == string(content) {
		return nil
	}
	isNew := err != nil
	if err := os.MkdirAll(filepath.Dir(where), 0o755); err != nil {
		return err
	}
	if err := inside.WriteFile(where, content, 0o644); err != nil || !isNew {
		return err
	}
	return h.Label(name)
}

// remove removes a file. A missing file is not an error.
func remove(h *inside.Host, name string) error {
	where, err := resolve(h, name)
	if err != nil {
		return err
	}
	if err := os.Remove(where); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// removeEmpty removes an empty folder. It leaves anything that people have put in its place, including a mounted
// file system.
func removeEmpty(h *inside.Host, name string) error {
	parent, err := resolve(h, path.Dir(path.Clean(name)))
	if err != nil {
		return err
	}
	where := filepath.Join(parent, path.Base(name))
	err = syscall.Rmdir(where)
	if err == nil || slices.Contains([]error{syscall.ENOENT, syscall.ENOTEMPTY, syscall.EEXIST, syscall.ENOTDIR, syscall.EBUSY}, err) {
		return nil
	}
	return &fs.PathError{Op: "remove", Path: where, Err: err}
}

// exists reports whether something is at a path of the system.
func exists(h *inside.Host, name string) bool {
	_, err := stat(h, name)
	return err == nil
}

func stat(h *inside.Host, name string) (fs.FileInfo, error) {
	where, err := resolve(h, name)
	if err != nil {
		return nil, err
	}
	return os.Stat(where)
}

// list returns the entries of a folder of the system; none if it is missing.
func list(h *inside.Host, name string) ([]fs.DirEntry, error) {
	where, err := resolve(h, name)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(where)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}
