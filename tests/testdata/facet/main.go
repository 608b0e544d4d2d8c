// Command facet plans a node whose design asks for a facet that only the overlay of the test has.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/site"
)

func main() {
	n := &site.Node{
		Name: "n1", Power: "on", Identity: site.Identity{UUID: "u1"}, Labels: map[string]string{"tier": "front"},
		Endpoints: map[site.EndpointKind]site.Endpoint{site.OS: {URL: "ssh://192.0.2.1"}},
	}
	s := &site.Site{Name: "test", Nodes: map[string]*site.Node{"n1": n}}
	seen := time.Unix(1, 0)
	known := func(have site.Values, owned ...string) site.Known {
		facets := map[site.Facet]site.FacetState{
			site.FacetPower:   {Have: site.Values{"state": "on"}, Seen: seen},
			site.FacetFixture: {Have: have, Owned: owned, OwnedDigest: "d", Seen: seen},
		}
		m := site.Memory{Observed: site.Observed{Identity: n.Identity, Facets: facets}}
		m.Recorded.Owned.Digest = "d"
		return site.Known{Nodes: map[string]site.Memory{"n1": m}, Serves: map[site.Facet]bool{site.FacetPower: true, site.FacetFixture: true}}
	}
	steps := func(what string, k site.Known) {
		p := plan.Node(s, n, k)
		for _, step := range p.Steps {
			fmt.Printf("%s: %s, %s, undone so: %s\n", what, step.Summary(), step.Impact, step.Undo)
		}
		if len(p.Steps) == 0 {
			fmt.Printf("%s: nothing to do %v\n", what, p.Blocked)
		}
	}
	steps("other", known(site.Values{"labels.tier": "back"}))
	steps("as designed", known(site.Values{"labels.tier": "front"}))
	steps("left the design", known(site.Values{"labels.tier": "front", "labels.old": "x"}, "labels.old"))
	fmt.Println("phase:", site.Facets[site.FacetFixture].Phase)
	fmt.Println("nobody acts:", n.NotActedOn(nil), "somebody does:", n.NotActedOn(map[site.Facet]bool{site.FacetFixture: true}))
	fmt.Println("of:", site.FacetOf("labels"), item.Kind("labels.tier"))
	whole := plan.Site(s, "r", known(site.Values{"labels.tier": "back"}))
	present.Text(os.Stdout, &whole, present.View{})
}
