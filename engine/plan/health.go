package plan

import "github.com/slipway-gitops/slipway/engine/site"

// Health is what was last seen of the health of a node's system, where the drivers
// serve some facets, however long ago. It is zero where its role asks for none.
func Health(n *site.Node, o site.Observed, serves map[site.Facet]bool) site.SystemHealth {
	return n.HealthSeen(o.Facets[site.FacetProbes], serves)
}
