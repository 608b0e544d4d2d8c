package rollout

import (
	"fmt"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Part is a node's state in a rollout.
type Part int

// The parts.
const (
	Aside   Part = iota // no part of the rollout
	Pending             // not finished yet
	Done                // in-sync
	Failed              // begun, and cannot be finished
	Resting             // waits for a person
)

// LongestTry is the least time that a node gets for all its work before it counts as
// failed.
const LongestTry = 15 * time.Minute

// IsUnderWay reports whether a rollout is under way, halted or not.
func (f *Facts) IsUnderWay() bool { return f.Rollout != nil && f.Rollout.Ended.IsZero() }

// PartOf returns a node's part in the rollout after a reconcile.
func (f *Facts) PartOf(n *Node) Part {
	stopped := n.State == site.Stalled || n.State == site.Foreign
	switch {
	case !f.inUse(n) || n.Design.Decommission:
		return Aside
	case n.Quarantined:
		return Resting
	case n.State == site.Paused && n.Part == Done:
		return Done // a pause does not change that
	case n.State == site.InSync && !n.Outdated:
		return Done
	case (n.InHand || n.Part == Failed) && stopped && !n.Fresh: // otherwise it is about to be retried
		return Failed
	case n.InHand && n.State != site.Paused && n.Spent > n.Patience:
		return Failed
	case stopped || n.State == site.Paused || n.State == site.Blocked && n.Person && f.Rollout.Halted == "":
		return Resting
	}
	return Pending
}

// maxFailures returns how many nodes of a rollout may fail, by the number of its nodes.
func maxFailures(s *site.Site, nodes int) int {
	if text := s.Rollout.MaxFailures; text != "" {
		return site.Bound(text, nodes)
	}
	return max(1, site.Bound("10%", nodes))
}

// Halt is why a rollout must halt, and whether a canary is the cause.
type Halt struct {
	Why    string
	Canary bool
}

// Halts reports whether a rollout must halt now: a canary has just failed, or too many
// nodes have failed. It is false if the rollout is halted already. Name is the node that
// failed last; empty if the rollout has just begun.
func (f *Facts) Halts(name string) (h Halt, halts bool) {
	r := f.Rollout
	allowed := maxFailures(f.Site, len(r.Nodes))
	switch {
	case r.Halted != "":
	case name != "" && slices.Contains(r.Canaries, name):
		return Halt{Why: fmt.Sprintf("canary %s has failed", name), Canary: true}, true
	case len(r.Failed) > allowed:
		return Halt{Why: fmt.Sprintf("%d of %d nodes have failed and maxFailures allows %d", len(r.Failed), len(r.Nodes), allowed)}, true
	}
	return Halt{}, false
}

// StaysHalted returns the nodes because of which a new rollout stays halted like the
// previous one, each with the digest of its design; none if the rollout goes on. A node
// counts if the new design wants the same for it, unless it came in-sync by itself after
// that rollout ended.
func (f *Facts) StaysHalted(was *site.RolloutStatus, wants func(*Node) string) map[string]string {
	if was == nil || was.Halted == "" {
		return nil
	}
	same, allowed := map[string]string{}, maxFailures(f.Site, len(was.Nodes))
	if was.CanaryFailed {
		allowed = 0
	}
	for name, digest := range was.HaltedBy {
		n := f.Nodes.Node(name)
		if n == nil || n.Leaving || !was.Ended.IsZero() && n.State == site.InSync {
			continue
		}
		if wants(n) == digest {
			same[name] = digest
		}
	}
	if len(same) <= allowed {
		return nil
	}
	return same
}

// Halted is the reason that the rollout under way is halted.
type Halted struct{ Rollout *site.RolloutStatus }

// haltedFor holds nodes that a halted rollout has not begun. Drift is repaired all the
// same.
func (f *Facts) haltedFor(t Try) *Halted {
	if !f.IsUnderWay() || f.Rollout.Halted == "" || t.Node.Part == Aside || t.Node.InHand || t.Step.Drift || !t.isOrdered() {
		return nil
	}
	return &Halted{f.Rollout}
}

// Verdict implements Reason.
func (r *Halted) Verdict(*Facts) Verdict {
	return Verdict{Person: true, Release: "a commit that changes what is designed for the failed nodes, or `slipway retry`",
		Sentence: "the rollout of " + r.Rollout.Revision.Short() + " is halted: " + r.Rollout.Halted}
}
