package item

import (
	"slices"
	"strings"
)

// Netplan returns interfaces by name in version 2 of netplan's format, which cloud-init also uses
// at the first boot.
func Netplan(all map[string]Link) map[string]any {
	config := map[string]any{"version": 2}
	for name, l := range all {
		section := netplanSections[l.Kind]
		made, _ := config[section].(map[string]any)
		if made == nil {
			made = map[string]any{}
			config[section] = made
		}
		made[name] = l.netplan(name, isMember(all, name))
	}
	return config
}

var netplanSections = map[string]string{"ethernet": "ethernets", "bond": "bonds", "bridge": "bridges", "vlan": "vlans"}

// isMember reports whether an interface is in a bond or a bridge, which has the addresses then.
func isMember(all map[string]Link, name string) bool {
	for _, l := range all {
		if slices.Contains(l.Members, name) {
			return true
		}
	}
	return false
}

func (l Link) netplan(name string, member bool) map[string]any {
	e := map[string]any{"dhcp4": l.DHCP4, "dhcp6": l.DHCP6, "accept-ra": l.SLAAC || l.DHCP6} // DHCPv6 begins with what a router advertises
	if member {
		e["link-local"] = []string{}
	}
	if l.MTU > 0 {
		e["mtu"] = l.MTU
	}
	if len(l.Addresses) > 0 {
		e["addresses"] = l.Addresses
	}
	if len(l.Routes) > 0 {
		e["routes"] = netplanRoutes(l.Routes)
	}
	dns := map[string]any{}
	if len(l.Servers) > 0 {
		dns["addresses"] = l.Servers
	}
	if len(l.Search) > 0 {
		dns["search"] = l.Search
	}
	if len(dns) > 0 {
		e["nameservers"] = dns
	}
	switch l.Kind {
	case "ethernet":
		if l.MAC != "" {
			e["match"] = map[string]string{"macaddress": strings.ToLower(l.MAC)}
			e["set-name"] = name
		}
		if l.Functions > 0 {
			e["virtual-function-count"] = l.Functions
		}
	case "bond":
		e["interfaces"] = l.Members
		e["parameters"] = l.Bond.netplan()
	case "bridge":
		e["interfaces"] = append([]string{}, l.Members...)
		e["parameters"] = map[string]any{"stp": l.STP}
	case "vlan":
		e["id"], e["link"] = l.VLAN, l.Parent
	}
	return e
}

func netplanRoutes(all []Route) []any {
	var made []any
	for _, r := range all {
		route := map[string]any{"to": r.To}
		if r.Via == "" {
			route["scope"] = "link"
		} else {
			route["via"] = r.Via
		}
		if r.Metric > 0 {
			route["metric"] = r.Metric
		}
		made = append(made, route)
	}
	return made
}

func (b *Bond) netplan() map[string]any {
	p := map[string]any{"mode": b.Mode}
	for name, value := range map[string]string{"lacp-rate": b.LACPRate, "transmit-hash-policy": b.HashPolicy, "primary": b.Primary} {
		if value != "" {
			p[name] = value
		}
	}
	for name, value := range map[string]int{
		"mii-monitor-interval": b.Monitor, "up-delay": b.UpDelay, "down-delay": b.DownDelay, "min-links": b.MinLinks,
	} {
		if value != 0 {
			p[name] = value
		}
	}
	return p
}
