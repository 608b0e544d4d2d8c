package network

import (
	"net/netip"
	"slices"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// asked tells how far an interface has what it asks others for, which its settings do not
// show: addresses by DHCP and by what routers advertise, and the name servers that the
// resolver was given. Without an address the field is unread rather than different: no server
// may have answered, and to write the settings once more would change nothing.
func (r *real) asked(seen *inside.Seen, key, manager string, made item.Link) {
	unread := func(field, why string) {
		field = item.Name(key, field)
		delete(seen.Have, field)
		seen.Unread[field] = why
	}
	four := r.dynamicOf(isFour)
	six := r.dynamicOf(func(p netip.Prefix) bool { return !isFour(p) })
	advertised := r.dynamicOf(func(p netip.Prefix) bool { return !isFour(p) && !p.IsSingleIP() })
	switch {
	case made.DHCP4 && four == "":
		unread("dhcp", "it asks for an IPv4 address by DHCP, and no server has given one")
	case made.DHCP6 && six == "":
		unread("dhcp", "it asks for an IPv6 address by DHCP, and no server has given one")
	case !made.DHCP4 && four != "":
		unread("dhcp", "it has "+four+" by DHCP, although the design does not ask for that: something else on the machine does")
	}
	switch {
	case made.SLAAC && advertised == "":
		unread("slaac", "it takes an address from what routers advertise, and has none by that")
	case !made.SLAAC && !made.DHCP6 && six != "":
		unread("slaac", "it has "+six+" by what a router or a server told it, although the design does not ask for that")
	}
	if manager != Networkd && manager != Netplan || len(made.Servers)+len(made.Search) == 0 {
		return // the others have name servers in their files alone, which are compared
	}
	if r.servers == nil && r.search == nil {
		unread("dns", "systemd-networkd does not tell that it uses the designed name servers for this interface")
		return
	}
	delete(seen.Have, item.Name(key, "dns"))
	if have := item.DNSText(usedServers(made.Servers, r.servers), used(made.Search, r.search)); have != "" {
		seen.Have[item.Name(key, "dns")] = have
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

// used are those of what was made that are in use; what leases add says nothing.
func used(made, inUse []string) []string {
	return slices.DeleteFunc(slices.Clone(made), func(text string) bool { return !slices.Contains(inUse, text) })
}

// usedServers are the same of addresses, which have several spellings.
func usedServers(made, inUse []string) []string {
	return slices.DeleteFunc(slices.Clone(made), func(text string) bool {
		a, err := netip.ParseAddr(text)
		return !slices.ContainsFunc(inUse, func(other string) bool {
			b, otherErr := netip.ParseAddr(other)
			return text == other || err == nil && otherErr == nil && a == b
		})
	})
}
