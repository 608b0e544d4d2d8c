package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/sealed"
)

// straight refuses a file in the folder of secrets whose path leads through a symbolic
// link. Whoever can merge can commit one, to have secrets written to another place.
func (c *checkout) straight(name string) error {
	at := ""
	for part := range strings.SplitSeq(filepath.Join(c.folder, name), string(filepath.Separator)) {
		at = filepath.Join(at, part)
		info, err := c.tree.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case info.Mode()&fs.ModeSymlink != 0:
			return fmt.Errorf("%s is a symbolic link, and secrets are neither read nor written through one: whoever committed it could choose the place. Remove it, and restore what belongs there from Git", filepath.Join(c.root, at))
		}
	}
	return nil
}

// read reads the beginning of a file in the folder of secrets.
func (c *checkout) read(name string) ([]byte, error) {
	if err := c.straight(name); err != nil {
		return nil, err
	}
	f, err := c.tree.Open(filepath.Join(c.folder, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxRead))
}

// write writes a file into the folder of secrets, as a whole.
func (c *checkout) write(name string, text []byte) error {
	if err := c.straight(name); err != nil {
		return err
	}
	if err := c.tree.MkdirAll(c.folder, 0o755); err != nil {
		return err
	}
	if err := c.removeDrafts(name); err != nil {
		return err
	}
	draft := filepath.Join(c.folder, "."+name+"."+rand.Text())
	f, err := c.tree.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err == nil {
		err = c.tree.Rename(draft, filepath.Join(c.folder, name))
	}
	if err != nil {
		return errors.Join(err, c.tree.Remove(draft))
	}
	return nil
}

// removeDrafts removes the drafts of a file that commands which were killed have left. Nothing reads them, but they would
// be committed with the rest, and stay encrypted for recipients that are removed later.
func (c *checkout) removeDrafts(name string) error {
	entries, err := fs.ReadDir(c.tree.FS(), filepath.ToSlash(c.folder))
	if err != nil {
		return err
	}
	for _, e := range entries {
		rest, is := strings.CutPrefix(e.Name(), "."+name+".")
		if !is || !e.Type().IsRegular() || !draftSuffix.MatchString(rest) {
			continue
		}
		if err := c.tree.Remove(filepath.Join(c.folder, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// draftSuffix is the form of rand.Text, which ends the name of a draft.
var draftSuffix = regexp.MustCompile(`^[A-Z2-7]{26,}$`)

// sealedFiles are the names of the encrypted files, sorted.
func (c *checkout) sealedFiles() ([]string, error) {
	if err := c.straight(""); err != nil {
		return nil, err
	}
	entries, err := fs.ReadDir(c.tree.FS(), filepath.ToSlash(c.folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), sealed.Extension) && !design.IsSOPS(e.Name()) {
			continue
		}
		if err := c.straight(e.Name()); err != nil {
			return nil, err
		}
		if e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}
