package plan

import "github.com/slipway-gitops/slipway/engine/site"

// Health returns the last observed health of a node's system, however old, given
// the facets that drivers serve. It is zero if the node's role asks for none.
func Health(n *site.Node, o site.Observed, serves map[site.Facet]bool) site.SystemHealth {
	return n.HealthSeen(o.Facets[site.FacetProbes], serves)
}
