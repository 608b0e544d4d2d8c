package rollout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/say"
)

// hostOf returns the node of the hypervisor that a virtual machine is placed on; nil if it is no virtual machine, or the
// design does not say which node its hypervisor is.
func (f *Facts) hostOf(n *Node) *Node {
	if !n.Design.IsVirtual() {
		return nil
	}
	h := f.Site.Hypervisors[n.Design.Virtual.Host.Hypervisor]
	if h == nil || h.Node == "" {
		return nil
	}
	return f.Nodes.Node(h.Node)
}

// isDownWithHost reports whether a virtual machine is out of service because the node that it runs on is.
func (f *Facts) isDownWithHost(n *Node) bool {
	host := f.hostOf(n)
	return host != nil && host.IsOut()
}

// guestsOf returns the virtual machines that go down with a node, by name.
func (f *Facts) guestsOf(n *Node) []*Node {
	if len(f.Site.Hypervisors) == 0 {
		return nil
	}
	if f.guests == nil {
		f.guests = map[string][]*Node{}
		for x := range f.Nodes.All() {
			if host := f.hostOf(x); host != nil {
				f.guests[host.Name()] = append(f.guests[host.Name()], x)
			}
		}
		for _, guests := range f.guests { // so that of two that have no place the same one is named each time
			slices.SortFunc(guests, func(a, b *Node) int { return strings.Compare(a.Name(), b.Name()) })
		}
	}
	return f.guests[n.Name()]
}

// servingIn counts the nodes of a group that are in service.
func (f *Facts) servingIn(g *group, nodes []*Node) (serving int) {
	for _, n := range nodes {
		if g.has(n.Design) && f.shareOf(n) == serves {
			serving++
		}
	}
	return serving
}

// ofGuest is the verdict where a virtual machine on the node has no place. Names are the nodes that are out of service.
func (r *Full) ofGuest(f *Facts, names []string, of int) Verdict {
	b := r.Bound
	v := Verdict{
		Sentence: fmt.Sprintf("its virtual machine %s goes down with it, and %s allows %d of %d nodes out of service (%s)", r.Node.Name(), b.What, b.Limit(of), of, b.Rule),
		Detail:   fmt.Sprintf("%d are: %s", len(names), say.Some(f.withHealths(names), Most)),
		Release:  "one of " + say.Some(names, Most) + " coming back into service",
		For:      names,
		Waits:    []Topic{Places},
	}
	guests, itself, how := f.servingIn(b.group, f.guestsOf(r.host)), 0, ""
	if b.majority && b.group.has(r.host.Design) {
		switch share := f.shareOf(r.host); {
		case share == serves:
			itself, how = 1, ", which is one of them itself"
		case b.counts(plain, share):
			itself, how = 1, ", which does not serve itself"
		}
	}
	if guests+itself > b.Limit(of) {
		v.Detail = fmt.Sprintf("%d of them are on this hypervisor%s", guests, how)
		v.Release, v.Person, v.For = "one of them moved to another hypervisor, or a role without `majority`", true, nil
	}
	return v
}
