package rollout

import (
	"fmt"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// ChooseCanaries chooses which of some nodes go first. Machines that are already out
// of service come first: they lose nothing, and others may wait for them anyway. The
// rest follow by name. Paused nodes are chosen only if there are no others. There are
// no canaries if no node would wait for them.
func (f *Facts) ChooseCanaries(nodes []string) []string {
	c := f.Site.Rollout.Canaries
	rotates := slices.ContainsFunc(nodes, func(name string) bool { n := f.Nodes.Node(name); return n != nil && n.Rotates })
	if c == nil && rotates {
		c = oneFirst
	}
	if c == nil {
		return nil
	}
	var first, then, last []string
	for _, name := range nodes {
		switch n := f.Nodes.Node(name); {
		case n == nil || !c.Nodes.Selects(n.Design) || n.Part == Failed:
		case c == oneFirst && !n.Rotates:
		case n.Paused, rotates && (n.Quarantined || n.Seen && n.Blind):
			last = append(last, name)
		case n.IsOut():
			first = append(first, name)
		default:
			then = append(then, name)
		}
	}
	chosen := slices.Concat(first, then, last)
	if rotates { // those that show whether the new passwords are right
		slices.SortStableFunc(chosen, func(a, b string) int { return rank(f, a) - rank(f, b) })
	}
	chosen = chosen[:min(len(chosen), c.Count)]
	if len(chosen) == len(nodes) {
		return nil
	}
	slices.Sort(chosen)
	return chosen
}

// rank sorts nodes whose derived passwords are replaced before others.
func rank(f *Facts, name string) int {
	if f.Nodes.Node(name).Rotates {
		return 0
	}
	return 1
}

// oneFirst are the canaries of a rollout that replaces derived passwords, where the design has none: one machine has
// to accept its password before the others get theirs.
var oneFirst = &site.Canaries{Count: 1}

// canaries are those by which the canaries of the rollout were chosen, or nil.
func (f *Facts) canaries() *site.Canaries {
	if c := f.Site.Rollout.Canaries; c != nil || f.Rollout == nil || len(f.Rollout.Canaries) == 0 {
		return c
	}
	return oneFirst
}

// CanariesAreProven reports whether all canaries are in-sync. A canary no longer in
// use does not count.
func (f *Facts) CanariesAreProven() bool {
	return !slices.ContainsFunc(f.Rollout.Canaries, func(name string) bool {
		n := f.Nodes.Node(name)
		return n != nil && f.inUse(n) && (n.State != site.InSync || !n.Seen || n.Outdated)
	})
}

// HaveSoaked reports whether the canaries were in-sync for long enough.
func (f *Facts) HaveSoaked() bool {
	c := f.canaries()
	return c == nil || !f.Rollout.Proven.IsZero() && f.Now.Sub(f.Rollout.Proven) >= time.Duration(c.Soak)
}

// Canaries is the reason that the nodes which go first in the rollout have not done
// so, or not for long enough.
type Canaries struct {
	Names []string
	Soak  site.Duration
	// Until is when they will have soaked; zero while they are not in-sync.
	Until time.Time
	node  *Node // the node that waits
}

// canariesFor holds the other nodes of a rollout until its canaries have been in-sync
// for long enough.
func (f *Facts) canariesFor(t Try) *Canaries {
	r, c, n := f.Rollout, f.canaries(), t.Node
	if !f.IsUnderWay() || len(r.Canaries) == 0 || n.Part == Aside || n.InHand && c != oneFirst || t.Step.Drift ||
		!t.isOrdered() || f.HaveSoaked() || c == oneFirst && len(t.Step.Rotates) == 0 {
		return nil
	}
	if slices.Contains(r.Canaries, n.Name()) {
		return nil // of these one goes first too, see passwordFor
	}
	h := &Canaries{Names: r.Canaries, Soak: c.Soak, node: n}
	if !r.Proven.IsZero() {
		h.Until = r.Proven.Add(time.Duration(c.Soak))
	}
	return h
}

// Verdict implements Reason.
func (r *Canaries) Verdict(f *Facts) Verdict {
	v := Verdict{Until: r.Until, Waits: []Topic{CanariesProven}}
	for _, name := range r.Names {
		v.Waits = append(v.Waits, PlaceTopic(name))
	}
	if r.Until.IsZero() {
		if r.Soak == 0 {
			v.For = r.Names
			v.Sentence = fmt.Sprintf("it waits for %s, which goes first, to be in-sync", say.Some(r.Names, Most))
			v.Detail, v.Release = f.notInSync(r.Names), say.Some(r.Names, Most)+" coming in-sync"
			return f.inTheWay(v, r.node, r.Names...)
		}
		soak := say.Brief(r.Soak)
		v.For = r.Names
		v.Sentence = fmt.Sprintf("it waits for the canaries (%s) to be in-sync for %s", say.Some(r.Names, Most), soak)
		v.Detail = f.notInSync(r.Names)
		v.Release = say.Some(r.Names, Most) + " coming in-sync, for " + soak
		return f.inTheWay(v, r.node, r.Names...)
	}
	at := say.Clock(r.Until.UTC())
	if time.Duration(r.Soak) < time.Hour {
		at = r.Until.UTC().Format("15:04:05 MST")
	}
	v.Sentence = fmt.Sprintf("the canaries (%s) are in-sync and have to stay so until %s", say.Some(r.Names, Most), at)
	v.Release = "the canaries staying in-sync until " + at
	return v
}

// notInSync returns the state of those nodes that are not in-sync.
func (f *Facts) notInSync(names []string) string {
	var those []string
	for _, name := range names {
		if n := f.Nodes.Node(name); n != nil && n.State != site.InSync {
			those = append(those, fmt.Sprintf("%s is %s", f.withHealth(n), n.State))
		}
	}
	return say.Some(those, Most)
}
