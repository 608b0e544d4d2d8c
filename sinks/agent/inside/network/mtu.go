package network

import (
	"context"
	"maps"
	"slices"
	"strconv"
)

// ethernetMTU is the kernel's MTU of a new ethernet interface, bond or bridge without ports.
const ethernetMTU = 1500

// resetMTUs gives interfaces whose MTU left the design the MTU of a new interface, because managers keep an MTU that
// is no longer requested. A VLAN cannot have a larger MTU than its parent, so the parent gets its MTU first.
func (a activation) resetMTUs(ctx context.Context, p *plan, m *machine) error {
	all := p.before.made()
	maps.Copy(all, p.all)
	for _, id := range inOrder(all) {
		r, mtu := m.links[id], p.newMTU(m, id)
		left := p.mtuLeft(id)
		for _, vlan := range p.all.vlans(id) {
			left = left || p.mtuLeft(vlan)
		}
		if r == nil || !left || r.MTU == mtu || !a.exists(id) {
			continue
		}
		if err := a.f.run(ctx, a.h, "ip", "link", "set", "dev", id, "mtu", strconv.Itoa(mtu)); err != nil {
			return err
		}
	}
	return nil
}

// mtuLeft reports whether the design had an MTU for an interface and now has none.
func (p *plan) mtuLeft(id string) bool { return p.before[id].MTU != 0 && p.after[id].MTU == 0 }

// newMTU is the MTU that an interface of the plan would have if it were new: a VLAN has its parent's, a bond or
// bridge the smallest of its ports, and a port of a bond has the MTU that the design gives the bond.
func (p *plan) newMTU(m *machine, id string) int {
	l := p.all[id]
	if l.MTU != 0 {
		return l.MTU
	}
	master := p.all[p.all.master(id)]
	switch {
	case l.Kind == "vlan":
		return p.newMTU(m, l.Parent)
	case l.Kind == "bond" || l.Kind == "bridge":
		var ports []int
		for _, port := range l.Members {
			ports = append(ports, p.newMTU(m, port))
		}
		if len(ports) == 0 {
			return ethernetMTU
		}
		return slices.Min(ports)
	case master.Kind == "bond" && master.MTU != 0:
		return master.MTU
	}
	// The port of a bond has had its bond's MTU.
	if was := p.before[p.before.master(id)]; was.Kind == "bond" && was.MTU != 0 || p.mtuLeft(id) || m.links[id] == nil {
		return ethernetMTU
	}
	return m.links[id].MTU
}
