package design

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// What makes a text another than it looks like is told where it is, and a text like
// any other is not.
func TestInspect(t *testing.T) {
	deep := strings.Repeat("a: {", maxNesting+1)
	for text, want := range map[string][]string{
		"package clean\n":       nil,
		"\ufeffpackage clean\n": nil, // as CUE reads it
		"\ufeff---\na: 1\n":     {"1:1 syntax"},
		"a: 1 \ufeff\n":         {"1:6 hidden-character"},
		"\u200ba: 1\n":          {"1:1 hidden-character"},
		"a: 1\n<<<<<<< HEAD\nb: 1\n=======\nb: 2\n>>>>>>> other\n": {"2:1 merge-conflict"},
		"a: \"\"\"\n=======\n\"\"\"\n":                             nil,
		"// a site\n\n---\npackage x\n":                            {"3:1 syntax"},
		"a: \"\"\"\n---\n\"\"\"\n":                                 nil,
		"a: \"ad\u202emin\"\n":                                     {"1:7 hidden-character"},
		"a: \"x\"\nb: \"y\" // z\u200b\n":                          {"2:12 hidden-character"},
		"a: \"Köln 東京\"\n":                                         nil,
		"a: \"n\u0430me\"\n":                                       {"1:6 posing-letter"},
		"a: \"имя\" // 4 kΩ, µm\n":                                 nil,
		strings.Repeat("a: ", 300) + "1":                           {"1:602 too-deep"},
		strings.Repeat("a:\n", 300) + "1":                          {"201:2 too-deep"},
		strings.Repeat("a: b: 1\n", 300):                           nil,
		"a: {" + strings.Repeat("b: 1, ", 300) + "}":               nil,
		deep:                     {fmt.Sprintf("1:%d too-deep", len(deep))},
		strings.Repeat("[", 300): {"1:201 too-deep"},
		"a: \"" + strings.Repeat("(", 300) + "\"":                      nil,
		"// " + strings.Repeat("{", 300) + "\na: 1":                    nil,
		"// " + strings.Repeat("{", 300):                               nil,
		"a: '''\n" + strings.Repeat("{", 300) + "\n'''\nb: {}\n":       nil,
		"a: #\"\\" + strings.Repeat("(", 300) + "\"#\n":                nil,
		"a: \"\\(b[\"c\"])" + strings.Repeat("(", 300) + "\"\nd: {}\n": nil,
		"a: \"\\" + strings.Repeat("(", 300):                           {"1:206 too-deep"},
		"a: \"no end\nb: " + strings.Repeat("(", 201):                  {"2:204 too-deep"},
		strings.Repeat("a: b: 1 // c\n", 300):                          nil,
		"a: 1" + strings.Repeat(" + 1", maxOperators):                  nil,
		"a: 1" + strings.Repeat(" + 1", maxOperators+1):                {"1:4006 too-many-operators"},
		"a: 1" + strings.Repeat(" +\n\t1", maxOperators+1):             {"1001:4 too-many-operators"},
		"a: 1" + strings.Repeat(" + // one\n\n1", maxOperators+1):      {"2001:3 too-many-operators"},
		"a: 1" + strings.Repeat(" == 1", maxOperators):                 nil,
		"a: 1" + strings.Repeat(" && 1", maxOperators+1):               {"1:5006 too-many-operators"},
		"a: " + strings.Repeat("-", maxOperators+1) + "1":              {"1:1004 too-many-operators"},
		"a: " + strings.Repeat("f(1, {}) + ", maxOperators) + "1":      {"1:5505 too-many-operators"}, // each call counts too
		"a: b" + strings.Repeat(".b", maxOperators+1):                  {"1:2005 too-many-operators"},
		"a: b" + strings.Repeat("[0]", maxOperators+1):                 {"1:3005 too-many-operators"},
		"a: {b: 1" + strings.Repeat(" + 1", maxOperators+1) + "}":      {"1:4010 too-many-operators"},
		"a: \"\\(1" + strings.Repeat(" + 1", maxOperators+1) + ")\"":   {"1:4009 too-many-operators"},
		"a: [" + strings.Repeat("1 + 1, ", 2*maxOperators) + "]":       nil,
		strings.Repeat("a: b.c & {d: 1 + 1}\n", 2*maxOperators):        nil,
		"a: \"" + strings.Repeat("1 + ", 2*maxOperators) + "\"":        nil,
	} {
		var got []string
		for _, f := range inspect("x.cue", []byte(text)) {
			got = append(got, fmt.Sprintf("%d:%d %s", f.Line, f.Col, f.Code))
		}
		if !slices.Equal(got, want) {
			t.Errorf("inspect(%.60q) = %v, want %v", text, got, want)
		}
	}
}

