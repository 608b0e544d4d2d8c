package tree

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// A file is shown if everybody may read it, by its own permissions and by those of
// every folder above it.
func TestReadPublic(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]fs.FileMode{"open": 0o755, "closed": 0o700, "closed/below": 0o755} {
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, name), 0o755), os.Chmod(filepath.Join(dir, name), mode)); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]fs.FileMode{"a": 0o644, "open/a": 0o644, "open/own": 0o600, "closed/a": 0o644, "closed/below/a": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("text"), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("../closed/a", filepath.Join(dir, "open/link")), os.Symlink("/open/a", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	w, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for name, shown := range map[string]bool{
		"/a": true, "/open/a": true, "/link": true, "/open/own": false, "/closed/a": false, "/closed/below/a": false, "/open/link": false,
	} {
		text, _, err := w.ReadPublic(name, 100)
		if shown && (err != nil || string(text) != "text") || !shown && !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s: got %q, %v", name, text, err)
		}
	}
}

// A user who swaps a folder of his for a link while it is looked at is shown nothing
// that he could not read.
func TestReadPublicWhileFoldersAreSwapped(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(os.Chmod(dir, 0o755), os.MkdirAll(at("home/own"), 0o755), os.WriteFile(at("home/own/a"), []byte("mine"), 0o644),
		os.Mkdir(at("secret"), 0o700), os.WriteFile(at("secret/a"), []byte("hers"), 0o644),
		os.Symlink("../secret", at("home/trap")))
	if err != nil {
		t.Fatal(err)
	}
	w, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var stop atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for !stop.Load() {
			for _, move := range [][2]string{{"own", "kept"}, {"trap", "own"}, {"own", "trap"}, {"kept", "own"}} {
				if err := os.Rename(at("home/"+move[0]), at("home/"+move[1])); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	for range 5000 {
		if text, _, err := w.ReadPublic("/home/own/a", 100); err == nil && string(text) != "mine" {
			t.Errorf("it was shown %q", text)
			break
		}
	}
	stop.Store(true)
	<-ended
}
