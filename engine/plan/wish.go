package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// wish is what the design asks of a facet, in the driver's terms as far as they
// are known, and the design's own name of each field that has another one.
type wish struct{ want, from site.Values }

// wishFor is what the design asks for as the driver resolved it. Where the
// facet was seen for another design it is made of what the driver offers, and
// without such an observation the design's own terms stand.
func wishFor(n *site.Node, f site.Facet, seen site.FacetState) wish {
	asked := n.Want(f)
	switch f {
	case site.FacetDefinition:
		return wish{want: asked}
	case site.FacetDisks:
		return wish{want: withoutImage(n, asked, seen)}
	}
	if seen.Want != nil && isFor(asked, seen) {
		return wish{seen.Want, seen.From}
	}
	if asked == nil || seen.Offers == nil {
		return wish{asked, nil}
	}
	w := wish{site.Values{}, site.Values{}}
	for _, field := range slices.Sorted(maps.Keys(asked)) {
		for name, value := range seen.Offers[field+"="+asked[field]] {
			w.want[name], w.from[name] = value, field
		}
	}
	for field, value := range asked {
		name, attribute := strings.CutPrefix(field, site.AttributeField(""))
		if attribute { // it wins over intents
			w.want[name], w.from[name] = value, field
		}
	}
	return w
}

// isFor says whether a facet was seen for a design that asks the same.
func isFor(asked site.Values, seen site.FacetState) bool {
	return seen.Asked == nil || maps.Equal(seen.Asked, asked)
}

// diff are the fields that are not as asked, or will not be after the next boot.
func (w wish) diff(n *site.Node, f site.Facet, seen site.FacetState) []site.Change {
	var changes []site.Change
	for field, want := range w.want {
		have := seen.Have[field]
		if have == "" && !ownTerms(f) && !isFor(n.Want(f), seen) || seen.Seen.IsZero() {
			have = "?"
		}
		if leaves := seen.Pending[field]; have == want && leaves != "" && leaves != want && site.Facets[f].Staged {
			have += ", " + leaves + " after the next boot"
		}
		if have != want {
			changes = append(changes, w.change(n, f, field, have))
		}
	}
	slices.SortFunc(changes, func(a, b site.Change) int { return strings.Compare(a.Field, b.Field) })
	return inShort(n, f, changes, seen)
}

// change is one field that is not as asked, with where it was designed:
// "boot.order", or "power" for a facet that is a single value in the design.
func (w wish) change(n *site.Node, f site.Facet, field, have string) site.Change {
	c := site.Change{Field: string(f) + "." + field, Have: have, Want: w.want[field]}
	from := cmp.Or(w.from[field], field)
	if from != field && from != site.AttributeField(field) {
		c.Intent = from
	}
	c.Origin = cmp.Or(designedAt(n, f, from), n.Origins.Of(string(f)))
	return c
}

// reachedBy says whether all is as asked once what is pending has taken effect.
func (w wish) reachedBy(seen site.FacetState) bool {
	for field, v := range w.want {
		next, pending := seen.Pending[field]
		if !pending {
			next = seen.Have[field]
		}
		if next != v {
			return false
		}
	}
	return len(w.want) > 0 && len(seen.Pending) > 0
}

// unresolved are sentences on the fields of the design that mean nothing on the
// machine, each with its place.
func unresolved(n *site.Node, f site.Facet, seen site.FacetState) []string {
	why := seen.Unresolved
	switch asked := n.Want(f); {
	case f == site.FacetBoot:
		why = noSource(n, seen)
	case len(seen.Unresolved) == 0 && seen.Offers == nil:
		return nil // nothing had to be resolved
	case !ownTerms(f) && !isFor(asked, seen):
		why = notOffered(asked, seen)
	}
	var found []string
	for _, field := range slices.Sorted(maps.Keys(why)) {
		path := string(f) + "." + field + ": "
		place := placed(cmp.Or(designedAt(n, f, field), n.Origins.Of(string(f))))
		if field == site.FieldState && ownTerms(f) {
			path, place = "", placed(n.Place)
		}
		found = append(found, place+path+why[field])
	}
	return found
}

// notOffered are the intents of a design for which the machine has nothing, as
// far as an observation for another design tells.
func notOffered(asked site.Values, seen site.FacetState) site.Values {
	why := site.Values{}
	for field, value := range asked {
		attribute := strings.HasPrefix(field, site.AttributeField(""))
		if _, ok := seen.Offers[field+"="+value]; !ok && !attribute && seen.Offers != nil {
			why[field] = fmt.Sprintf("this machine has no setting that stands for %s; name its own attribute in bios.attributes, or leave it out", value)
		}
	}
	return why
}

// noSource says which sources of the designed boot order the machine lacks, as far
// as it lists any. Firmware that is to boot in another mode may have others then.
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
