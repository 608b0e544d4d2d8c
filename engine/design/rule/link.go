package rule

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/slipway-gitops/slipway/engine/site"
)

var links = []Rule{
	{
		Code: "unknown-link-network", Severity: site.SeverityError, Firm: true,
		What: "The networks of a link are entries in `networks`.", Why: noMeaning,
		Wrong: `links: uplink: networks: ["mgmt", "data", "dta"]`,
		Right: `links: uplink: networks: ["mgmt", "data"]`,
		Site: func(s *site.Site) []site.Finding {
			return eachLinkNetwork(s, func(_, network, path string) []site.Finding {
				return refer(path, "networks", network, s.Networks)
			})
		},
	},
	{
		Code: "link-without-networks", Severity: site.SeverityWarning,
		What: "A link carries a network.",
		Why:  "Interfaces on it reach nothing.",
		Wrong: `links: spare: networks: []
racks: r1: switches: tor1: ports: "1/2": link: "spare"`,
		Right: `links: spare: networks: ["bmc"]
racks: r1: switches: tor1: ports: "1/2": link: "spare"`,
		Site: func(s *site.Site) (found []site.Finding) {
			for _, key := range keys(s.Links) {
				if l := s.Links[key]; l.Networks != nil && len(l.Networks) == 0 {
					found = append(found, wrong("links."+key+".networks",
						fmt.Sprintf("the link %s carries no network", key), "List the networks that it may carry."))
				}
			}
			return found
		},
	},
	{
		Code: "network-on-several-links", Severity: site.SeverityWarning,
		What: "A network is carried by one link.",
		Why:  "Two links can say different things about one network, such as a tag on one and none on the other, or different largest packets; then some of its nodes do not reach others.",
		Wrong: `links: access: networks: ["mgmt"]
racks: r1: switches: tor1: ports: "1/2": link: "access"`,
		Right: `links: access: networks: ["bmc"]
racks: r1: switches: tor1: ports: "1/2": link: "access"`,
		Site: severalLinks,
	},
	{
		Code: "trunk-needed", Severity: site.SeverityError,
		What:  "A link with several networks is a trunk.",
		Why:   "Without tags the switch puts all packets into one network, so that the nodes of the others reach nobody. An IPv4 and an IPv6 network with one VLAN are one network here.",
		Wrong: `links: uplink: trunk: false`,
		Right: `links: uplink: trunk: true`,
		Site:  trunkNeeded,
	},
	{
		Code: "native-not-allowed", Severity: site.SeverityError,
		What: "The native network of a link is one of its networks.",
		Why:  "The switch drops packets without a tag.",
		Wrong: `links: uplink: native: "bmc"
networks: mgmt: vlan: 10`,
		Right: `links: uplink: native: "mgmt"`,
		Site: func(s *site.Site) (found []site.Finding) {
			for _, key := range keys(s.Links) {
				l := s.Links[key]
				if l.Native != "" && len(l.Networks) > 0 && !slices.Contains(l.Networks, l.Native) {
					found = append(found, wrong("links."+key+".native",
						fmt.Sprintf("the native network %s is none of the networks of the link %s%s", l.Native, key, DidYouMean(l.Native, l.Networks)),
						"Use one of its networks, or list this one too."))
				}
			}
			return found
		},
	},
	{
		Code: "native-missing", Severity: site.SeverityWarning,
		What: "A node boots from the network over a link with a network that has no tag.",
		Why:  "Firmware sends its requests without a tag unless someone set it up otherwise by hand, so an installation from the network finds no server.",
		Wrong: `links: pxe: {networks: ["bmc"], trunk: true}
networks: bmc: {vlan: 90, ranges: leases: {from: "10.9.0.200", to: "10.9.0.250", use: "dhcp"}}
nodes: "n4": {interfaces: eno3: link: "pxe", boot: {order: ["Pxe"], interface: "eno3"}}`,
		Right: `links: pxe: {networks: ["bmc"], trunk: true, native: "bmc"}
networks: bmc: {vlan: 90, ranges: leases: {from: "10.9.0.200", to: "10.9.0.250", use: "dhcp"}}
nodes: "n4": {interfaces: eno3: link: "pxe", boot: {order: ["Pxe"], interface: "eno3"}}`,
		Node: nativeMissing,
	},
	{
		Code: "vlan-missing", Severity: site.SeverityError,
		What: "A network that a trunk carries with a tag has a VLAN number.",
		Why:  "Without a number, neither the switch nor the node can write the tag.",
		Wrong: `networks: backup: cidr: "10.5.0.0/24"
links: uplink: networks: ["mgmt", "data", "backup"]
nodes: "n1": addresses: backup: "10.5.0.11"`,
		Right: `networks: backup: {cidr: "10.5.0.0/24", vlan: 50}
links: uplink: networks: ["mgmt", "data", "backup"]
nodes: "n1": addresses: backup: "10.5.0.11"`,
		Site: vlanMissing,
	},
	{
		Code: "duplicate-vlan", Severity: site.SeverityError,
		What: "Two networks of a link have different VLAN numbers, but for an IPv4 and an IPv6 network that are one on the wire.",
		Why:  "Packets of both are in one VLAN: nodes answer for each other, and DHCP servers for the wrong network.",
		Wrong: `networks: backup: {cidr: "10.5.0.0/24", vlan: 20}
links: uplink: networks: ["mgmt", "data", "backup"]
nodes: "n1": addresses: backup: "10.5.0.11"`,
		Right: `networks: backup: {cidr: "fd00:5::/64", vlan: 20}
links: uplink: networks: ["mgmt", "data", "backup"]
nodes: "n1": addresses: backup: "fd00:5::11"`,
		Site: duplicateVLAN,
	},
	{
		Code: "link-rate", Severity: site.SeverityWarning,
		What: "A device is at least as fast as the link that it is plugged into.",
		Why:  "The port comes up slower than the design says, or not at all.",
		Wrong: `links: uplink: rate: "25Gb/s"
nodes: "n4": {
	hardware: devices: port1: {kind: "nic", pci: "0000:18:00.0", rate: "10Gb/s"}
	interfaces: eno1: device: "port1"
}`,
		Right: `links: uplink: rate: "25Gb/s"
nodes: "n4": {
	hardware: devices: port1: {kind: "nic", pci: "0000:18:00.0", rate: "25Gb/s"}
	interfaces: eno1: device: "port1"
}`,
		Node: linkRate,
	},
	{
		Code: "unused-link", Severity: site.SeverityNote,
		What:  "Every link is used by an interface, a bond or a switch's port.",
		Why:   "The link may be left over, or something may be plugged into another link by mistake.",
		Wrong: `links: spare: networks: ["bmc"]`,
		Right: `links: spare: networks: ["bmc"]
racks: r1: switches: tor1: ports: "1/2": link: "spare"`,
		Facts: linkFacts, Fleet: unusedLink,
	},
}

