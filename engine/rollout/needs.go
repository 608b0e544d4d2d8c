package rollout

import (
	"fmt"
	"maps"
	"slices"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/say"
)

// HasGoneThrough reports whether a node is known to have gone through a phase of its
// role. A node that is unknown, out of reach, stale, held by a person or off has
// not.
func (f *Facts) HasGoneThrough(n *Node, phase string) bool {
	return f.through(n) > plan.PhaseIndex(f.role(n), phase)
}

// through returns how many phases of its role a node is known to have gone through,
// plus one if all of them. A node with nothing left to do counts as long as its system
// is fit. While it still goes through later phases, its health says nothing: what the
// health needs may come with those.
func (f *Facts) through(n *Node) int {
	r := f.role(n)
	switch {
	case !f.IsCertain(n):
		return 0
	case n.Phase != "":
		return plan.PhaseIndex(r, n.Phase)
	case f.Health(n).IsFit():
		return len(r.AllPhases()) + 1
	}
	return 0
}

// IsThrough reports whether a node is known to have gone through all phases.
func (f *Facts) IsThrough(n *Node) bool { return f.through(n) > len(f.role(n).AllPhases()) }

// Uncertain marks a node whose observation does not count. Unfit marks one that has
// nothing left to do and whose system is not known to be healthy.
const (
	Uncertain = "uncertain"
	Unfit     = "unfit"
)

// Before returns the phase that a node is before, as nodes waiting for its role see
// it. It is empty for none, and Uncertain or Unfit if the node does not count.
func (f *Facts) Before(n *Node) string {
	switch {
	case !f.IsCertain(n):
		return Uncertain
	case n.Phase == "" && !f.Health(n).IsFit():
		return Unfit
	}
	return n.Phase
}

// progress counts the nodes of a role in use by how many phases they have gone
// through.
type progress struct {
	total int
	count []int // by the number of phases
}

func (p *progress) add(through, by int) {
	p.total += by
	p.count[through] += by
}

func (p *progress) through(phase int) (n int) {
	for _, c := range p.count[phase+1:] {
		n += c
	}
	return n
}

// progressOf counts a role, once.
func (f *Facts) progressOf(name string) *progress {
	if p := f.progress[name]; p != nil {
		return p
	}
	p := &progress{count: make([]int, len(f.Site.Roles[name].AllPhases())+2)}
	for n := range f.Nodes.InRole(name) {
		if f.inUse(n) {
			p.add(f.through(n), 1)
		}
	}
	if f.progress == nil {
		f.progress = map[string]*progress{}
	}
	f.progress[name] = p
	return p
}

// Need is the reason that too few nodes of another role have gone through a phase.
type Need struct {
	Phase string // that waits
	Role  string // that is needed
	Of    string // its phase
	// Through of Total nodes have gone through it; Enough are needed.
	Through, Total, Enough int
	node                   *Node // that waits
}

// needFor returns the first unmet need of a step's phase.
func (f *Facts) needFor(t Try) *Need {
	r := f.role(t.Node)
	if r == nil || len(r.Needs) == 0 || !t.isOrdered() {
		return nil
	}
	of := r.Needs[t.Step.Phase]
	for _, name := range slices.Sorted(maps.Keys(of)) {
		need, p := of[name], f.progressOf(name)
		n := &Need{Phase: t.Step.Phase, Role: name, Of: need.Phase, Total: p.total, Enough: max(1, need.Quorum.Of(p.total)),
			Through: p.through(plan.PhaseIndex(f.Site.Roles[name], need.Phase)), node: t.Node}
		if n.Through < n.Enough {
			return n
		}
	}
	return nil
}

// missing returns the nodes of the needed role that have not gone through.
func (r *Need) missing(f *Facts) (names []string) {
	for n := range f.Nodes.InRole(r.Role) {
		if f.inUse(n) && !f.HasGoneThrough(n, r.Of) {
			names = append(names, n.Name())
		}
	}
	slices.Sort(names)
	return names
}

// Verdict implements Reason.
func (r *Need) Verdict(f *Facts) Verdict {
	missing := r.missing(f)
	v := Verdict{For: missing, Waits: []Topic{RoleTopic(r.Role)}, Watched: missing}
	if r.Total < r.Enough {
		v.Person, v.Release = true, "a commit that brings nodes of the role into use, or needs fewer"
		v.Sentence = fmt.Sprintf("its phase %s needs %d nodes of role %s, which has %d in use", r.Phase, r.Enough, r.Role, r.Total)
		return v
	}
	what, going := "to have gone through "+r.Of, "going through "+r.Of
	if role := f.Site.Roles[r.Role]; role != nil && role.Health.Asks() {
		what, going = what+" and to be healthy", going+" and being healthy"
	}
	v.Sentence = fmt.Sprintf("its phase %s needs %d of %d nodes of role %s %s", r.Phase, r.Enough, r.Total, r.Role, what)
	v.Detail = fmt.Sprintf("%d have, not %s", r.Through, say.Some(f.withHealths(missing), Most))
	v.Release = say.Some(missing, Most) + " " + going
	if r.node.IsOut() {
		for _, name := range missing {
			v.Waits = append(v.Waits, PlaceTopic(name))
		}
	}
	return f.inTheWay(v, r.node, missing...)
}
