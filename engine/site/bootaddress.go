package site

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
)

// BootAddress is the IPv4 address of a machine while Slipway's agent runs in its memory. The zero
// value means DHCP.
type BootAddress struct {
	Prefix  netip.Prefix
	Gateway netip.Addr   // invalid for none
	DNS     []netip.Addr // empty where the network names no server
	// MAC is the address of the port in lower case, or PCI is its place on the PCI bus. If both are
	// empty, the first port with a link is used.
	MAC, PCI string
}

// BootAddress returns the address that a node boots with. A network that one of its ports boots
// from comes first. Networks that a port itself carries untagged follow, the one with the default
// route first. Bonds, bridges and VLANs do not exist in the agent's system.
func (s *Site) BootAddress(n *Node) BootAddress {
	type port struct{ name, network string }
	var all []port
	for _, name := range slices.Sorted(maps.Keys(n.Interfaces)) {
		if boot := n.Interfaces[name].Boot; boot != "" {
			all = append(all, port{name, boot})
		}
	}
	var plain []port
	for _, name := range slices.Sorted(maps.Keys(n.Interfaces)) {
		for _, network := range n.Interfaces[name].Networks {
			plain = append(plain, port{name, network})
		}
	}
	first, _ := s.DefaultNetwork(n, IPv4)
	slices.SortStableFunc(plain, func(a, b port) int {
		return cmp.Compare(rank(a.network == first), rank(b.network == first))
	})
	for _, p := range append(all, plain...) {
		net := s.Networks[p.network]
		address, err := netip.ParseAddr(n.Addresses[p.network])
		if net == nil || err != nil || !address.Is4() {
			continue
		}
		in, err := netip.ParsePrefix(net.CIDR)
		if err != nil {
			continue
		}
		is := BootAddress{Prefix: netip.PrefixFrom(address, in.Bits()), MAC: n.MACOf(p.name), PCI: n.PCIOf(p.name)}
		if g, err := netip.ParseAddr(net.Gateway); err == nil && g.Is4() {
			is.Gateway = g
		}
		for _, server := range net.DNS.Servers {
			if a, err := netip.ParseAddr(server); err == nil {
				is.DNS = append(is.DNS, a)
			}
		}
		return is
	}
	return BootAddress{}
}

func rank(first bool) int {
	if first {
		return 0
	}
	return 1
}

// MACs are the designed MAC addresses of a node's ports, in lower case and in order.
func (n *Node) MACs() []string {
	var all []string
	for name := range n.Interfaces {
		if mac := n.MACOf(name); mac != "" {
			all = append(all, mac)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
