package plan

import (
	"slices"

	"github.com/slipway-gitops/slipway/engine/site"
)

// PhaseIndex is the place of a phase in a role's order; one that the role does
// not have, and the empty phase of a node that has gone through all, come
// after the last.
func PhaseIndex(r *site.Role, phase string) int {
	if i := slices.Index(r.AllPhases(), phase); i >= 0 {
		return i
	}
	return len(r.AllPhases())
}
