package rule

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

var addresses = []Rule{
	{
		Code: "address-outside-network", Severity: site.SeverityError,
		What:  "The address of a node is in the range of its network.",
		Why:   "The node could not be reached at this address.",
		Wrong: `nodes: "n1": addresses: mgmt: "10.2.0.21"`,
		Right: `nodes: "n1": addresses: mgmt: "10.1.0.21"`,
		Node: eachGiven(func(s *site.Site, network string, a netip.Addr) (string, string) {
			if in := prefixOf(s, network); in.IsValid() && !in.Contains(a) {
				return fmt.Sprintf("%s is not in the network %s, %s", a, network, in), "Correct the address, or name the network that it is in."
			}
			return "", ""
		}),
	},
	{
		Code: "address-unusable", Severity: site.SeverityError,
		What:  "The address of a node is neither the first address of its network nor the broadcast address. The first address stands for the network itself, in IPv6 for every router.",
		Why:   "The kernel accepts such an address, but then every host of the network answers for it, or none (RFC 919, section 7; RFC 4291, section 2.6.1).",
		Wrong: `nodes: "n1": addresses: mgmt: "10.1.0.255"`,
		Right: `nodes: "n1": addresses: mgmt: "10.1.0.254"`,
		Node: eachGiven(func(s *site.Site, network string, a netip.Addr) (string, string) {
			if what := unusable(prefixOf(s, network), a); what != "" {
				return fmt.Sprintf("%s is the %s in the network %s", a, what, network), "Write another address of the network."
			}
			return "", ""
		}),
	},
	{
		Code: "address-is-gateway", Severity: site.SeverityError,
		What: "No node has the address of a router of its network.",
		Why:  "The node would receive the traffic that the whole network sends to its router.",
		Wrong: `networks: mgmt: gateway: "10.1.0.1"
nodes: "n1": addresses: mgmt: "10.1.0.1"`,
		Right: `networks: mgmt: gateway: "10.1.0.1"
nodes: "n1": addresses: mgmt: "10.1.0.21"`,
		Node: eachGiven(func(s *site.Site, network string, a netip.Addr) (string, string) {
			if r, ok := routerAt(s, network, a); ok {
				return fmt.Sprintf("%s is %s of the network %s", a, r.what, network), "Write an address that is free."
			}
			return "", ""
		}),
	},
	{
		Code: "extra-address", Severity: site.SeverityError,
		What:  "A node has extra addresses only in a network where its first address is set and does not come from DHCP.",
		Why:   "The first address tells Slipway which interface is in the network. Without it Slipway sets the extra addresses on no interface.",
		Wrong: `nodes: "n1": extraAddresses: data: ["10.20.0.51"]`,
		Right: `nodes: "n1": {addresses: data: "10.20.0.50", extraAddresses: data: ["10.20.0.51"]}`,
		Node:  extraAddress,
	},
	{
		Code: "address-is-shared", Severity: site.SeverityError, Firm: true,
		What: "No node has one of the shared addresses of its network as its own.",
		Why:  "Two machines have the address as soon as the program that moves it gives it to another machine.",
		Wrong: `networks: mgmt: shared: api: address: "10.1.0.5"
nodes: "n1": addresses: mgmt: "10.1.0.5"`,
		Right: `networks: mgmt: shared: api: address: "10.1.0.5"
nodes: "n1": addresses: mgmt: "10.1.0.21"`,
		Node: eachGiven(func(s *site.Site, network string, a netip.Addr) (string, string) {
			if name, ok := sharedAt(s, network, a); ok {
				return fmt.Sprintf("%s is the address %s that nodes of the network %s share", a, name, network), "Write an address that is free."
			}
			return "", ""
		}),
	},
	{
		Code: "shared-address", Severity: site.SeverityError,
		What:  "A shared address is a host address of its network. It is not the address of a router and not in a range for DHCP, and it is shared under only one name.",
		Why:   "Two machines would have the address, or no machine could be reached at it.",
		Wrong: `networks: mgmt: shared: api: address: "10.2.0.5"`,
		Right: `networks: mgmt: shared: api: address: "10.1.0.5"`,
		Site:  sharedAddress,
	},
	{
		Code: "address-outside-ranges", Severity: site.SeverityError,
		What: "The address that a node is given is in a static range, if the network has any, and in no other range.",
		Why:  "A DHCP server gives the address to another machine too, or whoever it is reserved for has it.",
		Wrong: `networks: mgmt: ranges: nodes: {from: "10.1.0.10", to: "10.1.0.99", use: "static"}
nodes: "n1": addresses: mgmt: "10.1.0.100"`,
		Right: `networks: mgmt: ranges: nodes: {from: "10.1.0.10", to: "10.1.0.99", use: "static"}
nodes: "n1": addresses: mgmt: "10.1.0.98"`,
		Node: eachGiven(outsideRanges),
	},
	{
		Code: "duplicate-address", Severity: site.SeverityError, Firm: true,
		What:  "No two nodes have the same address.",
		Why:   "One of the nodes would not be reached, or the wrong one.",
		Wrong: `nodes: "n2": addresses: mgmt: "10.1.0.11"`,
		Right: `nodes: "n2": addresses: mgmt: "10.1.0.99"`,
		Facts: addressFacts, Fleet: twice("the address"),
	},
	{
		Code: "dhcp-without-range", Severity: site.SeverityError,
		What:  "A network whose nodes get addresses by DHCP has a range for that, or a relay.",
		Why:   "Nothing gives the node an address, so it cannot be reached after its installation.",
		Wrong: `nodes: "n1": addresses: mgmt: "dhcp"`,
		Right: `networks: mgmt: ranges: leases: {from: "10.1.0.200", to: "10.1.0.250", use: "dhcp"}
nodes: "n1": addresses: mgmt: "dhcp"`,
		Node: dhcpWithoutRange,
	},
	{
		Code: "dhcp-network-settings", Severity: site.SeverityNote,
		What: "The routes and name servers of a network are those of nodes that have an address in the design.",
		Why:  "A node that gets its address by DHCP gets routes and name servers from the DHCP server too. Slipway does not set those of the network on it.",
		Wrong: `networks: mgmt: {ranges: leases: {from: "10.1.0.200", to: "10.1.0.250", use: "dhcp"}, dns: servers: ["10.1.0.53"]}
nodes: "n1": addresses: mgmt: "dhcp"`,
		Right: `networks: mgmt: {ranges: leases: {from: "10.1.0.200", to: "10.1.0.250", use: "dhcp"}, dns: servers: ["10.1.0.53"], boot: dhcp: "serve"}
nodes: "n1": addresses: mgmt: "dhcp"`,
		Node: dhcpSettings,
	},
	{
		Code: "primary-network", Severity: site.SeverityError,
		What:  "A node has an address in its primary network. Where several of its networks with a gateway are of one family (IPv4 or IPv6), the node names the primary one. In the other family, the gateway on the interface of the primary network is used.",
		Why:   "The node has one default route of each family, and its full name comes from its primary network. Without one, its answers may take a different path from the requests, and firewalls drop them.",
		Wrong: `networks: {mgmt: gateway: "10.1.0.1", data: gateway: "10.20.0.1"}`,
		Right: `networks: {mgmt: gateway: "10.1.0.1", data: gateway: "10.20.0.1"}
nodes: "n4": primaryNetwork: "mgmt"`,
		Node: primaryNetwork,
	},
	{
		Code: "fqdn-length", Severity: site.SeverityError,
		What: "The full name of a node has at most 253 letters.",
		Why:  "A longer name is not valid (RFC 1035, section 2.3.4): it cannot be looked up, and no certificate can contain it.",
		Wrong: `import "strings"

networks: mgmt: dns: domain: strings.Repeat("a23456789.", 25) + "a"
nodes: "n1": primaryNetwork: "mgmt"`,
		Right: `import "strings"

networks: mgmt: dns: domain: strings.Repeat("a23456789.", 24) + "a"
nodes: "n1": primaryNetwork: "mgmt"`,
		Node: fqdnLength,
	},
	{
		Code: "address-unattached", Severity: site.SeverityError,
		What:  "A node that lists its interfaces has an interface for each of its addresses.",
		Why:   "Slipway sets the address on no interface, so the node cannot be reached at it. The network of a BMC needs no interface, and a network with a single address is on the loopback interface.",
		Wrong: `nodes: "n4": vlans: _ @unset()`,
		Right: `nodes: "n4": {vlans: _ @unset(), bonds: bond0: networks: ["mgmt", "data"]}`,
		Node:  addressUnattached,
	},
	{
		Code: "bmc-outside-networks", Severity: site.SeverityWarning,
		What:  "If the address of one BMC is in a network of the design, the addresses of all BMCs are.",
		Why:   "It may be mistyped; a request with a password goes to whoever has that address.",
		Wrong: `nodes: "n1": endpoints: manager: url: "redfish+https://10.90.0.11/redfish/v1/Systems/1"`,
		Right: `nodes: "n1": endpoints: manager: url: "redfish+https://10.9.0.111/redfish/v1/Systems/1"`,
		Facts: bmcFacts, Fleet: bmcOutside,
	},
}

