package netboot

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/bits"
	"net/netip"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// network is the server's view of a network, derived only from the design and this host's addresses.
type network struct {
	name   string
	mode   site.DHCPMode
	prefix netip.Prefix
	// server is the address by which clients and relays of the network know this host.
	server netip.Addr
	// relay is the relay agent's address in the network; invalid if this host is in the network itself.
	relay   netip.Addr
	gateway netip.Addr
	domain  string
	dns     []netip.Addr
	mtu     int
	routes  []route
	pool    pool
	hosts   map[string]host // by MAC address
	byUUID  map[string]host // by SMBIOS UUID, in both orders of its bytes
	// owner maps designed addresses to their nodes.
	owner map[netip.Addr]string
	// own are this host's addresses on the interface.
	own []netip.Addr
	// closed are addresses that no client gets: those of routers and of this host.
	closed map[netip.Addr]bool
	// announces says that routers of IPv6 are played: hosts are told the prefix, and autonomous that they may
	// make addresses of it themselves.
	announces, autonomous bool
}

// host is a designed node in a network.
type host struct {
	node string
	// addr is its designed address; invalid if it uses the dynamic range.
	addr netip.Addr
	// routed says that the node's default gateway is the one of this network.
	routed bool
}

type route struct {
	to  netip.Prefix
	via netip.Addr
}

// maxPool bounds the dynamic addresses of a network, because each lease is kept in memory and in the records.
const maxPool = 1 << 16

// pool is the dynamic addresses of a network, in order.
type pool []span

// span is size addresses that begin with from.
type span struct {
	from, to netip.Addr
	size     int
}

func (p pool) size() (n int) {
	for _, s := range p {
		n += s.size
	}
	return n
}

// at is the i-th address.
func (p pool) at(i int) netip.Addr {
	for _, s := range p {
		if i < s.size {
			return after(s.from, i)
		}
		i -= s.size
	}
	return netip.Addr{}
}

func (p pool) has(a netip.Addr) bool {
	return slices.ContainsFunc(p, func(s span) bool { return s.from.BitLen() == a.BitLen() && !a.Less(s.from) && !s.to.Less(a) })
}

// after is the address n after another; invalid if there is none.
func after(a netip.Addr, n int) netip.Addr {
	b := a.As16()
	high, low := binary.BigEndian.Uint64(b[:]), binary.BigEndian.Uint64(b[8:])
	low, carry := bits.Add64(low, uint64(n), 0)
	high, carry = bits.Add64(high, 0, carry)
	binary.BigEndian.PutUint64(b[:], high)
	binary.BigEndian.PutUint64(b[8:], low)
	sum := netip.AddrFrom16(b)
	if carry != 0 || a.Is4() != sum.Is4In6() {
		return netip.Addr{}
	}
	return sum.Unmap()
}

// distance is how many addresses are from one to a later one of its family, up to most.
func distance(from, to netip.Addr, most int) int {
	a, b := from.As16(), to.As16()
	low, borrow := bits.Sub64(binary.BigEndian.Uint64(b[8:]), binary.BigEndian.Uint64(a[8:]), 0)
	high, _ := bits.Sub64(binary.BigEndian.Uint64(b[:]), binary.BigEndian.Uint64(a[:]), borrow)
	if high > 0 || low > uint64(most) {
		return most
	}
	return int(low)
}

