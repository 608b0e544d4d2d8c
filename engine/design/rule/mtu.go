package rule

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

var mtus = []Rule{
	{
		Code: "mtu-range", Severity: site.SeverityError,
		What:  "The MTU of a network, interface, bond, bridge or VLAN is at least 1280 bytes if it carries IPv6, and at least 576 if it carries IPv4.",
		Why:   "The kernel turns IPv6 off below 1280 bytes (RFC 8200, section 5), and every IPv4 host may send packets of 576 bytes unasked (RFC 791, section 3.1).",
		Wrong: `networks: data: mtu: 575`,
		Right: `networks: data: mtu: 576`,
		Site:  mtuRangeOfSite, Node: mtuRangeOfNode,
	},
	{
		Code: "mtu-over-link", Severity: site.SeverityError,
		What:  "The largest packet of a network, interface, bond, bridge or VLAN fits through what carries it.",
		Why:   "Large packets are lost where the link is narrower and small ones are not: logins work, and copies hang.",
		Wrong: `networks: data: mtu: 9000`,
		Right: `networks: data: mtu: 9000
links: uplink: mtu: 9000`,
		Site: networkOverLink, Node: interfaceOverLink,
	},
	{
		Code: "mtu-mismatch", Severity: site.SeverityWarning,
		What: "The nodes of a network have the same largest packet in it.",
		Why:  "Within a network nothing fragments packets or reports them as too large: the other nodes lose large packets from a node with the larger MTU.",
		Wrong: `nodes: "n4": vlans: "bond0.20": mtu: 1400
nodes: "n1": {vlans: "bond0.20": {parent: "bond0", network: "data"}, bonds: bond0: {members: ["eno1", "eno2"], link: "uplink", networks: ["mgmt"]}, interfaces: {eno1: {}, eno2: {}}, addresses: data: "10.20.0.11"}`,
		Right: `nodes: "n4": vlans: "bond0.20": mtu: 1500
nodes: "n1": {vlans: "bond0.20": {parent: "bond0", network: "data"}, bonds: bond0: {members: ["eno1", "eno2"], link: "uplink", networks: ["mgmt"]}, interfaces: {eno1: {}, eno2: {}}, addresses: data: "10.20.0.11"}`,
		Facts: mtuFacts, Fleet: mtuMismatch,
	},
}

// The smallest sizes allowed for the largest packet, in bytes, and the default
// of an Ethernet link.
const (
	leastIPv6   = 1280 // RFC 8200, section 5
	leastIPv4   = 576  // RFC 791, section 3.1
	ethernetMTU = 1500 // IEEE 802.3
)

// leastMTU returns the smallest MTU that a network may have; 0 if its family is
// not known.
func leastMTU(s *site.Site, network string) int {
	switch p := prefixOf(s, network); {
	case !p.IsValid():
		return 0
	case p.Addr().Is6():
		return leastIPv6
	}
	return leastIPv4
}

func mtuOf(l *site.Link) int {
	if l == nil || l.MTU == 0 {
		return ethernetMTU
	}
	return l.MTU
}

func tooSmall(mtu int, network string, least int) (message, fix string) {
	return fmt.Sprintf("%d bytes are not enough for the network %s", mtu, network), fmt.Sprintf("Write at least %d.", least)
}

func mtuRangeOfSite(s *site.Site) []site.Finding {
	var found []site.Finding
	for _, key := range keys(s.Networks) {
		if mtu, least := s.Networks[key].MTU, leastMTU(s, key); mtu != 0 && mtu < least {
			message, fix := tooSmall(mtu, key, least)
			found = append(found, wrong("networks."+key+".mtu", message, fix))
		}
	}
	return append(found, eachLinkNetwork(s, func(link, network, _ string) []site.Finding {
		n, mtu, least := s.Networks[network], s.Links[link].MTU, leastMTU(s, network)
		if n == nil || n.MTU != 0 || mtu == 0 || mtu >= least {
			return nil
		}
		message, fix := tooSmall(mtu, network, least)
		return []site.Finding{wrong("links."+link+".mtu", message, fix)}
	})...)
}

func mtuRangeOfNode(s *site.Site, n *site.Node) []site.Finding {
	return eachNetwork(n, func(c carrier, network string, _ int) []site.Finding {
		least := leastMTU(s, network)
		if c.mtu == 0 || c.mtu >= least {
			return nil
		}
		message, fix := tooSmall(c.mtu, network, least)
		return []site.Finding{wrong(c.path()+".mtu", message, fix)}
	})
}

