package plan

import (
	"fmt"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Doubt marks the installations of a plan that was made without a daemon's
// records. A machine that does not report from inside what is installed may
// already have it, and then nothing happens to it.
func Doubt(p *site.Plan, k site.Known) {
	for i := range p.Nodes {
		n := &p.Nodes[i]
		seen := k.Nodes[n.Node].Observed
		if !seen.Facets[site.FacetOS].Seen.IsZero() || Absent(seen) {
			continue // the machine reports it, or does not exist
		}
		for j := range n.Steps {
			if s := &n.Steps[j]; s.Action == site.ActionInstall {
				s.Reason = fmt.Sprintf("whether generation %d is installed is unknown", s.Generation)
				n.Notes = append(n.Notes, fmt.Sprintf("it is only "+does(s)+" if generation %d was not installed before: only a daemon's records say that, and this plan has none", s.Generation))
			}
		}
	}
}

// does says what an installation does to its machine.
func does(s *site.Step) string {
	if s.Impact == site.ImpactDestructive {
		return "wiped"
	}
	return "installed"
}