// networkOf is a network as served on an interface with these addresses. The error is a sentence that says why the
// network is not served.
func networkOf(s *site.Site, name string, addresses []netip.Prefix) (*network, error) {
	d := s.Networks[name]
	switch {
	case d == nil:
		return nil, fmt.Errorf("the design in force has no network %s: correct --netboot, or add the network", name)
	case d.Boot.DHCP == "" && strings.Contains(d.CIDR, ":"):
		return nil, fmt.Errorf(`the design does not ask for it: write networks: %s: boot: dhcp: "serve"`, name)
	case d.Boot.DHCP == "":
		return nil, fmt.Errorf(`the design does not ask for it: write networks: %s: boot: dhcp: "serve" or "proxy"`, name)
	}
	prefix, err := netip.ParsePrefix(d.CIDR)
	if err != nil || prefix.Addr().BitLen()-prefix.Bits() < 2 {
		return nil, fmt.Errorf("the network's range %q has no room for hosts", d.CIDR)
	}
	if prefix.Addr().Is6() && d.Boot.DHCP == site.DHCPProxy {
		return nil, fmt.Errorf(`boot.dhcp: "proxy" works in IPv4 networks only: write "serve" in networks.%s, or remove boot.dhcp`, name)
	}
	n := &network{name: name, mode: d.Boot.DHCP, prefix: prefix.Masked(), domain: d.DNS.Domain, mtu: d.MTU,
		hosts: map[string]host{}, byUUID: map[string]host{}, owner: map[netip.Addr]string{}, closed: map[netip.Addr]bool{}}
	n.gateway, n.announces, n.autonomous = n.addr(d.Gateway), n.prefix.Addr().Is6() && d.Boot.Announce, d.Autoconfigure
	for _, text := range d.DNS.Servers {
		if a := n.addr(text); a.IsValid() && len(n.dns) < 3 {
			n.dns = append(n.dns, a)
		}
	}
	if err := n.reach(d, addresses); err != nil {
		return nil, err
	}
	n.setRoutes(s, d)
	n.setHosts(s)
	n.setPool(d)
	return n, nil
}

// reach finds the address with which this host serves the network.
func (n *network) reach(d *site.Network, addresses []netip.Prefix) error {
	addresses = slices.DeleteFunc(slices.Clone(addresses), func(p netip.Prefix) bool { return p.Addr().Is6() != n.is6() })
	for _, p := range addresses {
		n.own, n.closed[p.Addr()] = append(n.own, p.Addr()), true
		// The system lists addresses of IPv6 in no stable order.
		if n.prefix.Contains(p.Addr()) && (!n.server.IsValid() || n.is6() && p.Addr().Less(n.server)) {
			n.server = p.Addr()
		}
	}
	if n.server.IsValid() {
		return nil
	}
	if d.DHCPRelay == nil {
		return fmt.Errorf("the interface has no address in %s: give it one, or set networks: %s: dhcpRelay for a relay that passes requests on to this host", n.prefix, n.name)
	}
	for _, p := range addresses {
		if slices.Contains(d.DHCPRelay.Servers, p.Addr().String()) {
			n.server, n.relay = p.Addr(), n.addr(d.DHCPRelay.Address)
		}
	}
	if !n.relay.IsValid() {
		return fmt.Errorf("the interface has no address in %s, and none of those in networks.%s.dhcpRelay.servers: name an address of this interface there", n.prefix, n.name)
	}
	return nil
}

// setRoutes adds the design's routes, to ranges or to the networks of a route domain.
func (n *network) setRoutes(s *site.Site, d *site.Network) {
	for _, key := range slices.Sorted(maps.Keys(d.Routes)) {
		r := d.Routes[key]
		for _, to := range s.Destinations(n.name, r) {
			if n.addr(r.Gateway).IsValid() {
				n.routes = append(n.routes, route{to.Range, n.addr(r.Gateway)})
			}
		}
		n.closed[n.addr(r.Gateway)] = true
	}
}

// setHosts finds the network's nodes by the MAC addresses that can occur in it.
func (n *network) setHosts(s *site.Site) {
	for _, name := range slices.Sorted(maps.Keys(s.Nodes)) {
		node := s.Nodes[name]
		given := node.Addresses[n.name]
		if given == "" && !bootsIn(node, n.name) {
			continue
		}
		first, _ := s.DefaultNetwork(node, n.family())
		h := host{node: name, addr: n.addr(given), routed: node.PrimaryNetwork == "" || first == "" || first == n.name}
		if h.addr.IsValid() && n.prefix.Contains(h.addr) {
			n.owner[h.addr] = name
		}
		for _, mac := range macsIn(node, n.name) {
			if _, twice := n.hosts[mac]; !twice {
				n.hosts[mac] = h
			}
		}
		if uuid := strings.ToLower(node.Machine().UUID); uuid != "" {
			n.byUUID[uuid], n.byUUID[site.TurnedRound(uuid)] = h, h
		}
	}
}

