package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// wish is what the design asks of a facet, in the machine's names as far as they are
// known.
type wish struct {
	site.Resolved
	seen   site.FacetState
	looked map[string]bool // keys of the items that were looked for
}

// wishFor returns what the design means on an observed machine.
func wishFor(n *site.Node, f site.Facet, seen site.FacetState) wish {
	w := wish{Resolved: seen.Resolve(n, f), seen: seen}
	if len(w.Items) > 0 {
		w.looked = lookedFor(seen)
	}
	return w
}

// Unknown is the value of a field that was not read.
const Unknown = "?"

// has returns the value of a field.
func (w wish) has(f site.Facet, field string) string {
	have, read := w.seen.Have[field]
	if key := w.Keys[field]; key != "" {
		have, read = w.hasOf(key, field)
		if !read {
			return Unknown
		}
	}
	if f == site.FacetAccounts && !read {
		return w.hasOfAccount(field)
	}
	unread := f == site.FacetBoot && !read || f == site.FacetBIOS && w.seen.Words != nil && w.seen.Settings().Unread(field)
	if unread || w.Unread || w.seen.Seen.IsZero() {
		return Unknown
	}
	return have
}

// Unread reports whether the design asks for something of a facet that was not read.
func Unread(n *site.Node, f site.Facet, seen site.FacetState) bool {
	w := wishFor(n, f, seen)
	for field := range w.Want {
		if w.has(f, field) == Unknown {
			return true
		}
	}
	return false
}

// diff returns the fields that are not as asked, or will not be after the next boot.
func (w wish) diff(n *site.Node, f site.Facet, seen site.FacetState) []site.Change {
	var changes []site.Change
	for field, want := range w.Want {
		have := w.has(f, field)
		if leaves := seen.Pending[field]; have == want && leaves != "" && leaves != want && site.Facets[f].Staged {
			have += ", " + leaves + " after the next boot"
		}
		if have != want {
			changes = append(changes, w.change(n, f, field, have))
		}
	}
	slices.SortFunc(changes, func(a, b site.Change) int { return strings.Compare(a.Field, b.Field) })
	if site.IsInside(f) {
		return w.addedItems(f, changes)
	}
	return inShort(n, f, changes, seen)
}

// change returns one field that is not as asked, with its origin: "boot.order",
// or "power" for a facet that is a single value in the design.
func (w wish) change(n *site.Node, f site.Facet, field, have string) site.Change {
	c := site.Change{Field: FieldOf(f, field), Have: have, Want: w.Want[field]}
	from := cmp.Or(w.From[field], field)
	if from != field && from != site.AttributeField(field) {
		c.Intent = from
	}
	if driver := w.Drivers[w.Keys[field]]; driver != "" {
		c.Intent = "drivers." + driver
	}
	c.Origin = w.designedAt(n, f, from)
	return c
}

// designedAt returns the origin of a facet's field, or of what contains it.
func (w wish) designedAt(n *site.Node, f site.Facet, field string) site.Origin {
	if site.IsInside(f) {
		return w.itemAt(n, f, field)
	}
	return cmp.Or(designedAt(n, f, field), n.Origins.Of(string(f)))
}

// reachedBy reports whether everything is as asked once pending changes take effect.
func (w wish) reachedBy(seen site.FacetState) bool {
	for field, v := range w.Want {
		next, pending := seen.Pending[field]
		if !pending {
			next = seen.Have[field]
		}
		if next != v {
			return false
		}
	}
	return len(w.Want) > 0 && len(seen.Pending) > 0
}

// unresolved returns sentences about the fields of the design that mean nothing
// on the machine, each with its origin.
func (w wish) unresolved(n *site.Node, f site.Facet) []string {
	why := w.Unresolved
	if f == site.FacetBoot {
		why = noSource(n, w.seen)
	}
	var found []string
	if cause := oneCause(why); site.IsInside(f) && cause != "" {
		return []string{fmt.Sprintf("%s: %s (%d items)", f, cause, len(why))}
	}
	for _, field := range slices.Sorted(maps.Keys(why)) {
		path := FieldOf(f, field) + ": "
		place := placed(w.designedAt(n, f, field))
		if field == site.FieldState && ownTerms(f) {
			path, place = "", placed(n.Place)
		}
		found = append(found, place+path+why[field])
	}
	return found
}

// oneCause returns the one cause of several items, such as a missing helper. It is
// empty for a single item, or for several causes.
func oneCause(why site.Values) (cause string) {
	for _, w := range why {
		if len(why) < 2 || cause != "" && w != cause {
			return ""
		}
		cause = w
	}
	return cause
}

// noSource says which sources of the designed boot order the machine lacks, if it
// lists any. Firmware that is to boot in another mode may have others then.
func noSource(n *site.Node, seen site.FacetState) site.Values {
	order := n.Boot.Order
	if len(seen.Sources) == 0 || n.Boot.Mode != "" && seen.Have["mode"] != n.Boot.Mode {
		return nil
	}
	if seen.OneSource {
		order = order[:min(len(order), 1)]
	}
	absent := slices.DeleteFunc(slices.Clone(order), func(s string) bool { return slices.Contains(seen.Sources, s) })
	if len(absent) == 0 {
		return nil
	}
	return site.Values{"order": fmt.Sprintf("the machine cannot boot from %s, only from %s; change the design's boot.order",
		strings.Join(absent, ", "), strings.Join(seen.Sources, ", "))}
}
