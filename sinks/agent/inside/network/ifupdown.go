package network

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
)

const (
	interfacesFile   = "/etc/network/interfaces"
	interfacesFolder = "/etc/network/interfaces.d"
	ifupdownFile     = interfacesFolder + "/slipway"
)

// renderIfupdown writes our single ifupdown file. It creates bonds, bridges and VLANs with ip(8), so it needs none
// of the packages ifenslave, bridge-utils and vlan.
func renderIfupdown(files map[string]file, all links) {
	if len(all) == 0 {
		return
	}
	var b strings.Builder
	b.WriteString(header)
	for _, name := range inOrder(all) {
		linkFile(files, name, all[name])
		stanzas(&b, name, all[name], all)
	}
	files[ifupdownFile] = file{b.String(), 0o644}
}

// inOrder are the names of interfaces, each after those that it depends on.
func inOrder(all links) []string {
	var order []string
	put := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		l, known := all[name]
		if !known || put[name] {
			return
		}
		put[name] = true
		for _, m := range l.Members {
			visit(m)
		}
		visit(l.Parent)
		order = append(order, name)
	}
	for _, name := range all.names() {
		visit(name)
	}
	return order
}

// sorted sorts names after those that they depend on. Unknown names come first.
func (all links) sorted(names []string) []string {
	order := inOrder(all)
	names = slices.Clone(names)
	slices.SortStableFunc(names, func(a, b string) int { return slices.Index(order, a) - slices.Index(order, b) })
	return names
}

func stanzas(b *strings.Builder, name string, l item.Link, all links) {
	fmt.Fprintf(b, "\nauto %s\n", name)
	link := func(text string) { b.WriteString("\t" + text + "\n") }
	addresses4, addresses6 := families(l.Addresses, itself)
	routes4, routes6 := families(l.Routes, target)
	servers4, servers6 := families(l.Servers, itself)

	// The first stanza creates the interface. Further addresses need further stanzas.
	switch {
	case l.DHCP4:
		fmt.Fprintf(b, "iface %s inet dhcp\n", name)
	case len(addresses4) > 0:
		fmt.Fprintf(b, "iface %s inet static\n\taddress %s\n", name, addresses4[0])
		addresses4 = addresses4[1:]
	default:
		fmt.Fprintf(b, "iface %s inet manual\n", name)
	}
	making(link, name, l, all)
	if all.master(name) == "" && !l.SLAAC && !l.DHCP6 && len(addresses6) == 0 { // the kernel accepts router advertisements by default
		link(fmt.Sprintf("pre-up echo 0 >/proc/sys/net/ipv6/conf/%s/accept_ra || true", name))
	}
	named(link, servers4, l.Search)
	routing(link, name, "", routes4)
	for _, a := range addresses4 {
		fmt.Fprintf(b, "iface %s inet static\n\taddress %s\n", name, a)
	}
	if all.master(name) != "" {
		return
	}

	switch {
	case l.SLAAC && len(addresses6) == 0 && !l.DHCP6:
		fmt.Fprintf(b, "iface %s inet6 auto\n", name)
	case l.DHCP6:
		fmt.Fprintf(b, "iface %s inet6 dhcp\n", name)
		link("autoconf " + bit(l.SLAAC))
		link("accept_ra 1")
	case len(addresses6) > 0:
		fmt.Fprintf(b, "iface %s inet6 static\n\taddress %s\n", name, addresses6[0])
		addresses6 = addresses6[1:]
		link("autoconf " + bit(l.SLAAC))
		link("accept_ra " + bit(l.SLAAC))
	case len(routes6) == 0 && len(servers6) == 0:
		return
	default:
		fmt.Fprintf(b, "iface %s inet6 manual\n", name)
	}
	if len(servers6) > 0 {
		named(link, servers6, l.Search)
	}
	routing(link, name, "-6 ", routes6)
	for _, a := range addresses6 {
		fmt.Fprintf(b, "iface %s inet6 static\n\taddress %s\n", name, a)
	}
}

func bit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// making are the commands that create an interface and add members to it.
func making(link func(string), name string, l item.Link, all links) {
	make := func(what string) {
		link(fmt.Sprintf("pre-up ip link show dev %s >/dev/null 2>&1 || ip link add %s", name, what))
	}
	switch l.Kind {
	case "ethernet":
		if m := all.master(name); m != "" { // whichever of the two comes up first
			link(fmt.Sprintf("pre-up ip link show dev %s >/dev/null 2>&1 || ip link add %s", m, creation(m, all[m])))
			link(fmt.Sprintf("pre-up ip link set dev %s down && ip link set dev %s master %s", name, name, m))
			link(fmt.Sprintf("down ip link set dev %s nomaster", name))
		}
		if l.Functions > 0 {
			link(fmt.Sprintf("pre-up echo %d >/sys/class/net/%s/device/sriov_numvfs || true", l.Functions, name))
			for n := 0; l.Trusted && n < l.Functions; n++ {
				link(fmt.Sprintf("up ip link set dev %s vf %d trust on || true", name, n))
			}
		}
	default:
		make(creation(name, l))
		for _, m := range l.Members {
			if all[m].Kind == "ethernet" {
				continue
			}
			link(fmt.Sprintf("pre-up ip link set dev %s down && ip link set dev %s master %s && ip link set dev %s up || true", m, m, name, m))
		}
		if b := l.Bond; b != nil && b.Primary != "" {
			link(fmt.Sprintf("up echo %s >/sys/class/net/%s/bonding/primary || true", b.Primary, name))
		}
		link(fmt.Sprintf("post-down ip link del dev %s || true", name))
	}
	if l.MTU > 0 {
		link(fmt.Sprintf("pre-up ip link set dev %s mtu %d || true", name, l.MTU))
	}
	link(fmt.Sprintf("up ip link set dev %s up", name))
}

// creation are the arguments of ip link add for an interface.
func creation(name string, l item.Link) string {
	switch l.Kind {
	case "vlan":
		return fmt.Sprintf("link %s name %s type vlan id %d", l.Parent, name, l.VLAN)
	case "bridge":
		return fmt.Sprintf("name %s type bridge stp_state %s", name, bit(l.STP))
	}
	text := fmt.Sprintf("name %s type bond mode %s", name, l.Bond.Mode)
	for _, option := range [][2]string{
		{"miimon", number(l.Bond.Monitor)}, {"updelay", number(l.Bond.UpDelay)}, {"downdelay", number(l.Bond.DownDelay)},
		{"lacp_rate", l.Bond.LACPRate}, {"xmit_hash_policy", l.Bond.HashPolicy}, {"min_links", number(l.Bond.MinLinks)},
	} {
		if option[1] != "" {
			text += " " + option[0] + " " + option[1]
		}
	}
	return text
}

func named(link func(string), servers, search []string) {
	if len(servers) > 0 {
		link("dns-nameservers " + strings.Join(servers, " "))
	}
	if len(search) > 0 {
		link("dns-search " + strings.Join(search, " "))
	}
}

func routing(link func(string), name, family string, routes []item.Route) {
	for _, r := range routes {
		text := fmt.Sprintf("up ip %sroute replace %s", family, r.To)
		if r.Via != "" {
			text += " via " + r.Via
		}
		text += " dev " + name
		if r.Metric > 0 {
			text += " metric " + strconv.FormatInt(r.Metric, 10)
		}
		link(text + " proto static")
	}
}