func networkOverLink(s *site.Site) []site.Finding {
	return eachLinkNetwork(s, func(link, network, path string) []site.Finding {
		n, most := s.Networks[network], mtuOf(s.Links[link])
		if broken := s.Origins.Has("links." + link + ".mtu"); broken && s.Links[link].MTU == 0 || n == nil || n.MTU <= most {
			return nil
		}
		return []site.Finding{also(s, "links."+link+".mtu", wrong("networks."+network+".mtu",
			fmt.Sprintf("the network %s has packets of %d bytes, and its link %s carries %d", network, n.MTU, link, most),
			fmt.Sprintf("Lower it to %d, or raise links.%s.mtu.", most, link)))}
	})
}

func interfaceOverLink(s *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	for _, c := range carriers(n) {
		most, what := mtuOf(s.Links[c.link]), "its link "+c.link
		if parent := parentMTU(n, c); parent != 0 {
			most, what = parent, strings.Join(under(n, c.name), " and ")+" under it"
		}
		if c.mtu > most && s.Links[c.link] != nil {
			found = append(found, wrong(c.path()+".mtu", fmt.Sprintf("%s has packets of %d bytes, and %s carries %d", c.name, c.mtu, what, most),
				fmt.Sprintf("Lower it to %d, or raise the other.", most)))
		}
	}
	return found
}

// parentMTU returns the MTU set on the parent of a VLAN, or else the smallest
// one set on the ports of a bridge; 0 if none is set.
func parentMTU(n *site.Node, c carrier) int {
	if c.section != "vlans" && c.section != "bridges" {
		return 0
	}
	parent := n.VLANs[c.name].Parent
	if own := max(n.Interfaces[parent].MTU, n.Bonds[parent].MTU, n.Bridges[parent].MTU); own != 0 || isPort(n, parent) {
		return own
	}
	least := 0
	for _, port := range portsUnder(n, c.name) {
		if own := max(n.Interfaces[port].MTU, n.Bonds[port].MTU); own != 0 && (least == 0 || own < least) {
			least = own
		}
	}
	return least
}

// mtuIn returns the largest packet that a node has in a network over c.
func mtuIn(s *site.Site, n *site.Node, c carrier, network string) int {
	own, has := s.Networks[network].MTU, c.mtu
	if has == 0 {
		has = parentMTU(n, c)
	}
	switch {
	case c.mtu != 0 && c.section == "vlans":
		return c.mtu
	case has == 0 && c.section == "bridges" && own != 0:
		return own
	case has == 0:
		has = mtuOf(s.Links[c.link])
	}
	if own != 0 {
		return min(own, has)
	}
	return has
}

// usualMTU returns the MTU of nodes in a network that set none themselves.
func usualMTU(s *site.Site, c carrier, network string) int {
	if own := s.Networks[network].MTU; own != 0 {
		return own
	}
	return mtuOf(s.Links[c.link])
}

// mtuFacts counts the nodes by network and MTU, and lists those with an unusual
// one.
func mtuFacts(s *site.Site, n *site.Node) []Fact {
	var facts []Fact
	for _, c := range carriers(n) {
		if broken := c.section == "vlans" && n.VLANs[c.name].Parent == ""; broken {
			continue
		}
		for i, network := range c.networks {
			if s.Networks[network] == nil {
				continue
			}
			mtu, path := mtuIn(s, n, c, network), ""
			if mtu != usualMTU(s, c, network) {
				path = c.networkPath(i)
			}
			facts = append(facts, Fact{Key: network + " " + strconv.Itoa(mtu), Path: path})
		}
	}
	return facts
}

func mtuMismatch(_ *site.Site, x *Index) []site.Finding {
	sizes := map[string][]string{}
	for _, key := range x.Keys() {
		network, mtu, _ := strings.Cut(key, " ")
		sizes[network] = append(sizes[network], mtu)
	}
	var found []site.Finding
	for _, network := range keys(sizes) {
		if len(sizes[network]) < 2 {
			continue
		}
		var have, places []string
		for _, mtu := range sizes[network] {
			key := network + " " + mtu
			have = append(have, fmt.Sprintf("%s bytes (%s)", mtu, whoOf(x, key)))
			if who := x.Holders(key); len(who) > 0 {
				places = append(places, who[0].Place.String())
			}
		}
		f := wrong("networks."+network, fmt.Sprintf("the largest packets of the nodes in the network %s differ: %s", network, strings.Join(have, ", ")),
			"Set the network's mtu, and none on what carries it.")
		f.Related = places
		found = append(found, f)
	}
	return found
}

// whoOf names the nodes with a key if all are listed, and else counts them.
func whoOf(x *Index, key string) string {
	who := x.Holders(key)
	switch {
	case len(who) == x.Count(key):
		return nodesOf(who)
	case x.Count(key) == 1:
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", x.Count(key))
}

// nodesOf names the first of the nodes with a key, and counts the rest.
func nodesOf(who []Holder) string {
	if len(who) == 1 {
		return who[0].Node
	}
	return fmt.Sprintf("%s and %d more", who[0].Node, len(who)-1)
}
