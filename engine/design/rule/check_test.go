package rule

import (
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// A rule that panics is a finding and stops no other.
func TestRulePanicIsAFinding(t *testing.T) {
	shaky := Rule{
		Code:  "shaky",
		Site:  func(s *site.Site) []site.Finding { return []site.Finding{{Message: s.Nodes["none"].Name}} },
		Node:  func(_ *site.Site, n *site.Node) []site.Finding { return []site.Finding{{Message: n.Paused.By}} },
		Facts: func(_ *site.Site, n *site.Node) []Fact { return fact(n.Paused.By, "paused.by") },
		Fleet: func(_ *site.Site, x *Index) []site.Finding {
			return []site.Finding{{Message: x.Holders("none")[0].Node}}
		},
	}
	fromFacts := shaky.facts(&site.Site{}, &site.Node{}, func(Fact, site.Origin) {})
	for what, found := range map[string][]site.Finding{
		"site":  shaky.onSite(&site.Site{}),
		"node":  shaky.onNode(&site.Site{}, &site.Node{}),
		"facts": fromFacts,
		"fleet": shaky.onFleet(&site.Site{}, &Index{}),
	} {
		if len(found) != 1 || found[0].Code != "panic" || !strings.Contains(found[0].Message, "the rule shaky") {
			t.Errorf("%s: got %v, want one finding about the rule shaky", what, found)
		}
	}
}
