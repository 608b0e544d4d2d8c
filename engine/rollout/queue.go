package rollout

import (
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// AtRestAfter is how long nothing has to happen in a rollout whose nodes all wait for
// one another, or for a person, before it is taken to be at rest.
const AtRestAfter = 5 * time.Minute

// Queues says whether a new revision has to wait for the rollout under way, as the
// design in force says. One that is halted or at rest lets it in: it may be the
// remedy. Moved is when a node of it last came into another state.
func (f *Facts) Queues(moved time.Time) bool {
	return f.Site != nil && f.Site.Rollout.OnChange == "queue" && f.IsUnderWay() && f.Rollout.Halted == "" && !f.IsAtRest(moved)
}

// IsAtRest says whether nothing will happen in the rollout by itself: what is left of
// it waits for nodes that do not get on, or for a person.
func (f *Facts) IsAtRest(moved time.Time) bool {
	lately := f.isLately(moved) || f.isLately(f.Rollout.Since)
	for n := range f.Nodes.All() {
		if n.Part == Pending && (lately || f.getsOn(n)) {
			return false
		}
	}
	return true
}

// isLately says whether something was a short while ago. A recorded time that is still
// to come was long ago: the clock was set back since.
func (f *Facts) isLately(at time.Time) bool {
	ago := f.Now.Sub(at)
	return ago >= 0 && ago < AtRestAfter
}

// getsOn says whether something may still happen to a node by itself. A machine that
// was not begun and cannot be reached may never come.
func (f *Facts) getsOn(n *Node) bool {
	switch n.State {
	case site.Blocked:
		return n.WaitsForTime
	case site.Retrying, site.Unknown:
		return n.InHand || f.Now.Sub(n.Since) < AtRestAfter
	}
	return true
}
