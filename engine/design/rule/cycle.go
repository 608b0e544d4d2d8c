package rule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// point is the end of a phase for nodes of a role. If the role's leader goes
// first, others stands for the nodes after it. Other roles have no others.
type point struct {
	role, phase string
	others      bool
}

// waiting is one dependency on a point. need is the path of the need that
// causes it; empty for the order of phases or for a leader.
type waiting struct {
	on   point
	need string
}

// needsCycle reports each cycle among the points of all roles.
func needsCycle(s *site.Site, x *Index) []site.Finding {
	w := circles{edges: waitings(s, x), state: map[point]int{}, told: map[string]bool{}}
	for _, role := range keys(s.Roles) {
		for _, phase := range s.Roles[role].Phases {
			w.visit(point{role, phase, false})
			w.visit(point{role, phase, true})
		}
	}
	var found []site.Finding
	byPath := map[string]need{}
	if len(w.found) > 0 {
		for _, n := range needs(s) {
			byPath[n.path()] = n
		}
	}
	for _, c := range w.found {
		found = append(found, circleFinding(s, byPath, c))
	}
	return found
}

// waitings lists what each point waits for.
func waitings(s *site.Site, x *Index) map[point][]waiting {
	edges := map[point][]waiting{}
	for _, role := range keys(s.Roles) {
		r := s.Roles[role]
		for _, others := range []bool{false, true} {
			for i, phase := range r.Phases {
				at := point{role, phase, others}
				if i > 0 {
					edges[at] = append(edges[at], waiting{on: point{role, r.Phases[i-1], others}})
				} else if others {
					edges[at] = append(edges[at], waiting{on: point{role, r.Phases[len(r.Phases)-1], false}})
				}
				for _, on := range keys(r.Needs[phase]) {
					edges[at] = append(edges[at], waiting{
						needed(s, x, on, r.Needs[phase][on]), need{role: role, phase: phase, on: on}.path(),
					})
				}
			}
			if !r.LeaderFirst {
				break
			}
		}
	}
	return edges
}

// needed returns the point that a need waits for. In a role whose leader goes
// first, a quorum of one node needs only the leader.
func needed(s *site.Site, x *Index, role string, n site.Need) point {
	r := s.Roles[role]
	beyond := r != nil && r.LeaderFirst && n.Quorum.Of(x.Count(inUse(role))) > 1
	return point{role, n.Phase, beyond}
}

// circles finds cycles by depth-first search. The state of a point is 0 before,
// 1 during and 2 after its visit.
type circles struct {
	edges map[point][]waiting
	state map[point]int
	trail []waiting // how the visit reached each point on its path
	told  map[string]bool
	found [][]string // the paths of the needs in each cycle
}

func (c *circles) visit(at point) {
	if c.state[at] != 0 {
		return
	}
	c.state[at] = 1
	for _, w := range c.edges[at] {
		c.trail = append(c.trail, w)
		if c.state[w.on] == 1 {
			c.close(w.on)
		}
		c.visit(w.on)
		c.trail = c.trail[:len(c.trail)-1]
	}
	c.state[at] = 2
}

// close records the cycle at the end of the trail, unless an earlier cycle has
// one of its needs.
func (c *circles) close(at point) {
	from := len(c.trail) - 1
	for from > 0 && c.trail[from-1].on != at {
		from--
	}
	var paths []string
	known := false
	for _, w := range c.trail[from:] {
		if w.need != "" {
			paths = append(paths, w.need)
			known = known || c.told[w.need]
		}
	}
	for _, p := range paths {
		c.told[p] = true
	}
	if !known && len(paths) > 0 {
		first := slices.Index(paths, slices.Min(paths))
		c.found = append(c.found, slices.Concat(paths[first:], paths[:first]))
	}
}

func circleFinding(s *site.Site, all map[string]need, paths []string) site.Finding {
	var steps []string
	f := wrong(paths[0], "", "Remove one of these needs, or wait for an earlier phase.")
	for i, p := range paths {
		n := all[p]
		steps = append(steps, fmt.Sprintf("%s of %s waits for %s of %s", n.phase, n.role, n.Phase, n.on))
		if i > 0 {
			f = also(s, p, f)
		}
	}
	f.Message = "roles wait for each other in a circle: " + strings.Join(steps, ", ")
	if len(paths) == 1 {
		f.Message = "a role waits for itself: " + steps[0]
	}
	return f
}
