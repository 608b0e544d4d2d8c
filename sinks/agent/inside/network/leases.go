package network

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// clients are the programs by which ifupdown asks for an address, by the family, and the
// packages that bring one. An address of udhcpc has no end, so that nobody can tell it from one
// that somebody set.
var clients = map[string]struct {
	programs []string
	packages string
}{
	"4": {[]string{"dhclient", "dhcpcd"}, "isc-dhcp-client or dhcpcd-base"},
	"6": {[]string{"dhclient", "dhcpcd"}, "isc-dhcp-client"},
}

// noClient says why a system cannot ask for addresses by DHCP; empty where it can. Other
// managers ask by themselves.
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

// leaveOut keeps interfaces as they are whose addresses a running system cannot ask for yet: what
// is set after the network may bring the client.
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

// asksByClient says whether ifupdown gets an address by DHCP for any interface, one of the design
// or one of others.
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

// seeClient tells that a system lacks the client that a design needs.
func seeClient(h *inside.Host, seen *inside.Seen, id, manager string) {
	field := item.Name(item.KindLinks+"."+id, "dhcp")
	wants := item.Link{DHCP4: strings.Contains(h.Wants[field], "4"), DHCP6: strings.Contains(h.Wants[field], "6")}
	if why := noClient(h, manager, wants); why != "" {
		seen.Cannot[field] = why
	}
}

// withoutLeased are the routes of an interface without those that a DHCP client has set: that
// of ifupdown does so as a person would, by hand.
func (r *real) withoutLeased(made item.Link) []item.Route {
	if !made.DHCP4 {
		return r.Routes
	}
	return slices.DeleteFunc(slices.Clone(r.Routes), func(route item.Route) bool {
		return !strings.Contains(route.To, ":") && slices.Contains(r.byHand, route) && !slices.Contains(made.Routes, route)
	})
}
