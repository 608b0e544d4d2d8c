package inside

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile puts a file in the place of another, whole or not at all: a power cut
// leaves the one or the other. The name that the file has until then is always the same,
// so that the next call takes away what a cut has left. Whoever calls it is alone.
func WriteFile(path string, content []byte, mode fs.FileMode) (err error) {
	folder := filepath.Dir(path)
	next := filepath.Join(folder, ".slipway-"+filepath.Base(path)+".new")
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(content); err == nil {
		err = f.Chmod(mode)
	}
	if old := openRegular(path); old != nil {
		CopyLabel(f, old)
		old.Close()
	}
	if err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return err
	}
	return SyncFolder(folder)
}

// SyncFolder puts the names in a folder on the disk.
func SyncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
