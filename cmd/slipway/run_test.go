package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/slipway-gitops/slipway/engine/site"
)

// revisions is a source with one revision, or an error.
type revisions struct {
	files fstest.MapFS
	err   error
}

func (r revisions) Fetch(context.Context) (site.Revision, error) {
	return site.Revision{Files: r.files}, r.err
}

// The site's name is remembered for a start without the repository. A daemon
// that was killed when it had made the memo, and had not written it, starts
// again.
func TestSiteIsRemembered(t *testing.T) {
	f := runFlags{state: t.TempDir()}
	memo := filepath.Join(f.state, "site")
	if err := os.WriteFile(memo, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	away := revisions{err: errors.New("away")}
	if name, err := siteName(t.Context(), f, away); err == nil {
		t.Fatalf("an empty memo names site %q", name)
	}
	there := revisions{files: fstest.MapFS{
		"cue.mod/module.cue": {Data: []byte("module: \"a.example/site\"\nlanguage: version: \"v0.17.0\"\n")},
		"site.cue":           {Data: []byte("package town\nimport \"github.com/slipway-gitops/slipway/schema\"\nsite: schema.#Site\n")},
	}}
	for _, s := range []revisions{there, away} {
		if name, err := siteName(t.Context(), f, s); name != "town" || err != nil {
			t.Errorf("site %q, %v, want town", name, err)
		}
	}
	if err := os.WriteFile(memo, []byte("city\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if name, err := siteName(t.Context(), f, there); err == nil {
		t.Errorf("the records of city are used for %s", name)
	}
}
