package dir_test

import (
	"context"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sources/dir"
)

func TestFetchIsASnapshot(t *testing.T) {
	d := t.TempDir()
	write(t, d, "site.cue", "package site\n")
	write(t, d, "racks/r1.cue", "package racks\n")
	write(t, d, "empty.cue", "")
	for _, name := range []string{".git/config", ".hidden.cue", "bin/slipway", "site.cue~", "#site.cue#"} {
		write(t, d, name, "not a part")
	}
	s := source(d)
	first, err := s.Fetch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(first.Files, "site.cue", "racks/r1.cue", "empty.cue"); err != nil {
		t.Error(err)
	}
	var names []string
	err = fs.WalkDir(first.Files, ".", func(name string, _ fs.DirEntry, err error) error {
		names = append(names, name)
		return err
	})
	if got := strings.Join(names, " "); err != nil || got != ". empty.cue racks racks/r1.cue site.cue" {
		t.Errorf("files are %s, %v", got, err)
	}

	if again, err := s.Fetch(t.Context()); err != nil || again.ID != first.ID || again.Files != first.Files {
		t.Errorf("a fetch without change gave %s, %v, want %s", again.ID, err, first.ID)
	}
	write(t, d, "site.cue", "package other\n")
	second, err := s.Fetch(t.Context())
	if err != nil || second.ID == first.ID || !strings.HasPrefix(second.ID, "dir-") {
		t.Errorf("after a change: %s, %v", second.ID, err)
	}
	if data, err := fs.ReadFile(first.Files, "site.cue"); err != nil || string(data) != "package site\n" {
		t.Errorf("the first snapshot now reads %q, %v", data, err)
	}
}

// What a design would read and is no regular file is listed by what it is, as
// in a commit, and neither followed nor opened: a pipe would wait for ever.
func TestIrregularFiles(t *testing.T) {
	d := t.TempDir()
	write(t, d, "site.cue", "package site\n")
	write(t, d, "kept/a.cue", "package kept\n")
	before := fetch(t, d)
	link(t, d, "/etc/passwd", "file.cue")
	link(t, d, "kept", "folder.cue")
	link(t, d, "gone", "sub/dangling.cue")
	link(t, d, "kept/a.cue", "ipam.json")
	link(t, d, "kept", "other")
	link(t, d, "ann@host.1:1", ".#site.cue") // an editor's lock
	for _, name := range []string{"pipe.cue", "pipe.yaml"} {
		if err := unix.Mkfifo(filepath.Join(d, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	socket, err := net.Listen("unix", filepath.Join(d, "s.cue"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	after := fetch(t, d)
	if before.ID == after.ID {
		t.Error("the revision is still the same")
	}
	got := map[string]fs.FileMode{}
	err = fs.WalkDir(after.Files, ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			got[name] = e.Type()
		}
		return err
	})
	want := map[string]fs.FileMode{
		"site.cue": 0, "kept/a.cue": 0,
		"file.cue": fs.ModeSymlink, "folder.cue": fs.ModeSymlink, "sub/dangling.cue": fs.ModeSymlink, "ipam.json": fs.ModeSymlink,
		"pipe.cue": fs.ModeIrregular, "pipe.yaml": fs.ModeIrregular, "s.cue": fs.ModeIrregular,
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, (-want, +got)\n%s", err, diff)
	}
	if _, err := fs.ReadFile(after.Files, "file.cue"); err == nil {
		t.Error("a link was read")
	}
}

func TestWhatIsTooLarge(t *testing.T) {
	d := t.TempDir()
	write(t, d, "disk.iso", strings.Repeat("x", 5<<20))
	write(t, d, "site.cue", "package site\n")
	rev, err := source(d).Fetch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fs.Stat(rev.Files, "disk.iso"); err == nil {
		t.Error("an image was read into memory")
	}
	write(t, d, "ipam.json", strings.Repeat(" ", 5<<20)+"{}")
	rev, err = source(d).Fetch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Whoever reads a data file finds it too large, and not missing or empty.
	if i, err := fs.Stat(rev.Files, "ipam.json"); err != nil || i.Size() <= 4<<20 {
		t.Errorf("a large data file is %v, %v", i, err)
	}
	write(t, d, "nodes.cue", strings.Repeat("x", 5<<20))
	if _, err := source(d).Fetch(t.Context()); err == nil || !strings.Contains(err.Error(), "nodes.cue is larger than 4 MiB") {
		t.Errorf("got %v, want that nodes.cue is too large", err)
	}
}

func TestNoSuchDirectory(t *testing.T) {
	_, err := source(filepath.Join(t.TempDir(), "gone")).Fetch(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("got %v", err)
	}
}

func TestChanges(t *testing.T) {
	d := t.TempDir()
	write(t, d, "site.cue", "package site\n")
	ctx, cancel := context.WithCancel(t.Context())
	changes := source(d).Changes(ctx)

	write(t, d, "site.cue", "package site // saved\n")
	await(t, changes, "a saved file")

	write(t, d, "new/deep/folder/a.cue", "package a\n")
	await(t, changes, "a new folder")
	write(t, d, "new/deep/folder/a.cue", "package a // again\n")
	await(t, changes, "a file in a new folder")

	if err := os.Rename(filepath.Join(d, "new"), filepath.Join(d, "old")); err != nil {
		t.Fatal(err)
	}
	await(t, changes, "a renamed folder")

	if err := os.Remove(filepath.Join(d, "site.cue")); err != nil {
		t.Fatal(err)
	}
	await(t, changes, "a removed file")

	cancel()
	for range changes { // ends when the channel is closed
	}
}

func TestEditorsFilesAreNoChange(t *testing.T) {
	d := t.TempDir()
	changes := source(d).Changes(t.Context())
	for _, name := range []string{".git.lock", ".site.cue.swp", "site.cue~", "4913"} {
		write(t, d, name, "x")
	}
	select {
	case <-changes:
		t.Error("an editor's file was told of")
	case <-time.After(4 * 50 * time.Millisecond):
	}
}

func fetch(t *testing.T, d string) site.Revision {
	t.Helper()
	rev, err := source(d).Fetch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

func link(t *testing.T, d, to, name string) {
	t.Helper()
	path := filepath.Join(d, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
}

func source(path string) *dir.Source { return dir.New(path, slog.New(slog.DiscardHandler)) }

func await(t *testing.T, changes <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-changes:
	case <-time.After(5 * time.Second):
		t.Fatalf("%s was not told of", what)
	}
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