// eachLinkNetwork checks every network that a link lists.
func eachLinkNetwork(s *site.Site, check func(link, network, path string) []site.Finding) []site.Finding {
	var found []site.Finding
	for _, link := range keys(s.Links) {
		for i, network := range s.Links[link].Networks {
			found = append(found, check(link, network, "links."+link+".networks."+strconv.Itoa(i))...)
		}
	}
	return found
}

// sameWire reports whether two networks share a wire: an IPv4 and an IPv6
// network with the same VLAN, or both without one.
func sameWire(s *site.Site, a, b string) bool {
	x, y := s.Networks[a], s.Networks[b]
	if a == b || x == nil || y == nil {
		return a == b
	}
	return x.VLAN == y.VLAN && otherFamily(s, a, b)
}

func otherFamily(s *site.Site, a, b string) bool {
	x, y := prefixOf(s, a), prefixOf(s, b)
	return x.IsValid() && y.IsValid() && x.Addr().BitLen() != y.Addr().BitLen()
}

// tagged reports whether a link carries a network with a tag.
func tagged(s *site.Site, l *site.Link, network string) bool {
	return l.Trunk && (l.Native == "" || !sameWire(s, l.Native, network))
}

func severalLinks(s *site.Site) []site.Finding {
	first := map[string]string{}
	return eachLinkNetwork(s, func(link, network, path string) []site.Finding {
		before, ok := first[network]
		if !ok {
			first[network] = link
		}
		if !ok || before == link || s.Networks[network] == nil {
			return nil
		}
		return []site.Finding{also(s, "links."+before+".networks", wrong(path,
			fmt.Sprintf("the network %s is on the link %s and on the link %s", network, before, link),
			"Let one link carry it, or suppress this with the reason."))}
	})
}

func trunkNeeded(s *site.Site) []site.Finding {
	var found []site.Finding
	for _, key := range keys(s.Links) {
		if l := s.Links[key]; !l.Trunk && severalWires(s, l.Networks) {
			path := "links." + key + ".trunk"
			found = append(found, wrong(path, fmt.Sprintf("the link %s has %d networks and is not a trunk", key, len(l.Networks)),
				"Set trunk: true, or keep one network."))
		}
	}
	return found
}

