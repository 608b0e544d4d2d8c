package firstboot

import (
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// NetworkConfig is how the system reaches its networks, in version 2 of
// cloud-init's format, which is netplan's.
func NetworkConfig(s *site.Site, n *site.Node) (map[string]any, error) {
	links, err := s.Wiring(n)
	config := map[string]any{"version": 2}
	for name, l := range links {
		section, made := rendered(name, l)
		all, _ := config[section].(map[string]any)
		if all == nil {
			all = map[string]any{}
			config[section] = all
		}
		all[name] = made
	}
	return config, err
}

// rendered is one interface, and the section of netplan's format that it is in.
// An ethernet is told by its address.
func rendered(name string, l item.Link) (section string, e map[string]any) {
	e = carrier(l)
	switch l.Kind {
	case "bond":
		e["interfaces"], e["parameters"] = l.Members, bonding(l.Bond)
		return "bonds", e
	case "bridge":
		e["interfaces"], e["parameters"] = l.Members, map[string]any{"stp": l.STP}
		return "bridges", e
	case "vlan":
		e["link"], e["id"] = l.Parent, l.VLAN
		return "vlans", e
	}
	e["match"], e["set-name"] = map[string]string{"macaddress": l.MAC}, name
	return "ethernets", e
}

// bonding are the parameters of a bond.
func bonding(b *item.Bond) map[string]any {
	p := map[string]any{}
	for name, value := range map[string]string{
		"mode": b.Mode, "lacp-rate": b.LACPRate, "transmit-hash-policy": b.HashPolicy, "primary": b.Primary,
	} {
		if value != "" {
			p[name] = value
		}
	}
	for name, value := range map[string]int{
		"mii-monitor-interval": b.Monitor, "up-delay": b.UpDelay, "down-delay": b.DownDelay, "min-links": b.MinLinks,
	} {
		if value > 0 {
			p[name] = value
		}
	}
	return p
}

// carrier is what every kind of interface has: its addresses and routes.
func carrier(l item.Link) map[string]any {
	e := map[string]any{"dhcp4": l.DHCP4, "dhcp6": l.DHCP6, "accept-ra": l.SLAAC}
	if l.MTU > 0 {
		e["mtu"] = l.MTU
	}
	if len(l.Addresses) > 0 {
		e["addresses"] = l.Addresses
	}
	if len(l.Routes) > 0 {
		e["routes"] = routes(l.Routes)
	}
	if len(l.Servers) > 0 {
		e["nameservers"] = map[string]any{"addresses": l.Servers, "search": l.Search}
	}
	return e
}

func routes(all []item.Route) []any {
	var made []any
	for _, r := range all {
		route := map[string]any{"to": r.To, "via": r.Via}
		if r.Metric > 0 {
			route["metric"] = r.Metric
		}
		made = append(made, route)
	}
	return made
}
