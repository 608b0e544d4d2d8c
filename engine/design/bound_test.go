package design

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/slipway-gitops/slipway/engine/site"
)

// The highest generation of the schema is site.MaxGeneration.
func TestGenerationsAreBounded(t *testing.T) {
	for generation, accepted := range map[string]bool{
		fmt.Sprint(site.MaxGeneration): true, fmt.Sprint(site.MaxGeneration + 1): false, "9223372036854775807": false,
		"99999999999999999999999": false, "-1": false,
	} {
		files := fstest.MapFS{
			"cue.mod/module.cue": {Data: []byte(`module: "example.org/fra", language: version: "v0.17.0"`)},
			"site.cue": {Data: []byte(`package fra
images: i: {url: "https://images.example.org/i.iso", sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}
nodes: n1: {profiles: [], role: "r", rack: "r1", image: "i", identity: serial: "S1", generation: ` + generation + `}
`)},
		}
		var said []string
		for _, f := range EvaluateHere(files, "").Findings {
			if f.Code == "invalid-value" && strings.Contains(f.Message, "generation") {
				said = append(said, f.Message)
			}
		}
		if (len(said) == 0) != accepted {
			t.Errorf("%s: findings %q", generation, said)
		}
	}
}
