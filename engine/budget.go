package engine

import (
	"fmt"
	"slices"

	"github.com/slipway-gitops/slipway/engine/site"
)

// budgetGate bounds how many machines are out of service at once: of the site,
// of the rack, of the role. A machine that is out already costs nothing to
// work on. One whose system has lost its health has its place already, and yet takes
// its turn among those that are worked on: a health that is designed wrong must not
// let all machines be restarted at once. A role that decides by majority makes no such
// allowance, nor is one made for a system whose health is unknown: it may serve.
func (e *Engine) budgetGate(w *worker, t try) *held {
	if t.step.Impact < site.ImpactReboot || w.outLocked() {
		return nil
	}
	for _, b := range bounds(t.site, t.node) {
		out, of := e.outOfLocked(w, b)
		limit := b.limit(of)
		if !b.away && w.hasLostHealthLocked() && w.healthLocked().State == site.Unhealthy {
			out = slices.DeleteFunc(out, func(name string) bool { x := e.workers[name]; return x.node.Away == "" && !x.outLocked() })
		}
		if len(out) >= limit {
			e.waitLocked(w, places)
			e.wakeLocked(placeTopic(w.name)) // see inTheWayLocked
			return &held{state: site.Blocked, release: "one of " + some(out) + " coming back into service",
				sentence: fmt.Sprintf("%s allows %d of %d nodes out of service (%s)", b.what, limit, of, b.rule),
				detail:   fmt.Sprintf("%d are: %s", len(out), some(e.withHealthLocked(out)))}
		}
	}
	return nil
}

// bound is one bound on how many nodes are out of service at once.
type bound struct {
	what  string // "the site"
	rule  string // "maxUnavailable 2"
	of    func(*site.Node) bool
	limit func(of int) int
	// away says that a machine that is away counts as out of service: a vote
	// is missing wherever its machine is.
	away bool
}

// bounds are those that hold for a node.
func bounds(s *site.Site, n *site.Node) []bound {
	upTo := func(text string) func(int) int {
		return func(of int) int { return max(1, site.Bound(text, of)) }
	}
	all := []bound{{what: "the site", rule: "maxUnavailable " + s.Rollout.MaxUnavailable, of: func(*site.Node) bool { return true }, limit: upTo(s.Rollout.MaxUnavailable)}}
	inRack := func(x *site.Node) bool { return x.Rack == n.Rack }
	if r := s.Racks[n.Rack]; r != nil && r.MaxUnavailable != "" {
		all = append(all, bound{what: "rack " + n.Rack, rule: "maxUnavailable " + r.MaxUnavailable, of: inRack, limit: upTo(r.MaxUnavailable)})
	}
	r := s.Roles[n.Role]
	if r == nil {
		return all
	}
	inRole := func(x *site.Node) bool { return x.Role == n.Role }
	if r.MaxUnavailable != "" {
		all = append(all, bound{what: "role " + n.Role, rule: "maxUnavailable " + r.MaxUnavailable, of: inRole, limit: upTo(r.MaxUnavailable)})
	}
	if r.Majority {
		// A role of one or two cannot lose a node and keep its majority: one
		// at a time is the best that can be done.
		keep := func(of int) int { return max(1, (of-1)/2) }
		all = append(all, bound{what: "role " + n.Role, rule: "it decides by majority", of: inRole, limit: keep, away: true})
	}
	return all
}

// outOfLocked names the other nodes of a bound that are out of service, and
// counts all of its nodes. A machine that is disabled or away is not counted,
// unless the bound says so.
func (e *Engine) outOfLocked(w *worker, b bound) (out []string, of int) {
	for name, x := range e.workers {
		gone := b.away && x.node.Away != ""
		if !b.of(x.node) || x.leaving || e.design.Unused(x.node) != "" && !gone {
			continue
		}
		of++
		if x != w && (gone || x.isLackingLocked()) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out, of
}

// outLocked says whether the machine is, or has to be taken to be, out of
// service: a step of ours has it, it cannot be seen, or it is off though the
// design wants it on. One that is seen and was never in service as designed is
// no outage: a new machine may wait for others that wait for places.
func (w *worker) outLocked() bool {
	switch {
	case w.disrupts:
		return true
	case w.memory.Recorded.Quarantined != nil:
		return true
	case w.node.Power == "off" || w.node.Decommission:
		return false
	case !w.turned || w.blind:
		return true
	case w.memory.Recorded.Adopted == nil || w.memory.Recorded.Adopted.Settled.IsZero():
		return false
	}
	return w.node.Power == "on" && w.memory.Observed.Facets[site.FacetPower].Have["state"] != "on"
}

// freePlacesLocked gives a place in the rollout to those that wait. Which of them
// may have it the gate decides; the limits of racks and roles may let a later
// one go first, so more are asked than there are places.
func (e *Engine) freePlacesLocked() {
	waiting := make([]string, 0, len(e.waiting[places]))
	for x := range e.waiting[places] {
		waiting = append(waiting, x.name)
	}
	if len(waiting) == 0 {
		return
	}
	slices.Sort(waiting)
	most := 4 * max(1, site.Bound(e.design.Rollout.MaxUnavailable, len(e.workers)))
	for _, name := range spread(waiting, most, func(name string) string { n := e.workers[name].node; return n.Rack + "/" + n.Role }) {
		e.workers[name].wakeUp()
	}
}

// spread takes up to so many names, one of each group in turn.
func spread(names []string, most int, group func(string) string) []string {
	if len(names) <= most {
		return names
	}
	taken := map[string]int{}
	round := make(map[string]int, len(names))
	for _, name := range names {
		round[name] = taken[group(name)]
		taken[group(name)]++
	}
	slices.SortStableFunc(names, func(a, b string) int { return round[a] - round[b] })
	return names[:most]
}
