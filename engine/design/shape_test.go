package design

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/parser"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/slipway-gitops/slipway/engine/site"
)

// TestShapes reads what a schema of a few lines allows: `layers` are merged in
// the order of their names and finished as #Node, `entries` stand alone. Run it
// with -update to rewrite the files, and read the difference.
func TestShapes(t *testing.T) {
	paths, err := filepath.Glob("testdata/shapes/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			want := a.Files[2:]
			a.Files = append(a.Files[:2:2], readByShape(t, a)...)
			if *update {
				if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, a.Files[2:]); diff != "" {
				t.Errorf("want (-), got (+):\n%s", diff)
			}
		})
	}
}

// readByShape reads a site by a schema, its first two files.
func readByShape(t *testing.T, a *txtar.Archive) []txtar.File {
	t.Helper()
	inst := build.NewContext().NewInstance("", nil)
	for i, name := range []string{schemaPrefix + "schema.cue", "site.cue"} {
		f, err := parser.ParseFile(name, a.Files[i].Data)
		if err != nil {
			t.Fatal(err)
		}
		if err := inst.AddSyntax(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := inst.Complete(); err != nil {
		t.Fatal(err)
	}
	v := cuecontext.New().BuildInstance(inst)
	known := shapesOf(v)
	x := extraction{compiler: &compiler{loader: &loader{}}}
	effective := map[string]any{}
	var merged *tree
	for it, _ := v.LookupPath(cue.ParsePath("layers")).Fields(); it.Next(); {
		name := it.Selector().Unquoted()
		merged = merge(merged, readAlone(x.reader("layer/"+name, "", "layers."+name, true), it.Value(), known["#Layer"]))
	}
	if merged != nil {
		r := x.reader("", "n1", "nodes.n1", false)
		merged = r.finish(merged, known["#Node"], "", func() site.Origin { return site.At("site.cue", 1, 1, "node/n1") })
		effective["node"] = merged.plain()
		effective["origins"] = merged.origins()
	}
	entries := map[string]any{}
	for it, _ := v.LookupPath(cue.ParsePath("entries")).Fields(); it.Next(); {
		name := it.Selector().Unquoted()
		entries[name] = readAlone(x.reader("site", "", "entries."+name, false), it.Value(), known["#Entry"]).plain()
	}
	if len(entries) > 0 {
		effective["entries"] = entries
	}
	text, err := json.MarshalIndent(effective, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	site.SortFindings(x.findings.list)
	return []txtar.File{
		{Name: "findings", Data: []byte(describe(x.findings.list))},
		{Name: "effective", Data: append(text, '\n')},
	}
}
