package plan_test

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
	view := plan.View{Site: &design, Known: known, Now: now}
	compare(t, a, "plan.txt", func(w io.Writer) { plan.Text(w, &p, view) })
	compare(t, a, "plan.md", func(w io.Writer) { plan.Comment(w, &site.Review{Plan: p}, view) })
	view.Width = 80
	compare(t, a, "terminal.txt", func(w io.Writer) { plan.Text(w, &p, view) })
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

func TestDigestOfDestructionIsFreeOfRevisionAndObservation(t *testing.T) {
	design := &site.Site{
		Name:   "s",
		Images: map[string]*site.Image{"debian": {URL: "http://images.example/{node}/{generation}.iso", Digests: map[string]string{"n1": "aa"}}},
		Nodes: map[string]*site.Node{"n1": {Name: "n1", Identity: site.Identity{UUID: "u1"}, Power: "on",
			Image: "debian", Generation: 1}},
	}
	never := plan.Site(design, "r1", site.Known{})
	seen := plan.Site(design, "r2", site.Known{Nodes: map[string]site.Memory{"n1": {Observed: site.Observed{
		Identity: site.Identity{UUID: "u1", Serial: "s1"},
		Facets:   map[site.Facet]site.FacetState{site.FacetPower: {Have: site.Values{"state": "off"}, Seen: now}},
	}}}})
	if got, want := seen.Destroys().Digest(), never.Destroys().Digest(); got != want {
		t.Errorf("digest after observing = %s, before %s", got, want)
	}
	if i := never.Nodes[0].Steps[0].Image; i.URL != "http://images.example/n1/1.iso" || i.SHA256 != "aa" || i.Digests != nil {
		t.Errorf("the step's image is %+v, want the node's own", i)
	}
	design.Nodes["n1"].Generation = 2
	next := plan.Site(design, "r3", site.Known{})
	if next.Destroys().Digest() == never.Destroys().Digest() {
		t.Error("generation 2 has the digest of generation 1")
	}
}

// A machine seen for one design is planned for another: what the driver made of
// the old wish says nothing about the new one.
func TestSeenForAnotherDesign(t *testing.T) {
	was := &site.Node{Name: "n1", Power: "on", Identity: site.Identity{UUID: "5e1d0000-0000-4000-8000-000000000001"}}
	seen := site.Observed{Facets: map[site.Facet]site.FacetState{
		site.FacetPower: {Have: site.Values{"state": "on"}, Seen: now},
		site.FacetBoot:  {Have: site.Values{"order": "Hdd,Pxe"}, Seen: now},
	}}
	off, whatever := *was, *was
	off.Power, off.Boot.Order = "off", []string{"Pxe"}
	whatever.Power = ""
	for _, c := range []struct {
		node *site.Node
		want string
	}{
		{was, ""},
		{&whatever, ""},
		{&off, "boot.order: Hdd,Pxe -> Pxe; power.state: on -> off; "},
	} {
		got := ""
		for _, s := range plan.Node(&site.Site{}, c.node, site.Known{Nodes: map[string]site.Memory{"n1": {Observed: seen}}}).Steps {
			got += s.Changes[0].Field + ": " + s.Changes[0].Have + " -> " + s.Changes[0].Want + "; "
		}
		if got != c.want {
			t.Errorf("power %q: %q, want %q", c.node.Power, got, c.want)
		}
	}
}
