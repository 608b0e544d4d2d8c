package network

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
)

const networkdFolder = "/etc/systemd/network/"

// renderNetworkd writes the files of systemd-networkd: one per interface, and one more per interface that it
// creates.
func renderNetworkd(files map[string]file, all links) {
	for _, name := range all.names() {
		l := all[name]
		linkFile(files, name, l)
		if l.Kind != "ethernet" {
			files[networkdFolder+"10-slipway-"+name+".netdev"] = file{netdev(name, l), 0o644}
		}
		files[networkdFolder+"10-slipway-"+name+".network"] = file{network(name, l, all), 0o644}
	}
}

func netdev(name string, l item.Link) string {
	var b strings.Builder
	b.WriteString(header + "[NetDev]\n")
	line(&b, "Name", name)
	line(&b, "Kind", l.Kind)
	line(&b, "MTUBytes", number(l.MTU))
	switch l.Kind {
	case "bond":
		bond := l.Bond
		b.WriteString("\n[Bond]\n")
		line(&b, "Mode", bond.Mode)
		line(&b, "LACPTransmitRate", bond.LACPRate)
		line(&b, "TransmitHashPolicy", bond.HashPolicy)
		line(&b, "MIIMonitorSec", milliseconds(bond.Monitor))
		line(&b, "UpDelaySec", milliseconds(bond.UpDelay))
		line(&b, "DownDelaySec", milliseconds(bond.DownDelay))
		line(&b, "MinLinks", number(bond.MinLinks))
	case "bridge":
		b.WriteString("\n[Bridge]\n")
		line(&b, "STP", yes(l.STP))
	case "vlan":
		b.WriteString("\n[VLAN]\n")
		line(&b, "Id", strconv.Itoa(l.VLAN))
	}
	return b.String()
}

func milliseconds(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n) + "ms"
}

func network(name string, l item.Link, all links) string {
	var b strings.Builder
	b.WriteString(header + "[Match]\n")
	line(&b, "Name", name)
	if l.MTU > 0 {
		b.WriteString("\n[Link]\n")
		line(&b, "MTUBytes", number(l.MTU))
	}
	b.WriteString("\n[Network]\n")
	master := all.master(name)
	switch {
	case master != "" && all[master].Kind == "bond":
		line(&b, "Bond", master)
		if bond := all[master].Bond; bond.Primary == name {
			line(&b, "PrimarySlave", "yes")
		}
	case master != "":
		line(&b, "Bridge", master)
	}
	for _, v := range all.vlans(name) {
		line(&b, "VLAN", v)
	}
	if master != "" {
		line(&b, "LinkLocalAddressing", "no")
		line(&b, "LLDP", "yes")
	} else {
		addressing(&b, l)
	}
	if l.Trusted {
		for n := range l.Functions {
			fmt.Fprintf(&b, "\n[SR-IOV]\nVirtualFunction=%d\nTrust=yes\n", n)
		}
	}
	return b.String()
}

func addressing(b *strings.Builder, l item.Link) {
	dhcp := map[[2]bool]string{{true, true}: "yes", {true, false}: "ipv4", {false, true}: "ipv6", {false, false}: "no"}
	line(b, "DHCP", dhcp[[2]bool{l.DHCP4, l.DHCP6}])
	line(b, "IPv6AcceptRA", yes(l.SLAAC || l.DHCP6))
	line(b, "LLDP", "yes")
	if l.Kind == "bridge" { // so that it has its addresses before a guest is on it
		line(b, "ConfigureWithoutCarrier", "yes")
	}
	for _, a := range l.Addresses {
		line(b, "Address", a)
	}
	for _, s := range l.Servers {
		line(b, "DNS", s)
	}
	line(b, "Domains", strings.Join(l.Search, " "))
	if l.DHCP6 && !l.SLAAC {
		b.WriteString("\n[IPv6AcceptRA]\nUseAutonomousPrefix=no\n")
	}
	for _, r := range l.Routes {
		b.WriteString("\n[Route]\n")
		line(b, "Destination", r.To)
		line(b, "Gateway", r.Via)
		if r.Metric > 0 {
			line(b, "Metric", strconv.FormatInt(r.Metric, 10))
		}
	}
}