// What is written as in YAML, or with or without quotes where the other is meant, is
// told in a sentence of its own.
func TestOtherLanguagesAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		`nodes: n1: power: off`:                                          `patch.cue:3:19 off has no quotes, and nothing has this name`,
		`nodes: n1: boot: order: [Hdd]`:                                  `patch.cue:3:26 Hdd has no quotes, and nothing has this name`,
		"nodes: n1: boot: order:\n  - Hdd":                               `patch.cue:4:5 "- Hdd" is a list item in YAML's form`,
		"- Hdd":                                                          `patch.cue:3:3 "- Hdd" is a list item in YAML's form`,
		`nodes: n1: storage: @unset()`:                                   `patch.cue:3:21 @unset() stands where the value of storage is missing`,
		`nodes: n-1: power: "off"`:                                       `patch.cue:3:11 the name n-1 is without quotes`,
		`roles: compute: maxUnavailable: 0`:                              `patch.cue:3:33 roles.compute.maxUnavailable is 0; it must be a count such as 2 or a share such as "25%"`,
		`roles: compute: minimum: "one"`:                                 `patch.cue:3:26 roles.compute.minimum is "one"; it must be a whole number from 1 to 999999`,
		`roles: compute: minimum: ""`:                                    `patch.cue:3:26 roles.compute.minimum is ""; it must be a whole number from 1 to 999999`,
		`nodes: n1: addresses: bmc: 10.1.2.3`:                            `patch.cue:3:32 the value 10.1.2.3 is without quotes`,
		`nodes: n1: virtual: memory: 20GiB`:                              `patch.cue:3:33 the value 20GiB is without quotes`,
		`networks: x: cidr: 10.0.0.0/16`:                                 `patch.cue:3:24 the value 10.0.0.0/16 is without quotes`,
		`windows: w: {cron: "0 22 * * *", length: 6h}`:                   `patch.cue:3:43 the value 6h is without quotes`,
		`windows: w: {cron: 0 22 * * *, length: "6h"}`:                   `patch.cue:3:22 a comma or the end of the line is missing here`,
		`nodes: n1: {power: "off" tags: ["a"]}`:                          `patch.cue:3:26 a comma or the end of the line is missing here`,
		`nodes: n1: boot: order: ["Hdd" "Pxe"]`:                          `patch.cue:3:32 a comma is missing here`,
		`nodes: "n1" {power: "off"}`:                                     `patch.cue:3:13 a colon is missing after "n1"`,
		`# a comment`:                                                    `patch.cue:3:3 # begins no comment in CUE`,
		"nodes:\n  - name: n1\n    power: \"off\"":                       `patch.cue:4:9 the line begins with a dash (-), as an item of a YAML list does`,
		"nodes: n1: tags:\n  - \"a\"":                                    `patch.cue:4:3 nodes.n1.tags: "- \"a\"" is a list item in YAML's form`,
		"nodes: n1: tags:\n  - \"a\"\n  - \"b\"":                         `patch.cue:4:3 nodes.n1.tags: "- \"a\"" is a list item in YAML's form`,
		"nodes: n1: {\n  power: \"off\" // }\n":                          `patch.cue:5:2 the file ends, and the { of line 3 is not closed`,
		"nodes: n1: {\n  tags: [\"a\"\n":                                 `patch.cue:5:2 the file ends, and the [ of line 4 is not closed`,
		`nodes: n1: power = "off"`:                                       `patch.cue:3:12 power = gives a value a second name, and nothing uses that`,
		`nodes: n1: power: _ @unset`:                                     `patch.cue:3:28 @unset is without parentheses`,
		`nodes: n1: schema.#Layer & {}`:                                  `patch.cue:3:12 the file uses the package schema, and does not import it`,
		`nodes: n1: tags: list.Repeat(["a"], 2)`:                         `patch.cue:3:18 the file uses the package list, and does not import it`,
		`nodes: n1: position: "7"`:                                       `patch.cue:3:22 nodes.n1.position is "7"; it must be fields in braces`,
		"nodes: n1: position: unit: 7\nnodes: n1: position: unit: \"7\"": `patch.cue:4:28 nodes.n1.position.unit is the text "7"; it must be a whole number from 1 to 100, without quotes`,
		`nodes: n1: power: “on”`:                                         `patch.cue:3:19 “ is a typographic quote`,
		`nodes: n1: profiles: "machine1"`:                                `patch.cue:3:22 nodes.n1.profiles is "machine1"; it must be a list of profile names`,
		`roles: compute: minimum: 0`:                                     `patch.cue:3:26 roles.compute.minimum is 0; it must be a whole number from 1 to 999999`,
	} {
		var got []string
		for _, f := range over(t, text).Findings {
			if f.Severity == "error" {
				got = append(got, f.Place()+" "+f.Message)
			}
		}
		if !slices.Equal(got, []string{want}) {
			t.Errorf("%s\nhas\n\t%s\nwant\n\t%s", text, strings.Join(got, "\n\t"), want)
		}
	}
}
