package site

import (
	"maps"
	"net/netip"
	"slices"
)

// IPFamily is the family of IP addresses.
type IPFamily string

// The families of addresses.
const (
	IPv4 IPFamily = "IPv4"
	IPv6 IPFamily = "IPv6"
)

// IPFamilies are both, in order.
var IPFamilies = []IPFamily{IPv4, IPv6}

// IPFamily is that of a network's range; empty for a range that is none.
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

// everything is the destination of a default route.
func (f IPFamily) everything() string {
	if f == IPv6 {
		return "::/0"
	}
	return "0.0.0.0/0"
}

// DefaultNetwork is the network over whose gateway a node has its default route of one
// family, among all networks of that family in which the node has an address and that have
// a gateway. It is empty where there is none, or where the design does not say which one of
// several. The primary network decides within its family. In the other family the only one
// counts, or the only one on the interface of the primary network.
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

// carriesBoth says whether one interface, bond or bridge of the node is in two networks.
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

// Destination is a range that a route leads to, and the network whose range it is; empty
// for a range that the route names itself.
type Destination struct {
	Network string
	Range   netip.Prefix
}

// Destinations are the ranges that a route over a gateway in a network leads to: its own,
// or those of the other networks of its route domain. All are of the network's family, since
// no gateway of the other one can be used for them.
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
