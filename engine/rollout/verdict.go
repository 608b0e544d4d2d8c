package rollout

import (
	"fmt"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// someTime is how late a look may be.
const someTime = time.Minute

// Try is a step that a node wants to begin.
type Try struct {
	Node *Node
	Step *site.Step
	// Steps are the steps of its plan, this one first.
	Steps []site.Step
	// Begun is set if the step finishes work that was begun: the order of nodes no
	// longer holds it back. See Continues.
	Begun bool
}

// Continues reports whether a step was begun and is not known to have ended, or
// finishes an installation that was begun.
func Continues(r site.Recorded, s site.Step) bool {
	return r.InFlight != nil && r.InFlight.Step.Digest() == s.Digest() || r.UnderWay() > 0 && s.Action != site.ActionInstall ||
		s.FromMemory || s.Action == site.ActionStartAgent && r.Agent.IsOn() // its machine is out of service already
}

// Reason is why a step may not begin: Halted, Need, Leader, Canaries, Password, Shut or Full.
type Reason interface {
	// Verdict puts the reason into words.
	Verdict(*Facts) Verdict
}

// Verdict is why a step may not begin, for people.
type Verdict struct {
	Sentence string
	// Detail is what may change soon; Release is what would let the step begin.
	Detail, Release string
	// Person is set if nothing happens without a person.
	Person bool
	// Until is when to ask again at the latest; zero if time alone changes nothing.
	Until time.Time
	// For are the nodes that it waits for, all of them; none if it waits for a time or a person.
	For []string
	// Waits holds the topics that may let the step begin. Watched holds the nodes
	// whose progress may.
	Waits   []Topic
	Watched []string
}

// Topic is what a node that is held waits for.
type Topic string

// The topics, besides RoleTopic and PlaceTopic.
const (
	Places         Topic = "places"   // others coming back into service
	CanariesProven Topic = "canaries" // the canaries being proven
)

// PlaceTopic wakes waiting nodes when the node that they wait for waits for a place
// itself, changes its part in the rollout, or has accepted a new password.
func PlaceTopic(node string) Topic { return Topic("place of " + node) }

// RoleTopic wakes waiting nodes when nodes of the role make progress.
func RoleTopic(role string) Topic { return Topic("role " + role) }

// Order returns what in the order of nodes keeps a step from beginning; nil for
// nothing. The first rule that applies answers. A quarantine skips all of them.
func (f *Facts) Order(t Try) Reason {
	if h := f.haltedFor(t); h != nil {
		return h
	}
	if n := f.needFor(t); n != nil {
		return n
	}
	if l := f.leaderFor(t); l != nil {
		return l
	}
	if c := f.canariesFor(t); c != nil {
		return c
	}
	if p := f.passwordFor(t); p != nil {
		return p
	}
	return nil
}

// Window returns the reason if the step's window keeps it from beginning; nil
// otherwise.
func (f *Facts) Window(t Try) Reason {
	if w := f.windowFor(t); w != nil {
		return w
	}
	return nil
}

// Room returns the bound that leaves no place for a step; nil if there is a place or
// the step needs none.
func (f *Facts) Room(t Try) Reason {
	if !t.Step.TakesPlace() || t.Node.IsOut() {
		return nil
	}
	if full := f.fullFor(t.Node); full != nil {
		return full
	}
	return nil
}

// isOrdered reports whether the order of nodes applies to a step. It does not apply
// to steps that change nothing or were begun.
func (t Try) isOrdered() bool { return !t.Begun && t.Step.Impact != site.ImpactNone }

// inTheWay extends a verdict if neither of two nodes can go on: a machine that is out
// of service waits for nodes to go first, and one of those waits for its place. Only
// a person can decide which matters more.
func (f *Facts) inTheWay(v Verdict, n *Node, first ...string) Verdict {
	if !n.IsOut() || f.MayStepAside(n) {
		return v
	}
	for _, name := range first {
		if x := f.Nodes.Node(name); x != nil && x.WaitsForPlace {
			v.Person = true
			v.Detail = fmt.Sprintf("%s waits for the place of this machine, which is out of service", name)
			v.Release = "a larger maxUnavailable, or `away` on this node"
			return v
		}
	}
	return v
}

// withHealth names a node and what its health lacks.
func (f *Facts) withHealth(n *Node) string {
	name, h := n.Name(), f.Health(n)
	switch {
	case h.IsFit():
		return name
	case h.Why == "":
		return fmt.Sprintf("%s (%s)", name, h.State)
	}
	return fmt.Sprintf("%s (%s)", name, h.Why)
}

// withHealths names nodes and what the health of each lacks.
func (f *Facts) withHealths(names []string) []string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = f.withHealth(f.Nodes.Node(name))
	}
	return all
}

// Most is how many nodes a verdict names.
const Most = 4
