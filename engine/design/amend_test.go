package design

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const amended = `// The first rack.
package town

racks: r1: {}

nodes: "n-1": {rack: "r1", labels: slot: "1"}
nodes: {
	n2: {
		rack: "r1" // here
		labels: slot: "2"
	},
	"n-3": {labels: slot: base}, "n-4": {labels: slot: "4"}
	"n-5": labels: slot: """
		five
		"""
	"n-6": rack: "r1"
}
`

// amend outlines fresh by the outline of old, as an evaluation does; nil where
// it has to go through the whole.
func amend(old, fresh string) *outline {
	d := &division{files: []dividedFile{{name: "a.cue", src: []byte(old), outline: outlineOf("a.cue", []byte(old), "v0.17.0")}}}
	if d.files[0].outline.settle([]byte(old)); d.files[0].outline.Entangled != "" {
		return nil
	}
	a := d.amendment("a.cue", []byte(fresh))
	if a == nil {
		return nil
	}
	return a.outline(outlineOf("a.cue", a.text, "v0.17.0"))
}

func TestAmendedOutlines(t *testing.T) {
	for _, c := range []struct {
		name, old, fresh string
		amends           bool
	}{
		{"a value", `slot: "1"`, `slot: "eleven"`, true},
		{"a line more", `rack: "r1" // here`, "rack: \"r1\"\n\t\ttags: a: true", true},
		{"two lines less", "\t\track: \"r1\" // here\n\t\tlabels: slot: \"2\"\n", "", true},
		{"a text of several lines", "five", "five\n\t\tand six", true},
		{"one beside it on the line", `"4"`, `"44"`, true},
		{"before one on the line", "slot: base}", "slot: \"b\"}", false},
		{"another name", `"n-1"`, `"n-9"`, false},
		{"a new name that it refers to", `slot: "2"`, `slot: other`, false},
		{"a name beside it that it refers to", `slot: "4"`, `slot: n2`, false},
		{"it ends early", `"2"` + "\n\t}", `"2"` + "\n\t}, n9: {}", false},
		{"the braces around it end", `"2"` + "\n\t}", `"2"}}` + "\nother: {n8: {\n\t}", false},
		{"a brace too many", `slot: "2"`, `slot: "2"}`, false},
		{"a text that does not end", `slot: "2"`, `slot: """`, false},
		{"two nodes", `slot: "1"}` + "\nnodes: {\n\tn2: {\n\t\track: \"r1\"", `slot: "9"}` + "\nnodes: {\n\tn2: {\n\t\track: \"r2\"", false},
		{"what is shared", `racks: r1: {}`, `racks: r1: location: "a"`, false},
		{"a pattern", `"n-6": rack: "r1"`, `[string]: rack: "r1"`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !strings.Contains(amended, c.old) {
				t.Fatalf("there is no %s", c.old)
			}
			fresh := strings.Replace(amended, c.old, c.fresh, 1)
			got := amend(amended, fresh)
			if (got != nil) != c.amends {
				t.Fatalf("amended: %v, want %v", got != nil, c.amends)
			}
			sameParts(t, fresh, got)
		})
	}
}

// sameParts holds an amended outline, if there is one, to that of the whole
// text. It may say that nodes refer to more, which only has more evaluated.
func sameParts(t *testing.T, text string, got *outline) {
	t.Helper()
	if got == nil {
		return
	}
	want := outlineOf("a.cue", []byte(text), "v0.17.0")
	for _, name := range want.Uses {
		if !strings.Contains(strings.Join(got.Uses, " "), name) {
			t.Errorf("%q is not among what nodes refer to: %q", name, got.Uses)
		}
	}
	if want.Entangled != "" {
		t.Fatalf("amended what is entangled: %s", want.Entangled)
	}
	if diff := cmp.Diff(partsOf(t, want), partsOf(t, got)); diff != "" {
		t.Errorf("whole (-), amended (+):\n%s", diff)
	}
}

func partsOf(t *testing.T, o *outline) string {
	text, err := json.MarshalIndent(o.Parts, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func FuzzAmend(f *testing.F) {
	f.Add(uint16(100), uint16(3), "x")
	f.Add(uint16(150), uint16(0), "}, n9: {")
	f.Add(uint16(190), uint16(9), "\n}\nb: {\n")
	f.Add(uint16(210), uint16(1), `"""`)
	f.Add(uint16(240), uint16(2), `#"`)
	f.Add(uint16(130), uint16(7), "@extern(a)")
	f.Add(uint16(180), uint16(4), "\r\n// ")
	f.Fuzz(func(t *testing.T, at, less uint16, more string) {
		from := int(at) % len(amended)
		to := min(len(amended), from+int(less)%40)
		fresh := amended[:from] + more + amended[to:]
		sameParts(t, fresh, amend(amended, fresh))
	})
}
