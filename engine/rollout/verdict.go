package rollout

import (
	"fmt"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// someTime is by how much a look may be late.
const someTime = time.Minute

// Try is a step that a node wants to begin.
type Try struct {
	Node *Node
	Step site.Step
	// Steps are those of its plan, this one first.
	Steps []site.Step
	// Begun is set for what brings to its end what was begun: no order of nodes holds
	// it back any more. See Continues.
	Begun bool
}

// Continues says whether a step was begun and is not known to have ended, or brings
// an installation to its end that was.
func Continues(r site.Recorded, s site.Step) bool {
	return r.InFlight != nil && r.InFlight.Step.Digest() == s.Digest() || r.UnderWay() > 0 && s.Action != site.ActionInstall ||
		s.FromMemory || s.Action == site.ActionStartAgent && r.Agent.IsOn() // its machine is out of service already
}

// Reason is why a step may not begin: Halted, Need, Leader, Canaries, Shut or Full.
type Reason interface {
	// Verdict puts it into words.
	Verdict(*Facts) Verdict
}

// Verdict is why a step may not begin, for people.
type Verdict struct {
	Sentence string
	// Detail is what is so now and may soon be otherwise, Release what would let the
	// step begin.
	Detail, Release string
	// Person says that nothing goes on without one.
	Person bool
	// Until is when to ask again at the latest; zero where no time changes it.
	Until time.Time
	// Waits are what may let the step begin, Watched the nodes whose getting on
	// would.
	Waits   []Topic
	Watched []string
}

// Topic is what a node that is held waits for.
type Topic string

// The topics, beside RoleTopic and PlaceTopic.
const (
	Places         Topic = "places"   // others coming back into service
	CanariesProven Topic = "canaries" // the canaries being proven
)

// PlaceTopic is that a node which others wait for waits for a place.
func PlaceTopic(node string) Topic { return Topic("place of " + node) }

// RoleTopic is the nodes of a role getting on.
func RoleTopic(role string) Topic { return Topic("role " + role) }

// Order says what in the order of nodes, or which window, keeps a step from
// beginning; nil for nothing. The first rule that does speaks. A quarantine goes past
// all of them.
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
	return nil
}

// Window says that the window of a step keeps it from beginning; nil otherwise.
func (f *Facts) Window(t Try) Reason {
	if w := f.windowFor(t); w != nil {
		return w
	}
	return nil
}

// Room says which bound leaves no place for a step; nil where there is one, or the
// step needs none.
func (f *Facts) Room(t Try) Reason {
	if t.Step.Impact < site.ImpactInterrupts || t.Node.IsOut() {
		return nil
	}
	if b := f.fullFor(t.Node); b != nil {
		return &Full{Bound: b, Node: t.Node}
	}
	return nil
}

// MayBegin says why a step may not begin; nil when it may.
func (f *Facts) MayBegin(t Try) Reason {
	for _, rule := range []func(Try) Reason{f.Order, f.Window, f.Room} {
		if r := rule(t); r != nil {
			return r
		}
	}
	return nil
}

// isOrdered says whether a step goes by the order of nodes: what changes nothing and
// what was begun does not.
func (t Try) isOrdered() bool { return !t.Begun && t.Step.Impact != site.ImpactNone }

// inTheWay says that neither of two can go on: a machine that is out of service waits
// for nodes to go first, and one of them waits for its place. Only a person can tell
// which is worth more.
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

// withHealth names a node, and what its health lacks.
func (f *Facts) withHealth(name string) string {
	n := f.Nodes.Node(name)
	if n == nil {
		return name
	}
	h := f.Health(n)
	switch {
	case h.IsFit():
		return name
	case h.Why == "":
		return fmt.Sprintf("%s (%s)", name, h.State)
	}
	return fmt.Sprintf("%s (%s)", name, h.Why)
}

// withHealths names nodes, and what the health of each lacks.
func (f *Facts) withHealths(names []string) []string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = f.withHealth(name)
	}
	return all
}

// Most is how many nodes a verdict names.
const Most = 4
