package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// needsGate holds a step of a phase until enough nodes of the roles that the
// phase needs have gone through theirs.
func (e *Engine) needsGate(w *worker, t try) *held {
	role := t.site.Roles[t.node.Role]
	if role == nil || t.begun || t.step.Impact == site.ImpactNone {
		return nil
	}
	of := role.Needs[t.step.Phase]
	for _, name := range slices.Sorted(maps.Keys(of)) {
		need := of[name]
		through, missing := e.throughLocked(name, need.Phase)
		total := through + len(missing)
		enough := max(1, need.Quorum.Of(total))
		if through >= enough {
			continue
		}
		e.waitLocked(w, roleTopic(name))
		for _, x := range missing {
			e.workers[x].wasBefore = e.beforeLocked(e.workers[x])
		}
		what, going := "to have gone through "+need.Phase, "going through "+need.Phase
		if r := t.site.Roles[name]; r != nil && r.Health.Asks() {
			what, going = what+" and to be healthy", going+" and being healthy"
		}
		h := &held{state: site.Blocked, release: some(missing) + " " + going, detail: fmt.Sprintf("%d have, not %s", through, some(e.withHealthLocked(missing))),
			sentence: fmt.Sprintf("its phase %s needs %d of %d nodes of role %s %s", t.step.Phase, enough, total, name, what)}
		if total < enough {
			h.person, h.release = true, "a commit that brings nodes of the role into use, or needs fewer"
			h.detail = ""
			h.sentence = fmt.Sprintf("its phase %s needs %d nodes of role %s, which has %d in use", t.step.Phase, enough, name, total)
		}
		return h
	}
	return nil
}

// startOrder are a design's nodes in the order in which they are first looked
// at: whom others need comes before them.
func startOrder(s *site.Site) []string {
	depths := map[string]int{}
	names := s.NodeNames()
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Compare(depth(s, s.Nodes[a].Role, depths), depth(s, s.Nodes[b].Role, depths))
	})
	return names
}

// depth is over how many roles a role needs others.
func depth(s *site.Site, role string, known map[string]int) int {
	r := s.Roles[role]
	if d, ok := known[role]; ok || r == nil {
		return d
	}
	known[role] = 0 // ends a circle, which no design in force has
	deepest := 0
	for _, of := range r.Needs {
		for name := range of {
			deepest = max(deepest, 1+depth(s, name, known))
		}
	}
	known[role] = deepest
	return deepest
}

// checkDependantsLocked has the nodes of roles that need a role looked at again:
// what they have from it may be another now.
func (e *Engine) checkDependantsLocked(s *site.Site, role string) {
	for _, x := range e.workers {
		r := s.Roles[x.node.Role]
		if r != nil && x.node.Role != role && needs(r, role) {
			x.recheck = true
			x.wakeUp()
		}
	}
}

// needs says whether a phase of a role needs another role.
func needs(r *site.Role, role string) bool {
	for _, of := range r.Needs {
		if _, ok := of[role]; ok {
			return true
		}
	}
	return false
}

// enterRoleLocked counts the worker to its node's role. A thousand that wait for
// one node must not each look at all of the site.
func (e *Engine) enterRoleLocked(w *worker) {
	if e.roles[w.node.Role] == nil {
		e.roles[w.node.Role] = map[string]*worker{}
	}
	e.roles[w.node.Role][w.name] = w
}

func (e *Engine) leaveRoleLocked(w *worker) { delete(e.roles[w.node.Role], w.name) }

// throughLocked counts the nodes of a role that have gone through a phase, and
// names the others in use.
func (e *Engine) throughLocked(role, phase string) (through int, missing []string) {
	for name, x := range e.roles[role] {
		switch {
		case x.leaving || e.design.Unused(x.node) != "":
		case e.hasGoneThroughLocked(x, phase):
			through++
		default:
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return through, missing
}

// hasGoneThroughLocked says whether a node is known to have gone through a
// phase of its role. What is unknown, out of reach, stale, held by a person or
// off has not.
func (e *Engine) hasGoneThroughLocked(x *worker, phase string) bool {
	return e.certainLocked(x) && plan.HasGoneThrough(e.design.Roles[x.node.Role], x.plan.Phase, phase, x.healthLocked())
}

// uncertain is a node of which nothing counts, unfit one that has nothing left to do
// and whose system is not known to be healthy.
const (
	uncertain = "uncertain"
	unfit     = "unfit"
)

// beforeLocked is the phase that a node is before, as those who wait for its role
// see it.
func (e *Engine) beforeLocked(x *worker) string {
	if !e.certainLocked(x) {
		return uncertain
	}
	if x.plan.Phase == "" && !x.healthLocked().IsFit() {
		return unfit
	}
	return x.plan.Phase
}

// certainLocked says whether what was last seen of a node counts: it is fresh,
// whole, and of the design in force.
func (e *Engine) certainLocked(x *worker) bool {
	now := time.Now()
	every := observeEvery(e.design)
	held := x.memory.Recorded.Quarantined != nil || pausedGate(now, x.memory.Recorded.Paused, "") != nil || pausedGate(now, x.node.Paused, "") != nil
	_, hasOS := x.node.Endpoints[site.OS]
	return x.turned && !x.blind && !x.outdated && !held && !x.node.Decommission &&
		now.Sub(x.looked) < 3*every+time.Minute &&
		(!hasOS || !x.blindInside && now.Sub(x.lookedInside) < 2*systemEvery+every) &&
		x.memory.Observed.Facets[site.FacetPower].Have["state"] != "off"
}

// leaderGate holds the nodes of a role until its leader has gone through all
// phases. It does not keep drift from being repaired: then the role has been
// through before.
func (e *Engine) leaderGate(w *worker, t try) *held {
	role := t.site.Roles[t.node.Role]
	if role == nil || !role.LeaderFirst || t.begun || t.step.Drift || t.step.Impact == site.ImpactNone {
		return nil
	}
	leader := e.leaderOfLocked(t.node.Role, role)
	x := e.workers[leader]
	if leader == w.name || x == nil || e.certainLocked(x) && x.plan.Phase == "" && x.healthLocked().IsFit() {
		return nil
	}
	e.waitLocked(w, roleTopic(t.node.Role))
	e.waitLocked(w, placeTopic(leader))
	x.wasBefore = e.beforeLocked(x)
	h := &held{state: site.Blocked, release: leader + " coming in-sync",
		sentence: fmt.Sprintf("the leader of role %s goes first: it waits for %s", t.node.Role, leader)}
	if x.plan.Phase != "" {
		h.detail = leader + " is in " + x.plan.Phase
	} else if health := x.healthLocked(); !health.IsFit() {
		h.detail, h.release = leader+" is "+health.String(), leader+" being healthy"
	}
	return e.inTheWayLocked(w, h, leader)
}

// leaderOfLocked is who goes first in a role: nobody waits for a leader that is
// disabled or away.
func (e *Engine) leaderOfLocked(name string, r *site.Role) string {
	if x := e.workers[r.Leader]; x != nil && e.design.Unused(x.node) == "" {
		return r.Leader
	}
	return e.firstOfLocked(name)
}

// firstOfLocked is the first node in use of a role by name.
func (e *Engine) firstOfLocked(role string) string {
	first := ""
	for name, x := range e.roles[role] {
		if !x.leaving && e.design.Unused(x.node) == "" && (first == "" || name < first) {
			first = name
		}
	}
	return first
}
