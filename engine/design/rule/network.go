package rule

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"

	"github.com/slipway-gitops/slipway/engine/site"
)

var networks = []Rule{
	{
		Code: "invalid-cidr", Severity: site.SeverityError, Firm: true,
		What:  "The range of a network is written with its first address.",
		Why:   "Slipway cannot tell which addresses belong to the network.",
		Wrong: `networks: mgmt: cidr: "10.1.0.1/24"`,
		Right: `networks: mgmt: cidr: "10.1.0.0/24"`,
		Site:  invalidCIDR,
	},
	{
		Code: "network-overlap", Severity: site.SeverityError,
		What: "The ranges of two networks have no address in common.",
		Why:  "A node in both sends packets for the one into the other, and an address does not say which network it is in.",
		Wrong: `networks: lab: cidr: "10.1.0.128/25"
nodes: "n1": addresses: lab: "10.1.0.211"`,
		Right: `networks: lab: cidr: "10.1.1.128/25"
nodes: "n1": addresses: lab: "10.1.1.211"`,
		Site: networkOverlap,
	},
	{
		Code: "gateway-outside-network", Severity: site.SeverityError,
		What:  "The gateway of a network is in its range, or in IPv6 a link-local address.",
		Why:   "No node of the network could reach it, so nothing could be reached through it.",
		Wrong: `networks: mgmt: gateway: "10.4.0.1"`,
		Right: `networks: mgmt: gateway: "10.1.0.1"`,
		Site:  gatewayOutside,
	},
	{
		Code: "gateway-unusable", Severity: site.SeverityError,
		What:  "The gateway of a network is not the network's own or its broadcast address.",
		Why:   "No router answers there (RFC 919, section 7), so the nodes install and then reach nothing outside.",
		Wrong: `networks: mgmt: gateway: "10.1.0.0"`,
		Right: `networks: mgmt: gateway: "10.1.0.254"`,
		Site:  gatewayUnusable,
	},
	{
		Code: "dns-domain", Severity: site.SeverityError,
		What:  "The domain of a network is one to which a node's name can be added.",
		Why:   "The nodes' full names would be invalid (RFC 1035, section 2.3), and programs that look them up would fail.",
		Wrong: `networks: mgmt: dns: domain: "site_1..example.org"`,
		Right: `networks: mgmt: dns: domain: "site1.example.org"`,
		Site:  dnsDomain,
	},
	{
		Code: "dns-servers", Severity: site.SeverityWarning,
		What:  "The name servers of a network are at most three different addresses of hosts.",
		Why:   "The C library asks only the first three (MAXNS, resolv.conf(5)), and a server that is named twice is still one server.",
		Wrong: `networks: mgmt: dns: servers: ["10.1.0.53", "10.1.0.53"]`,
		Right: `networks: mgmt: dns: servers: ["10.1.0.53", "10.1.0.54"]`,
		Site:  dnsServers,
	},
	{
		Code: "dhcp-relay", Severity: site.SeverityError,
		What: "A DHCP relay has an address in its network, passes requests to servers outside of it, and there is a range for them to give.",
		Why:  "The server picks the range by the relay's address (RFC 2131, section 4.3.1); otherwise no node of the network gets an address.",
		Wrong: `networks: mgmt: {
	ranges: leases: {from: "10.1.0.200", to: "10.1.0.250", use: "dhcp"}
	dhcpRelay: {address: "10.2.0.1", servers: ["10.9.0.2"]}
}`,
		Right: `networks: mgmt: {
	ranges: leases: {from: "10.1.0.200", to: "10.1.0.250", use: "dhcp"}
	dhcpRelay: {address: "10.1.0.1", servers: ["10.9.0.2"]}
}`,
		Site: dhcpRelay,
	},
	{
		Code: "boot-dhcp", Severity: site.SeverityError,
		What: `Where the daemon serves DHCP, the network has room for hosts and there is an address to give. "proxy" works in IPv4 networks only.`,
		Why:  "Without an address to give the daemon never answers, and machines wait for it at every start. DHCPv6 has no standard for a proxy: a machine takes the boot file from the server that gives the address.",
		Wrong: `networks: lab: {cidr: "fd00:5::/64", boot: dhcp: "proxy"}
nodes: "n1": addresses: lab: "fd00:5::11"`,
		Right: `networks: lab: {cidr: "fd00:5::/64", gateway: "fd00:5::1", boot: dhcp: "serve"}
nodes: "n1": addresses: lab: "fd00:5::11"`,
		Facts: networkFacts, Fleet: bootDHCP,
	},
	{
		Code: "boot-announce", Severity: site.SeverityError,
		What: "boot.announce is set only in IPv6 networks that the daemon serves by DHCPv6 without a relay. Somebody announces the prefix of each IPv6 network that it serves.",
		Why:  "DHCPv6 gives an address without a prefix and without a router. Clients that hear no announcement reach nobody, not even the daemon for their boot file.",
		Wrong: `networks: lab: {cidr: "fd00:5::/64", boot: announce: true}
nodes: "n1": addresses: lab: "fd00:5::11"`,
		Right: `networks: lab: {cidr: "fd00:5::/64", boot: {dhcp: "serve", announce: true}}
nodes: "n1": addresses: lab: "fd00:5::11"`,
		Site: bootAnnounce,
	},
	{
		Code: "autoconfigure", Severity: site.SeverityError,
		What:  "A network whose nodes configure themselves is of IPv6 and has a prefix of 64 bits.",
		Why:   "Only IPv6 has announcements of routers, and nodes take no address of a prefix with another length (RFC 4862, section 5.5.3; RFC 4291, section 2.5.1).",
		Wrong: `networks: mgmt: autoconfigure: true`,
		Right: `networks: lan6: {cidr: "fd00:5::/64", autoconfigure: true}
nodes: "n1": addresses: lan6: "fd00:5::11"`,
		Site: func(s *site.Site) (found []site.Finding) {
			for _, key := range keys(s.Networks) {
				if p := prefixOf(s, key); s.Networks[key].Autoconfigure && p.IsValid() && (p.Addr().Is4() || p.Bits() != 64) {
					found = append(found, wrong("networks."+key+".autoconfigure", fmt.Sprintf("the network %s is %s, in which no node configures itself", key, p),
						"Remove it, or write it for a network of IPv6 with a /64."))
				}
			}
			return found
		},
	},
	{
		Code: "unused-network", Severity: site.SeverityNote,
		What:  "Every network is used by a node.",
		Why:   "It may be left over, or nodes may be missing in it.",
		Wrong: `networks: backup: cidr: "10.5.0.0/24"`,
		Right: `networks: backup: cidr: "10.5.0.0/24"
nodes: "n1": addresses: backup: "10.5.0.11"`,
		Facts: networkFacts, Fleet: unusedNetwork, Whole: true,
	},
}