// eachGiven checks every address that the design gives a node. An objection is a message and
// what to do.
func eachGiven(object func(s *site.Site, network string, a netip.Addr) (message, fix string)) func(*site.Site, *site.Node) []site.Finding {
	return func(s *site.Site, n *site.Node) []site.Finding {
		var found []site.Finding
		for _, network := range keys(n.Addresses) {
			a := addrOf(n.Addresses[network])
			if !a.IsValid() || s.Networks[network] == nil || asks(n, network) {
				continue
			}
			if message, fix := object(s, network, a); message != "" {
				found = append(found, wrong("addresses."+network, message, fix))
			}
		}
		for _, network := range keys(n.ExtraAddresses) {
			for _, text := range n.ExtraAddresses[network] {
				if a := addrOf(text); a.IsValid() && s.Networks[network] != nil {
					if message, fix := object(s, network, a); message != "" {
						found = append(found, wrong("extraAddresses."+network, message, fix))
					}
				}
			}
		}
		return found
	}
}

// routerAt returns the router of a network with an address.
func routerAt(s *site.Site, network string, a netip.Addr) (router, bool) {
	all := routers(s, network)
	i := slices.IndexFunc(all, func(r router) bool { return r.addr == a })
	if i < 0 || !a.IsValid() {
		return router{}, false
	}
	return all[i], true
}

