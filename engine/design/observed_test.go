package design

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/slipway-gitops/slipway/engine/site"
)

// TestAmend changes the designs in testdata/observed/*.txtar to what was observed, each amendment
// under amend/ apart: what is said, and the files that change, are under want/. -update rewrites them.
func TestAmend(t *testing.T) {
	paths, err := filepath.Glob("testdata/observed/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no archives: %v", err)
	}
	e := newEvaluator(t, Limits{})
	for _, p := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(p), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(p)
			if err != nil {
				t.Fatal(err)
			}
			g := golden{p, a}
			files := g.files(t)
			got := map[string]string{}
			for _, f := range a.Files {
				name, is := strings.CutPrefix(f.Name, "amend/")
				if !is {
					continue
				}
				var am site.Amendment
				if err := json.Unmarshal(f.Data, &am); err != nil {
					t.Fatalf("%s: %v", f.Name, err)
				}
				done, err := e.Amend(t.Context(), files, g.site(), am)
				if err != nil {
					t.Fatalf("%s: %v", f.Name, err)
				}
				if (done.Site == nil) != (done.Why != "") || (len(done.Files) == 0) != (done.Why != "") {
					t.Errorf("%s: %d files, why %q", f.Name, len(done.Files), done.Why)
				}
				if done.Why != "" {
					got[wantPrefix+name+"/why"] = done.Why + "\n"
				}
				for file, text := range done.Files {
					got[wantPrefix+name+"/"+file] = string(text)
				}
			}
			compareMigrated(t, g, got)
		})
	}
}
