package rollout

import (
	"slices"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Joining is what a node's step means for the rollout.
type Joining int

// The ways to join.
const (
	// StaysOut: the step is not part of a rollout, or its node already is.
	StaysOut Joining = iota
	// Begins: no rollout is under way, and this step begins another.
	Begins
	// Returns: the node was part of the rollout before, and is again.
	Returns
	// Joins: the node is new to the rollout under way.
	Joins
)

// Joining returns how a node becomes part of the rollout under way if it was not
// when the rollout began: it could not be planned then, or was as designed. If no
// rollout is under way, a change of the revision begins one, so that the same bounds
// apply; a failed node begins none by itself. Drift is not part of a rollout.
func (f *Facts) Joining(n *Node, s site.Step) Joining {
	switch {
	case s.Drift || s.Force || s.Impact == site.ImpactNone || f.Site.Unused(n.Design) != "":
		return StaysOut
	case !f.IsUnderWay() && n.Part != Failed:
		return Begins
	case !f.IsUnderWay() || n.Part != Aside:
		return StaysOut
	case slices.Contains(f.Rollout.Nodes, n.Name()):
		return Returns
	}
	return Joins
}

// AllBecomeCanaries reports whether a joining node waits for those before it: they
// were so few that all were canaries and no node waited.
func (f *Facts) AllBecomeCanaries(n *Node) bool {
	r, c := f.Rollout, f.Site.Rollout.Canaries
	if c == nil || len(r.Canaries) > 0 || len(r.Nodes) < c.Count && c.Nodes.Selects(n.Design) {
		return false
	}
	return len(r.Nodes) <= c.Count && !slices.ContainsFunc(r.Nodes, func(name string) bool {
		x := f.Nodes.Node(name)
		return x == nil || !c.Nodes.Selects(x.Design) || x.Part == Failed
	})
}
