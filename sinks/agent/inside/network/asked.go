package network

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// asked reports what differs although the settings match the design: requested addresses that the interface did not
// get, or addresses that it did not request. It reports this as a fact, not as a difference: writing the settings
// again would change nothing and interrupt a working network.
func (r *real) asked(seen *inside.Seen, id string, made item.Link, addresses bool) {
	if !r.up || !r.carrier {
		return // it cannot ask anyone
	}
	var all []string
	four := r.dynamicOf(isFour)
	six := r.dynamicOf(func(p netip.Prefix) bool { return !isFour(p) })
	advertised := r.dynamicOf(func(p netip.Prefix) bool { return !isFour(p) && !p.IsSingleIP() })
	switch {
	case !addresses:
	case made.DHCP4 && four == "" && !r.hasAnother(made):
		all = append(all, "it asks for an IPv4 address by DHCP, and no server has given one")
	case !made.DHCP4 && four != "":
		all = append(all, "it has "+four+" for a time, as DHCP gives it, although its settings ask for none: something else on the machine does")
	}
	switch {
	case !addresses:
	case made.DHCP6 && six == "":
		all = append(all, "it asks for an IPv6 address by DHCP, and no server has given one")
	case !made.DHCP6 && !made.SLAAC && six != "":
		all = append(all, "it has "+six+" for a time, as routers and servers give it, although its settings ask for none")
	}
	if addresses && made.SLAAC && advertised == "" {
		all = append(all, "it takes an address from what routers advertise, and has none by that")
	}
	if len(all) > 0 {
		seen.Have[item.Asked(id)] = strings.Join(all, "; ")
	}
}

// hasAnother reports whether an interface has a permanent IPv4 address that is not from its settings: a DHCP server
// may give a lease without an end.
func (r *real) hasAnother(made item.Link) bool {
	return slices.ContainsFunc(r.Addresses, func(text string) bool {
		p, err := netip.ParsePrefix(text)
		return err == nil && isFour(p) && !slices.Contains(made.Addresses, text)
	})
}

// dynamicOf lists the addresses of leases and advertisements of one kind; empty for none.
func (r *real) dynamicOf(kind func(netip.Prefix) bool) string {
	var all []string
	for _, p := range r.dynamic {
		if kind(p) {
			all = append(all, p.String())
		}
	}
	return item.List(all)
}

// unused are the designed name servers that are not in use. An address can be spelled in several ways.
func unused(made, inUse []string) []string {
	return slices.DeleteFunc(slices.Clone(made), func(text string) bool {
		host, _, _ := strings.Cut(text, "#") // the part after # is a name for TLS
		a, err := netip.ParseAddr(host)
		return slices.ContainsFunc(inUse, func(other string) bool {
			b, otherErr := netip.ParseAddr(other)
			return host == other || err == nil && otherErr == nil && a == b
		})
	})
}
