package rollout

import (
	"fmt"
	"slices"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Bound limits how many nodes of a group are out of service at once.
type Bound struct {
	// What is bounded, such as "the site" or "rack r1", and Rule how: "maxUnavailable
	// 2".
	What, Rule string
	group      group
	// majority means that the group keeps its majority; otherwise unavailable holds the
	// design's text. A vote is missing wherever its machine is, so a machine that is
	// away counts for a majority.
	majority    bool
	unavailable string
}

// group selects some of a site's nodes; the zero value selects all.
type group struct {
	kind kind
	of   string
}

type kind int

const (
	whole kind = iota
	rack
	role
)

func (g group) has(n *site.Node) bool {
	switch g.kind {
	case rack:
		return n.Rack == g.of
	case role:
		return n.Role == g.of
	}
	return true
}

type boundsOf struct{ rack, role string }

// mostBounds is how many bounds may apply to a node.
const mostBounds = 4

// Bounds returns the bounds that apply to a node.
func (f *Facts) Bounds(n *site.Node) []*Bound {
	key := boundsOf{n.Rack, n.Role}
	all, known := f.bounds[key]
	if known {
		return all
	}
	all = make([]*Bound, 0, mostBounds)
	unavailable := func(g group, what, text string) {
		all = append(all, f.same(Bound{What: what, Rule: "maxUnavailable " + text, group: g, unavailable: text}))
	}
	unavailable(group{}, "the site", f.Site.Rollout.MaxUnavailable)
	if r := f.Site.Racks[n.Rack]; r != nil && r.MaxUnavailable != "" {
		unavailable(group{rack, n.Rack}, "rack "+n.Rack, r.MaxUnavailable)
	}
	if r := f.Site.Roles[n.Role]; r != nil {
		if r.MaxUnavailable != "" {
			unavailable(group{role, n.Role}, "role "+n.Role, r.MaxUnavailable)
		}
		if r.Majority {
			all = append(all, f.same(Bound{What: "role " + n.Role, Rule: "it decides by majority", group: group{role, n.Role}, majority: true}))
		}
	}
	if f.bounds == nil {
		f.bounds = map[boundsOf][]*Bound{}
	}
	f.bounds[key] = all
	return all
}

// same returns the bound as created for an earlier node, so that equal bounds share one
// pointer.
func (f *Facts) same(b Bound) *Bound {
	if f.known[b] == nil {
		if f.known == nil {
			f.known = map[Bound]*Bound{}
		}
		f.known[b] = &b
	}
	return f.known[b]
}

// Limit returns how many of that many nodes may be out of service. A role of one or two
// nodes cannot lose one and keep its majority: then one at a time is the best that can
// be done.
func (b *Bound) Limit(of int) int {
	if b.majority {
		return max(1, (of-1)/2)
	}
	return max(1, site.Bound(b.unavailable, of))
}

// share is how a node counts in a group.
type share int

const (
	nothing share = iota // not in use
	away                 // not in use, but its vote is missing
	serves               // in use and in service
	unfit                // in use, and its system has lost its health
	out                  // in use and out of service
)

func (f *Facts) shareOf(n *Node) share {
	switch {
	case n.Leaving:
		return nothing
	case n.Design.Away != "":
		return away
	case f.Site.Unused(n.Design) != "":
		return nothing
	case n.IsOut() || f.isDownWithHost(n):
		return out
	case f.HasLostHealth(n):
		return unfit
	}
	return serves
}

// tally counts a group's nodes by share.
type tally [out + 1]int

func (t *tally) add(s share, by int) { t[s] += by }

// tallies are the tallies of groups, by kind and name. The zero value has none.
type tallies [role + 1]map[string]*tally

func (t *tallies) of(g group) *tally { return t[g.kind][g.of] }

func (t *tallies) put(g group, is *tally) {
	if t[g.kind] == nil {
		t[g.kind] = map[string]*tally{}
	}
	t[g.kind][g.of] = is
}

// groupsOf returns the groups that a node is in.
func groupsOf(n *site.Node) [role + 1]group {
	return [...]group{{}, {rack, n.Rack}, {role, n.Role}}
}

// count counts the groups of some bounds that were not counted yet.
func (f *Facts) count(bounds []*Bound) {
	var fresh []group
	for _, b := range bounds {
		if f.tallies.of(b.group) == nil {
			f.tallies.put(b.group, &tally{})
			fresh = append(fresh, b.group)
		}
	}
	if len(fresh) > 0 {
		f.countGroups(fresh)
	}
}

// countGroups fills the empty tallies of some groups, in one pass over the nodes.
func (f *Facts) countGroups(groups []group) {
	var fresh tallies
	for _, g := range groups {
		fresh.put(g, f.tallies.of(g))
	}
	for n := range f.Nodes.All() {
		s := share(-1)
		for _, g := range groupsOf(n.Design) {
			t := fresh.of(g)
			if t == nil {
				continue
			}
			if s < 0 {
				s = f.shareOf(n)
			}
			t.add(s, 1)
		}
	}
}

// class is how a bound treats a node that would be taken out of service.
type class int

const (
	// Every other node that is lacking counts.
	plain class = iota
	// The node was healthy and its health is now unknown: it may serve. It does not
	// count against itself.
	doubtful
	// The node is known to be unhealthy. It has its place already, but still takes its
	// turn among the nodes being worked on: a badly designed health check must not let
	// all machines restart at once. A role that decides by majority makes no such
	// allowance.
	unhealthy
)

func (f *Facts) classOf(n *Node) class {
	switch {
	case f.shareOf(n) != unfit:
		return plain
	case f.Health(n).State == site.Unhealthy:
		return unhealthy
	}
	return doubtful
}

// counts reports whether a node that is lacking or away counts for a bound.
func (b *Bound) counts(c class, s share) bool {
	switch s {
	case out:
		return true
	case unfit:
		return c != unhealthy || b.majority
	case away:
		return b.majority
	}
	return false
}

// room returns how many more nodes of a class may be taken out of service under a
// bound, and how many nodes the bound covers.
func (f *Facts) room(b *Bound, c class) (left, of int) {
	t := f.tallies.of(b.group)
	of = t[serves] + t[unfit] + t[out]
	lacking := t[out]
	if b.counts(c, unfit) {
		lacking += t[unfit]
		if c != plain {
			lacking-- // not the node itself
		}
	}
	if b.majority {
		of += t[away]
		lacking += t[away]
	}
	return b.Limit(of) - lacking, of
}

// fullFor returns why a bound leaves no place for a node and for the virtual machines that go down with it; nil if none
// does. They take one place together, because a hypervisor could never be restarted otherwise. But a role that
// decides by majority needs a place for each of them.
func (f *Facts) fullFor(n *Node) *Full {
	guests := f.guestsOf(n)
	for _, x := range append(append(make([]*Node, 0, few), n), guests...) {
		if x != n && f.shareOf(x) != serves {
			continue // it takes no place that it does not have
		}
		c, all := f.classOf(x), f.Bounds(x.Design)
		f.count(all)
		for _, b := range all {
			places := 1
			if b.majority && x != n {
				places = f.servingIn(b.group, guests)
			}
			if left, _ := f.room(b, c); left < places {
				return &Full{Bound: b, Node: x, host: n}
			}
		}
	}
	return nil
}

// Full is the reason that a bound leaves no place for a node.
type Full struct {
	Bound *Bound
	Node  *Node
	host  *Node // the node that would be taken out of service, on which Node is placed or which it is
}

// Verdict implements Reason.
func (r *Full) Verdict(f *Facts) Verdict {
	b, c := r.Bound, f.classOf(r.Node)
	f.count([]*Bound{b})
	_, of := f.room(b, c)
	var names []string
	for x := range f.Nodes.All() {
		if x != r.Node && b.group.has(x.Design) && b.counts(c, f.shareOf(x)) {
			names = append(names, x.Name())
		}
	}
	slices.Sort(names)
	if r.host != nil && r.host != r.Node {
		return r.ofGuest(f, names, of)
	}
	return Verdict{
		Sentence: fmt.Sprintf("%s allows %d of %d nodes out of service (%s)", b.What, b.Limit(of), of, b.Rule),
		Detail:   fmt.Sprintf("%d are: %s", len(names), say.Some(f.withHealths(names), Most)),
		Release:  "one of " + say.Some(names, Most) + " coming back into service",
		For:      names,
		Waits:    []Topic{Places},
	}
}
