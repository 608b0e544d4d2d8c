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
