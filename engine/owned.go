package engine

import (
	"slices"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// noteOwned records the list of what Slipway made inside a system, as seen after one of its
// runs. It does not if the list claims more than it did before the run and the run was asked
// for: then somebody else has added to it. Any other difference from the recorded list, or a
// missing list, is for a person. A new system begins with no list, and Slipway believes what
// its installation lists.
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

// hasMore reports whether the list on a machine has something that is neither designed nor in
// ours, which is sorted.
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

// listed returns the names on a machine's list: its items, and those of their fields that
// were asked for.
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

// namesOf returns the names that the list may have for items and their fields.
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

// changesOwned notes that a step may change the list from now on, and to what. If the list
// already differs from the recorded one, the records stay as they are.
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

// changesList reports whether a step changes the list. The list does not contain what is done
// once.
func changesList(s site.Step) bool { return site.IsInside(s.Facet) && !site.Facets[s.Facet].Once }