func invalidCIDR(s *site.Site) []site.Finding {
	var found []site.Finding
	for _, key := range keys(s.Networks) {
		cidr, path := s.Networks[key].CIDR, "networks."+key+".cidr"
		if cidr != "" && !prefixOf(s, key).IsValid() {
			found = append(found, wrong(path,
				fmt.Sprintf("%s is %q, which is not a network range", path, cidr), meant(cidr)))
		}
	}
	return found
}

// meant says what to write instead of a wrong range.
func meant(cidr string) string {
	if p, err := netip.ParsePrefix(cidr); err == nil {
		return fmt.Sprintf("Write %q.", p.Masked())
	}
	return "Write the first address and the prefix length: 10.1.0.0/24."
}

// networkOverlap visits the ranges in order of their first address, larger ones
// first. A range that overlaps another lies within it and comes next.
func networkOverlap(s *site.Site) []site.Finding {
	named := slices.DeleteFunc(keys(s.Networks), func(n string) bool { return !prefixOf(s, n).IsValid() })
	slices.SortStableFunc(named, func(a, b string) int {
		x, y := prefixOf(s, a), prefixOf(s, b)
		return cmp.Or(x.Addr().Compare(y.Addr()), cmp.Compare(x.Bits(), y.Bits()))
	})
	var found []site.Finding
	outer := ""
	for _, name := range named {
		if p := prefixOf(s, name); outer != "" && prefixOf(s, outer).Overlaps(p) {
			found = append(found, also(s, "networks."+outer+".cidr", wrong("networks."+name+".cidr",
				fmt.Sprintf("the network %s, %s, has addresses of the network %s, %s", name, p, outer, prefixOf(s, outer)),
				"Give each network a range of its own.")))
			continue
		}
		outer = name
	}
	return found
}

