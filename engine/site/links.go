package site

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/slipway-gitops/slipway/engine/item"
)

// LinksState is the state of a node's network links as its system sees them.
type LinksState string

// The states of links. Unknown means that nobody could look: neither as designed nor different.
const (
	LinksAsDesigned LinksState = "as designed"
	LinksDiffer     LinksState = "differ"
	LinksUnknown    LinksState = "unknown"
)

// Links is the state of a node's network links. It is zero if the design has none.
type Links struct {
	State LinksState `json:"state"`
	// Why is the first difference, or why the state is unknown; empty for links that are as
	// designed.
	Why string `json:"why,omitempty"`
}

// String returns the state and the reason.
func (l Links) String() string {
	if l.Why == "" {
		return string(l.State)
	}
	return string(l.State) + ": " + l.Why
}

// LinkProbes returns what to ask the node's system about its links. It is false for nothing, as
// when the machine is to be off or to leave.
func (n *Node) LinkProbes() (item.LinkProbes, bool) {
	if len(n.References.Links) == 0 || n.Power == "off" || n.Decommission {
		return item.LinkProbes{}, false
	}
	return item.LinkProbes{Ports: slices.Sorted(maps.Keys(n.Interfaces))}, true
}

// Gateways returns the designed gateways of the networks that the node has an address in, except
// where the node itself is the gateway.
func (s *Site) Gateways(n *Node) []item.Target {
	var all []item.Target
	for _, name := range slices.Sorted(maps.Keys(n.Addresses)) {
		net := s.Networks[name]
		if net == nil || net.Gateway == "" || n.BootsOnly(name) {
			continue
		}
		a, err := netip.ParseAddr(net.Gateway)
		if own, _ := netip.ParseAddr(n.Addresses[name]); err == nil && own != a {
			all = append(all, item.Target{Network: name, Address: a.String(), MTU: n.mtuIn(name)})
		}
	}
	return all
}

// Peer returns another node as a target in a network that both are in. It is false if the other
// node has no known address there. Packets are as large as both nodes are designed for.
func (n *Node) Peer(other *Node, network string) (item.Target, bool) {
	a, err := netip.ParseAddr(other.Addresses[network])
	if err != nil || n.BootsOnly(network) || other.BootsOnly(network) {
		return item.Target{}, false
	}
	return item.Target{Network: network, Node: other.Name, Address: a.String(), MTU: min(n.mtuIn(network), other.mtuIn(network))}, true
}

// mtuIn returns the designed MTU of the interface with the node's address in a network, 0 if the
// design names none.
func (n *Node) mtuIn(network string) int {
	own, err := netip.ParseAddr(n.Addresses[network])
	if err != nil {
		return 0
	}
	for _, l := range n.References.Links {
		for _, text := range l.Addresses {
			if p, err := netip.ParsePrefix(text); err == nil && p.Addr() == own {
				return l.MTU
			}
		}
	}
	return 0
}

// Carries reports whether the design expects something at the other end of a port's cable.
func (n *Node) Carries(name string) bool {
	i := n.Interfaces[name]
	return i.Link != "" || i.Switch != "" || len(i.Networks) > 0 || n.isMember(name)
}

func (n *Node) isMember(name string) bool {
	for _, b := range n.Bonds {
		if slices.Contains(b.Members, name) {
			return true
		}
	}
	for _, b := range n.Bridges {
		if slices.Contains(b.Members, name) {
			return true
		}
	}
	for _, v := range n.VLANs {
		if v.Parent == name {
			return true
		}
	}
	return false
}

// LinkOf returns the link that a port is plugged into, its own or that of its bond, and the path
// that names it in the node; empty for none.
func (n *Node) LinkOf(port string) (link, path string) {
	if l := n.Interfaces[port].Link; l != "" {
		return l, "interfaces." + port + ".link"
	}
	for _, bond := range slices.Sorted(maps.Keys(n.Bonds)) {
		if b := n.Bonds[bond]; slices.Contains(b.Members, port) && b.Link != "" {
			return b.Link, "bonds." + bond + ".link"
		}
	}
	return "", ""
}

// PortOf returns what was seen of a designed port. The port is found by its MAC address or its
// place on the PCI bus, or else by its name.
func (n *Node) PortOf(name string, seen *item.LinksSeen) (item.Port, bool) {
	return seen.PortAt(name, n.MACOf(name), n.PCIOf(name))
}

// Unheard reports whether some port with a carrier and a designed switch has no recent neighbour.
// While Slipway does not listen, what it heard before counts.
func (n *Node) Unheard(seen *item.LinksSeen, isOld func(item.Neighbour) bool) bool {
	for name, i := range n.Interfaces {
		p, there := n.PortOf(name, seen)
		if i.Switch != "" && there && p.Carrier == "up" && !slices.ContainsFunc(p.Neighbours, func(x item.Neighbour) bool { return !isOld(x) }) {
			return true
		}
	}
	return false
}
