package site

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/slipway-gitops/slipway/engine/item"
)

// LinksState is how the network links of a node are, by what its system sees of them.
type LinksState string

// The states. What nobody could look at is unknown: neither as designed nor not.
const (
	LinksAsDesigned LinksState = "as designed"
	LinksDiffer     LinksState = "differ"
	LinksUnknown    LinksState = "unknown"
)

// Links is how the network links of a node are. It is zero where the design says nothing
// of them.
type Links struct {
	State LinksState `json:"state"`
	// Why is what differs first, or why it is unknown, in words; empty for links that are
	// as designed.
	Why string `json:"why,omitempty"`
}

// String is the state and why.
func (l Links) String() string {
	if l.Why == "" {
		return string(l.State)
	}
	return string(l.State) + ": " + l.Why
}

// LinkProbes are what is asked of the node's system to know its links; false for
// nothing, as where the machine is to be off or to leave.
func (n *Node) LinkProbes() (item.LinkProbes, bool) {
	if len(n.References.Links) == 0 || n.Power == "off" || n.Decommission {
		return item.LinkProbes{}, false
	}
	return item.LinkProbes{Ports: slices.Sorted(maps.Keys(n.Interfaces))}, true
}

// Gateways are the designed gateways of the networks that the node has an address in,
// without those that are the node itself.
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

// Peer is another node as a target in a network that both are in; false where it has no
// address there that is known. Packets are as large as both are designed for.
func (n *Node) Peer(other *Node, network string) (item.Target, bool) {
	a, err := netip.ParseAddr(other.Addresses[network])
	if err != nil || n.BootsOnly(network) || other.BootsOnly(network) {
		return item.Target{}, false
	}
	return item.Target{Network: network, Node: other.Name, Address: a.String(), MTU: min(n.mtuIn(network), other.mtuIn(network))}, true
}

// mtuIn is the designed MTU of the interface with the node's address in a network, 0
// where the design names none.
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

// Carries says whether the design expects something at the other end of a port's cable.
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

// LinkOf is the name of the link that a port is plugged into, its own or that of its bond,
// and by which path the node names it; empty for none.
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

// PortOf is what was seen of a designed port: the one that the design means by its MAC
// address or its place on the PCI bus, or else the one of that name.
func (n *Node) PortOf(name string, seen *item.LinksSeen) (item.Port, bool) {
	return seen.PortAt(name, n.MACOf(name), n.PCIOf(name))
}

// Unheard says whether nobody knows, or nobody has looked lately, what is at the other end
// of a port for which the design names a switch, and which has a carrier. Slipway itself
// hears nothing while it does not listen; what it heard counts until then.
func (n *Node) Unheard(seen *item.LinksSeen, isOld func(item.Neighbour) bool) bool {
	for name, i := range n.Interfaces {
		p, there := n.PortOf(name, seen)
		if i.Switch != "" && there && p.Carrier == "up" && !slices.ContainsFunc(p.Neighbours, func(x item.Neighbour) bool { return !isOld(x) }) {
			return true
		}
	}
	return false
}
