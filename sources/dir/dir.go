// Package dir reads a site's design from a working directory as it is on disk,
// committed or not.
package dir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/repo"
	"github.com/slipway-gitops/slipway/engine/site"
)

// The limits on a working directory. A CUE file over maxFile is an error. A
// data file over maxFile is kept as tooLarge. Other files over it are left out,
// because no design reads them.
const (
	maxFile  = 4 << 20
	maxTotal = 64 << 20
	maxFiles = 20_000
)

// tooLarge stands for a data file over maxFile. It is larger than what a design
// may read, so that a design that names it gets that error, and not that the
// file is missing.
var tooLarge = make([]byte, maxFile+1)

// Source is a directory; it is an engine.Source and an engine.Notifier.
type Source struct {
	path string
	log  *slog.Logger
	last site.Revision
}

// New makes a source for a directory, without reading it.
func New(path string, log *slog.Logger) *Source { return &Source{path: path, log: log} }

// Fetch reads the directory into memory, so that files cannot change during an
// evaluation. The revision's ID is "dir-" and a digest of all names and
// contents. Hidden files and folders named bin are left out. Entries that are
// neither folders nor regular files are never opened or followed. If a design
// would read such an entry, the revision has it with its mode, like a link in a
// commit.
func (s *Source) Fetch(ctx context.Context) (site.Revision, error) {
	read, err := s.read(ctx)
	if err != nil {
		return site.Revision{}, fmt.Errorf("read %s: %w", s.path, err)
	}
	files, digest, err := repo.Snapshot(read.content, read.irregular, read.newest)
	if err != nil {
		return site.Revision{}, fmt.Errorf("read %s: %w", s.path, err)
	}
	if id := "dir-" + digest; id != s.last.ID {
		s.last = site.Revision{ID: id, Subject: "working directory " + s.path, When: read.newest.UTC(), Files: files}
	}
	return s.last, nil
}

// reading is the content of a directory.
type reading struct {
	root      *os.Root
	content   map[string][]byte
	irregular map[string]fs.FileMode
	total     int
	newest    time.Time
}

// read reads every file.
func (s *Source) read(ctx context.Context) (*reading, error) {
	root, err := os.OpenRoot(s.path) // no link leads out of it
	if err != nil {
		return nil, err
	}
	defer root.Close()
	r := &reading{root: root, content: map[string][]byte{}, irregular: map[string]fs.FileMode{}}
	return r, fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && name != ".": // removed since it was listed
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case skipped(name) && d.IsDir():
			return fs.SkipDir
		case skipped(name), d.IsDir():
			return nil
		}
		return r.take(name, d.Type())
	})
}

// take reads a file, or records an entry that is not a regular file.
func (r *reading) take(name string, mode fs.FileMode) error {
	if !mode.IsRegular() {
		if filepath.Ext(name) == ".cue" || isData(name) {
			r.irregular[name] = mode
		}
		return r.bounded()
	}
	data, when, err := readFile(r.root, name)
	if err != nil || data == nil {
		return err
	}
	r.content[name] = data
	if len(data) <= maxFile {
		r.total += len(data)
	}
	if when.After(r.newest) {
		r.newest = when
	}
	return r.bounded()
}

func (r *reading) bounded() error {
	if r.total > maxTotal || len(r.content)+len(r.irregular) > maxFiles {
		return fmt.Errorf("there are more than %d files or %d MiB in it: pass the folder of the site, which has cue.mod in it", maxFiles, maxTotal>>20)
	}
	return nil
}

// readFile reads one file. It returns nil for a file to leave out.
func readFile(root *os.Root, name string) ([]byte, time.Time, error) {
	info, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, time.Time{}, nil
	case err != nil:
		return nil, time.Time{}, err
	case info.Size() > maxFile && filepath.Ext(name) == ".cue":
		return nil, time.Time{}, fmt.Errorf("%s is larger than %d MiB, which no CUE file of a design is: split it into several, or move it out of the folder", name, maxFile>>20)
	case info.Size() > maxFile && isData(name):
		return tooLarge, info.ModTime(), nil
	case info.Size() > maxFile || !info.Mode().IsRegular():
		return nil, time.Time{}, nil
	}
	data, err := root.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, time.Time{}, nil
	}
	if data == nil {
		data = []byte{}
	}
	return data, info.ModTime(), err
}

// isData reports whether data of a design may have this file name.
func isData(name string) bool {
	ext := filepath.Ext(name)
	return ext == ".json" || ext == ".yaml" || ext == ".yml"
}

// skipped reports whether a file or folder is not part of a design: hidden,
// built, or left by an editor.
func skipped(name string) bool {
	base := filepath.Base(name)
	return base == "bin" || strings.HasPrefix(base, ".") && base != "." ||
		strings.HasSuffix(base, "~") || strings.HasPrefix(base, "#") || base == "4913" // vim's trial file
}
