package inside

import (
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile puts a file in the place of another, whole or not at all: a power cut
// leaves the one or the other.
func WriteFile(path string, content []byte, mode fs.FileMode) (err error) {
	folder := filepath.Dir(path)
	f, err := os.CreateTemp(folder, ".slipway-*")
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
