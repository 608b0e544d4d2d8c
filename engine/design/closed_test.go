package design

import (
	"slices"
	"strings"
	"testing"
)

// A field that a closed definition does not have is told with the definition, once
// for all fields that it keeps out.
func TestClosedDefinitionsAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"#N: {power: \"off\"}\nnodes: n1: #N":                                                                                                  "nodes.cue:54:16 nodes.n1 does not take profiles: it is #N, which is closed and does not have it (patch.cue:3:1)",
		"#N: {power: \"off\"}\nnodes: n5: #N & {profiles: [\"base\"], role: \"compute\"}":                                                      "patch.cue:4:28 nodes.n5 does not take profiles and role: it is #N, which is closed and does not have them (patch.cue:3:1)",
		"#B: {mode: \"uefi\"}\nnodes: n1: boot: #B & {order: [\"Pxe\"]}":                                                                       "patch.cue:4:31 nodes.n1.boot does not take order: it is #B, which is closed and does not have it (patch.cue:3:1)",
		"#N: {power: \"off\"}\nnodes: n1: {#N, bios: attributes: A: \"1\"}":                                                                    "nodes.cue:54:16 nodes.n1 does not take profiles: it is #N, which is closed and does not have it (patch.cue:3:1)",
		"nodes: n1: close({power: \"off\"})":                                                                                                   "nodes.cue:54:16 nodes.n1 does not take profiles: it is closed with close()",
		"#R: {location: \"x\"}\nracks: r1: #R":                                                                                                 "site.cue:49:22 racks.r1 does not take switches: it is #R, which is closed and does not have it (patch.cue:3:1)",
		"#N: {power: \"off\"}\nnodes: {for i in [5, 6, 7] {\"n\\(i)\": #N & {profiles: [\"base\"]}}}":                                          "patch.cue:4:54 nodes.n5 does not take profiles: it is #N, which is closed and does not have it (patch.cue:3:1)",
		"#P: {rack: \"r1\", profiles: [...string]}\nnodes: n1: #P\nnodes: n2: #P & {profiles: [\"base\", \"machine2\"], boot: mode: \"uefi\"}": "patch.cue:5:56 nodes.n2 does not take boot: it is #P, which is closed and does not have it (patch.cue:3:1)",
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
