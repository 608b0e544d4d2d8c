package keyfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/keyfile"
)

func TestReadsWhatWasWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "key")
	if err := keyfile.Create(path, []byte("secret\n")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o400 {
		t.Errorf("the file has mode %v, %v; want 0400", info.Mode().Perm(), err)
	}
	if text, err := keyfile.Read(path, 7); err != nil || string(text) != "secret\n" {
		t.Errorf("got %q, %v", text, err)
	}
	if _, err := keyfile.Read(path, 6); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("a file that is too large: got %v", err)
	}
	if err := keyfile.Create(path, []byte("other")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second one in its place: got %v, want fs.ErrExist", err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".key-*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// What systemd hands over to the service shows the mask of an ACL as the mode of its
// group. Elsewhere the same mode means that others can read the file.
func TestModesThatAreRefused(t *testing.T) {
	handed, elsewhere := t.TempDir(), t.TempDir()
	t.Setenv("CREDENTIALS_DIRECTORY", handed)
	for _, c := range []struct {
		folder string
		mode   os.FileMode
		fits   bool
	}{
		{elsewhere, 0o400, true}, {elsewhere, 0o600, true}, {elsewhere, 0o440, false}, {elsewhere, 0o604, false}, {elsewhere, 0o620, false},
		{handed, 0o440, os.Getgid() == 0}, {handed, 0o444, false}, {handed, 0o460, false},
	} {
		path := filepath.Join(c.folder, "key")
		if err := errors.Join(os.WriteFile(path, []byte("x"), 0o600), os.Chmod(path, c.mode)); err != nil {
			t.Fatal(err)
		}
		_, err := keyfile.Read(path, 10)
		if (err == nil) != c.fits || err != nil && !strings.Contains(err.Error(), "chmod 400") {
			t.Errorf("mode %o in %s: got %v, want it to fit: %t", c.mode, filepath.Base(c.folder), err, c.fits)
		}
		os.Remove(path)
	}
	if _, err := keyfile.Read(elsewhere, 10); err == nil {
		t.Error("a folder was read")
	}
}
