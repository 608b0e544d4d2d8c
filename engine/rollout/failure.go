package rollout

import (
	"fmt"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Part is how a node stands in a rollout.
type Part int

// The parts.
const (
	Aside   Part = iota // no part of the rollout
	Pending             // to be brought to its end
	Done                // in-sync
	Failed              // begun, and not brought to its end
	Resting             // waits for a person
)

// LongestTry is the least time that a node has for all it takes before it counts as
// failed.
const LongestTry = 15 * time.Minute

// IsUnderWay says whether a rollout is under way, halted or not.
func (f *Facts) IsUnderWay() bool { return f.Rollout != nil && f.Rollout.Ended.IsZero() }

// PartOf is how a node stands after a turn that has left it as it is known.
func (f *Facts) PartOf(n *Node) Part {
	stopped := n.State == site.Stalled || n.State == site.Foreign
	switch {
	case !f.inUse(n) || n.Design.Decommission:
		return Aside
	case n.Quarantined:
		return Resting
	case n.State == site.Paused && n.Part == Done:
		return Done // a hand kept off changes nothing of it
	case n.State == site.InSync && !n.Outdated:
		return Done
	case (n.InHand || n.Part == Failed) && stopped && !n.Fresh: // else it is about to be tried afresh
		return Failed
	case n.InHand && n.State != site.Paused && n.Spent > n.Patience:
		return Failed
	case stopped || n.State == site.Paused || n.State == site.Blocked && n.Person && f.Rollout.Halted == "":
		return Resting
	}
	return Pending
}

// MaxFailures is how many of so many nodes of a rollout may fail.
func MaxFailures(s *site.Site, nodes int) int {
	if text := s.Rollout.MaxFailures; text != "" {
		return site.Bound(text, nodes)
	}
	return max(1, site.Bound("10%", nodes))
}

// Halt is why a rollout is to be halted, and whether it is because of a canary.
type Halt struct {
	Why    string
	Canary bool
}

// Halts says whether a rollout that is not halted has to be: a canary that has failed
// just now is enough, else too many have to have. Name is the node that failed last,
// empty where the rollout has just begun.
func (f *Facts) Halts(name string) (h Halt, halts bool) {
	r := f.Rollout
	allowed := MaxFailures(f.Site, len(r.Nodes))
	switch {
	case r.Halted != "":
	case name != "" && slices.Contains(r.Canaries, name):
		return Halt{Why: fmt.Sprintf("canary %s has failed", name), Canary: true}, true
	case len(r.Failed) > allowed:
		return Halt{Why: fmt.Sprintf("%d of %d nodes have failed and maxFailures allows %d", len(r.Failed), len(r.Nodes), allowed)}, true
	}
	return Halt{}, false
}

// StaysHalted are the nodes, each with the digest of what was designed for it, because
// of which a new rollout stays halted as the one before was; none when it goes on. Those
// count for which the new design wants the same, and not those that came in-sync by
// themselves since that rollout ended.
func (f *Facts) StaysHalted(was *site.RolloutStatus, wants func(*Node) string) map[string]string {
	if was == nil || was.Halted == "" {
		return nil
	}
	same, allowed := map[string]string{}, MaxFailures(f.Site, len(was.Nodes))
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

// Halted is that the rollout under way is halted.
type Halted struct{ Rollout *site.RolloutStatus }

// haltedFor holds nodes that a halted rollout has not begun. What has drifted is
// repaired all the same.
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