func gatewayOutside(s *site.Site) []site.Finding {
	var found []site.Finding
	for _, key := range keys(s.Networks) {
		n, p := s.Networks[key], prefixOf(s, key)
		if gw := addrOf(n.Gateway); gw.IsValid() && p.IsValid() && !reaches(p, gw) {
			found = append(found, wrong("networks."+key+".gateway",
				fmt.Sprintf("the gateway %s is not in %s", n.Gateway, n.CIDR),
				"Correct the gateway, or the network's cidr."))
		}
	}
	return found
}

func gatewayUnusable(s *site.Site) []site.Finding {
	var found []site.Finding
	for _, key := range keys(s.Networks) {
		gw, p := addrOf(s.Networks[key].Gateway), prefixOf(s, key)
		if what := unusable(p, gw); what != "" && gw.Is4() {
			found = append(found, wrong("networks."+key+".gateway",
				fmt.Sprintf("the gateway %s is the %s in %s", gw, what, p), "Write the router's own address in the network."))
		}
	}
	return found
}

// domainName matches a domain according to RFC 1035, section 2.3.1, and RFC
// 1123, section 2.1.
var domainName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$`)

// longestName is the longest domain name as text (RFC 1035, section 2.3.4: 255
// octets, including the lengths of its labels).
const longestName = 253

func dnsDomain(s *site.Site) []site.Finding {
	var found []site.Finding
	for _, key := range keys(s.Networks) {
		d := s.Networks[key].DNS.Domain
		if d == "" || domainName.MatchString(d) && len(d) <= longestName-len("n.") {
			continue
		}
		found = append(found, wrong("networks."+key+".dns.domain", fmt.Sprintf("%q is not a domain", d),
			"Write labels of at most 63 letters, digits and hyphens, with dots between them: site1.example.org."))
	}
	return found
}

func dnsServers(s *site.Site) []site.Finding {
	var found []site.Finding
	for _, key := range keys(s.Networks) {
		servers, path := s.Networks[key].DNS.Servers, "networks."+key+".dns.servers"
		if len(servers) > 3 {
			found = append(found, wrong(path, fmt.Sprintf("the network %s has %d name servers", key, len(servers)), "Keep three of them."))
		}
		seen := map[netip.Addr]bool{}
		for _, text := range servers {
			a := addrOf(text)
			if a.IsValid() && (a.IsUnspecified() || a.IsMulticast()) {
				found = append(found, wrong(path, fmt.Sprintf("%s is not the address of a host", a), "Write the server's address."))
			}
			if a.IsValid() && seen[a] {
				found = append(found, wrong(path, fmt.Sprintf("%s is named twice", a), "Remove one, or write the other server's address."))
			}
			seen[a] = true
		}
	}
	return found
}

func dhcpRelay(s *site.Site) []site.Finding {
	var found []site.Finding
	for _, key := range keys(s.Networks) {
		n, p := s.Networks[key], prefixOf(s, key)
		if n.DHCPRelay == nil {
			continue
		}
		path := "networks." + key + ".dhcpRelay"
		if a := addrOf(n.DHCPRelay.Address); a.IsValid() && p.IsValid() && (!p.Contains(a) || unusable(p, a) != "") {
			found = append(found, wrong(path+".address",
				fmt.Sprintf("%s is not an address of a host in %s", a, p), "Write the relay's own address in the network."))
		}
		for _, server := range n.DHCPRelay.Servers {
			if p.Contains(addrOf(server)) {
				found = append(found, wrong(path+".servers",
					fmt.Sprintf("the DHCP server %s is in the network itself, where no relay is needed", server),
					"Correct the server's address, or remove dhcpRelay."))
			}
		}
		if n.DHCPRelay.Servers != nil && len(n.DHCPRelay.Servers) == 0 {
			found = append(found, wrong(path+".servers", "the relay has no server to pass requests to", "List the DHCP servers, or remove dhcpRelay."))
		}
		if broken := s.Origins.Has("networks." + key + ".ranges"); !broken && !hasRange(n, site.RangeDHCP) && n.Boot.DHCP != site.DHCPServe {
			found = append(found, wrong(path, fmt.Sprintf("the network %s has a DHCP relay and no range for DHCP", key),
				`Add a range with use: "dhcp", or remove dhcpRelay.`))
		}
	}
	return found
}

func bootDHCP(s *site.Site, x *Index) []site.Finding {
	var found []site.Finding
	for _, key := range keys(s.Networks) {
		n, p, path := s.Networks[key], prefixOf(s, key), "networks."+key+".boot.dhcp"
		switch {
		case n.Boot.DHCP == "" || !p.IsValid():
		case p.Addr().Is6() && n.Boot.DHCP == site.DHCPProxy:
			found = append(found, wrong(path, fmt.Sprintf(`the network %s, %s, is of IPv6, where DHCP has no "proxy"`, key, p),
				`Write "serve" if no other DHCPv6 server answers there, or write "proxy" for the network of IPv4 on the same VLAN.`))
		case p.Addr().BitLen()-p.Bits() < 2:
			found = append(found, wrong(path, fmt.Sprintf("the network %s, %s, has no room for a DHCP server and a client", key, p), "Remove boot.dhcp, or correct the network's cidr."))
		case n.Boot.DHCP == site.DHCPServe && x.Count(key) == 0 && !hasRange(n, site.RangeDHCP) && !s.Origins.Has("networks."+key+".ranges"):
			f := wrong(path, fmt.Sprintf("no node is in the network %s, and it has no range for DHCP: the daemon has no address to give", key),
				`Give nodes an address in the network, add a range with use: "dhcp", or remove boot.dhcp.`)
			f.Severity = site.SeverityWarning
			found = append(found, f)
		}
	}
	return found
}

func bootAnnounce(s *site.Site) []site.Finding {
	var found []site.Finding
	for _, key := range keys(s.Networks) {
		n, p, path := s.Networks[key], prefixOf(s, key), "networks."+key+".boot.announce"
		object := func(message, fix string) { found = append(found, wrong(path, message, fix)) }
		switch {
		case !p.IsValid():
		case n.Boot.Announce && p.Addr().Is4():
			object(fmt.Sprintf("the network %s, %s, is of IPv4, which has no router advertisements", key, p), "Remove boot.announce, or write it for a network of IPv6.")
		case n.Boot.Announce && n.Boot.DHCP != site.DHCPServe:
			object(fmt.Sprintf("boot.announce is set for the network %s, but the daemon serves no DHCPv6 there", key),
				`Write boot: dhcp: "serve" too, or leave the announcements to the network's router.`)
		case n.Boot.Announce && n.DHCPRelay != nil:
			object(fmt.Sprintf("boot.announce is set for the network %s, but the daemon reaches it by a DHCP relay: router advertisements do not leave their link", key),
				"Remove boot.announce: the router that is the relay announces the prefix.")
		case p.Addr().Is6() && n.Boot.DHCP == site.DHCPServe && !n.Boot.Announce && n.Gateway == "" && n.DHCPRelay == nil:
			f := wrong("networks."+key+".boot.dhcp", fmt.Sprintf("the network %s has no gateway, and the daemon does not announce its prefix: clients get an address there and may reach nobody", key),
				"Write boot: announce: true, or name the router that announces the prefix as gateway.")
			f.Severity = site.SeverityWarning
			found = append(found, f)
		}
	}
	return found
}