// setPool sets the DHCP ranges, without addresses that a host cannot have.
func (n *network) setPool(d *site.Network) {
	n.closed[n.gateway] = true
	n.closed[n.relay] = true
	unusable, left := site.Unusable(n.prefix), maxPool
	for _, key := range slices.Sorted(maps.Keys(d.Ranges)) {
		r := d.Ranges[key]
		from, to := n.addr(r.From), n.addr(r.To)
		if r.Use != site.RangeDHCP || !n.prefix.Contains(from) || !n.prefix.Contains(to) || to.Less(from) {
			continue
		}
		if slices.Contains(unusable, from) {
			from = from.Next()
		}
		if slices.Contains(unusable, to) {
			to = to.Prev()
		}
		if to.Less(from) || left == 0 {
			continue
		}
		size := min(distance(from, to, maxPool)+1, left)
		left -= size
		n.pool = append(n.pool, span{from, after(from, size-1), size})
	}
}

// bootsIn reports whether the firmware of one of the node's ports boots from a network.
func bootsIn(node *site.Node, network string) bool {
	for _, i := range node.Interfaces {
		if i.Boot == network {
			return true
		}
	}
	return false
}

// macsIn are the MAC addresses with which a node can be in a network: those of interfaces that boot from the
// network or carry it, directly or through a bond, bridge or VLAN. A node without designed wiring may use any of
// its own.
func macsIn(node *site.Node, network string) []string {
	carries := map[string]bool{} // by name of interface
	var mark func(name string)
	mark = func(name string) {
		if carries[name] {
			return
		}
		carries[name] = true
		for _, m := range node.Bonds[name].Members {
			mark(m)
		}
		for _, m := range node.Bridges[name].Members {
			mark(m)
		}
		if v, ok := node.VLANs[name]; ok {
			mark(v.Parent)
		}
	}
	for name, i := range node.Interfaces {
		if slices.Contains(i.Networks, network) || i.Boot == network {
			mark(name)
		}
	}
	for name, b := range node.Bonds {
		if slices.Contains(b.Networks, network) {
			mark(name)
		}
	}
	for name, b := range node.Bridges {
		if slices.Contains(b.Networks, network) {
			mark(name)
		}
	}
	for name, v := range node.VLANs {
		if v.Network == network {
			mark(name)
		}
	}
	macs, all := map[string]bool{}, map[string]bool{node.Machine().MAC: true}
	add := func(name, mac string) {
		all[mac] = true
		if carries[name] {
			macs[mac] = true
		}
	}
	for name := range node.Interfaces {
		add(name, node.MACOf(name))
	}
	for name, v := range node.Virtual.Interfaces {
		add(name, v.MAC)
	}
	delete(macs, "")
	delete(all, "")
	if len(macs) == 0 && len(carries) == 0 {
		macs = all
	}
	return slices.Sorted(maps.Keys(macs))
}

// addr parses an address of the network's family; invalid for any other text.
func (n *network) addr(text string) netip.Addr {
	a, err := netip.ParseAddr(text)
	if err != nil || a.Is6() != n.is6() {
		return netip.Addr{}
	}
	return a
}

// isAnnounced reports whether the network's prefix is to be announced: this host is in the network itself.
func (n *network) isAnnounced() bool { return n.announces && !n.relay.IsValid() }

// is6 reports whether the network is of IPv6.
func (n *network) is6() bool { return n.prefix.Addr().Is6() }

func (n *network) family() site.IPFamily {
	if n.is6() {
		return site.IPv6
	}
	return site.IPv4
}

// version is the version of IP of an address, as package net writes it after the name of a protocol.
func version(a netip.Addr) string {
	if a.Is6() {
		return "6"
	}
	return "4"
}
