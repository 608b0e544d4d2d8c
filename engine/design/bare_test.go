package design

import (
	"maps"
	"testing"
	"testing/fstest"
)

// What is said of an entry that was written empty is said at its line.
func TestEmptyEntriesHavePlaces(t *testing.T) {
	for text, code := range map[string]string{
		`nodes: "n1": interfaces: "eth0123456789abcdef": {}`:                             "interface-name",
		`roles: compute: needs: instal: controller: {}`:                                  "unknown-phase",
		`profiles: base: families: debin: packages: chrony: {}`:                          "unknown-family",
		"extensions: vm: item: size!: int\n" + `nodes: "n1": extensions: vm: "vm-1": {}`: "extension-item",
	} {
		files := maps.Clone(cleanSite(t))
		files["empty.cue"] = &fstest.MapFile{Data: []byte("package clean\n\n" + text + "\n")}
		found := EvaluateHere(files, "").Findings
		if len(found) == 0 || found[0].Code != code || found[0].File != "empty.cue" {
			t.Errorf("%s has\n%s", text, describe(found))
		}
	}
}

// A repository may refer to every definition of the schema, also to those that
// no layer is held against.
func TestRepositoryMayReferToWhatANodeMustBe(t *testing.T) {
	for _, name := range effectives {
		files := maps.Clone(cleanSite(t))
		files["refer.cue"] = &fstest.MapFile{Data: []byte(`package clean

import "github.com/slipway-gitops/slipway/schema"

_whole: schema.` + name + ` & {power: "off"}
nodes: "n1": power: _whole.power
`)}
		r := EvaluateHere(files, "")
		if r.Site == nil || r.Site.Nodes["n1"].Power != "off" {
			t.Errorf("a site that refers to %s has\n%s", name, describe(r.Findings))
		}
	}
}
