package keyfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-gitops/slipway/engine/keyfile"
)

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := keyfile.Create(path, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// A key that is replaced is read by nobody else, belongs to whom it belonged to, and leaves nothing
// beside it.
func TestReplacedKey(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "key")
	put(t, path, "old")
	owner := os.Geteuid()
	if owner == 0 {
		owner = 1234
		if err := os.Chown(path, owner, -1); err != nil {
			t.Fatal(err)
		}
	}
	if err := keyfile.Replace(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o400 || int(info.Sys().(*syscall.Stat_t).Uid) != owner {
		t.Errorf("mode %v, owner %d, want 0400 and %d: %v", info.Mode(), info.Sys().(*syscall.Stat_t).Uid, owner, err)
	}
	if text, err := keyfile.Read(path, 10); err != nil || string(text) != "new" {
		t.Errorf("got %q, %v", text, err)
	}
	if err := keyfile.Replace(filepath.Join(folder, "none"), []byte("new")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of none: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(folder, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := keyfile.Replace(filepath.Join(folder, "a"), []byte("new")); err == nil {
		t.Error("a folder was replaced")
	}
	if left, _ := filepath.Glob(filepath.Join(folder, ".key-*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// A key that is made in a folder that cannot be has no file.
func TestKeyInAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	put(t, path, "old")
	if err := keyfile.Create(filepath.Join(path, "key"), []byte("new")); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("got %v", err)
	}
	if err := keyfile.Write(filepath.Join(filepath.Dir(path), "none", "key"), []byte("new")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// Only the group root may be that of an ACL, and only in the folder that systemd has named.
func TestGroupThatMayRead(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("CI runs as root")
		}
		t.Skip("only root gives a file to another group")
	}
	folder := t.TempDir()
	t.Chdir(folder)
	shared := func(name string, group int) {
		t.Helper()
		put(t, filepath.Join(folder, name), "x")
		if err := errors.Join(os.Chown(name, -1, group), os.Chmod(name, 0o440)); err != nil {
			t.Fatal(err)
		}
	}
	shared("root's", 0)
	shared("another's", 1234)
	t.Setenv("CREDENTIALS_DIRECTORY", "")
	if _, err := keyfile.Read("root's", 10); err == nil || !strings.Contains(err.Error(), "chmod 400") {
		t.Errorf("where systemd has named no folder: %v", err)
	}
	t.Setenv("CREDENTIALS_DIRECTORY", folder)
	if _, err := keyfile.Read(filepath.Join(folder, "root's"), 10); err != nil {
		t.Errorf("handed over: %v", err)
	}
	if _, err := keyfile.Read(filepath.Join(folder, "another's"), 10); err == nil || !strings.Contains(err.Error(), "chmod 400") {
		t.Errorf("of another group: %v", err)
	}
}
