package engine

import (
	"hash/fnv"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// rare are the facets that not every look reads, but only one look per period, give
// or take a tenth. A node's period is always the same. An inspection reads the
// inventory.
var rare = [...]site.Facet{site.FacetBIOS, site.FacetFirmware, site.FacetSensors, site.FacetLog, site.FacetInventory}

// calendar is when each period of a node last began, in seconds since 1970; 0 for
// never.
type calendar [len(rare)]int64

// begun notes that facets were asked for, whether or not they could be read.
func (c *calendar) begun(facets []site.Facet, now time.Time) {
	for _, f := range facets {
		if i := rank(f); i >= 0 {
			c[i] = now.Unix()
		}
	}
}

// rank returns the index of a facet in rare, or -1.
func rank(f site.Facet) int { return slices.Index(rare[:], f) }

// share returns a fixed number from 0 to 1 for a node and facet.
func share(node string, f site.Facet) float64 {
	h := fnv.New64a()
	h.Write([]byte(node + "\x00" + string(f)))
	return float64(h.Sum64()%1000) / 1000
}

// period returns a node's period for a facet; 0 for one that every look reads.
func period(node string, f site.Facet) time.Duration {
	return time.Duration(float64(site.Facets[f].Every) * (0.9 + 0.2*share(node, f)))
}

// newCalendar continues from when facets were last seen. Those never seen are
// spread over their first period; those that the design mentions are still read at
// once, see moves.
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

// over reports whether a facet's period is over.
func (c *calendar) over(node string, f site.Facet, now time.Time) bool {
	i := rank(f)
	return i < 0 || now.Sub(time.Unix(c[i], 0)) >= period(node, f)
}

// facetsDue returns the facets that this look reads from the BMC. While something
// is under way on the machine, and in the look after it, they include all designed
// ones. Watched facets wait while something is under way.
func (w *worker) facetsDue(j job) []site.Facet {
	due := slices.Clone(usual(j.node))
	if j.node.IsVirtual() {
		return due // a hypervisor reports all its machines at once
	}
	now, r := time.Now(), j.memory.Recorded
	busy := r.InFlight != nil || r.UnderWay() > 0
	for _, f := range w.designedFacets(j.node, site.Manager) {
		if w.anew || busy || w.calendar.over(w.name, f, now) || moves(j, f) {
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

// watched are facets that are read whatever the design says: people want to know
// them, and a proposal may mention them.
var watched = []site.Facet{site.FacetSensors, site.FacetLog, site.FacetBIOS}

// moves reports whether a facet is changing, or the design asks for a part of it
// that was not read.
func moves(j job, f site.Facet) bool {
	seen := j.memory.Observed.Facets[f]
	return len(seen.Pending) > 0 || plan.Unread(j.node, f, seen)
}

// stale returns the facets of a node that were not seen for three of their
// intervals, with when they were last seen.
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

// asked reports whether a facet is still asked for: a facet that the design no
// longer mentions only gets older.
func asked(n *site.Node, f site.Facet) bool {
	switch {
	case f == site.FacetInventory:
		return n.Inspect != inspectNever
	case f == site.FacetOS, slices.Contains(usual(n), f), slices.Contains(watched, f):
		return true
	}
	return n.Asks(f)
}
