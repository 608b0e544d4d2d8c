package design

import (
	"fmt"
	"slices"
	"strings"
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
		{Code: "a", File: "base.cue", Line: 3, Col: 1, Node: "n0000", More: 2999, Named: []string{"n0001", "n0002"}, Message: "the rack is wrong"},
		{Code: "b", File: "base.cue", Line: 4, Col: 1, Node: "n0000", More: 2999, Named: []string{"n0001", "n0002"}, Message: "the node n0000 has no rack"},
		{Code: "c", File: "other.cue", Line: 1, Col: 1, Node: "n0001", Message: "else"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}

// What one line makes of many nodes or entries is one finding. Where the texts differ, the first three are told, and the
// last of them says that it stands for others. What a node has several times is told as often.
func TestFoldByLine(t *testing.T) {
	at := func(node, path, message string) site.Finding {
		return site.Finding{Code: "a", File: "base.cue", Line: 3, Col: 1, Node: node, Path: path, Message: message}
	}
	file := func(node, message string) site.Finding {
		return site.Finding{Code: "a", File: "base.cue", Node: node, Message: message}
	}
	mild := func(f site.Finding) site.Finding { f.Severity = site.SeverityWarning; return f }
	asks := func(fix string, f site.Finding) site.Finding { f.Fix = fix; return f }
	for _, c := range []struct {
		list []site.Finding
		want []string
	}{
		{[]site.Finding{at("n1", "rack", "rack is 3"), at("n2", "rack", "rack is 4"), at("n3", "rack", "rack is 5"), at("n4", "rack", "rack is 6")},
			[]string{"n1 has it", "n2 has it", "n3 and n4 have it; for the others the details differ"}},
		{[]site.Finding{at("n1", "interfaces.eno1.link", "no a"), at("n2", "interfaces.eno2.link", "no b")}, []string{"n1 has it", "n2 has it"}},
		{[]site.Finding{at("n1", "interfaces.eno1.link", "no a"), at("n2", "interfaces.eno2.link", "no a")}, []string{"n1 and n2 have it"}},
		{[]site.Finding{at("n1", "vlans.bond0.20.network", "no a"), at("n2", "vlans.br0.network", "no a")}, []string{"n1 and n2 have it"}},
		{[]site.Finding{at("n1", "endpoints.manager.url", "no url"), at("n2", "endpoints.os.url", "no url")}, []string{"n1 has it", "n2 has it"}},
		{[]site.Finding{at("n1", "rack", "no rack"), at("n1", "role", "no role"), at("n2", "role", "no role")}, []string{"n1 has it", "n1 and n2 have it"}},
		{[]site.Finding{at("n1", "boot.order", "no A"), at("n1", "boot.order", "no B"), at("n2", "boot.order", "no B")}, []string{"n1 has it", "n1 and n2 have it"}},
		{[]site.Finding{mild(at("n1", "rack", "no rack")), at("n2", "rack", "no rack")}, []string{"n1 has it", "n2 has it"}},
		{[]site.Finding{asks("write 1", at("n1", "rack", "no rack")), asks("write 2", at("n2", "rack", "no rack"))}, []string{"n1 has it", "n2 has it"}},
		{[]site.Finding{asks("free n1", at("n1", "rack", "no rack")), asks("free n2", at("n2", "rack", "no rack"))}, []string{"n1 and n2 have it"}},
		{[]site.Finding{at("n1", "rack", "A"), at("n1", "rack", "B"), at("n1", "rack", "C"), at("n1", "rack", "D")}, []string{"n1 has it", "n1 has it", "n1 has it", "n1 has it"}},
		{[]site.Finding{at("n1", "boot.order", "no A"), at("n1", "boot.order", "no B"), at("n2", "boot.order", "no A"), at("n2", "boot.order", "no B")},
			[]string{"n1 and n2 have it", "n1 and n2 have it"}},
		{[]site.Finding{at("", "racks.r1.domain", "a"), at("", "racks.r2.domain", "b"), at("", "racks.r3.domain", "c"), at("", "racks.r4.domain", "d"), at("", "racks.r5.domain", "e")},
			[]string{"", "", "racks.r3.domain, racks.r4.domain and racks.r5.domain have it; for the others the details differ"}},
		{[]site.Finding{at("", "racks.r1.domain", "a"), at("", "racks.r1.location", "b")}, []string{"", ""}},
		{[]site.Finding{file("n1", "n1-a is like n1"), file("n2", "n2-a is like n2")}, []string{"", ""}},
		{[]site.Finding{file("n1", "nodes.n1.rack is 3"), file("n1", "the node n11 is like xn1")}, []string{"", "n1 has it"}},
		{[]site.Finding{file("n1", "no image debian11"), file("n2", "no image debian11")}, []string{"n1 and n2 have it"}},
		{[]site.Finding{at("", "", "the site"), at("", "", "the site")}, []string{"", ""}},
		{[]site.Finding{file("", "no module"), file("", "no site")}, []string{"", ""}},
	} {
		var got []string
		for _, f := range fold(c.list) {
			said := f.Others()
			if _, differs, cut := strings.Cut(f.Message, ";"); cut {
				said += ";" + differs
			}
			got = append(got, said)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("fold(%v) = %q, want %q", c.list, got, c.want)
		}
	}
}