func outsideRanges(s *site.Site, network string, a netip.Addr) (message, fix string) {
	in := prefixOf(s, network)
	_, isRouter := routerAt(s, network, a)
	if !in.Contains(a) || unusable(in, a) != "" || isRouter {
		return "", "" // other rules report it
	}
	r, ok := rangeWith(s.Networks[network], a)
	switch {
	case ok && (r.use == site.RangeStatic || r.use == ""):
		return "", ""
	case ok:
		return fmt.Sprintf("%s is in the range %s of the network %s, which is for %s", a, r.name, network, uses[r.use]),
			"Write an address of a static range, or one that is in none."
	case !hasRange(s.Networks[network], site.RangeStatic):
		return "", ""
	}
	return fmt.Sprintf("%s is in no static range of the network %s", a, network),
		fmt.Sprintf("Write an address of %s, or widen a range.", strings.Join(staticRanges(s.Networks[network]), ", or of "))
}

// uses name the purposes of ranges whose addresses the design must not give to nodes.
var uses = map[site.RangeUse]string{
	site.RangeDHCP:     "DHCP",
	site.RangeReserved: "nobody here",
}

func staticRanges(n *site.Network) []string {
	var all []string
	for _, r := range spans(n) {
		if r.use == site.RangeStatic {
			all = append(all, fmt.Sprintf("%s to %s", r.from, r.to))
		}
	}
	return all
}

// addressFacts returns a node's addresses.
func addressFacts(s *site.Site, n *site.Node) []Fact {
	var facts []Fact
	for _, network := range keys(n.Addresses) {
		a := addressIn(s, n, network)
		f := Fact{Key: a.String(), Path: "addresses." + network}
		if a.IsValid() {
			facts = append(facts, f)
		}
	}
	for _, network := range keys(n.ExtraAddresses) {
		for _, text := range n.ExtraAddresses[network] {
			if a := addrOf(text); a.IsValid() {
				facts = append(facts, Fact{Key: a.String(), Path: "extraAddresses." + network})
			}
		}
	}
	return facts
}

// extraAddress checks that extra addresses have a first one, which says by which interface the
// node is in the network.
func extraAddress(s *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	for _, network := range keys(n.ExtraAddresses) {
		path := "extraAddresses." + network
		switch has := n.Addresses[network]; {
		case s.Networks[network] == nil:
			found = append(found, refer(path, "networks", network, s.Networks)...)
		case !states(n, "addresses."+network):
			found = append(found, wrong(path, fmt.Sprintf("the node has no first address in the network %s", network),
				fmt.Sprintf("Move one of them to addresses.%s.", network)))
		case has == site.AddressDHCP:
			found = append(found, beside(n, "addresses."+network, wrong(path,
				fmt.Sprintf("the node gets its address in the network %s by DHCP, and extra ones are not given to it", network),
				fmt.Sprintf("Give addresses.%s an address, or remove the extra ones.", network))))
		}
	}
	return found
}

