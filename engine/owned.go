package engine

import (
	"slices"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// noteOwned records the list of what Slipway made inside a system as it was seen
// after a run of ours, unless it says of more that it is ours than it said before that
// run and the run was asked for: somebody else has added to it then. Any other list that
// differs from the recorded one, also that there is none any more, is for a person; a
// new system begins with none, and what its installation lists is believed.
func noteOwned(r *site.Recorded, n *site.Node, seen site.Observed) {
	digest, inside := seen.OwnedDigest()
	if !inside || !r.Owned.Changing {
		return
	}
	if len(r.Owned.Asked) > 0 && hasMore(n, seen, r.Owned.Asked) {
		r.Owned = site.Owned{Digest: r.Owned.Digest}
		return
	}
	is := site.Owned{Digest: digest}
	if r.InFlight != nil && changesList(r.InFlight.Step) {
		is.Changing, is.Asked = true, r.Owned.Asked
	}
	r.Owned = is
}

// hasMore says whether the list on a machine has something that is neither designed nor among
// names, which are in order.
func hasMore(n *site.Node, seen site.Observed, ours []string) bool {
	designed := map[string]bool{}
	for f, state := range seen.Facets {
		for _, name := range namesOf(f, n.MayItems(f, state.System)) {
			designed[name] = true
		}
	}
	return slices.ContainsFunc(listed(seen), func(name string) bool {
		_, is := slices.BinarySearch(ours, name)
		return !is && !designed[name]
	})
}

// listed are the names of what the list on a machine has: its items, and those of their
// fields that were asked for.
func listed(seen site.Observed) (names []string) {
	for f, state := range seen.Facets {
		for _, key := range state.Owned {
			names = append(names, itemName(f, key))
			for _, field := range state.Asked[key] {
				names = append(names, fieldName(f, key, field))
			}
		}
	}
	return names
}

// namesOf are the names that the list may have of items and their fields.
func namesOf(f site.Facet, items []item.Item) (names []string) {
	for _, i := range items {
		names = append(names, itemName(f, i.Key))
		for field := range i.Fields {
			names = append(names, fieldName(f, i.Key, field))
		}
	}
	return names
}

func itemName(f site.Facet, key string) string { return string(f) + "/" + key }

func fieldName(f site.Facet, key, field string) string { return itemName(f, key) + "\n" + field }

// changesOwned notes that a step may change the list from now on, and to what. A list
// that was another one than the recorded before stays so for the records.
func changesOwned(r *site.Recorded, n *site.Node, s site.Step, seen site.Observed) {
	digest, inside := seen.OwnedDigest()
	if !changesList(s) || !inside || digest != r.Owned.Digest {
		return
	}
	r.Owned.Changing = true
	items := append(n.MayItems(s.Facet, seen.Facets[s.Facet].System), s.Unlisted()...)
	asked := append(slices.Concat(r.Owned.Asked, listed(seen)), namesOf(s.Facet, items)...)
	slices.Sort(asked)
	r.Owned.Asked = slices.Compact(asked)
}

// changesList says whether a step changes the list: what is done once is in none.
func changesList(s site.Step) bool { return site.IsInside(s.Facet) && !site.Facets[s.Facet].Once }
