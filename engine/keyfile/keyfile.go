// Package keyfile keeps keys in files that only their owner can read: the root key of a
// site, and the identity that opens its sealed secrets.
package keyfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Create writes a file of mode 0400 that must not exist yet, and creates its folder if
// necessary. The error wraps fs.ErrExist when the file exists.
func Create(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return Write(path, text)
}

// Write is Create in a folder that exists. It is atomic: a crash leaves the whole file or
// nothing. If root writes the file, it belongs to the owner of its folder, which is the
// daemon's user.
func Write(path string, text []byte) error {
	made, err := written(filepath.Dir(path), text, func(f *os.File) error { return giveToOwner(f, filepath.Dir(path)) })
	if err != nil {
		return err
	}
	defer os.Remove(made)
	err = os.Link(made, path)                                                      // fails if the file exists
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, errors.ErrUnsupported) { // FAT has no links
		err = unix.Renameat2(unix.AT_FDCWD, made, unix.AT_FDCWD, path, unix.RENAME_NOREPLACE)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return syncFolder(filepath.Dir(path))
}

// Replace replaces a file's text. The new file has mode 0400 and the old owner. A crash
// leaves one of the two whole. The disk may still hold the old text in unused blocks.
func Replace(path string, text []byte) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t)
	made, err := written(filepath.Dir(path), text, func(f *os.File) error { return f.Chown(int(owner.Uid), int(owner.Gid)) })
	if err != nil {
		return err
	}
	if err := os.Rename(made, path); err != nil {
		return errors.Join(err, os.Remove(made))
	}
	return syncFolder(filepath.Dir(path))
}

// written writes a text into a new file of mode 0400 with a unique name.
func written(folder string, text []byte, give func(*os.File) error) (path string, err error) {
	f, err := os.CreateTemp(folder, ".key-*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(0o400), give(f), f.Sync(), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

func giveToOwner(f *os.File, folder string) error {
	info, err := os.Stat(folder)
	if err != nil || os.Geteuid() != 0 {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t)
	return f.Chown(int(owner.Uid), int(owner.Gid))
}

func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Read reads a file of at most most bytes. It must be a regular file that only its owner
// can read. Files from systemd may be readable by the group root, because an ACL for the
// service's user shows that way (acl(5), systemd issue 29435). The error wraps
// fs.ErrNotExist when there is no file.
func Read(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	open := info.Mode().Perm() & 0o077
	if open == 0o040 && info.Sys().(*syscall.Stat_t).Gid == 0 && handedOver(path) {
		open = 0
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a plain file", path)
	case open != 0:
		return nil, fmt.Errorf("others can read %s (mode %04o): run chmod 400 on it, and replace the key if they may have read it", path, info.Mode().Perm())
	case info.Size() > most:
		return nil, fmt.Errorf("%s is not one: it is too large", path)
	}
	text := make([]byte, info.Size())
	if _, err := f.ReadAt(text, 0); err != nil {
		return nil, err
	}
	return text, nil
}

// handedOver reports whether systemd gave the file to this service.
func handedOver(path string) bool {
	folder := os.Getenv("CREDENTIALS_DIRECTORY")
	return folder != "" && filepath.Clean(filepath.Dir(path)) == filepath.Clean(folder)
}
