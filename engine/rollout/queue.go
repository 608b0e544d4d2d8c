package rollout

import (
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// atRestAfter is how long nothing must happen in a rollout before it counts as at
// rest: then all its nodes wait for one another, or for a person.
const atRestAfter = 5 * time.Minute

// Queues reports whether a new revision has to wait for the rollout under way, by the
// design in force. A rollout that is halted or at rest lets the revision in, since
// that may be the remedy. moved is when one of its nodes last changed state.
func (f *Facts) Queues(moved time.Time) bool {
	return f.Site != nil && f.Site.Rollout.OnChange == "queue" && f.IsUnderWay() && f.Rollout.Halted == "" && !f.IsAtRest(moved)
}

// IsAtRest reports whether nothing more will happen in the rollout by itself: what is
// left waits for nodes that make no progress, or for a person.
func (f *Facts) IsAtRest(moved time.Time) bool {
	lately := f.isLately(moved) || f.isLately(f.Rollout.Since)
	for n := range f.Nodes.All() {
		if n.Part == Pending && (lately || f.getsOn(n)) {
			return false
		}
	}
	return true
}

// isLately reports whether something was a short while ago. A recorded time in the
// future was long ago: the clock was set back since.
func (f *Facts) isLately(at time.Time) bool {
	ago := f.Now.Sub(at)
	return ago >= 0 && ago < atRestAfter
}

// getsOn reports whether something may still happen to a node by itself. A machine
// that was not begun and cannot be reached may never come.
func (f *Facts) getsOn(n *Node) bool {
	switch n.State {
	case site.Blocked:
		return n.WaitsForTime
	case site.Retrying, site.Unknown:
		return n.InHand || f.Now.Sub(n.Since) < atRestAfter
	}
	return true
}
