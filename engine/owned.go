package engine

import "github.com/slipway-gitops/slipway/engine/site"

// noteOwned records the list of what Slipway made inside a system as it was seen
// after a run of ours. Any other list that differs from the recorded one, also that
// there is none any more, is for a person; a new system begins with none.
func noteOwned(r *site.Recorded, seen site.Observed) {
	digest, inside := seen.OwnedDigest()
	if !inside || !r.Owned.Changing {
		return
	}
	r.Owned = site.Owned{Digest: digest, Changing: r.InFlight != nil && changesList(r.InFlight.Step)}
}

// changesOwned notes that a step may change the list from now on. A list that was
// another one than the recorded before stays so for the records.
func changesOwned(r *site.Recorded, s site.Step, seen site.Observed) {
	if digest, inside := seen.OwnedDigest(); changesList(s) && inside && digest == r.Owned.Digest {
		r.Owned.Changing = true
	}
}

// changesList says whether a step changes the list: what is done once is in none.
func changesList(s site.Step) bool { return site.IsInside(s.Facet) && !site.Facets[s.Facet].Once }
