package present_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/slipway-gitops/slipway/engine/bios"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/rollout"
	"github.com/slipway-gitops/slipway/engine/site"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// now is when every golden plan is read.
var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// Each testdata/*.txtar holds a design, what is known of its machines, and the
// plan as people read it.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no golden files", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { golden(t, file) })
	}
}

func golden(t *testing.T, file string) {
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var design site.Site
	var known site.Known
	decode(t, a, "design.json", &design)
	decode(t, a, "known.json", &known)
	words := map[string]*bios.Terms{} // by the name that observations give them
	if slices.ContainsFunc(a.Files, func(f txtar.File) bool { return f.Name == "words.json" }) {
		decode(t, a, "words.json", &words)
	}
	for _, m := range known.Nodes {
		m.Observed.Attach(words)
	}
	for name, n := range design.Nodes {
		n.Name = name
	}
	p := plan.Site(&design, "r1", known)
	p.Forecast = rollout.Forecast(&design, &p, known, now)
	view := present.View{Site: &design, Known: known, Now: now}
	compare(t, a, "plan.txt", func(w io.Writer) { present.Text(w, &p, view) })
	compare(t, a, "plan.md", func(w io.Writer) { present.Comment(w, &site.Review{Plan: p}, view) })
	view.Width = 80
	compare(t, a, "terminal.txt", func(w io.Writer) { present.Text(w, &p, view) })
	if *update {
		if err := os.WriteFile(file, txtar.Format(a), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// compare holds that a file of the archive is what is written, or makes it so.
func compare(t *testing.T, a *txtar.Archive, name string, write func(io.Writer)) {
	t.Helper()
	var got bytes.Buffer
	write(&got)
	i := index(a, name)
	if *update {
		a.Files[i].Data = got.Bytes()
	}
	if diff := cmp.Diff(got.String(), string(a.Files[i].Data)); diff != "" {
		t.Errorf("%s differs (-got +want):\n%s", name, diff)
	}
}

func index(a *txtar.Archive, name string) int {
	for i, f := range a.Files {
		if f.Name == name {
			return i
		}
	}
	a.Files = append(a.Files, txtar.File{Name: name})
	return len(a.Files) - 1
}

func decode(t *testing.T, a *txtar.Archive, name string, into any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(a.Files[index(a, name)].Data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}
