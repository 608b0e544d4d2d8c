package rule

import (
	"fmt"
	"net/netip"

	"github.com/slipway-gitops/slipway/engine/site"
)

var routes = []Rule{
	{
		Code: "unknown-route-domain", Severity: site.SeverityError, Firm: true,
		What:  "The route domain of a network or route is an entry in `routeDomains`.",
		Why:   "Slipway cannot tell which networks reach each other, so no route is made.",
		Wrong: `networks: mgmt: routeDomain: "site"`,
		Right: `networks: mgmt: routeDomain: "site"
routeDomains: site: {}`,
		Site: unknownRouteDomain,
		Node: func(s *site.Site, n *site.Node) (found []site.Finding) {
			for _, name := range keys(n.Routes) {
				found = append(found, refer("routes."+name+".domain", "routeDomains", n.Routes[name].Domain, s.RouteDomains)...)
			}
			return found
		},
	},
	{
		Code: "route-destination", Severity: site.SeverityError,
		What:  "A route leads to a range of its network's family outside of the network, or to a route domain with another network in it.",
		Why:   "The kernel refuses the route or never uses it, and what is behind it cannot be reached.",
		Wrong: `networks: mgmt: routes: office: {to: "10.1.0.0/24", gateway: "10.1.0.1"}`,
		Right: `networks: mgmt: routes: office: {to: "10.8.0.0/16", gateway: "10.1.0.1"}`,
		Site:  routeDestination,
	},
	{
		Code: "route-gateway", Severity: site.SeverityError,
		What:  "The gateway of a route is the address of a host in the network, or in IPv6 a link-local address.",
		Why:   "The kernel refuses a route over a gateway that it cannot send to directly (ENETUNREACH).",
		Wrong: `networks: mgmt: routes: office: {to: "10.8.0.0/16", gateway: "10.8.0.1"}`,
		Right: `networks: mgmt: routes: office: {to: "10.8.0.0/16", gateway: "10.1.0.1"}`,
		Site:  routeGateway,
	},
	{
		Code: "node-route", Severity: site.SeverityError,
		What:  "A route of a node goes over a gateway in a network in which an interface of the node is, to a range outside of it or to a route domain.",
		Why:   "The gateway determines the interface of the route. Without such a gateway Slipway sets the route nowhere, and its destination cannot be reached.",
		Wrong: `nodes: "n1": routes: lab: {to: "10.8.0.0/16", gateway: "10.7.0.1"}`,
		Right: `nodes: "n1": routes: lab: {to: "10.8.0.0/16", gateway: "10.1.0.7"}`,
		Node:  nodeRoute,
	},
	{
		Code: "route-ambiguous", Severity: site.SeverityError,
		What: "No node has two routes to one destination with one metric over different gateways.",
		Why:  "The kernel takes the first and refuses the second, so which one is taken depends on the order in which interfaces come up.",
		Wrong: `networks: mgmt: routes: office: {to: "10.8.0.0/16", gateway: "10.1.0.1"}
networks: data: routes: office: {to: "10.8.0.0/16", gateway: "10.20.0.1"}`,
		Right: `networks: mgmt: routes: office: {to: "10.8.0.0/16", gateway: "10.1.0.1"}
networks: data: routes: office: {to: "10.8.0.0/16", gateway: "10.20.0.1", metric: 100}`,
		Node: routeAmbiguous,
	},
}

func unknownRouteDomain(s *site.Site) []site.Finding {
	var found []site.Finding
	for _, key := range keys(s.Networks) {
		n, path := s.Networks[key], "networks."+key
		found = append(found, refer(path+".routeDomain", "routeDomains", n.RouteDomain, s.RouteDomains)...)
		for _, name := range keys(n.Routes) {
			found = append(found, refer(path+".routes."+name+".domain", "routeDomains", n.Routes[name].Domain, s.RouteDomains)...)
		}
	}
	return found
}

func routeDestination(s *site.Site) []site.Finding {
	return eachRoute(s, func(network, path string, r site.Route) (string, string) {
		brokenTo := s.Origins.Has(path + ".to")
		brokenDomain := s.Origins.Has(path + ".domain")
		switch {
		case r.To != "" && r.Domain != "":
			return "the route has both a range and a route domain to lead to", "Keep one of `to` and `domain`."
		case r.To != "":
			return objectTo(r.To, prefixOf(s, network))
		case r.Domain != "" && s.RouteDomains[r.Domain] != nil && len(s.Destinations(network, r)) == 0:
			return fmt.Sprintf("the route domain %s has no other network of the family of %s to lead to", r.Domain, network),
				"Set the routeDomain of the networks that are behind the gateway, or remove the route."
		case r.Domain == "" && !brokenTo && !brokenDomain:
			return "the route leads nowhere", "Set `to` to a range, or `domain` to a route domain."
		}
		return "", ""
	})
}

// objectTo says what is wrong with a range as the destination of a route out of
// a network.
func objectTo(to string, network netip.Prefix) (message, fix string) {
	p, err := netip.ParsePrefix(to)
	switch {
	case err != nil || p != p.Masked():
		return fmt.Sprintf("%q is not a network range", to), meant(to)
	case !network.IsValid():
		return "", ""
	case p.Addr().BitLen() != network.Addr().BitLen():
		return fmt.Sprintf("the route leads to %s, which is of another family than the network, %s", p, network),
			"Put the route into the network of its family."
	case network.Contains(p.Addr()) && p.Bits() >= network.Bits():
		return fmt.Sprintf("the route leads to %s, which is in the network itself, %s", p, network),
			"Write the range that is behind the gateway."
	}
	return "", ""
}

