package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// replaceFile gives a file a new content, or none of it, with these permissions.
func replaceFile(name string, text []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(mode.Perm()), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// here opens files by the paths that a person gave, for excerpts.
type here struct{}

func (here) Open(name string) (fs.File, error) { return os.Open(name) }

// maxRead is how much is read of a file, in bytes: more than any design may
// have.
const maxRead = 8 << 20

// readBounded reads the beginning of a file, and its mode.
func readBounded(name string) ([]byte, fs.FileMode, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxRead))
	return text, info.Mode(), err
}
