package item

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Fields returns the fields of an interface's item. Empty fields are left out:
// an interface without addresses has no field "addresses".
func (l Link) Fields() map[string]string {
	fields := map[string]string{}
	for name, text := range map[string]string{
		"kind":      l.Kind,
		"mac":       strings.ToLower(l.MAC),
		"pci":       strings.ToLower(l.PCI),
		"mtu":       number(l.MTU),
		"addresses": List(l.Addresses),
		"shared":    List(l.Shared),
		"dhcp":      l.dhcp(),
		"routes":    routesText(l.Routes),
		"dns":       DNSText(l.Servers, l.Search),
		"members":   List(l.Members),
		"bond":      l.Bond.Text(),
		"stp":       on(l.STP),
		"slaac":     on(l.SLAAC),
		"functions": functionsText(l.Functions, l.Trusted),
		"vlan":      vlanText(l.VLAN, l.Parent),
	} {
		if text != "" {
			fields[name] = text
		}
	}
	return fields
}

func (l Link) dhcp() string {
	var families []string
	if l.DHCP4 {
		families = append(families, "4")
	}
	if l.DHCP6 {
		families = append(families, "6")
	}
	return strings.Join(families, ", ")
}

// routesText is the canonical text of routes: "0.0.0.0/0 via 10.1.0.1 metric 100".
func routesText(routes []Route) string {
	var all []string
	for _, r := range routes {
		text := r.To
		if r.Via != "" {
			text += " via " + r.Via
		}
		if r.Metric != 0 {
			text += " metric " + strconv.FormatInt(r.Metric, 10)
		}
		all = append(all, text)
	}
	return List(all)
}

// DNSText is the canonical text of name servers and search domains: "10.1.0.2,
// 10.1.0.3; example.org". It keeps their order, which matters.
func DNSText(servers, search []string) string {
	text := strings.Join(servers, ", ")
	if len(search) > 0 {
		text += "; " + strings.Join(search, ", ")
	}
	return text
}

// vlanText is the canonical text of a VLAN: "5 on bond0".
func vlanText(id int, parent string) string {
	if parent == "" {
		return ""
	}
	return fmt.Sprintf("%d on %s", id, parent)
}

// functionsText is the canonical text of virtual functions: "4, trusted".
func functionsText(count int, trusted bool) string {
	if count == 0 {
		return ""
	}
	if trusted {
		return fmt.Sprintf("%d, trusted", count)
	}
	return strconv.Itoa(count)
}

// Text is the canonical text of a bond: "802.3ad, lacp fast, layer3+4, miimon
// 100ms, min 1, primary eth0". Unset values are left out.
func (b *Bond) Text() string {
	if b == nil {
		return ""
	}
	parts := []string{
		b.Mode, named("lacp ", b.LACPRate), b.HashPolicy,
		milliseconds("miimon", b.Monitor), milliseconds("up", b.UpDelay), milliseconds("down", b.DownDelay),
		named("min ", number(b.MinLinks)), named("primary ", b.Primary),
	}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), ", ")
}

func named(name, value string) string {
	if value == "" {
		return ""
	}
	return name + value
}

func milliseconds(name string, n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%s %dms", name, n)
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func on(b bool) string {
	if b {
		return "on"
	}
	return ""
}
