package libvirt

import (
	"context"

	"github.com/slipway-gitops/slipway/engine/site"
)

// seed is whether the machine still has what its first boot was given.
func (s *sighting) seed(context.Context) (site.FacetState, error) {
	state := site.SeedNone
	if s.record != nil && s.record.domain.owner.Seed != nil {
		state = site.SeedAttached
	}
	return site.FacetState{Have: site.Values{"state": state}}, nil
}
