package rollout

import (
	"fmt"
	"slices"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Bound is one bound on how many nodes of a group are out of service at once.
type Bound struct {
	// What is bounded, "the site" or "rack r1", and Rule how: "maxUnavailable 2".
	What, Rule string
	group      group
	// majority says that the group keeps its majority, else unavailable is the design's
	// text. A vote is missing wherever its machine is, so one that is away counts then.
	majority    bool
	unavailable string
}

// group is some of a site's nodes; the zero value is all of them.
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

// Bounds are those that hold for a node.
func (f *Facts) Bounds(n *site.Node) []*Bound {
	key := boundsOf{n.Rack, n.Role}
	all, known := f.bounds[key]
	if known {
		return all
	}
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

// same is the bound as it was found for another node.
func (f *Facts) same(b Bound) *Bound {
	if f.known[b] == nil {
		if f.known == nil {
			f.known = map[Bound]*Bound{}
		}
		f.known[b] = &b
	}
	return f.known[b]
}

// Limit is how many of so many nodes may be out of service. A role of one or two
// cannot lose a node and keep its majority: one at a time is the best that can be
// done.
func (b *Bound) Limit(of int) int {
	if b.majority {
		return max(1, (of-1)/2)
	}
	return max(1, site.Bound(b.unavailable, of))
}

// share is what a node counts for in a group.
type share int

const (
	nothing share = iota // not in use
	away                 // not in use, and a vote that is missing
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
	case n.IsOut():
		return out
	case f.HasLostHealth(n):
		return unfit
	}
	return serves
}

// tally is how many nodes of a group have which share.
type tally [out + 1]int

func (t *tally) add(s share, by int) { t[s] += by }

// count counts the groups of some bounds that were not counted yet, going through the
// nodes once.
func (f *Facts) count(bounds []*Bound) {
	if f.tallies == nil {
		f.tallies = map[group]*tally{}
	}
	var fresh []group
	for _, b := range bounds {
		if f.tallies[b.group] == nil {
			f.tallies[b.group] = &tally{}
			fresh = append(fresh, b.group)
		}
	}
	if len(fresh) == 0 {
		return
	}
	for n := range f.Nodes.All() {
		s := share(-1)
		for _, g := range fresh {
			if !g.has(n.Design) {
				continue
			}
			if s < 0 {
				s = f.shareOf(n)
			}
			f.tallies[g].add(s, 1)
		}
	}
}

// class is how a bound counts for a node that would be taken out of service.
type class int

const (
	// Every other node that is lacking counts.
	plain class = iota
	// The node has lost its health, and all that is known is that nobody knows it: it
	// may serve. It does not count itself.
	doubtful
	// The node is known not to be healthy. It has its place already, and yet takes its
	// turn among those that are worked on: a health that is designed wrong must not let
	// all machines be restarted at once. A role that decides by majority makes no such
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

// counts says whether a node that is lacking, or away, counts for a bound.
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

// room is how many nodes may still be taken out of service under a bound by nodes of
// a class, and how many of so many count as out.
func (f *Facts) room(b *Bound, c class) (left, of int) {
	t := f.tallies[b.group]
	of = t[serves] + t[unfit] + t[out]
	lacking := t[out]
	if b.counts(c, unfit) {
		lacking += t[unfit]
		if c != plain {
			lacking-- // itself
		}
	}
	if b.majority {
		of += t[away]
		lacking += t[away]
	}
	return b.Limit(of) - lacking, of
}

// fullFor is the first bound that leaves no place for a node; nil for none.
func (f *Facts) fullFor(n *Node) *Bound {
	c, all := f.classOf(n), f.Bounds(n.Design)
	f.count(all)
	for _, b := range all {
		if left, _ := f.room(b, c); left <= 0 {
			return b
		}
	}
	return nil
}

// Full is that a bound leaves no place for a node.
type Full struct {
	Bound *Bound
	Node  *Node
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
	return Verdict{
		Sentence: fmt.Sprintf("%s allows %d of %d nodes out of service (%s)", b.What, b.Limit(of), of, b.Rule),
		Detail:   fmt.Sprintf("%d are: %s", len(names), say.Some(f.withHealths(names), Most)),
		Release:  "one of " + say.Some(names, Most) + " coming back into service",
		Waits:    []Topic{Places},
	}
}
