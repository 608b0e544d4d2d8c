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
	group      *group
	// majority means that the group keeps its majority; otherwise unavailable is how many
	// nodes may be out of service. A vote is missing wherever its machine is, so a machine that is
	// away counts for a majority.
	majority    bool
	unavailable site.Limit
}

// group is some of a site's nodes, with the bounds that the design sets for them.
type group struct {
	kind   kind
	of     string
	bounds []*Bound
	// count counts the nodes, once counted is set.
	count   tally
	counted bool
}

type kind int

const (
	whole kind = iota
	rack
	role
)

func (g *group) has(n *site.Node) bool {
	switch g.kind {
	case rack:
		return n.Rack == g.of
	case role:
		return n.Role == g.of
	}
	return true
}

// limit adds a bound to the group, where the design sets one.
func (g *group) limit(what, unavailable string) {
	if unavailable != "" {
		g.bounds = append(g.bounds, g.atMost(what, unavailable))
	}
}

func (g *group) atMost(what, unavailable string) *Bound {
	return &Bound{What: what, Rule: "maxUnavailable " + unavailable, group: g, unavailable: site.ReadLimit(unavailable)}
}

// groups holds groups by kind and name. The zero value has none.
type groups [role + 1]map[string]*group

func (all *groups) add(g *group) {
	if all[g.kind] == nil {
		all[g.kind] = map[string]*group{}
	}
	all[g.kind][g.of] = g
}

// groupsOf returns the groups that a node is in, by kind.
func (f *Facts) groupsOf(n *Node) [role + 1]*group {
	if n.groups[whole] != nil {
		return n.groups
	}
	return [...]*group{f.group(whole, ""), f.group(rack, n.Design.Rack), f.group(role, n.Design.Role)}
}

// group returns a group. The same facts always return the same one.
func (f *Facts) group(k kind, of string) *group {
	if g := f.groups[k][of]; g != nil {
		return g
	}
	g := &group{kind: k, of: of}
	switch k {
	case whole:
		g.bounds = []*Bound{g.atMost("the site", f.Site.Rollout.MaxUnavailable)}
	case rack:
		if r := f.Site.Racks[of]; r != nil {
			g.limit("rack "+of, r.MaxUnavailable)
		}
	case role:
		if r := f.Site.Roles[of]; r != nil {
			g.limit("role "+of, r.MaxUnavailable)
			if r.Majority {
				g.bounds = append(g.bounds, &Bound{What: "role " + of, Rule: "it decides by majority", group: g, majority: true})
			}
		}
	}
	f.groups.add(g)
	return g
}

// Limit returns how many of that many nodes may be out of service. A role of one or two
// nodes cannot lose one and keep its majority: then one at a time is the best that can
// be done.
func (b *Bound) Limit(of int) int {
	if b.majority {
		return max(1, (of-1)/2)
	}
	return max(1, b.unavailable.Of(of))
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
	case !f.isUsed(n):
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

// count counts some groups that have bounds and were not counted yet, in one pass over the nodes.
func (f *Facts) count(some ...*group) {
	var fresh groups
	any := false
	for _, g := range some {
		if !g.counted && len(g.bounds) > 0 {
			g.counted, any = true, true
			fresh.add(g)
		}
	}
	if !any {
		return
	}
	for n := range f.Nodes.All() {
		s := share(-1)
		for k, of := range [...]string{rack: n.Design.Rack, role: n.Design.Role} {
			g := fresh[k][of]
			if g == nil {
				continue
			}
			if s < 0 {
				s = f.shareOf(n)
			}
			g.count.add(s, 1)
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
// bound, and how many nodes the bound covers. The bound's group has to be counted.
func (b *Bound) room(c class) (left, of int) {
	t := &b.group.count
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
	down := append(append(make([]*Node, 0, few), n), f.guestsOf(n)...)
	for _, x := range down {
		if x != n && f.shareOf(x) != serves {
			continue // it takes no place that it does not have
		}
		c, groups := f.classOf(x), f.groupsOf(x)
		f.count(groups[:]...)
		for _, g := range groups {
			for _, b := range g.bounds {
				places := 1
				if b.majority && x != n {
					places = f.servingIn(g, down)
				}
				left, _ := b.room(c)
				if x != n && !b.majority && g.has(n.Design) {
					left++ // the place of the hypervisor, which an unhealthy one has already, is theirs too
				}
				if left < places {
					return &Full{Bound: b, Node: x, host: n}
				}
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
	_, of := b.room(c)
	var names []string
	for x := range f.Nodes.All() {
		if x != r.Node && (x != r.host || b.majority) && b.group.has(x.Design) && b.counts(c, f.shareOf(x)) {
			names = append(names, x.Name())
		}
	}
	slices.Sort(names)
	if r.host != r.Node {
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
