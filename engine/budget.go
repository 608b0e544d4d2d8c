package engine

import (
	"slices"

	"github.com/slipway-gitops/slipway/engine/rollout"
	"github.com/slipway-gitops/slipway/engine/site"
)

// freePlacesLocked wakes nodes that wait for a place in the rollout. The gate
// decides which of them get one. Limits of racks and roles may let a later node
// go first, so it wakes more than there are places.
func (e *Engine) freePlacesLocked() {
	waiting := make([]string, 0, len(e.waiting[rollout.Places]))
	for x := range e.waiting[rollout.Places] {
		waiting = append(waiting, x.name)
	}
	if len(waiting) == 0 {
		return
	}
	slices.Sort(waiting)
	most := 4 * max(1, site.Bound(e.design.Rollout.MaxUnavailable, len(e.workers)))
	for _, name := range spread(waiting, most, func(name string) string { n := e.workers[name].node; return n.Rack + "/" + n.Role }) {
		e.workers[name].wakeUp()
	}
}

// spread returns up to most names, taking one of each group in turn.
func spread(names []string, most int, group func(string) string) []string {
	if len(names) <= most {
		return names
	}
	taken := map[string]int{}
	round := make(map[string]int, len(names))
	for _, name := range names {
		round[name] = taken[group(name)]
		taken[group(name)]++
	}
	slices.SortStableFunc(names, func(a, b string) int { return round[a] - round[b] })
	return names[:most]
}
