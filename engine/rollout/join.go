package rollout

import (
	"slices"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Joining is what a step of a node means for the rollout.
type Joining int

// The ways to join.
const (
	// StaysOut: the step is no part of a rollout, or its node is part of it already.
	StaysOut Joining = iota
	// Begins: no rollout is under way, and this step begins another.
	Begins
	// Returns: the node was a part of the rollout before, and is again.
	Returns
	// Joins: the node is new to the rollout under way.
	Joins
)

// Joining says how a node becomes a part of the rollout under way that was none when
// it began: it could not be planned then, or was as designed. When none is under way
// what the revision changes on it begins another, so that the same bounds hold; what
// has failed begins none by itself. What has drifted is no part of it.
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

// AllBecomeCanaries says whether a node that joins waits for those before it: they
// were so few that all were canaries and nobody waited.
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