// networkAround returns the network of a node that contains a gateway; empty
// for none.
func networkAround(s *site.Site, n *site.Node, gateway string) string {
	for _, network := range keys(n.Addresses) {
		if p := prefixOf(s, network); p.IsValid() && p.Contains(addrOf(gateway)) && !n.BootsOnly(network) {
			return network
		}
	}
	for _, c := range carriers(n) { // autoconfigured, without an address in the design
		for _, network := range c.networks {
			if net := s.Networks[network]; net != nil && net.Autoconfigure && prefixOf(s, network).Contains(addrOf(gateway)) {
				return network
			}
		}
	}
	return ""
}

func nodeRoute(s *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	for _, name := range keys(n.Routes) {
		r, path := n.Routes[name], "routes."+name
		network := networkAround(s, n, r.Gateway)
		var message, fix string
		switch p := prefixOf(s, network); {
		case !addrOf(r.Gateway).IsValid() || len(n.Addresses) == 0 && states(n, "addresses"):
			continue
		case network == "":
			message, fix = fmt.Sprintf("the gateway %s is in no network of the node", r.Gateway), "Write the address that the router has in one of the node's networks."
			path += ".gateway"
		case unusable(p, addrOf(r.Gateway)) != "" || addrOf(r.Gateway) == addressIn(s, n, network):
			message, fix = fmt.Sprintf("%s is not a router's address in the network %s", r.Gateway, network), "Write the router's own address in the network."
			path += ".gateway"
		case r.To != "" && r.Domain != "":
			message, fix = "the route has both a range and a route domain to lead to", "Keep one of `to` and `domain`."
		case r.To != "":
			message, fix = objectTo(r.To, p)
		case r.Domain != "" && s.RouteDomains[r.Domain] != nil && len(s.Destinations(network, r)) == 0:
			message, fix = fmt.Sprintf("the route domain %s has no network of the family of %s to lead to", r.Domain, network), "Set the routeDomain of the networks that are behind the gateway, or remove the route."
		case r.Domain == "" && !states(n, path+".to") && !states(n, path+".domain"):
			message, fix = "the route leads nowhere", "Set `to` to a range, or `domain` to a route domain."
		}
		if message != "" {
			found = append(found, wrong(path, message, fix))
		}
	}
	return found
}

func routeGateway(s *site.Site) []site.Finding {
	found := eachRoute(s, func(network, _ string, r site.Route) (string, string) {
		gw, p := addrOf(r.Gateway), prefixOf(s, network)
		switch {
		case !gw.IsValid() || !p.IsValid():
			return "", ""
		case !reaches(p, gw):
			return fmt.Sprintf("the gateway %s is not in the network, %s", gw, p), "Write the address that the router has in the network."
		case gw.Is4() && unusable(p, gw) != "":
			return fmt.Sprintf("the gateway %s is the %s in %s", gw, unusable(p, gw), p), "Write the router's own address in the network."
		}
		return "", ""
	})
	for i := range found {
		found[i].Path += ".gateway"
	}
	return found
}

// eachRoute checks every route by itself. An objection is a message and what to
// do.
func eachRoute(s *site.Site, object func(network, path string, r site.Route) (message, fix string)) []site.Finding {
	var found []site.Finding
	for _, network := range keys(s.Networks) {
		for _, name := range keys(s.Networks[network].Routes) {
			path := "networks." + network + ".routes." + name
			if message, fix := object(network, path, s.Networks[network].Routes[name]); message != "" {
				found = append(found, wrong(path, message, fix))
			}
		}
	}
	return found
}

// hop is what selects a route: the kernel has one route for each.
type hop struct {
	to     netip.Prefix
	metric int64
}

// routeAmbiguous compares the routes of a node's networks with each other. It
// places findings at the routes, so that all nodes of two networks give one
// finding.
func routeAmbiguous(s *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	first := map[hop]router{}
	for _, network := range keys(n.Addresses) {
		if s.Networks[network] == nil {
			continue
		}
		for _, name := range keys(s.Networks[network].Routes) {
			r, path := s.Networks[network].Routes[name], "networks."+network+".routes."+name
			for _, to := range s.Destinations(network, r) {
				h, gw := hop{to.Range, r.Metric}, router{"", path, addrOf(r.Gateway)}
				if before, ok := first[h]; ok && before.addr != gw.addr {
					found = append(found, ambiguous(s, h, before, gw))
				}
				first[h] = gw
			}
		}
	}
	for _, name := range keys(n.Routes) {
		r := n.Routes[name]
		network := networkAround(s, n, r.Gateway)
		if network == "" {
			continue
		}
		for _, to := range s.Destinations(network, r) {
			h := hop{to.Range, r.Metric}
			if before, ok := first[h]; ok && before.addr != addrOf(r.Gateway) {
				f := wrong("routes."+name, fmt.Sprintf("there are two routes to %s with the metric %d: over %s and over %s", h.to, h.metric, before.addr, r.Gateway),
					"Give the one that is to be taken second a higher metric.")
				found = append(found, also(s, before.path, f))
			}
			first[h] = router{"", "", addrOf(r.Gateway)}
		}
	}
	return found
}

func ambiguous(s *site.Site, h hop, before, r router) site.Finding {
	f := also(s, before.path, wrong("addresses", fmt.Sprintf("there are two routes to %s with the metric %d: over %s and over %s", h.to, h.metric, before.addr, r.addr),
		"Give the one that is to be taken second a higher metric."))
	o, _ := nearest(s.Origins, r.path)
	return placed(f, o)
}
