package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/sources/dir"
)

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
