package network

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// asked tells what of an interface differs although its settings are as designed: what it asks
// others for and was not given, or was given and did not ask for. It is told beside the
// fields, and makes no difference: to write the settings once more would change nothing, and
// would interrupt what works.
func (r *real) asked(seen *inside.Seen, id string, made item.Link) {
	var all []string
	four := r.dynamicOf(isFour)
	six := r.dynamicOf(func(p netip.Prefix) bool { return !isFour(p) })
	advertised := r.dynamicOf(func(p netip.Prefix) bool { return !isFour(p) && !p.IsSingleIP() })
	leased := six
	if made.SLAAC {
		leased = r.dynamicOf(func(p netip.Prefix) bool { return !isFour(p) && p.IsSingleIP() })
	}
	switch {
	case made.DHCP4 && four == "":
		all = append(all, "it asks for an IPv4 address by DHCP, and no server has given one")
	case !made.DHCP4 && four != "":
		all = append(all, "it has "+four+" by DHCP, although the design does not ask for that: something else on the machine does")
	}
	switch {
	case made.DHCP6 && leased == "":
		all = append(all, "it asks for an IPv6 address by DHCP, and no server has given one")
	case !made.DHCP6 && !made.SLAAC && six != "":
		all = append(all, "it has "+six+" by what a router or a server told it, although the design does not ask for that")
	}
	if made.SLAAC && advertised == "" {
		all = append(all, "it takes an address from what routers advertise, and has none by that")
	}
	if lost := unused(made.Servers, r.servers); r.servers != nil && lost != "" {
		all = append(all, "the name servers "+lost+" are designed, and the system does not use them for it")
	}
	if len(all) > 0 {
		seen.Have[item.Asked(id)] = strings.Join(all, "; ")
	}
}

// dynamicOf are the addresses of leases and advertisements of one kind; empty for none.
func (r *real) dynamicOf(kind func(netip.Prefix) bool) string {
	var all []string
	for _, p := range r.dynamic {
		if kind(p) {
			all = append(all, p.String())
		}
	}
	return item.List(all)
}

// unused are the designed name servers that are not in use; addresses have several spellings.
func unused(made, inUse []string) string {
	return item.List(slices.DeleteFunc(slices.Clone(made), func(text string) bool {
		a, err := netip.ParseAddr(text)
		return slices.ContainsFunc(inUse, func(other string) bool {
			host, _, _ := strings.Cut(other, "#") // a name for TLS
			b, otherErr := netip.ParseAddr(host)
			return text == other || err == nil && otherErr == nil && a == b
		})
	}))
}
