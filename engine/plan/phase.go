package plan

import (
	"slices"

	"github.com/slipway-gitops/slipway/engine/site"
)

// everyPhase is what a node without a role goes through.
var everyPhase = []string{"base", "network", "install", "configure"}

func phases(r *site.Role) []string {
	if r == nil || len(r.Phases) == 0 {
		return everyPhase
	}
	return r.Phases
}

// PhaseOf is the phase of a role that a facet belongs to.
func PhaseOf(r *site.Role, f site.Facet) string {
	if p := site.Phase[f]; p != "" && slices.Contains(phases(r), p) {
		return p
	}
	return phases(r)[0]
}

// PhaseIndex is the place of a phase in a role's order; one that the role does
// not have, and the empty phase of a node that has gone through all, come
// after the last.
func PhaseIndex(r *site.Role, phase string) int {
	if i := slices.Index(phases(r), phase); i >= 0 {
		return i
	}
	return len(phases(r))
}
