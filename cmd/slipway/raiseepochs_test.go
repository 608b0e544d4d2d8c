package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

func TestEpochsAreRaisedInTheSameCommit(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "site.cue")
	if err := os.WriteFile(path, []byte("package a\n\nn: 2\ncredentials: {\n\ta: {from: \"derived\", epoch: 1}\n\tb: {from: \"derived\", epoch: 6}\n\tc: {from: \"derived\", epoch: n}\n\td: {}\n}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	said, err := raisedIn(dir, []site.Exposed{{Secret: "credential a", Epoch: 1}, {Secret: "credential b", Epoch: 6}, {Secret: "credential c", Epoch: 2}, {Secret: "credential d"}, {Secret: "file /x of n1"}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(got), "epoch: 2}\n") || !strings.Contains(string(got), "epoch: 7}") || !strings.Contains(string(got), "epoch: n}") {
		t.Errorf("%s, %v", got, err)
	}
	text := strings.Join(said, "\n")
	if len(said) != 3 || !strings.Contains(text, "raised the epoch of credential a to 2 in "+path) || !strings.Contains(text, "NOT raised: the epoch of credential c, because at "+path+":7:") || !strings.Contains(text, "Raise it to 3 by hand") {
		t.Errorf("said:\n%s", text)
	}
}

// CUE reads no file whose name begins with an underscore, and a link leads to a file that others have too.
func TestOnlyFilesOfTheDesignAreRaised(t *testing.T) {
	folder, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "shared.cue")
	line := []byte("package town\n\ncredentials: bmc: {from: \"derived\", account: \"slipway\", epoch: 2}\n")
	for _, path := range []string{elsewhere, filepath.Join(folder, "_old.cue")} {
		if err := os.WriteFile(path, line, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(elsewhere, filepath.Join(folder, "shared.cue")); err != nil {
		t.Fatal(err)
	}
	exposed := []site.Exposed{{Secret: "credential bmc", Epoch: 2}}
	if said, err := raisedIn(folder, exposed); err != nil || len(said) != 1 || !strings.HasPrefix(said[0], "NOT raised") {
		t.Errorf("said %q, %v", said, err)
	}
	if text, _ := os.ReadFile(elsewhere); string(text) != string(line) {
		t.Errorf("the file behind the link: %s", text)
	}
	own := filepath.Join(folder, "own.cue")
	if err := os.WriteFile(own, line, 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := raisedIn(folder, exposed); err != nil || len(said) != 1 || !strings.HasPrefix(said[0], "raised the epoch") {
		t.Errorf("said %q, %v", said, err)
	}
	if info, err := os.Stat(own); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its mode: %v, %v", info.Mode(), err)
	}
}
