package rule

import (
	"fmt"
	"net/netip"

	"github.com/slipway-gitops/slipway/engine/site"
)

// networks objects to ranges that are none, and to gateways outside of them.
func networks(s *site.Site) []site.Finding {
	var found []site.Finding
	for _, key := range keys(s.Networks) {
		n := s.Networks[key]
		if n.CIDR == "" {
			continue
		}
		path := "networks." + key
		prefix, err := netip.ParsePrefix(n.CIDR)
		if err != nil || prefix != prefix.Masked() {
			found = append(found, at(s, path+".cidr", site.Finding{
				Code:    "invalid-cidr",
				Message: fmt.Sprintf("%s.cidr is %q, which is not a network range%s", path, n.CIDR, meant(prefix)),
				Why:     "It cannot be told which addresses belong to the network.",
				Fix:     "Write the first address and the prefix length: 10.1.0.0/24.",
			}))
			continue
		}
		if gw, err := netip.ParseAddr(n.Gateway); n.Gateway != "" && (err != nil || !prefix.Contains(gw)) {
			found = append(found, at(s, path+".gateway", site.Finding{
				Code:    "gateway-outside-network",
				Message: fmt.Sprintf("the gateway %s is not in %s", n.Gateway, n.CIDR),
				Why:     "No node of the network could reach it.",
				Fix:     "Correct the gateway, or the network's cidr.",
			}))
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

// addresses objects to addresses outside of their network, and to one that two
// nodes have.
func addresses(s *site.Site) []site.Finding {
	var found []site.Finding
	taken := claims{}
	for _, n := range nodes(s) {
		for _, network := range keys(n.Addresses) {
			path := "addresses." + network
			a, err := netip.ParseAddr(n.Addresses[network])
			if err != nil {
				continue // reported by the schema
			}
			taken.add(n, path, a.String())
			if in := s.Networks[network]; in != nil && outside(a, in.CIDR) {
				found = append(found, on(n, path, site.Finding{
					Code:    "address-outside-network",
					Message: fmt.Sprintf("%s is not in the network %s, %s", a, network, in.CIDR),
					Why:     "The node could not be reached at it.",
					Fix:     "Correct the address, or name the network that it is in.",
				}))
			}
		}
	}
	return append(found, taken.twice("duplicate-address", "the address", "One of the nodes would not be reached, or the wrong one.")...)
}

func outside(a netip.Addr, cidr string) bool {
	p, err := netip.ParsePrefix(cidr)
	return err == nil && !p.Contains(a)
}
