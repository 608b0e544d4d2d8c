package inside_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// follow takes the first step of the plan until none is left, as the daemon does, and gives
// the facets of the steps and the last plan.
func (n *node) follow(d *site.Node) (facets []site.Facet, p site.NodePlan) {
	n.t.Helper()
	m := n.open(n.t)
	defer m.Close()
	s := &site.Site{Name: "s1", Nodes: map[string]*site.Node{d.Name: d}}
	serves := map[site.Facet]bool{}
	for _, f := range n.driver.Facets() {
		serves[f] = true
	}
	for range mostSteps {
		seen, err := look(n.t.Context(), n, m, d)
		if err != nil {
			n.t.Fatal(err)
		}
		seen.Identity = d.Identity
		known := site.Known{Nodes: map[string]site.Memory{d.Name: {Observed: seen}}, Serves: serves}
		if p = plan.Node(s, d, known); len(p.Steps) == 0 {
			return facets, p
		}
		n.t.Logf("%s, notes %q", p.Steps[0].Summary(), p.Notes)
		facets = append(facets, p.Steps[0].Facet)
		if err := m.Apply(n.t.Context(), p.Steps[0], d, nil); err != nil {
			n.t.Fatal(err)
		}
	}
	n.t.Fatalf("%d steps and no end: %v, blocked %q", mostSteps, facets, p.Blocked)
	return nil, p
}

// What a package of the same design brings keeps no account from being made: the rest of
// it is set, the package is installed, and then what was lacking is set. What nothing
// brings stalls the node when all else is done.
func TestPackagesBringWhatAccountsNeed(t *testing.T) {
	n := start(t)
	d := &site.Node{
		Name: "n1", Identity: site.Identity{UUID: "u1"}, References: site.References{Family: "debian"},
		System: site.System{
			Users:        map[string]site.User{"ops": {Groups: []string{"crew", "adm"}, Shell: "/usr/bin/crewsh", Keys: []string{firstKey}}},
			Repositories: map[string]site.Repository{"site": {URL: "file:///srv/repo", Suite: "stable", Components: []string{"main"}, Key: made.signs}},
			Packages:     map[string]site.Package{"crew": {}},
		},
	}
	facets, p := n.follow(d)
	if want := []site.Facet{site.FacetBase, site.FacetPackages, site.FacetBase}; !slices.Equal(facets, want) || len(p.Blocked) > 0 || p.Phase != "" {
		t.Errorf("steps %v, want %v; blocked %q, phase %q", facets, want, p.Blocked, p.Phase)
	}
	n.Says("id -Gn ops; getent passwd ops | cut -d: -f7", "ops adm crew\n/usr/bin/crewsh\n")

	d.System.Users["ops"] = site.User{Groups: []string{"nowhere", "adm"}, Shell: "/usr/bin/crewsh", Keys: []string{secondKey}}
	facets, p = n.follow(d)
	if want := []site.Facet{site.FacetBase}; !slices.Equal(facets, want) || len(p.Blocked) != 1 || !strings.Contains(p.Blocked[0], `base.users.ops.groups: there is no group "nowhere"`) {
		t.Errorf("steps %v, blocked %q", facets, p.Blocked)
	}
	n.Says("id -Gn ops; awk '{print $3}' ~ops/.ssh/authorized_keys", "ops adm\nsecond\n")
}
