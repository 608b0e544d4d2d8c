package design

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// A null is one finding at its place, wherever it stands: nothing is reported as missing that it stands for.
// SLIPWAY_PROVE tries every place.
func TestNullIsOneFinding(t *testing.T) {
	clean := cleanSite(t)
	paths := pathsOf(t, EvaluateHere(clean, "").Site)
	if len(paths) < 200 {
		t.Fatalf("only %d paths: %v", len(paths), paths)
	}
	rand.New(rand.NewPCG(3, 14)).Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
	for _, path := range paths[:many(40, len(paths))] {
		found := slices.DeleteFunc(ruleCase{clean: clean}.findings(patch(path+": null")), func(f site.Finding) bool { return f.Code == "rules-not-checked" })
		if len(found) == 1 && found[0].Code == "unknown-field" {
			continue // Slipway's name for it is not the schema's
		}
		if len(found) != 1 || found[0].Code != "invalid-value" || found[0].File != patchFile {
			t.Errorf("%s: null has %d findings:\n%s", path, len(found), codesAt(found))
		}
	}
}

// A fix for a null can be pasted: it has the quotes that CUE wants, and says nothing of profiles where there are none.
func TestNullHasAFixThatCanBePasted(t *testing.T) {
	clean := cleanSite(t)
	for patched, fix := range map[string]string{
		`nodes: "n4": interfaces: eno1: null`:         `Write eno1: {} to add nothing, or eno1: _ @unset() to remove what a profile sets.`,
		`nodes: "n4": vlans: "bond0.20": null`:        `Write "bond0.20": {} to add nothing, or "bond0.20": _ @unset() to remove what a profile sets.`,
		`nodes: "n4": boot: order: null`:              `To remove what a profile sets, write order: _ @unset()`,
		`profiles: base: boot: null`:                  `Write boot: {} to add nothing, or boot: _ @unset() to remove what a profile sets.`,
		`networks: data: null`:                        `Write fields in braces, or remove the line.`,
		`networks: data: cidr: null`:                  `Write a network range such as 10.1.0.0/24, or remove the line.`,
		`nodes: "n4": bonds: bond0: networks: [null]`: `Write a list of network names.`,
	} {
		found := ruleCase{clean: clean}.findings(patch(patched))
		i := slices.IndexFunc(found, func(f site.Finding) bool { return f.Code == "invalid-value" })
		if i < 0 || found[i].Fix != fix {
			t.Errorf("%s: want the fix %q; found:\n%s", patched, fix, describe(found))
		}
	}
}

// pathsOf lists the paths of a site's values as CUE writes them, each name in quotes.
func pathsOf(t *testing.T, s *site.Site) []string {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var whole map[string]any
	if err := json.Unmarshal(text, &whole); err != nil {
		t.Fatal(err)
	}
	var paths []string
	var walk func(at []string, in map[string]any)
	walk = func(at []string, in map[string]any) {
		for _, key := range slices.Sorted(maps.Keys(in)) {
			path := append(slices.Clone(at), strconv.Quote(key))
			paths = append(paths, strings.Join(path, ": "))
			if fields, ok := in[key].(map[string]any); ok {
				walk(path, fields)
			}
		}
	}
	walk(nil, whole)
	return paths
}

// A secret in clear text is told also beside a null: whatever was pushed stays in the history, so it cannot wait for another look.
func TestNullHidesNoSecret(t *testing.T) {
	clean := cleanSite(t)
	const secret = `nodes: "n1": system: files: "/etc/backup.conf": content: "password = calvin-7"` + "\n"
	for name, null := range map[string]string{
		"nothing":             "",
		"in the node":         `nodes: "n1": boot: null`,
		"in another node":     `nodes: "n4": boot: null`,
		"in its profile":      `profiles: base: boot: null`,
		"a section":           `networks: null`,
		"an entry":            `networks: data: null`,
		"in the site":         `rollout: null`,
		"in a part of a rule": `nodes: "n1": system: files: "/etc/other": null`,
	} {
		found := ruleCase{clean: clean}.findings(patch(secret + null))
		if !slices.ContainsFunc(found, func(f site.Finding) bool { return f.Code == "clear-secret" }) {
			t.Errorf("null %s (%s) hides the secret; found:\n%s", name, null, codesAt(found))
		}
	}
}
