package engine

import (
	"cmp"
	"slices"

	"github.com/slipway-gitops/slipway/engine/site"
)

// startOrder returns a design's nodes in the order of their first look: needed
// nodes come before those that need them.
func startOrder(s *site.Site) []string {
	depths := map[string]int{}
	names := s.NodeNames()
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Compare(depth(s, s.Nodes[a].Role, depths), depth(s, s.Nodes[b].Role, depths))
	})
	return names
}

// depth returns the length of a role's longest chain of needs.
func depth(s *site.Site, role string, known map[string]int) int {
	r := s.Roles[role]
	if d, ok := known[role]; ok || r == nil {
		return d
	}
	known[role] = 0 // ends a cycle, which no design in force has
	deepest := 0
	for _, of := range r.Needs {
		for name := range of {
			deepest = max(deepest, 1+depth(s, name, known))
		}
	}
	known[role] = deepest
	return deepest
}

// checkDependantsLocked makes the nodes of roles that need the given role look
// again: what it offers them may have changed.
func (e *Engine) checkDependantsLocked(s *site.Site, role string) {
	for _, x := range e.workers {
		r := s.Roles[x.node.Role]
		if r != nil && x.node.Role != role && needs(r, role) {
			x.recheck = true
			x.wakeUp()
		}
	}
}

// needs reports whether a phase of a role needs another role.
func needs(r *site.Role, role string) bool {
	for _, of := range r.Needs {
		if _, ok := of[role]; ok {
			return true
		}
	}
	return false
}

// enterRoleLocked adds the worker to its role's index. A thousand nodes that
// wait for one node must not each scan the whole site.
func (e *Engine) enterRoleLocked(w *worker) {
	if e.roles[w.node.Role] == nil {
		e.roles[w.node.Role] = map[string]*worker{}
	}
	e.roles[w.node.Role][w.name] = w
}

func (e *Engine) leaveRoleLocked(w *worker) { delete(e.roles[w.node.Role], w.name) }