// networkFacts returns the networks that a node is in.
func networkFacts(s *site.Site, n *site.Node) []Fact {
	in := map[string]bool{}
	for network := range n.Addresses {
		in[network] = true
	}
	for _, c := range carriers(n) {
		for _, network := range c.networks {
			in[network] = true
		}
	}
	for _, i := range n.Interfaces {
		if i.Boot != "" {
			in[i.Boot] = true
		}
	}
	for _, network := range networksOf(s, bmcAddress(n)) {
		in[network] = true
	}
	var facts []Fact
	for _, network := range keys(in) {
		facts = append(facts, Fact{Key: network})
	}
	return facts
}

// unusedNetwork finds nothing in a site without nodes, which is just being
// started.
func unusedNetwork(s *site.Site, x *Index) []site.Finding {
	if len(x.Keys()) == 0 {
		return nil
	}
	to := routedTo(s)
	var found []site.Finding
	for _, key := range keys(s.Networks) {
		if x.Count(key) == 0 && prefixOf(s, key).IsValid() && !to[s.Networks[key].RouteDomain].byOther(key) {
			found = append(found, wrong("networks."+key,
				fmt.Sprintf("no node is in the network %s", key), "Remove it, or give nodes an address in it."))
		}
	}
	return found
}

// routedTo returns the networks with routes to a route domain, by domain: one
// of them, and whether there are more.
func routedTo(s *site.Site) map[string]routed {
	by := map[string]routed{}
	for _, name := range keys(s.Networks) {
		for _, r := range s.Networks[name].Routes {
			if first, ok := by[r.Domain]; ok {
				by[r.Domain] = routed{first.from, first.more || first.from != name}
			} else if r.Domain != "" {
				by[r.Domain] = routed{name, false}
			}
		}
	}
	return by
}

