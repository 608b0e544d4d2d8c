package design

import (
	"maps"
	"testing"
	"testing/fstest"
)

// A mistake with @unset() is one finding, where the attribute is.
func TestUnsetIsToldWhereItIs(t *testing.T) {
	for text, code := range map[string]string{
		`nodes: "n1": role: _ @unset()`:   "missing-field",
		`networks: mgmt: mtu: _ @unset()`: "unset-outside-layer",
		`nodes: "n1": image: _ @unst()`:   "incomplete-value",
	} {
		files := maps.Clone(cleanSite(t))
		files["unset.cue"] = &fstest.MapFile{Data: []byte("package clean\n\n" + text + "\n")}
		found := EvaluateHere(files, "").Findings
		if len(found) != 1 || found[0].Code != code || found[0].File != "unset.cue" {
			t.Errorf("%s has\n%s", text, describe(found))
		}
	}
}
