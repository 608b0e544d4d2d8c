package site

import (
	"maps"
	"net/netip"
	"slices"
)

// IPFamily is the family of IP addresses.
type IPFamily string

// The address families.
const (
	IPv4 IPFamily = "IPv4"
	IPv6 IPFamily = "IPv6"
)

// IPFamilies are both families, in order.
var IPFamilies = []IPFamily{IPv4, IPv6}

// IPFamily returns the family of a network's range, or empty text if the range is invalid.
func (n *Network) IPFamily() IPFamily {
	p, err := netip.ParsePrefix(n.CIDR)
	switch {
	case err != nil:
		return ""
	case p.Addr().Is4():
		return IPv4
	}
	return IPv6
}

// everything returns the destination of a default route.
func (f IPFamily) everything() string {
	if f == IPv6 {
		return "::/0"
	}
	return "0.0.0.0/0"
}

// DefaultNetwork returns the network whose gateway carries a node's default route of one family.
// The candidates are the networks of that family that have a gateway and an address of the node;
// among lists them. Name is empty if there are none, or if the design does not decide between
// several. The primary network decides within its own family. In the other family, the only
// candidate wins, or the only one on the interface of the primary network.
func (s *Site) DefaultNetwork(n *Node, family IPFamily) (name string, among []string) {
	for _, name := range slices.Sorted(maps.Keys(n.Addresses)) {
		if net := s.Networks[name]; net != nil && net.Gateway != "" && net.IPFamily() == family && !n.BootsOnly(name) {
			among = append(among, name)
		}
	}
	candidates := among
	if primary := s.Networks[n.PrimaryNetwork]; primary != nil && primary.IPFamily() == family {
		candidates = slices.DeleteFunc(slices.Clone(among), func(name string) bool { return name != n.PrimaryNetwork })
	} else if primary != nil && len(among) > 1 {
		candidates = slices.DeleteFunc(slices.Clone(among), func(name string) bool { return !n.carriesBoth(name, n.PrimaryNetwork) })
	}
	if len(candidates) == 1 {
		return candidates[0], among
	}
	return "", among
}

// carriesBoth reports whether one interface, bond or bridge of the node is in both networks.
func (n *Node) carriesBoth(a, b string) bool {
	both := func(networks []string) bool { return slices.Contains(networks, a) && slices.Contains(networks, b) }
	for _, i := range n.Interfaces {
		if both(i.Networks) {
			return true
		}
	}
	for _, x := range n.Bonds {
		if both(x.Networks) {
			return true
		}
	}
	for _, x := range n.Bridges {
		if both(x.Networks) {
			return true
		}
	}
	return false
}

// Destination is a range that a route leads to. Network is the network with that range, empty if
// the route names the range itself.
type Destination struct {
	Network string
	Range   netip.Prefix
}

// Destinations are the ranges that a route over a gateway in a network leads to: its own range, or
// the ranges of the other networks of its route domain. All are of the network's family: a gateway
// cannot serve the other family.
func (s *Site) Destinations(network string, r Route) []Destination {
	var all []Destination
	from := s.Networks[network]
	if from == nil {
		return nil
	}
	add := func(name, text string) {
		p, err := netip.ParsePrefix(text)
		if own := (&Network{CIDR: text}); err == nil && own.IPFamily() == from.IPFamily() {
			all = append(all, Destination{name, p.Masked()})
		}
	}
	if r.Domain == "" {
		add("", r.To)
		return all
	}
	for _, name := range slices.Sorted(maps.Keys(s.Networks)) {
		if s.Networks[name].RouteDomain == r.Domain && name != network {
			add(name, s.Networks[name].CIDR)
		}
	}
	return all
}
