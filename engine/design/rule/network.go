package rule

import (
	"fmt"
	"net/netip"

	"github.com/slipway-gitops/slipway/engine/site"
)

var networks = []Rule{
	{
		Code: "invalid-cidr", Severity: site.SeverityError, Firm: true,
		What:  "The range of a network is written with its first address.",
		Why:   "It cannot be told which addresses belong to the network.",
		Wrong: `networks: storage: cidr: "10.3.0.1/24"`,
		Right: `networks: storage: cidr: "10.3.0.0/24"`,
		Site:  invalidCIDR,
	},
	{
		Code: "gateway-outside-network", Severity: site.SeverityError,
		What:  "The gateway of a network is in its range.",
		Why:   "No node of the network could reach it.",
		Wrong: `networks: storage: {cidr: "10.3.0.0/24", gateway: "10.4.0.1"}`,
		Right: `networks: storage: {cidr: "10.3.0.0/24", gateway: "10.3.0.1"}`,
		Site:  gatewayOutside,
	},
	{
		Code: "address-outside-network", Severity: site.SeverityError,
		What:  "The address of a node is in the range of its network.",
		Why:   "The node could not be reached at it.",
		Wrong: `nodes: "n1": addresses: mgmt: "10.2.0.21"`,
		Right: `nodes: "n1": addresses: mgmt: "10.1.0.21"`,
		Node:  addressOutside,
	},
	{
		Code: "duplicate-address", Severity: site.SeverityError, Firm: true,
		What:  "No two nodes have the same address.",
		Why:   "One of the nodes would not be reached, or the wrong one.",
		Wrong: `nodes: "n2": addresses: mgmt: "10.1.0.11"`,
		Right: `nodes: "n2": addresses: mgmt: "10.1.0.99"`,
		Facts: addressFacts, Fleet: twice("the address"),
	},
}

func invalidCIDR(s *site.Site) []site.Finding {
	var found []site.Finding
	for _, key := range keys(s.Networks) {
		cidr, path := s.Networks[key].CIDR, "networks."+key+".cidr"
		prefix, err := netip.ParsePrefix(cidr)
		if cidr != "" && (err != nil || prefix != prefix.Masked()) {
			found = append(found, wrong(path,
				fmt.Sprintf("%s is %q, which is not a network range%s", path, cidr, meant(prefix)),
				"Write the first address and the prefix length: 10.1.0.0/24."))
		}
	}
	return found
}

// meant is a hint for a range written with an address inside of it.
func meant(p netip.Prefix) string {
	if !p.IsValid() {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", p.Masked())
}

func gatewayOutside(s *site.Site) []site.Finding {
	var found []site.Finding
	for _, key := range keys(s.Networks) {
		n := s.Networks[key]
		gw, err := netip.ParseAddr(n.Gateway)
		if err == nil && outside(gw, n.CIDR) {
			found = append(found, wrong("networks."+key+".gateway",
				fmt.Sprintf("the gateway %s is not in %s", n.Gateway, n.CIDR),
				"Correct the gateway, or the network's cidr."))
		}
	}
	return found
}

func addressOutside(s *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	for _, network := range keys(n.Addresses) {
		a, err := netip.ParseAddr(n.Addresses[network])
		if in := s.Networks[network]; err == nil && in != nil && outside(a, in.CIDR) {
			found = append(found, wrong("addresses."+network,
				fmt.Sprintf("%s is not in the network %s, %s", a, network, in.CIDR),
				"Correct the address, or name the network that it is in."))
		}
	}
	return found
}

func addressFacts(_ *site.Site, n *site.Node) []Fact {
	var facts []Fact
	for _, network := range keys(n.Addresses) {
		if a, err := netip.ParseAddr(n.Addresses[network]); err == nil {
			facts = append(facts, Fact{a.String(), "addresses." + network})
		}
	}
	return facts
}

func outside(a netip.Addr, cidr string) bool {
	p, err := netip.ParsePrefix(cidr)
	return err == nil && !p.Contains(a)
}
