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
