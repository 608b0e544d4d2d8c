package author_test

import (
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/design/author"
)

func TestRaiseEpoch(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		present int
		want    string // of the file; empty if it is left
		why     string
	}{
		"a literal":          {"package a\n\ncredentials: bmc: {from: \"derived\", account: \"x\", epoch: 4} // ours\n", 4, "package a\n\ncredentials: bmc: {from: \"derived\", account: \"x\", epoch: 5} // ours\n", ""},
		"its own line":       {"package a\n\ncredentials: {\n\tbmc: {\n\t\tfrom: \"derived\"\n\t\tepoch: 1 // since spring\n\t}\n\tos: {}\n}\n", 1, "package a\n\ncredentials: {\n\tbmc: {\n\t\tfrom: \"derived\"\n\t\tepoch: 2 // since spring\n\t}\n\tos: {}\n}\n", ""},
		"a field alone":      {"package a\n\ncredentials: bmc: epoch: 1\n", 1, "package a\n\ncredentials: bmc: epoch: 2\n", ""},
		"the default":        {"package a\n\ncredentials: bmc: {from: \"derived\", account: \"x\"}\n", 1, "package a\n\ncredentials: bmc: {from: \"derived\", account: \"x\", epoch: 2}\n", ""},
		"computed":           {"package a\n\nn: 1\ncredentials: bmc: {epoch: n}\n", 1, "", "site.cue:4:20 its epoch is not the number 1"},
		"an expression":      {"package a\n\ncredentials: bmc: {epoch: 1 + 0}\n", 1, "", "is not the number 1"},
		"changed since":      {"package a\n\ncredentials: bmc: {epoch: 7}\n", 4, "", "site.cue:3:20 its epoch is not the number 4"},
		"twice":              {"package a\n\ncredentials: bmc: {epoch: 1}\ncredentials: bmc: {epoch: 1}\n", 1, "", "is set at site.cue:3:20 and at site.cue:4:20"},
		"a comprehension":    {"package a\n\ncredentials: {for x in [\"bmc\"] {(x): {epoch: 1}}}\n", 1, "", "no file of the folder declares it"},
		"a reference":        {"package a\n\n#own: {epoch: 1, from: \"derived\"}\ncredentials: bmc: #own\n", 1, "", "more than fields in braces"},
		"an embedding":       {"package a\n\n#own: {epoch: 1}\ncredentials: bmc: {#own, from: \"derived\"}\n", 1, "", "more than fields in braces"},
		"set elsewhere":      {"package a\n\ncredentials: bmc: {from: \"derived\"}\n", 3, "", "has no epoch"},
		"a hidden one":       {"package a\n\n_credentials: bmc: {epoch: 1}\n", 1, "", "no file of the folder declares it"},
		"no CUE":             {"package a\n{{{", 1, "", "cannot be read as CUE"},
		"a field attributed": {"package a\n\ncredentials: bmc: {epoch: 1 @foo(x)}\n", 1, "", "is not the number"},
	} {
		t.Run(name, func(t *testing.T) {
			edited, why := author.RaiseEpoch(map[string][]byte{"site.cue": []byte(c.text)}, "bmc", c.present)
			if got := string(edited["site.cue"]); got != c.want || (c.why == "") != (why == "") || !strings.Contains(why, c.why) {
				t.Errorf("%q, %s\nwant %q, %s", got, why, c.want, c.why)
			}
		})
	}
}
