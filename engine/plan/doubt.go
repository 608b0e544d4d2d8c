package plan

import (
	"fmt"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Doubt marks the installations of a plan that was made without the records of
// a daemon: a machine that does not tell from inside what is installed may have
// it already, and then nothing is done to it.
func Doubt(p *site.Plan, k site.Known) {
	for i := range p.Nodes {
		n := &p.Nodes[i]
		seen := k.Nodes[n.Node].Observed
		if !seen.Facets[site.FacetOS].Seen.IsZero() || Absent(seen) {
			continue // it says so itself, or nothing can be on it
		}
		for j := range n.Steps {
			if s := &n.Steps[j]; s.Action == site.ActionInstall {
				s.Reason = fmt.Sprintf("whether generation %d is installed is unknown", s.Generation)
				n.Notes = append(n.Notes, fmt.Sprintf("it is only "+does(s)+" if generation %d was not installed before: only a daemon's records say that, and this plan has none", s.Generation))
			}
		}
	}
}

// does is what an installation does to its machine.
func does(s *site.Step) string {
	if s.Impact == site.ImpactDestructive {
		return "wiped"
	}
	return "installed"
}
