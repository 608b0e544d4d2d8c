package network

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// clients are ifupdown's DHCP clients by address family, and the packages that provide one. An address of udhcpc
// has no end, so it cannot be told from an address that somebody set.
var clients = map[string]struct {
	programs []string
	packages string
}{
	"4": {[]string{"dhclient", "dhcpcd"}, "isc-dhcp-client or dhcpcd-base"},
	"6": {[]string{"dhclient", "dhcpcd"}, "isc-dhcp-client"},
}

// noClient says why a system cannot use DHCP; empty if it can. Other managers have their own client.
func noClient(h *inside.Host, manager string, l item.Link) string {
	for _, family := range []string{"4", "6"} {
		wanted, c := map[string]bool{"4": l.DHCP4, "6": l.DHCP6}[family], clients[family]
		if manager != Ifupdown || !wanted {
			continue
		}
		if !slices.ContainsFunc(c.programs, func(name string) bool { return anyFile(h, "/sbin/"+name, "/usr/sbin/"+name) }) {
			return fmt.Sprintf("ifupdown asks for IPv%s addresses by a DHCP client, and this system has none of %s. Add the package %s to the design", family, item.List(c.programs), c.packages)
		}
	}
	return ""
}

// leaveOut keeps interfaces unchanged if a running system lacks their DHCP client. Facets that follow the network
// may add the client.
func (p *plan) leaveOut(h *inside.Host) {
	for _, id := range p.after.names() {
		if !h.Live || noClient(h, p.manager, p.after[id]) == "" {
			continue
		}
		if was := p.before[id]; was.Kind != "" {
			p.after[id] = was
		} else {
			delete(p.after, id)
		}
	}
}

// asksByClient reports whether ifupdown uses DHCP on any interface, in the design or not.
func asksByClient(h *inside.Host, all links) bool {
	if slices.ContainsFunc(all.names(), func(id string) bool { return all[id].DHCP4 || all[id].DHCP6 }) {
		return true
	}
	paths, err := ifupdownFiles(h)
	if err != nil {
		return false
	}
	for _, path := range paths {
		text, _, err := readFile(h, path)
		if err != nil {
			continue
		}
		for _, line := range logicalLines(string(text)) {
			words := strings.Fields(line)
			if len(words) > 3 && words[0] == "iface" && words[3] == "dhcp" && all[words[1]].Kind == "" {
				return true
			}
		}
	}
	return false
}

// seeClient reports that a system lacks the DHCP client that the design needs.
func seeClient(h *inside.Host, seen *inside.Seen, id, manager string) {
	field := item.Name(item.KindLinks+"."+id, "dhcp")
	wants := item.Link{DHCP4: strings.Contains(h.Wants[field], "4"), DHCP6: strings.Contains(h.Wants[field], "6")}
	if why := noClient(h, manager, wants); why != "" {
		seen.Cannot[field] = why
	}
}

// withoutLeased are an interface's routes without those of a DHCP client. ifupdown's client sets routes like a
// person, by hand.
func (r *real) withoutLeased(made item.Link) []item.Route {
	if !made.DHCP4 {
		return r.Routes
	}
	return slices.DeleteFunc(slices.Clone(r.Routes), func(route item.Route) bool {
		return !strings.Contains(route.To, ":") && slices.Contains(r.byHand, route) && !slices.Contains(made.Routes, route)
	})
}
