package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/sources/dir"
)

// What is no regular file is refused in a working directory as in a commit, be
// it CUE or data that the design names; what nothing reads may be anything.
func TestIrregularFiles(t *testing.T) {
	folder := t.TempDir()
	files, err := newSite("fra")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, newFile{"data.cue", []byte("package fra\n\ndata: ipam: path: \"ipam.json\"\n")})
	if err := writeNew(folder, files); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"more.cue": "/etc/hosts", "folder.cue": folder, "ipam.json": "other", "unread.json": "other", "notes.txt": "other"} {
		if err := os.Symlink(to, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(folder, "pipe.cue"), 0o600); err != nil {
		t.Fatal(err)
	}
	rev, err := dir.New(folder, slog.New(slog.DiscardHandler)).Fetch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range design.EvaluateHere(rev.Files, "").Findings {
		got = append(got, f.File+" "+f.Code)
	}
	want := []string{"folder.cue not-regular-file", "ipam.json not-regular-file", "more.cue not-regular-file", "pipe.cue not-regular-file"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want, +got)\n%s", diff)
	}
}

// A data file in a working directory that is larger than any is read is said to
// be too large, and not to be missing.
func TestLargeDataFile(t *testing.T) {
	folder := t.TempDir()
	files, err := newSite("fra")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, newFile{"data.cue", []byte("package fra\n\ndata: ipam: path: \"ipam.json\"\n")})
	if err := writeNew(folder, files); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "ipam.json"), []byte(strings.Repeat(" ", 5<<20)+"{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	rev, err := dir.New(folder, slog.New(slog.DiscardHandler)).Fetch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := design.EvaluateHere(rev.Files, "").Findings
	if len(found) != 1 || found[0].Code != "file-too-large" || found[0].File != "ipam.json" {
		t.Errorf("found %v", found)
	}
}
