package drivertest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Own sets a facet's part of the machine's list of what was made inside, as when
// somebody edits it there.
func (m *FakeMachine) Own(f site.Facet, keys ...string) {
	defer m.look()()
	m.owned[f] = keys
	if r, runs := m.runs[f]; runs { // the run writes the list that it reads at its end
		r.owned = slices.Compact(slices.Sorted(slices.Values(slices.Concat(r.owned, keys))))
		m.runs[f] = r
	}
}

// Owned returns the facet's keys in the list.
func (m *FakeMachine) Owned(f site.Facet) []string {
	defer m.look()()
	return slices.Clone(m.owned[f])
}

// ownedDigest identifies the list; it is empty while nothing is owned.
func (m *FakeMachine) ownedDigest() string {
	all := maps.Clone(m.owned)
	maps.DeleteFunc(all, func(_ site.Facet, keys []string) bool { return len(keys) == 0 })
	if len(all) == 0 {
		return ""
	}
	text, _ := json.Marshal(all)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// intent returns what a step makes of a facet, and the items that are ours afterwards.
func (m *FakeMachine) intent(step site.Step, n *site.Node) (site.Values, []string, error) {
	f := step.Facet
	want, owned := maps.Clone(m.inside[f]), slices.Clone(m.owned[f])
	if want == nil {
		want = site.Values{}
	}
	delete(want, "design")
	if len(step.Remove) > 0 && step.Owned != m.ownedDigest() {
		return nil, nil, fmt.Errorf("%w: the list of what was made is another one than the recorded", driver.ErrRefused)
	}
	for _, key := range step.Remove {
		maps.DeleteFunc(want, func(field, _ string) bool { return field == key || strings.HasPrefix(field, key+".") })
		owned = slices.DeleteFunc(owned, func(k string) bool { return k == key })
	}
	for _, i := range n.Items(f) {
		for field, v := range i.Fields {
			name := item.Name(i.Key, field)
			if want[name] != v && !slices.Contains(owned, i.Key) {
				owned = append(owned, i.Key)
			}
			want[name] = v
		}
	}
	slices.Sort(owned)
	return want, owned, nil
}
