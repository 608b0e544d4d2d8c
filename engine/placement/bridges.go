package placement

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// plug is an interface of a machine: its bridge, and the networks that the
// bridge must carry, untagged and tagged.
type plug struct {
	name, bridge     string
	untagged, tagged []string
}

// plugs are interfaces of machines that need the same of a hypervisor. What
// each hypervisor lacks is computed once for all of them.
type plugs struct {
	all    []plug
	faults map[*host]fault
}

// fault is why a hypervisor's bridges do not suit a machine. Without a message
// they do, as far as the design says.
type fault struct{ message, path string }

// plugsOf returns the interfaces of a machine.
func (f *fleet) plugsOf(n *site.Node) *plugs {
	var all []plug
	var key strings.Builder
	for _, name := range slices.Sorted(maps.Keys(n.Virtual.Interfaces)) {
		p := plug{name: name, bridge: n.Virtual.Interfaces[name].Bridge}
		p.untagged, p.tagged = networksOver(n, name)
		all = append(all, p)
		fmt.Fprintf(&key, "%q %q %q %q\n", p.name, p.bridge, p.untagged, p.tagged)
	}
	if f.plugged == nil {
		f.plugged = map[string]*plugs{}
	}
	known, ok := f.plugged[key.String()]
	if !ok {
		known = &plugs{all: all, faults: map[*host]fault{}}
		f.plugged[key.String()] = known
	}
	return known
}

// networksOver returns the networks that a machine has over one of its interfaces. If a
// machine has a single interface and does not configure it, all its addresses are there.
func networksOver(n *site.Node, name string) (untagged, tagged []string) {
	untagged = slices.Clone(n.Interfaces[name].Networks)
	for _, vlan := range slices.Sorted(maps.Keys(n.VLANs)) {
		if v := n.VLANs[vlan]; v.Parent == name && v.Network != "" {
			tagged = append(tagged, v.Network)
		}
	}
	if len(n.Interfaces)+len(n.Bonds)+len(n.Bridges)+len(n.VLANs) == 0 && len(n.Virtual.Interfaces) == 1 {
		untagged = slices.Sorted(maps.Keys(n.Addresses))
	}
	return untagged, tagged
}

// unfit says why the bridges of a hypervisor do not suit a machine.
func (f *fleet) unfit(g *guest, h *host) fault {
	if g.plugs == nil || h.metal == nil || len(h.metal.Bridges) == 0 {
		return fault{} // the design does not say which bridges exist
	}
	x, known := g.plugs.faults[h]
	if !known {
		x = f.lacks(g.plugs, h)
		g.plugs.faults[h] = x
	}
	return x
}

func (f *fleet) lacks(all *plugs, h *host) fault {
	n := h.metal
	for _, p := range all.all {
		at := "virtual.interfaces." + p.name + ".bridge"
		bridge, there := n.Bridges[p.bridge]
		if p.bridge == "" {
			continue
		}
		if !there {
			return fault{fmt.Sprintf("%s is plugged into the bridge %s, and the node %s of %s has only %s", p.name, p.bridge, n.Name, h.name,
				strings.Join(slices.Sorted(maps.Keys(n.Bridges)), ", ")), at}
		}
		carries, known := f.carriedBy(n, bridge)
		if !known {
			continue
		}
		for _, network := range p.untagged {
			if f.isOnWire(network) && !carries.untagged[network] {
				return fault{fmt.Sprintf("%s is in the network %s, and the bridge %s of the node %s of %s carries %s", p.name, network, p.bridge, n.Name, h.name, carries), at}
			}
		}
		for _, network := range p.tagged {
			if f.site.Networks[network] != nil && !carries.tagged[network] {
				return fault{fmt.Sprintf("%s has the network %s with a tag, and the bridge %s of the node %s of %s carries %s", p.name, network, p.bridge, n.Name, h.name, carries), at}
			}
		}
	}
	return fault{}
}

// isOnWire reports whether a network needs a wire. An address of a node's own,
// which routing announces, does not.
func (f *fleet) isOnWire(network string) bool {
	n := f.site.Networks[network]
	if n == nil {
		return false
	}
	p, err := netip.ParsePrefix(n.CIDR)
	return err == nil && !p.IsSingleIP() && !p.Addr().IsLoopback()
}

// carried are the networks that a bridge carries, untagged and tagged.
type carried struct{ untagged, tagged map[string]bool }

func (c carried) String() string {
	parts := slices.Sorted(maps.Keys(c.untagged))
	for _, name := range slices.Sorted(maps.Keys(c.tagged)) {
		parts = append(parts, name+" with a tag")
	}
	if len(parts) == 0 {
		return "none"
	}
	return "only " + strings.Join(parts, ", ")
}

// carriedBy returns the networks of a node's bridge: its own, and those of its
// members. It is false if the design is incomplete.
func (f *fleet) carriedBy(n *site.Node, b site.Bridge) (carried, bool) {
	c := carried{map[string]bool{}, map[string]bool{}}
	add := func(to map[string]bool, networks ...string) {
		for _, name := range networks {
			if name != "" {
				to[name] = true
			}
		}
	}
	add(c.untagged, b.Networks...)
	known := len(b.Networks) > 0 || len(b.Members) > 0
	for _, member := range b.Members {
		link, networks := "", []string(nil)
		switch {
		case has(n.VLANs, member):
			add(c.untagged, n.VLANs[member].Network)
			continue
		case has(n.Bonds, member):
			link, networks = n.Bonds[member].Link, n.Bonds[member].Networks
		case has(n.Interfaces, member):
			link, networks = n.Interfaces[member].Link, n.Interfaces[member].Networks
		}
		add(c.untagged, networks...)
		l := f.site.Links[link]
		if l == nil {
			known = false
			continue
		}
		if !l.Trunk {
			add(c.untagged, l.Networks...)
			continue
		}
		add(c.untagged, l.Native)
		for _, name := range l.Networks {
			if name != l.Native {
				add(c.tagged, name)
			}
		}
	}
	return c, known
}

func has[V any](in map[string]V, name string) bool {
	_, ok := in[name]
	return ok
}
