package plan

import "github.com/slipway-gitops/slipway/engine/site"

// Health is what was last seen of the health of a node's system, where the drivers
// serve some facets, however long ago. It is zero where its role asks for none.
func Health(n *site.Node, o site.Observed, serves map[site.Facet]bool) site.SystemHealth {
	return n.HealthSeen(o.Facets[site.FacetProbes], serves)
}

// HasGoneThrough says whether a node that is before a phase of its role, or before
// none any more, counts as having gone through one. A node with nothing left to do
// counts as long as its system is fit. While it still goes through later phases its
// health says nothing, since what that asks for may come with those.
func HasGoneThrough(r *site.Role, before, phase string, h site.SystemHealth) bool {
	if before == "" {
		return h.IsFit()
	}
	return PhaseIndex(r, before) > PhaseIndex(r, phase)
}
