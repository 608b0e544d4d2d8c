package firstboot

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// NetworkConfig is how the system reaches its networks, in version 2 of
// cloud-init's format, which is netplan's.
func NetworkConfig(s *site.Site, n *site.Node) (map[string]any, error) {
	w := wiring{site: s, node: n}
	config := map[string]any{"version": 2}
	for kind, those := range map[string]func() map[string]any{
		"ethernets": w.ethernets, "bonds": w.bonds, "bridges": w.bridges, "vlans": w.vlans,
	} {
		if made := those(); len(made) > 0 {
			config[kind] = made
		}
	}
	return config, w.err
}

// wiring puts together what a node has; err is the first thing that made no
// sense.
type wiring struct {
	site *site.Site
	node *site.Node
	err  error
}

// ethernets are the interfaces of the virtual machine, told by their addresses.
// One that the design says nothing of is there, and not set up.
func (w *wiring) ethernets() map[string]any {
	all := map[string]any{}
	for name, v := range w.node.Virtual.Interfaces {
		i := w.node.Interfaces[name]
		e := w.carrier(i.Link, i.Networks, i.MTU)
		e["match"] = map[string]string{"macaddress": v.MAC}
		e["set-name"] = name
		all[name] = e
	}
	return all
}

func (w *wiring) bonds() map[string]any {
	all := map[string]any{}
	for name, b := range w.node.Bonds {
		e := w.carrier(b.Link, b.Networks, b.MTU)
		e["interfaces"] = b.Members
		e["parameters"] = w.bonding(b)
		all[name] = e
	}
	return all
}

// bonding are the parameters of a bond, from its link.
func (w *wiring) bonding(b site.Bond) map[string]any {
	p := map[string]any{}
	set := func(name, value string) {
		if value != "" {
			p[name] = value
		}
	}
	set("primary", b.Primary)
	l := w.site.Links[b.Link]
	if l == nil || l.Bonding == nil {
		return p
	}
	set("mode", l.Bonding.Mode)
	set("lacp-rate", l.Bonding.LACPRate)
	set("transmit-hash-policy", l.Bonding.HashPolicy)
	for name, d := range map[string]site.Duration{
		"mii-monitor-interval": l.Bonding.Monitor, "up-delay": l.Bonding.UpDelay, "down-delay": l.Bonding.DownDelay,
	} {
		if d > 0 {
			p[name] = int(time.Duration(d) / time.Millisecond)
		}
	}
	if l.Bonding.MinLinks > 0 {
		p["min-links"] = l.Bonding.MinLinks
	}
	return p
}

func (w *wiring) bridges() map[string]any {
	all := map[string]any{}
	for name, b := range w.node.Bridges {
		e := w.carrier("", b.Networks, b.MTU)
		e["interfaces"] = b.Members
		e["parameters"] = map[string]any{"stp": b.STP}
		all[name] = e
	}
	return all
}

func (w *wiring) vlans() map[string]any {
	all := map[string]any{}
	for name, v := range w.node.VLANs {
		e := w.carrier("", []string{v.Network}, v.MTU)
		e["link"] = v.Parent
		e["id"] = 0
		if net := w.site.Networks[v.Network]; net != nil {
			e["id"] = net.VLAN
		}
		all[name] = e
	}
	return all
}

// carrier is what every kind of interface has: its addresses and routes in the
// networks that it carries.
func (w *wiring) carrier(link string, networks []string, mtu int) map[string]any {
	e := map[string]any{"dhcp4": false, "dhcp6": false, "accept-ra": false}
	var addresses, servers []string
	var search []string
	routes := []any{}
	for _, name := range networks {
		net, address := w.site.Networks[name], w.node.Addresses[name]
		if net == nil || address == "" {
			continue
		}
		if mtu == 0 {
			mtu = net.MTU
		}
		if address == site.AddressDHCP {
			e["dhcp4"] = true
			continue
		}
		addresses = append(addresses, w.withLength(address, net.CIDR))
		routes = append(routes, w.routes(name, net)...)
		servers = append(servers, net.DNS.Servers...)
		if net.DNS.Domain != "" {
			search = append(search, net.DNS.Domain)
		}
	}
	if l := w.site.Links[link]; mtu == 0 && l != nil {
		mtu = l.MTU
	}
	if mtu > 0 {
		e["mtu"] = mtu
	}
	if len(addresses) > 0 {
		e["addresses"] = addresses
	}
	if len(routes) > 0 {
		e["routes"] = routes
	}
	if len(servers) > 0 {
		e["nameservers"] = map[string]any{"addresses": servers, "search": search}
	}
	return e
}

// withLength is an address with the length of its network's prefix.
func (w *wiring) withLength(address, cidr string) string {
	prefix, err := netip.ParsePrefix(cidr)
	if err == nil {
		_, err = netip.ParseAddr(address)
	}
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("address %q in network %q: %w", address, cidr, err)
	}
	return fmt.Sprintf("%s/%d", address, prefix.Bits())
}

// routes are those of a network. The default one is by the gateway of the
// primary network, or of the only one that has a gateway.
func (w *wiring) routes(name string, net *site.Network) []any {
	var routes []any
	if net.Gateway != "" && name == w.gatewayNetwork() {
		to := "0.0.0.0/0"
		if a, err := netip.ParseAddr(net.Gateway); err == nil && a.Is6() {
			to = "::/0"
		}
		routes = append(routes, map[string]any{"to": to, "via": net.Gateway})
	}
	for _, key := range slices.Sorted(maps.Keys(net.Routes)) {
		r := net.Routes[key]
		for _, to := range w.targets(r) {
			route := map[string]any{"to": to, "via": r.Gateway}
			if r.Metric > 0 {
				route["metric"] = r.Metric
			}
			routes = append(routes, route)
		}
	}
	return routes
}

// targets are the ranges that a route leads to: its own, or the networks of its
// route domain that the node is not in itself.
func (w *wiring) targets(r site.Route) []string {
	if r.Domain == "" {
		return []string{r.To}
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(w.site.Networks)) {
		if net := w.site.Networks[name]; net.RouteDomain == r.Domain && w.node.Addresses[name] == "" {
			all = append(all, net.CIDR)
		}
	}
	return all
}

// gatewayNetwork is the network whose gateway is the node's.
func (w *wiring) gatewayNetwork() string {
	if w.node.PrimaryNetwork != "" {
		return w.node.PrimaryNetwork
	}
	var with []string
	for name := range w.node.Addresses {
		if net := w.site.Networks[name]; net != nil && net.Gateway != "" {
			with = append(with, name)
		}
	}
	if len(with) == 1 {
		return with[0]
	}
	return ""
}
