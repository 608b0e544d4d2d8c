package inside

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile replaces a file atomically: after a power failure there is the old or the new one. The temporary name
// is fixed, so the next call removes what an interruption left. Calls for one path must not run at the same time.
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

// SyncFolder writes the names in a folder to the disk.
func SyncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
