// Package dir takes a site's design from a working directory, as it is on
// disk, committed or not.
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

// The bounds on a working directory. A CUE file over maxFile is an error, and
// of a data file tooLarge is kept; another one is left out, as no design reads
// it.
const (
	maxFile  = 4 << 20
	maxTotal = 64 << 20
	maxFiles = 20_000
)

// tooLarge stands for a data file over maxFile. It is larger than what a design
// reads of a file, so that one which names it is told so, and not that there is
// no such file.
var tooLarge = make([]byte, maxFile+1)

// Source is a directory; it is an engine.Source and an engine.Notifier.
type Source struct {
	path string
	log  *slog.Logger
	last site.Revision
}

// New makes a source of a directory; it does not read it.
func New(path string, log *slog.Logger) *Source { return &Source{path: path, log: log} }

// Fetch reads the directory into memory, so that an evaluation never sees a
// file change under its hands. The revision's ID is "dir-" and a digest of all
// names and contents. Hidden files and folders named bin are left out. What is
// neither folder nor regular file is never opened or followed: where a design
// would read it, it is in the revision with its mode, as a link is in a commit.
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

// reading is what was read of a directory.
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
		case errors.Is(err, fs.ErrNotExist) && name != ".": // gone since it was listed
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

// take reads a file, or notes that it is none.
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

// readFile reads one file; nil is one to leave out.
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

// isData says whether a file's name is one that the data of a design may have.
func isData(name string) bool {
	ext := filepath.Ext(name)
	return ext == ".json" || ext == ".yaml" || ext == ".yml"
}

// skipped says whether a file or folder is no part of a design: hidden, built,
// or left by an editor.
func skipped(name string) bool {
	base := filepath.Base(name)
	return base == "bin" || strings.HasPrefix(base, ".") && base != "." ||
		strings.HasSuffix(base, "~") || strings.HasPrefix(base, "#") || base == "4913" // vim's trial file
}
