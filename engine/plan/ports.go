package plan

import (
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Misplaced says what is wrong with a port's cabling, by what was heard at the port; empty if
// nothing is wrong, or nothing is known.
func Misplaced(n *site.Node, p site.SwitchedPort) string {
	if len(p.Heard) == 0 {
		return ""
	}
	c := cabling{comparison: comparison{node: n}}
	if c.neighbour(p.Interface, item.Port{Neighbours: p.Heard}); len(c.found) == 0 {
		return ""
	}
	return c.found[0].Message
}

// PortsProven says why a node's system has not proven, since a time, that ports carry the networks
// of the design; empty if it has. A node without an endpoint os has nothing to prove with. A switch
// that is silent by LLDP raises no doubt here.
func PortsProven(s *site.Site, n *site.Node, o site.Observed, ports []site.SwitchedPort, since time.Time, serves map[site.Facet]bool) (why string) {
	if _, reachable := n.Endpoints[site.OS]; !reachable || !serves[site.FacetOS] {
		return ""
	}
	if !o.Facets[site.FacetOS].Seen.After(since) {
		return "its system has not answered since"
	}
	if _, asks := n.LinkProbes(); !asks || !serves[site.FacetLinks] {
		return "" // its answer is all there is to see
	}
	if o.Links == nil || !o.Facets[site.FacetLinks].Seen.After(since) {
		return "its system has not reported its network links since"
	}
	c := cabling{comparison: comparison{node: n}, site: s, seen: o.Links, sets: true}
	for _, p := range ports {
		if at, there := n.PortOf(p.Interface, o.Links); there && at.Carrier != "up" && at.Carrier != "" {
			return "port " + p.Interface + " has no carrier"
		}
		c.port(p.Interface)
	}
	c.found = slices.DeleteFunc(c.found, func(f site.Finding) bool {
		return f.Code == "link-rate" || f.Code == "link-duplex" || f.Code == "link-mtu"
	})
	c.unknown = nil
	c.networks()
	switch {
	case len(c.found) > 0:
		return first(messages(c.found))
	case len(c.unknown) > 0:
		return first(c.unknown)
	}
	return ""
}
