package design

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/slipway-gitops/slipway/engine/design/author"
)

// marked returns files with a byte order mark in each.
func marked(files fstest.MapFS) fstest.MapFS {
	all := maps.Clone(files)
	for name, f := range all {
		all[name] = &fstest.MapFile{Data: append([]byte(byteOrderMark), f.Data...)}
	}
	return all
}

// A design whose files begin with byte order marks is the same design, whole and in parts, before and after an edit.
func TestMarkedFilesAreTheSameDesign(t *testing.T) {
	files := cleanSite(t)
	files["data.cue"] = &fstest.MapFile{Data: []byte("package clean\n\ndata: {floors: path: \"floors.json\", more: path: \"floors.yaml\"}\n")}
	files["floors.json"] = &fstest.MapFile{Data: []byte(`{"n1": {"labels": {"floor": "2"}}}`)}
	files["floors.yaml"] = &fstest.MapFile{Data: []byte("n2:\n  labels:\n    floor: \"3\"\n")}
	edited := maps.Clone(files)
	text := strings.Replace(string(files["nodes.cue"].Data), `n1: profiles: ["base", "machine1"]`, `n1: {profiles: ["base", "machine1"], labels: row: "b"}`, 1)
	edited["nodes.cue"] = &fstest.MapFile{Data: []byte(text)}
	e := newEvaluator(t, Limits{})
	for name, design := range map[string]fstest.MapFS{"as it is": files, "edited": edited} {
		want := EvaluateHere(design, "")
		got, err := e.Evaluate(t.Context(), marked(design), "")
		if err != nil || want.Site == nil || got.Site == nil {
			t.Fatalf("%s: %v; without marks:\n%s\nwith marks:\n%s", name, err, describe(want.Findings), describe(got.Findings))
		}
		if diff := cmp.Diff(nodesText(t, want), nodesText(t, got)); diff != "" {
			t.Errorf("%s: without (-), with marks (+):\n%s", name, diff)
		}
	}
}

func nodesText(t *testing.T, r Result) string {
	t.Helper()
	text, err := json.MarshalIndent(r.Site.Nodes, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A fault of a JSON file with a mark is told as without one.
func TestMarkedDataHasTheSameFault(t *testing.T) {
	files := cleanSite(t)
	files["data.cue"] = &fstest.MapFile{Data: []byte("package clean\n\ndata: floors: path: \"floors.json\"\n")}
	files["floors.json"] = &fstest.MapFile{Data: []byte("{\"n1\": {\"labels\": {\"floor\": \"2\",}}}\n")}
	want := describe(EvaluateHere(files, "").Findings)
	if got := describe(EvaluateHere(marked(files), "").Findings); got != want || !strings.Contains(got, "there is a comma before") {
		t.Errorf("with marks:\n%s\nwithout:\n%s", got, want)
	}
}

// A migration of files with marks makes the same changes.
func TestMarkedFilesAreMigrated(t *testing.T) {
	e := newEvaluator(t, Limits{})
	for _, name := range []string{"fields", "manager", "sites"} {
		a, err := txtar.ParseFile(filepath.Join("testdata/migrate", name+".txtar"))
		if err != nil {
			t.Fatal(err)
		}
		files := golden{name, a}.files(t).(fstest.MapFS)
		want, err := e.Migrate(t.Context(), files)
		if err != nil || len(want.Files) == 0 {
			t.Fatalf("%s: %v, %d files", name, err, len(want.Files))
		}
		got, err := e.Migrate(t.Context(), marked(files))
		if err != nil || len(got.Files) != len(want.Files) || narrate(got) != narrate(want) {
			t.Fatalf("%s: %v\n%s\nwithout marks:\n%s", name, err, narrate(got), narrate(want))
		}
		for i, f := range got.Files {
			if diff := cmp.Diff(string(want.Files[i].Text), string(bytes.TrimPrefix(f.Text, []byte(byteOrderMark)))); diff != "" {
				t.Errorf("%s: %s, without (-), with marks (+):\n%s", name, f.Name, diff)
			}
		}
	}
}

// Formatting takes the mark away and changes nothing else.
func TestMarkedFileIsFormatted(t *testing.T) {
	text, err := fs.ReadFile(os.DirFS("../../site-example"), "rack-1.cue")
	if err != nil {
		t.Fatal(err)
	}
	got, found := FormatHere("rack-1.cue", append([]byte(byteOrderMark), text...))
	if len(found) > 0 || string(got) != string(text) {
		t.Errorf("%v; formatted:\n%s", found, cmp.Diff(string(text), string(got)))
	}
}

// An edit of one value in a file with a mark changes that value alone.
func TestMarkedFileIsEdited(t *testing.T) {
	text := byteOrderMark + "package clean // a site\ncredentials: bmc: {derived: true, epoch: 1}\n"
	edited, why := author.RaiseEpoch(map[string][]byte{"site.cue": []byte(text)}, "bmc", 1)
	if want := strings.Replace(text, "epoch: 1", "epoch: 2", 1); why != "" || string(edited["site.cue"]) != want {
		t.Errorf("%s, %q, want %q", why, edited["site.cue"], want)
	}
}
