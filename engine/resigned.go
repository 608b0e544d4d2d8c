package engine

import (
	"slices"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// isResigned reports whether another authority signs certificates of a system since a design: of its host keys, or those of
// TLS. The design of the node is the same, but the certificates that it was seen with are not those that it is to have.
func (w *worker) isResigned(n *site.Node, before, now *site.Site) bool {
	seen := w.memory.Observed.Facets
	asks := func(f site.Facet, kind string) bool {
		return slices.ContainsFunc(n.ItemsOn(f, seen[f].System), func(i item.Item) bool { return item.Kind(i.Key) == kind })
	}
	return max(1, before.SSH.Epoch) != max(1, now.SSH.Epoch) && asks(site.FacetBase, item.KindSSHHost) ||
		max(1, before.TLS.Epoch) != max(1, now.TLS.Epoch) && asks(site.FacetConfig, item.KindCertificates)
}