// routed is a network with a route, and whether other networks have one too.
type routed struct {
	from string
	more bool
}

// byOther reports whether another network has such a route.
func (r routed) byOther(network string) bool {
	return r.more || r.from != "" && r.from != network
}

// prefixOf returns the range of a network; invalid without one.
func prefixOf(s *site.Site, network string) netip.Prefix {
	n := s.Networks[network]
	if n == nil {
		return netip.Prefix{}
	}
	p, err := netip.ParsePrefix(n.CIDR)
	if err != nil || p != p.Masked() {
		return netip.Prefix{}
	}
	return p
}

// addrOf returns an address; invalid if the text is not one.
func addrOf(text string) netip.Addr {
	a, _ := netip.ParseAddr(text)
	return a
}

// reaches reports whether a host in p can send to a directly: a is in p too, or
// is a link-local address in IPv6 (RFC 4861, section 8).
func reaches(p netip.Prefix, a netip.Addr) bool {
	return p.Contains(a) || p.Addr().Is6() && a.Is6() && a.IsLinkLocalUnicast()
}

// unusable says what an address is that no host in p can have. In IPv4 these
// are the first and the last (RFC 919, section 7), except on links between two
// hosts (RFC 3021). In IPv6 it is the first (RFC 4291, section 2.6.1).
func unusable(p netip.Prefix, a netip.Addr) string {
	switch {
	case !p.IsValid() || p.Bits() >= p.Addr().BitLen()-1:
		return ""
	case a == p.Addr() && a.Is6():
		return "address of every router"
	case a == p.Addr():
		return "network's own address"
	case a.Is4() && a == lastIn(p):
		return "broadcast address"
	}
	return ""
}

// lastIn returns the last address of a range.
func lastIn(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for bit := p.Bits(); bit < 8*len(b); bit++ {
		b[bit/8] |= 1 << (7 - bit%8)
	}
	last, _ := netip.AddrFromSlice(b)
	return last
}

// networksOf lists the networks whose range contains an address, in no order.
func networksOf(s *site.Site, a netip.Addr) []string {
	var all []string
	for network := range s.Networks {
		if prefixOf(s, network).Contains(a) {
			all = append(all, network)
		}
	}
	return all
}

// bmcAddress returns the address of a node's BMC; invalid if its endpoint has a
// host name.
func bmcAddress(n *site.Node) netip.Addr {
	u, err := url.Parse(n.Endpoints[site.Manager].URL)
	if err != nil {
		return netip.Addr{}
	}
	return addrOf(u.Hostname())
}

// also adds the place of another value outside the nodes to a finding.
func also(s *site.Site, path string, f site.Finding) site.Finding {
	if o, ok := nearest(s.Origins, path); ok {
		f.Related = append(f.Related, o.String())
	}
	return f
}
