package item

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Fields are what is to be true of an interface.
func (l Link) Fields() map[string]string {
	fields := map[string]string{"kind": l.Kind}
	set(fields, "mac", l.MAC)
	set(fields, "mtu", number(l.MTU))
	set(fields, "addresses", List(l.Addresses))
	set(fields, "dhcp", l.dynamic())
	set(fields, "routes", l.routes())
	set(fields, "dns", strings.Join(slices.Concat(l.Servers, l.Search), ", "))
	set(fields, "members", List(l.Members))
	if l.Bond != nil {
		set(fields, "bond", l.Bond.text())
	}
	if l.Kind == "bridge" {
		fields["stp"] = strconv.FormatBool(l.STP)
	}
	set(fields, "parent", l.Parent)
	set(fields, "vlan", number(l.VLAN))
	set(fields, "functions", number(l.Functions))
	if l.Trusted {
		fields["trusted"] = "true"
	}
	return fields
}

// dynamic are the ways in which addresses come by themselves.
func (l Link) dynamic() string {
	var ways []string
	for _, way := range []struct {
		name string
		on   bool
	}{{"dhcp4", l.DHCP4}, {"dhcp6", l.DHCP6}, {"slaac", l.SLAAC}} {
		if way.on {
			ways = append(ways, way.name)
		}
	}
	return strings.Join(ways, ", ")
}

func (l Link) routes() string {
	var all []string
	for _, r := range l.Routes {
		text := r.To + " via " + r.Via
		if r.Metric > 0 {
			text += fmt.Sprintf(" metric %d", r.Metric)
		}
		all = append(all, text)
	}
	return List(all)
}

func (b Bond) text() string {
	var all []string
	for _, option := range [][2]string{
		{"mode", b.Mode}, {"lacp rate", b.LACPRate}, {"hash policy", b.HashPolicy}, {"monitor", number(b.Monitor)},
		{"up delay", number(b.UpDelay)}, {"down delay", number(b.DownDelay)}, {"min links", number(b.MinLinks)}, {"primary", b.Primary},
	} {
		if option[1] != "" {
			all = append(all, option[0]+" "+option[1])
		}
	}
	return strings.Join(all, ", ")
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
