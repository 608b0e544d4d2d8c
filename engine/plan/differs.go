package plan

import (
	"fmt"
	"maps"
	"slices"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Differs says what a plan would change of a facet's items inside the installed system, or why it
// could not, by item key.
func Differs(n *site.Node, f site.Facet, seen site.FacetState) map[string]string {
	w := wishFor(n, f, seen)
	why := map[string]string{}
	for _, field := range slices.Sorted(maps.Keys(w.Want)) {
		key, have := w.Keys[field], w.has(f, field)
		switch leaves := seen.Pending[field]; {
		case why[key] != "":
		case w.Unresolved[key] != "":
			why[key] = w.Unresolved[key]
		case w.Unresolved[field] != "" && have != w.Want[field]:
			why[key] = w.Unresolved[field]
		case have == Unknown:
			why[key] = fmt.Sprintf("%s could not be read again", field)
		case have != w.Want[field]:
			why[key] = fmt.Sprintf("the plan would change %s from %q to %q", field, have, w.Want[field])
		case leaves != "" && leaves != have:
			why[key] = fmt.Sprintf("%s is %q, and %q after the next boot", field, have, leaves)
		}
	}
	for _, field := range slices.Sorted(maps.Keys(w.Lacking)) {
		if key := w.Keys[field]; why[key] == "" {
			why[key] = w.Lacking[field]
		}
	}
	return why
}