// sharedAt returns the name of a network's shared address.
func sharedAt(s *site.Site, network string, a netip.Addr) (name string, ok bool) {
	for _, name := range keys(s.Networks[network].Shared) {
		if addrOf(s.Networks[network].Shared[name].Address) == a {
			return name, true
		}
	}
	return "", false
}

// sharedAddress checks that the shared addresses of networks are usable in their network and
// used only once.
func sharedAddress(s *site.Site) []site.Finding {
	var found []site.Finding
	first := map[netip.Addr]string{}
	for _, network := range keys(s.Networks) {
		p := prefixOf(s, network)
		for _, name := range keys(s.Networks[network].Shared) {
			path := "networks." + network + ".shared." + name + ".address"
			a := addrOf(s.Networks[network].Shared[name].Address)
			if !a.IsValid() || !p.IsValid() {
				continue
			}
			r, isRouter := routerAt(s, network, a)
			in, inRange := rangeWith(s.Networks[network], a)
			switch before, twice := first[a]; {
			case !p.Contains(a):
				found = append(found, wrong(path, fmt.Sprintf("the shared address %s is not in the network %s, %s", a, network, p), "Correct the address, or put it into its network."))
			case unusable(p, a) != "":
				found = append(found, wrong(path, fmt.Sprintf("%s is the %s in the network %s", a, unusable(p, a), network), "Write another address of the network."))
			case isRouter:
				found = append(found, also(s, r.path, wrong(path, fmt.Sprintf("%s is %s of the network %s", a, r.what, network), "Write an address that is free.")))
			case inRange && in.use == site.RangeDHCP:
				found = append(found, wrong(path, fmt.Sprintf("%s is in the range %s of the network %s, which is for DHCP", a, in.name, network),
					"Write an address outside of the range, or make the range smaller."))
			case twice:
				found = append(found, also(s, before, wrong(path, fmt.Sprintf("%s is shared under two names", a), "Keep one of them.")))
			}
			first[a] = path
		}
	}
	return found
}

func dhcpWithoutRange(s *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	for _, network := range keys(n.Addresses) {
		in := s.Networks[network]
		if n.Addresses[network] != site.AddressDHCP || in == nil || in.DHCPRelay != nil || hasRange(in, site.RangeDHCP) {
			continue
		}
		found = append(found, wrong("addresses."+network,
			fmt.Sprintf("the network %s has no range for DHCP, and no relay", network),
			fmt.Sprintf(`Add a range with use: "dhcp" under networks.%s.ranges, or give the node an address.`, network)))
	}
	return found
}

// dhcpSettings reports settings of a network that a node with DHCP does not get from the
// design. Slipway's own DHCP server sends these settings along with the addresses.
func dhcpSettings(s *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	for _, network := range keys(n.Addresses) {
		in := s.Networks[network]
		if n.Addresses[network] != site.AddressDHCP || in == nil || n.BootsOnly(network) {
			continue
		}
		served, is6 := in.Boot.DHCP == site.DHCPServe, prefixOf(s, network).Addr().Is6()
		fix := "Set up the DHCP server to give them, or give the node an address."
		if served && is6 { // DHCPv6 has none
			fix = "Give the node an address, or let the network's router announce them."
		}
		var what []string
		if len(in.Routes) > 0 && (!served || is6) {
			what = append(what, "routes")
		}
		if len(in.DNS.Servers) > 0 && !served {
			what = append(what, "dns.servers")
		}
		if in.DNS.Domain != "" && !served {
			what = append(what, "dns.domain")
		}
		if len(what) > 0 {
			found = append(found, wrong("addresses."+network, fmt.Sprintf("the node gets its address in the network %s by DHCP, and Slipway does not set %s of the network on it", network, strings.Join(what, ", ")), fix))
		}
	}
	return found
}

