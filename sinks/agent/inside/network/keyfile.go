package network

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
)

const keyfileFolder = "/etc/NetworkManager/system-connections/"

// renderKeyfiles writes NetworkManager's profiles.
func renderKeyfiles(files map[string]file, all links) {
	for _, name := range all.names() {
		linkFile(files, name, all[name])
		files[keyfileFolder+"slipway-"+name+".nmconnection"] = file{keyfile(name, all[name], all), 0o600}
	}
}

func keyfile(name string, l item.Link, all links) string {
	var b strings.Builder
	b.WriteString(header + "[connection]\n")
	line(&b, "id", "slipway-"+name)
	line(&b, "uuid", uuid(name))
	line(&b, "type", l.Kind)
	line(&b, "interface-name", name)
	line(&b, "autoconnect-priority", "100")
	master := all.master(name)
	if master != "" {
		line(&b, "master", master)
		line(&b, "slave-type", all[master].Kind)
	} else if l.Kind == "bond" || l.Kind == "bridge" {
		line(&b, "autoconnect-slaves", "1")
	}
	if l.MTU > 0 || l.Kind == "ethernet" {
		b.WriteString("\n[ethernet]\n")
		line(&b, "mac-address", strings.ToUpper(l.MAC))
		line(&b, "mtu", number(l.MTU))
	}
	switch l.Kind {
	case "ethernet":
		virtualFunctions(&b, l)
	case "bond":
		bond := l.Bond
		b.WriteString("\n[bond]\n")
		line(&b, "mode", bond.Mode)
		line(&b, "lacp_rate", bond.LACPRate)
		line(&b, "xmit_hash_policy", bond.HashPolicy)
		line(&b, "miimon", number(bond.Monitor))
		line(&b, "updelay", number(bond.UpDelay))
		line(&b, "downdelay", number(bond.DownDelay))
		line(&b, "min_links", number(bond.MinLinks))
		line(&b, "primary", bond.Primary)
	case "bridge":
		b.WriteString("\n[bridge]\n")
		line(&b, "stp", strconv.FormatBool(l.STP))
	case "vlan":
		b.WriteString("\n[vlan]\n")
		line(&b, "id", strconv.Itoa(l.VLAN))
		line(&b, "parent", l.Parent)
		line(&b, "flags", "1") // reorder headers, like the kernel's default
	}
	if master == "" {
		addresses4, addresses6 := families(l.Addresses, itself)
		routes4, routes6 := families(l.Routes, target)
		servers4, servers6 := families(l.Servers, itself)
		protocol(&b, "ipv4", method4(l, addresses4), addresses4, routes4, servers4, l.Search)
		protocol(&b, "ipv6", method6(l, addresses6), addresses6, routes6, servers6, l.Search)
	}
	return b.String()
}

func virtualFunctions(b *strings.Builder, l item.Link) {
	if l.Functions == 0 {
		return
	}
	fmt.Fprintf(b, "\n[sriov]\ntotal-vfs=%d\n", l.Functions)
	if l.Trusted {
		for n := range l.Functions {
			fmt.Fprintf(b, "vf.%d=trust=true\n", n)
		}
	}
}

func method4(l item.Link, addresses []string) string {
	switch {
	case l.DHCP4:
		return "auto"
	case len(addresses) > 0:
		return "manual"
	}
	return "disabled"
}

func method6(l item.Link, addresses []string) string {
	switch {
	case l.SLAAC:
		return "auto"
	case l.DHCP6:
		return "dhcp"
	case len(addresses) > 0:
		return "manual"
	}
	return "link-local"
}

func protocol(b *strings.Builder, family, method string, addresses []string, routes []item.Route, servers, search []string) {
	fmt.Fprintf(b, "\n[%s]\n", family)
	line(b, "method", method)
	for n, a := range addresses {
		line(b, fmt.Sprintf("address%d", n+1), a)
	}
	for n, r := range routes {
		via, metric := r.Via, ""
		if via == "" && family == "ipv4" {
			via = "0.0.0.0"
		} else if via == "" {
			via = "::"
		}
		if r.Metric > 0 {
			metric = "," + strconv.FormatInt(r.Metric, 10)
		}
		line(b, fmt.Sprintf("route%d", n+1), r.To+","+via+metric)
	}
	if len(servers) > 0 {
		line(b, "dns", strings.Join(servers, ";")+";")
	}
	if len(search) > 0 && method != "disabled" && method != "link-local" {
		line(b, "dns-search", strings.Join(search, ";")+";")
	}
	line(b, "may-fail", "true")
}
