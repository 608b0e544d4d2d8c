package plan_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A system that is set up for certificates and refuses them is told; one that is not set up is not.
func TestNoteOfRefusedCertificates(t *testing.T) {
	for name, c := range map[string]struct {
		login *site.Login
		owned []string
		told  bool
	}{
		"nobody logged in":      {nil, []string{"ssh"}, false},
		"by certificate":        {&site.Login{By: site.ByCertificate}, []string{"ssh"}, false},
		"by key, not set up":    {&site.Login{By: site.ByKey, Refused: "no"}, nil, false},
		"by key, though set up": {&site.Login{By: site.ByKey, Refused: "no"}, []string{"hostname", "ssh"}, true},
	} {
		n := &site.Node{Name: "n1", Power: "on"}
		m := site.Memory{Observed: site.Observed{Login: c.login, Facets: map[site.Facet]site.FacetState{site.FacetBase: {Owned: c.owned}}}}
		notes := plan.Node(&site.Site{Name: "s", Nodes: map[string]*site.Node{"n1": n}}, n, site.Known{Nodes: map[string]site.Memory{"n1": m}}).Notes
		if is := slices.ContainsFunc(notes, func(s string) bool { return strings.Contains(s, "no certificate opens") }); is != c.told {
			t.Errorf("%s: the notes are %q", name, notes)
		}
	}
}
