package plan

import (
	"fmt"
	"maps"
	"slices"

	"github.com/slipway-gitops/slipway/engine/site"
)

// planLacking reports the fields that the installed system cannot have yet. Remaining steps may
// bring what they need, as a package brings a group, so they block nothing before everything else
// is done.
func planLacking(p *site.NodePlan, s *site.Site, n *site.Node, m site.Memory, serves map[site.Facet]bool) {
	if slices.ContainsFunc(p.Steps, func(s site.Step) bool { return s.Action == site.ActionInstall }) {
		return // the installation erases the system
	}
	var why []string
	for _, f := range inside(s.Roles[n.Role]) {
		if serves[f] {
			why = append(why, lackingOf(n, f, m.Observed.Facets[f])...)
		}
	}
	switch {
	case len(why) == 0:
	case len(p.Steps) == 0 && p.Waiting == "" && p.Running == nil:
		if len(p.Blocked) == 0 {
			p.Release = "a change on the system that makes this possible, or a commit that changes the design"
		}
		p.Blocked = append(p.Blocked, why...)
	default:
		for _, w := range why {
			p.Notes = append(p.Notes, "not possible yet; Slipway tries again after the other steps: "+w)
		}
	}
}

// lackingOf returns sentences about the fields of a facet that the system cannot have yet, each
// with its origin.
func lackingOf(n *site.Node, f site.Facet, seen site.FacetState) []string {
	if !lacks(n, f, seen) {
		return nil
	}
	w := wishFor(n, f, seen)
	var why []string
	told := map[[2]string]bool{} // all fields of an item may lack the same thing
	for _, field := range slices.Sorted(maps.Keys(w.Lacking)) {
		reason := [2]string{w.Keys[field], w.Lacking[field]}
		if w.Unresolved[w.Keys[field]] == "" && !told[reason] {
			told[reason] = true
			why = append(why, fmt.Sprintf("%s%s: %s", placed(w.designedAt(n, f, field)), FieldOf(f, field), w.Lacking[field]))
		}
	}
	return why
}

// lacks reports whether the system cannot have some field of a facet yet.
func lacks(n *site.Node, f site.Facet, seen site.FacetState) bool {
	return (len(seen.Cannot)+len(seen.Unread) > 0 || f == site.FacetConfig && n.AsksForUnits()) && len(seen.Resolve(n, f).Lacking) > 0
}

// lacksAny reports the same for any of several facets.
func lacksAny(n *site.Node, facets []site.Facet, m site.Memory) bool {
	return slices.ContainsFunc(facets, func(f site.Facet) bool { return lacks(n, f, m.Observed.Facets[f]) })
}
