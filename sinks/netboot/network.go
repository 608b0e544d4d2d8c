package netboot

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

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
	// owner maps designed addresses to their nodes.
	owner map[netip.Addr]string
	// own are this host's addresses on the interface.
	own []netip.Addr
	// closed are addresses that no client gets: those of routers and of this host.
	closed map[netip.Addr]bool
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

type span struct{ from, to uint32 }

func (p pool) size() (n int) {
	for _, s := range p {
		n += int(s.to-s.from) + 1
	}
	return n
}

// at is the i-th address.
func (p pool) at(i int) netip.Addr {
	for _, s := range p {
		if n := int(s.to-s.from) + 1; i >= n {
			i -= n
			continue
		}
		return addrOf(s.from + uint32(i))
	}
	return netip.Addr{}
}

func (p pool) has(a netip.Addr) bool {
	n := number(a)
	return a.Is4() && slices.ContainsFunc(p, func(s span) bool { return s.from <= n && n <= s.to })
}

func number(a netip.Addr) uint32 {
	if !a.Is4() {
		return 0
	}
	b := a.As4()
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

func addrOf(n uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

// networkOf is a network as served on an interface with these addresses. The error is a sentence that says why the
// network is not served.
func networkOf(s *site.Site, name string, addresses []netip.Prefix) (*network, error) {
	d := s.Networks[name]
	switch {
	case d == nil:
		return nil, fmt.Errorf("the design in force has no network %s: correct --netboot, or add the network", name)
	case d.Boot.DHCP == "":
		return nil, fmt.Errorf(`the design does not ask for it: write networks: %s: boot: dhcp: "serve" or "proxy"`, name)
	}
	prefix, err := netip.ParsePrefix(d.CIDR)
	if err != nil || !prefix.Addr().Is4() || prefix.Bits() > 30 {
		return nil, fmt.Errorf("the network's range %q is not one of IPv4 with room for hosts", d.CIDR)
	}
	n := &network{name: name, mode: d.Boot.DHCP, prefix: prefix.Masked(), gateway: addr4(d.Gateway), domain: d.DNS.Domain, mtu: d.MTU,
		hosts: map[string]host{}, owner: map[netip.Addr]string{}, closed: map[netip.Addr]bool{}}
	for _, text := range d.DNS.Servers {
		if a := addr4(text); a.IsValid() && len(n.dns) < 3 {
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
	for _, p := range addresses {
		n.own, n.closed[p.Addr()] = append(n.own, p.Addr()), true
		if !n.server.IsValid() && n.prefix.Contains(p.Addr()) {
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
			n.server, n.relay = p.Addr(), addr4(d.DHCPRelay.Address)
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
			if addr4(r.Gateway).IsValid() {
				n.routes = append(n.routes, route{to.Range, addr4(r.Gateway)})
			}
		}
		n.closed[addr4(r.Gateway)] = true
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
		first, _ := s.DefaultNetwork(node, site.IPv4)
		h := host{node: name, addr: addr4(given), routed: node.PrimaryNetwork == "" || first == "" || first == n.name}
		if h.addr.IsValid() && n.prefix.Contains(h.addr) {
			n.owner[h.addr] = name
		}
		for _, mac := range macsIn(node, n.name) {
			if _, twice := n.hosts[mac]; !twice {
				n.hosts[mac] = h
			}
		}
	}
}

// setPool sets the DHCP ranges, without addresses that a host cannot have.
func (n *network) setPool(d *site.Network) {
	n.closed[n.gateway] = true
	n.closed[n.relay] = true
	first := number(n.prefix.Addr())
	last := first | (1<<(32-n.prefix.Bits()) - 1)
	left := uint32(maxPool)
	for _, key := range slices.Sorted(maps.Keys(d.Ranges)) {
		r := d.Ranges[key]
		from, to := addr4(r.From), addr4(r.To)
		if r.Use != site.RangeDHCP || !n.prefix.Contains(from) || !n.prefix.Contains(to) || to.Less(from) || left == 0 {
			continue
		}
		s := span{max(number(from), first+1), min(number(to), last-1)}
		if s.to < s.from {
			continue
		}
		s.to = min(s.to, s.from+left-1)
		left -= s.to - s.from + 1
		n.pool = append(n.pool, s)
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

// addr4 parses an IPv4 address; invalid for any other text.
func addr4(text string) netip.Addr {
	a, err := netip.ParseAddr(text)
	if err != nil || !a.Is4() {
		return netip.Addr{}
	}
	return a
}
