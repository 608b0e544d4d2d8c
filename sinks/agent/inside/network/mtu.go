package network

import (
	"context"
	"maps"
	"slices"
	"strconv"
)

// ethernetMTU is the kernel's MTU of a new ethernet interface, bond or bridge without ports.
const ethernetMTU = 1500

// newMTUs are the MTUs that the interfaces of a plan would have without the MTUs that leave the design.
type newMTUs struct {
	p   *plan
	m   *machine
	own map[string]int // of a port or bond by itself
}

// resetMTUs gives interfaces whose MTU left the design the MTU that they would have without it, because managers keep
// an MTU that is no longer requested. A VLAN cannot have a larger MTU than its parent, so the parent gets its MTU first.
func (a activation) resetMTUs(ctx context.Context, p *plan, m *machine) error {
	all := p.before.made()
	maps.Copy(all, p.all)
	if !slices.ContainsFunc(all.names(), p.mtuLeft) {
		return nil
	}
	own, err := a.ownMTUs(m, all.names())
	if err != nil {
		return err
	}
	n := newMTUs{p, m, own}
	for _, id := range inOrder(all) {
		r, mtu := m.links[id], n.of(id)
		left := p.mtuLeft(id)
		for _, vlan := range p.all.vlans(id) {
			left = left || p.mtuLeft(vlan)
		}
		_, stays := p.all[id]
		if r == nil || !left || r.MTU == mtu || !a.exists(id) || !stays && len(others(a.h, id, p.ours(m))) > 0 {
			continue
		}
		err := a.f.run(ctx, a.h, "ip", "link", "set", "dev", id, "mtu", strconv.Itoa(mtu))
		if err != nil && stays { // a port that left keeps its MTU then, which must not prevent all later changes
			return err
		}
	}
	return nil
}

// mtuLeft reports whether the design had an MTU for an interface and now has none.
func (p *plan) mtuLeft(id string) bool { return p.before[id].MTU != 0 && p.after[id].MTU == 0 }

// ownMTUs are the MTUs from before the interfaces were in the design; of a bond, or of a port of which nobody
// knows, that of a new one. One whose largest MTU cannot be read keeps its MTU.
func (a activation) ownMTUs(m *machine, ids []string) (map[string]int, error) {
	largest, unread := a.f.tables.largest()
	own := map[string]int{}
	for _, id := range ids {
		was, err := a.wasBefore(id)
		if err != nil {
			return nil, err
		}
		if own[id] = was.MTU; was.MTU == 0 {
			own[id] = ethernetMTU
		}
		r := m.links[id]
		switch {
		case r == nil:
		case unread != nil:
			own[id] = r.MTU
		case largest[r.index] > 0:
			own[id] = min(own[id], largest[r.index])
		}
	}
	return own, nil
}

// of is the MTU of one interface: a VLAN has its parent's, a bridge the smallest of its ports, and a port of a bond
// the bond's.
func (n newMTUs) of(id string) int {
	l, r := n.p.all[id], n.m.links[id]
	is := r != nil && !n.p.mtuLeft(id)
	master, was := n.p.all.master(id), n.p.before[n.p.before.master(id)]
	switch {
	case l.MTU != 0:
		return l.MTU
	case l.Kind == "vlan" && is:
		return min(n.of(l.Parent), r.MTU)
	case l.Kind == "vlan":
		return n.of(l.Parent)
	case l.Kind == "bridge":
		return n.ofBridge(id)
	case n.p.all[master].Kind == "bond":
		return n.of(master)
	case was.Kind == "bond" && was.MTU != 0: // it has had its bond's MTU
	case is:
		return r.MTU
	}
	return n.own[id]
}

// ofBridge counts all ports that a bridge has, also those that nobody designed, without those that leave it now.
func (n newMTUs) ofBridge(id string) int {
	var all []int
	for _, port := range n.p.all[id].Members {
		all = append(all, n.of(port))
	}
	if r := n.m.links[id]; r != nil {
		for _, port := range r.Members {
			if n.m.links[port] != nil && !n.leaves(port, id) {
				all = append(all, n.of(port))
			}
		}
	}
	if len(all) == 0 {
		return ethernetMTU
	}
	return slices.Min(all)
}

// leaves reports whether a plan deletes a port of a bridge, takes it out, or moves it elsewhere.
func (n newMTUs) leaves(port, bridge string) bool {
	was, known := n.p.before[port]
	if _, stays := n.p.all[port]; known && !stays {
		return was.Kind != "ethernet" || n.p.before.master(port) == bridge
	}
	master := n.p.all.master(port)
	return master != "" && master != bridge
}
