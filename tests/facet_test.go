package tests

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What a new facet takes, beside the schema, a driver and the docs: its row in the table of facets,
// and what of a design are its items. Each edit is a file of the module, a line of it, and what is
// written before that line.
var newFacet = []struct{ file, before, text string }{
	{"engine/site/facet.go", "	// These are of virtual machines alone.\n", "	FacetFixture Facet = \"fixture\"\n"},
	{"engine/site/facet.go", "	FacetDefinition: {Endpoint: Manager, Staged: true},\n", `	FacetFixture: {Endpoint: OS, Phase: "configure",
		Change: Work{"apply-fixture", ImpactOnline, Duration(time.Minute), Earlier},
		Parts:  []FacetPart{{Path: "labels", of: func(n *Node) any { return n.Labels }}}},
`},
	{"engine/site/facet.go", "FacetActions}\n", "FacetFixture, "},
	{"engine/site/items.go", "	case FacetNetwork:\n		for name, l := range n.References.Links", `	case FacetFixture:
		for name, value := range n.Labels {
			items = append(items, item.New("labels."+name, map[string]string{"": value}, nil))
		}
`},
}

// plannedFixture is what comes of it everywhere else.
const plannedFixture = `other: apply-fixture: fixture.labels.tier back → front, online, undone so: go back to the earlier design
as designed: nothing to do []
left the design: apply-fixture: fixture.labels.old made by Slipway → removed, or as it was before, online, undone so: go back to the earlier design
phase: configure
nobody acts: [labels] somebody does: []
of: fixture labels
`

// A facet is added in one package: its files here are two.
func TestAFacetIsAddedInOnePlace(t *testing.T) {
	edited := map[string]string{}
	for _, e := range newFacet {
		text, is := edited[e.file]
		if !is {
			source, err := os.ReadFile(filepath.Join("..", e.file))
			if err != nil {
				t.Fatal(err)
			}
			text = string(source)
		}
		if strings.Count(text, e.before) != 1 {
			t.Fatalf("%s has %d times what the edit is made before:\n%s", e.file, strings.Count(text, e.before), e.before)
		}
		edited[e.file] = strings.Replace(text, e.before, e.text+e.before, 1)
	}
	if len(edited) != 2 {
		t.Errorf("a new facet takes edits of %d files of the engine", len(edited))
	}
	folder, replace := t.TempDir(), map[string]string{}
	for file, text := range edited {
		with := filepath.Join(folder, filepath.Base(file))
		if err := os.WriteFile(with, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		from, err := filepath.Abs(filepath.Join("..", file))
		if err != nil {
			t.Fatal(err)
		}
		replace[from] = with
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "overlay.json"), overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "run", "-overlay", filepath.Join(folder, "overlay.json"), "./testdata/facet").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	planned, shown, _ := strings.Cut(string(out), "of: fixture labels\n")
	if diff := cmp.Diff(plannedFixture, planned+"of: fixture labels\n"); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(shown, "labels.tier") || !strings.Contains(shown, "back → front") {
		t.Errorf("people read:\n%s", shown)
	}
}
