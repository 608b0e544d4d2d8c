package network

import (
	"encoding/json"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
)

const netplanFile = "/etc/netplan/60-slipway.yaml"

// renderNetplan writes the one file of netplan that is ours. It is JSON, which
// every YAML parser reads.
func renderNetplan(files map[string]file, all links) {
	if len(all) == 0 {
		return
	}
	config := map[string]any{"version": 2}
	for kind, section := range map[string]string{"ethernet": "ethernets", "bond": "bonds", "bridge": "bridges", "vlan": "vlans"} {
		made := map[string]any{}
		for _, name := range all.names(kind) {
			made[name] = netplanLink(name, all[name], all.master(name) != "")
		}
		if len(made) > 0 {
			config[section] = made
		}
	}
	text, _ := json.MarshalIndent(map[string]any{"network": config}, "", "  ") // maps of texts and numbers
	files[netplanFile] = file{header + string(text) + "\n", 0o600}
}

func netplanLink(name string, l item.Link, member bool) map[string]any {
	e := map[string]any{"dhcp4": l.DHCP4, "dhcp6": l.DHCP6, "accept-ra": l.SLAAC || l.DHCP6}
	if member {
		e["link-local"] = []string{}
	}
	if l.MTU > 0 {
		e["mtu"] = l.MTU
	}
	if len(l.Addresses) > 0 {
		e["addresses"] = l.Addresses
	}
	var routes []any
	for _, r := range l.Routes {
		route := map[string]any{"to": r.To}
		if r.Via == "" {
			route["scope"] = "link"
		} else {
			route["via"] = r.Via
		}
		if r.Metric > 0 {
			route["metric"] = r.Metric
		}
		routes = append(routes, route)
	}
	if routes != nil {
		e["routes"] = routes
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
		e["parameters"] = netplanBond(*l.Bond)
	case "bridge":
		e["interfaces"] = append([]string{}, l.Members...)
		e["parameters"] = map[string]any{"stp": l.STP}
	case "vlan":
		e["id"], e["link"] = l.VLAN, l.Parent
	}
	return e
}

func netplanBond(b item.Bond) map[string]any {
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
