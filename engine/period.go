package engine

import (
	"hash/fnv"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// rare are the facets that are not read with each look, but once in their period,
// a tenth more or less, the same for one node every time. The inventory is read by
// an inspection.
var rare = [...]site.Facet{site.FacetBIOS, site.FacetFirmware, site.FacetAccounts, site.FacetSensors, site.FacetLog, site.FacetInventory}

// calendar is when each of the periods of a node last began, in seconds since
// 1970; 0 for never.
type calendar [len(rare)]int64

// begun notes that facets were asked for, whether or not they could be seen.
func (c *calendar) begun(facets []site.Facet, now time.Time) {
	for _, f := range facets {
		if i := rank(f); i >= 0 {
			c[i] = now.Unix()
		}
	}
}

// rank is the place of a facet among the rare ones, -1 for none.
func rank(f site.Facet) int { return slices.Index(rare[:], f) }

// share is a number between 0 and 1 that is a node's own for a facet.
func share(node string, f site.Facet) float64 {
	h := fnv.New64a()
	h.Write([]byte(node + "\x00" + string(f)))
	return float64(h.Sum64()%1000) / 1000
}

// period is a node's own for a facet, 0 for one that is read with each look.
func period(node string, f site.Facet) time.Duration {
	return time.Duration(float64(site.Facets[f].Every) * (0.9 + 0.2*share(node, f)))
}

// newCalendar goes on from when facets were last seen. Those that never were
// are spread over their first period; those that the design speaks of are
// read at once all the same, see moves.
func newCalendar(node string, seen site.Observed, now time.Time) calendar {
	var c calendar
	for i, f := range rare {
		if at := seen.Facets[f].Seen; !at.IsZero() {
			c[i] = at.Unix()
		} else {
			c[i] = now.Add(-time.Duration(share(node, f) * float64(site.Facets[f].Every))).Unix()
		}
	}
	return c
}

// over says whether a facet's period is over.
func (c *calendar) over(node string, f site.Facet, now time.Time) bool {
	i := rank(f)
	return i < 0 || now.Sub(time.Unix(c[i], 0)) >= period(node, f)
}

// facetsDue are the facets to be read from the BMC in this look. While something is
// under way on the machine, and after it, none that is designed is spared, and
// nothing else is read.
func (w *worker) facetsDue(j job) []site.Facet {
	due := slices.Clone(usual(j.node))
	if j.node.IsVirtual() {
		return due // a hypervisor tells of all its machines at once
	}
	now, r := time.Now(), j.memory.Recorded
	busy := r.InFlight != nil || r.UnderWay() > 0
	for _, f := range w.designedFacets(j.node, site.Manager) {
		if w.anew || busy || w.calendar.over(w.name, f, now) || moves(j, f) || f == site.FacetAccounts && w.hasOtherPassword(j) {
			due = append(due, f)
		}
	}
	for _, f := range watched {
		if w.e.serves[f] && !busy && !slices.Contains(due, f) && w.calendar.over(w.name, f, now) {
			due = append(due, f)
		}
	}
	return due
}

// watched are facets that are looked at whatever the design says: people want to
// know, and a proposal may speak of them.
var watched = []site.Facet{site.FacetSensors, site.FacetLog, site.FacetBIOS}

// moves says whether a facet is on its way, or the design asks for something of it
// that was not read.
func moves(j job, f site.Facet) bool {
	seen := j.memory.Observed.Facets[f]
	return len(seen.Pending) > 0 || plan.Unread(j.node, f, seen)
}

// stale are the facets of a node that should have been seen again since they
// last were, each with when that was; those of a look count from three looks on.
func stale(n *site.Node, o site.Observed, look time.Duration, now time.Time) map[site.Facet]time.Time {
	var old map[site.Facet]time.Time
	for f, state := range o.Facets {
		every := max(period(n.Name, f), look)
		if site.Facets[f].Endpoint == site.OS {
			every = max(systemEvery, look)
		}
		if !asked(n, f) || state.Seen.IsZero() || now.Sub(state.Seen) < 3*every {
			continue
		}
		if old == nil {
			old = map[site.Facet]time.Time{}
		}
		old[f] = state.Seen
	}
	return old
}

// asked says whether a facet is still asked for: what the design spoke of
// once only gets older.
func asked(n *site.Node, f site.Facet) bool {
	switch {
	case f == site.FacetInventory:
		return n.Inspect != inspectNever
	case f == site.FacetOS, slices.Contains(usual(n), f), slices.Contains(watched, f):
		return true
	}
	return n.Asks(f)
}
