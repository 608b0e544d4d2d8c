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
func (r *real) asked(seen *inside.Seen, id string, made item.Link, addresses bool) {
	if !r.up || !r.carrier {
		return // it can ask nobody
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

// hasAnother says whether it has an IPv4 address for good that it was not made with: a server
// may give one without an end.
func (r *real) hasAnother(made item.Link) bool {
	return slices.ContainsFunc(r.Addresses, func(text string) bool {
		p, err := netip.ParsePrefix(text)
		return err == nil && isFour(p) && !slices.Contains(made.Addresses, text)
	})
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
func unused(made, inUse []string) []string {
	return slices.DeleteFunc(slices.Clone(made), func(text string) bool {
		host, _, _ := strings.Cut(text, "#") // a name for TLS
		a, err := netip.ParseAddr(host)
		return slices.ContainsFunc(inUse, func(other string) bool {
			b, otherErr := netip.ParseAddr(other)
			return host == other || err == nil && otherErr == nil && a == b
		})
	})
}
