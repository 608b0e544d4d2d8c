package plan

import (
	"slices"

	"github.com/slipway-gitops/slipway/engine/site"
)

// PhaseIndex is the index of a phase in a role's order. A phase that the role
// does not have comes after the last, as does the empty phase of a node that
// has gone through all.
func PhaseIndex(r *site.Role, phase string) int {
	if i := slices.Index(r.AllPhases(), phase); i >= 0 {
		return i
	}
	return len(r.AllPhases())
}
