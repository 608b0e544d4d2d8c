package design

import (
	"slices"
	"testing"
)

// A finding about what is missing from a part, and one about a node's name, are
// where a person would write it.
func TestPlaceOfWhatIsMissing(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a root": {`nodes: "n4": storage: {
	bootDisk: "zero"
	disks: {
		zero: {
			match: kind: "ssd"
			filesystem: mount: "/srv"
		}
		data: {
			match: kind: "hdd"
			filesystem: mount: "/data"
		}
	}
}`, "patch.cue:7:17 root-missing"},
		"a name": {`nodes: "n4": labels: a: "b"
policies: named: {require: name: =~"^rack", why: "people look for them by rack", severity: "error", nodes: names: ["n4"]}`, "nodes.cue:57:2 policy/named"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, f := range over(t, c.text).Findings {
				if f.Code == "root-missing" || isPolicy(f.Code) {
					got = append(got, f.Place()+" "+f.Code)
				}
			}
			if !slices.Equal(got, []string{c.want}) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