// severalWires reports whether networks do not all share one wire.
func severalWires(s *site.Site, networks []string) bool {
	return slices.ContainsFunc(networks, func(n string) bool {
		return s.Networks[n] != nil && s.Networks[networks[0]] != nil && !sameWire(s, n, networks[0])
	})
}

func nativeMissing(s *site.Site, n *site.Node) []site.Finding {
	link := pluggedInto(n, n.Boot.Interface)
	l := s.Links[link]
	fromNetwork := slices.Contains(n.Boot.Order, "Pxe") || slices.Contains(n.Boot.Order, "UefiHttp")
	if broken := s.Origins.Has("links." + link + ".native"); broken || l == nil || !l.Trunk || l.Native != "" || !fromNetwork {
		return nil
	}
	return []site.Finding{also(s, "links."+link+".trunk", wrong("boot.interface",
		fmt.Sprintf("the node boots from the network over %s, whose link %s carries every network with a tag", n.Boot.Interface, link),
		fmt.Sprintf("Set the `native` of the link %s, or boot over another interface.", link)))}
}

func vlanMissing(s *site.Site) []site.Finding {
	return eachLinkNetwork(s, func(link, network, path string) []site.Finding {
		n := s.Networks[network]
		broken := s.Origins.Has("networks."+network+".vlan") || s.Links[link].Native == "" && s.Origins.Has("links."+link+".native")
		if n == nil || n.VLAN != 0 || broken || !tagged(s, s.Links[link], network) {
			return nil
		}
		return []site.Finding{also(s, path, wrong("networks."+network,
			fmt.Sprintf("the network %s has no VLAN number, and the link %s carries it with a tag", network, link),
			fmt.Sprintf("Set its vlan, or make it the `native` one of the link %s.", link)))}
	})
}

func duplicateVLAN(s *site.Site) []site.Finding {
	var found []site.Finding
	for _, key := range keys(s.Links) {
		found = append(found, sharedVLANs(s, key, s.Links[key].Networks)...)
	}
	return found
}

func sharedVLANs(s *site.Site, link string, names []string) []site.Finding {
	var found []site.Finding
	for i, name := range names {
		n := s.Networks[name]
		j := slices.IndexFunc(names[:i], func(other string) bool {
			o := s.Networks[other]
			return n != nil && o != nil && other != name && n.VLAN != 0 && o.VLAN == n.VLAN && !otherFamily(s, other, name)
		})
		if j < 0 {
			continue
		}
		found = append(found, also(s, "networks."+names[j]+".vlan", wrong("networks."+name+".vlan",
			fmt.Sprintf("the networks %s and %s of the link %s both have the VLAN number %d", names[j], name, link, n.VLAN),
			"Give each a number of its own.")))
	}
	return found
}

// linkRate compares the rate of an interface's device with that of its link.
func linkRate(s *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	for _, name := range keys(n.Interfaces) {
		i := n.Interfaces[name]
		d, l := n.Hardware.Devices[i.Device], s.Links[pluggedInto(n, name)]
		if l == nil || d.Rate == 0 || d.Rate >= l.Rate {
			continue
		}
		found = append(found, also(s, "links."+pluggedInto(n, name)+".rate", wrong("interfaces."+name+".device",
			fmt.Sprintf("the device %s of %s carries %s, its link %s", i.Device, name, d.Rate, l.Rate),
			"Correct the rate that is wrong, or plug it into another link.")))
	}
	return found
}

func linkFacts(_ *site.Site, n *site.Node) []Fact {
	used := map[string]bool{}
	for _, i := range n.Interfaces {
		used[i.Link] = true
	}
	for _, b := range n.Bonds {
		used[b.Link] = true
	}
	var facts []Fact
	for _, link := range keys(used) {
		facts = append(facts, fact(link, "")...)
	}
	return facts
}

func unusedLink(s *site.Site, x *Index) []site.Finding {
	atPorts := map[string]bool{}
	for _, p := range ports(s) {
		atPorts[p.link] = true
	}
	var found []site.Finding
	for _, key := range keys(s.Links) {
		if !atPorts[key] && x.Count(key) == 0 {
			found = append(found, wrong("links."+key,
				fmt.Sprintf("nothing is plugged into the link %s", key), "Remove it, or name it where it is used."))
		}
	}
	return found
}
