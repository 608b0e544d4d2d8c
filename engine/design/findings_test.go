package design

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/site"
)

// What many nodes inherit from one line is one finding, and leaves room for
// the others.
func TestLimitFoldsWhatNodesInherit(t *testing.T) {
	var list []site.Finding
	for i := range 3 * maxFindings {
		node := fmt.Sprintf("n%04d", i)
		list = append(list,
			site.Finding{Code: "a", File: "base.cue", Line: 3, Col: 1, Node: node, Message: "the rack is wrong"},
			site.Finding{Code: "b", File: "base.cue", Line: 4, Col: 1, Node: node, Message: "the node " + node + " has no rack"},
		)
	}
	list = append(list, site.Finding{Code: "c", File: "other.cue", Line: 1, Col: 1, Node: "n0001", Message: "else"})
	got := limit(list)
	want := []site.Finding{
		{Code: "a", File: "base.cue", Line: 3, Col: 1, Node: "n0000", More: 2999, Message: "the rack is wrong"},
		{Code: "b", File: "base.cue", Line: 4, Col: 1, Node: "n0000", More: 2999, Message: "the node n0000 has no rack"},
		{Code: "c", File: "other.cue", Line: 1, Col: 1, Node: "n0001", Message: "else"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}

// Nodes that say different things of one place are told apart, also where the
// name of one is part of a word.
func TestFoldKeepsWhatDiffers(t *testing.T) {
	at := func(node, message string) site.Finding {
		return site.Finding{Code: "a", File: "base.cue", Line: 3, Col: 1, Node: node, Message: message}
	}
	for _, c := range []struct {
		list []site.Finding
		want int
	}{
		{[]site.Finding{at("n1", "no image debian11"), at("n2", "no image debian11")}, 1},
		{[]site.Finding{at("n1", "nodes.n1.rack is 3"), at("n2", "nodes.n2.rack is 3")}, 1},
		{[]site.Finding{at("n1", "nodes.n1.rack is 3"), at("n2", "nodes.n2.rack is 4")}, 2},
		{[]site.Finding{at("n1", "n1-a is like n1"), at("n2", "n2-a is like n2")}, 2},
		{[]site.Finding{at("", "the site"), at("", "the site")}, 2},
	} {
		if got := fold(c.list); len(got) != c.want {
			t.Errorf("fold(%v) = %v, want %d", c.list, got, c.want)
		}
	}
}
