package libvirt

import (
	"context"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Observe looks at the machine.
func (m *machine) Observe(ctx context.Context, n *site.Node, facets []site.Facet) (site.Observed, error) {
	return site.Observed{Identity: m.identity()}, nil
}