func primaryNetwork(s *site.Site, n *site.Node) []site.Finding {
	primary := s.Networks[n.PrimaryNetwork]
	switch {
	case primary == nil && states(n, "primaryNetwork"):
		return nil // another rule reports it
	case primary != nil && !states(n, "addresses."+n.PrimaryNetwork):
		return []site.Finding{wrong("primaryNetwork", fmt.Sprintf("the node has no address in its primary network, %s", n.PrimaryNetwork),
			fmt.Sprintf("Set addresses.%s, or name a network that it has an address in.", n.PrimaryNetwork))}
	}
	var found []site.Finding
	for _, family := range site.IPFamilies {
		chosen, among := s.DefaultNetwork(n, family)
		switch all := strings.Join(among, ", "); {
		case chosen != "" || len(among) == 0:
		case primary == nil:
			found = append(found, wrong("addresses", fmt.Sprintf("several %s networks of the node have a gateway (%s), and none is the primary one", family, all),
				"Set primaryNetwork to the network whose gateway is the default route."))
		case primary.IPFamily() == family:
			found = append(found, wrong("primaryNetwork", fmt.Sprintf("the primary network %s has no gateway, and %s has one", n.PrimaryNetwork, among[0]),
				fmt.Sprintf("Write %q, or set networks.%s.gateway.", among[0], n.PrimaryNetwork)))
		default:
			found = append(found, wrong("addresses", fmt.Sprintf("several %s networks of the node have a gateway (%s), and the primary network %s does not decide between them", family, all, n.PrimaryNetwork),
				fmt.Sprintf("List one of them beside %s in the networks of its interface, bond or bridge, or remove the gateway of the others.", n.PrimaryNetwork)))
		}
	}
	return found
}

func fqdnLength(s *site.Site, n *site.Node) []site.Finding {
	primary := s.Networks[n.PrimaryNetwork]
	if primary == nil || primary.DNS.Domain == "" {
		return nil
	}
	name := n.Name + "." + primary.DNS.Domain
	if len(name) <= longestName || len(primary.DNS.Domain) > longestName-len("n.") {
		return nil
	}
	return []site.Finding{also(s, "networks."+n.PrimaryNetwork+".dns.domain", wrong("primaryNetwork",
		fmt.Sprintf("the full name of %s has %d letters, and may have at most %d", n.Name, len(name), longestName),
		"Shorten the node's name, or the domain of its primary network."))}
}

func addressUnattached(s *site.Site, n *site.Node) []site.Finding {
	all := carriers(n)
	if len(all) == 0 {
		return nil
	}
	var found []site.Finding
	carried := map[string]bool{}
	for _, c := range all {
		if c.isLost(n) {
			return nil
		}
		for _, network := range c.networks {
			carried[network] = true
		}
	}
	for _, network := range keys(n.Addresses) {
		if carried[network] || n.BootsOnly(network) || s.Networks[network] == nil || isBMCNetwork(s, n, network) || isLoopback(prefixOf(s, network)) {
			continue
		}
		found = append(found, wrong("addresses."+network,
			fmt.Sprintf("no interface, bond, bridge or VLAN of the node carries the network %s", network),
			fmt.Sprintf("List %s in the networks of the one that does, or make a VLAN of it.", network)))
	}
	return found
}

// isLoopback reports whether a prefix is on no wire: a single address of a node, which routing
// protocols announce, or the loopback network (RFC 6890).
func isLoopback(p netip.Prefix) bool {
	return p.IsValid() && (p.IsSingleIP() || p.Addr().IsLoopback())
}

// isBMCNetwork reports whether a network can be that of the node's BMC, which no interface
// carries. If the BMC's URL has a host name, any network on no link can be.
func isBMCNetwork(s *site.Site, n *site.Node, network string) bool {
	if !prefixOf(s, network).IsValid() {
		return true // it may be
	}
	if a := bmcAddress(n); a.IsValid() {
		return prefixOf(s, network).Contains(a)
	}
	for _, l := range s.Links {
		if slices.Contains(l.Networks, network) {
			return false
		}
	}
	return true
}

// The two keys of bmc-outside-networks.
const bmcIn, bmcOut = "in", "out"

func bmcFacts(s *site.Site, n *site.Node) []Fact {
	a := bmcAddress(n)
	switch {
	case !a.IsValid():
		return nil
	case len(networksOf(s, a)) > 0:
		return []Fact{{Key: bmcIn}}
	}
	return []Fact{{Key: bmcOut, Path: "endpoints.manager.url"}}
}

func bmcOutside(_ *site.Site, x *Index) []site.Finding {
	if x.Count(bmcIn) == 0 {
		return nil
	}
	var found []site.Finding
	for _, h := range x.Holders(bmcOut) {
		found = append(found, h.about(wrong("", fmt.Sprintf("the address of the BMC of %s is in no network of the design", h.Node),
			"Correct the address, or describe the network that it is in.")))
	}
	return found
}
