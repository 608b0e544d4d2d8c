package rule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// under returns the members of a node's bridge, or the parent of a VLAN.
func under(n *site.Node, name string) []string {
	if b, ok := n.Bridges[name]; ok {
		return b.Members
	}
	if v, ok := n.VLANs[name]; ok && v.Parent != "" {
		return []string{v.Parent}
	}
	return nil
}

// portsUnder returns the interfaces and bonds below a name of a node, in the order
// of members, without duplicates.
func portsUnder(n *site.Node, name string) []string {
	var all []string
	seen := map[string]bool{}
	var visit func(string)
	visit = func(name string) {
		if seen[name] {
			return
		}
		seen[name] = true
		if isPort(n, name) {
			all = append(all, name)
			return
		}
		for _, part := range under(n, name) {
			visit(part)
		}
	}
	visit(name)
	return all
}

// linkUnder returns the link below a name of a node; empty if there is none or
// several.
func linkUnder(n *site.Node, name string) string {
	if parent := n.VLANs[name].Parent; isPort(n, parent) { // as most are
		return linkOfPort(n, parent)
	}
	link := ""
	for _, port := range portsUnder(n, name) {
		switch own := linkOfPort(n, port); {
		case own == "" || own == link:
		case link != "":
			return ""
		default:
			link = own
		}
	}
	return link
}

func linkOfPort(n *site.Node, port string) string {
	return cmp.Or(n.Bonds[port].Link, n.Interfaces[port].Link)
}

// interfaceCycle reports each cycle of bridges and VLANs, at the first one that it
// finds.
func interfaceCycle(_ *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	told := map[string]bool{}
	for _, name := range slices.Concat(keys(n.Bridges), keys(n.VLANs)) {
		circle := circleUnder(n, name)
		if circle == nil || told[name] {
			continue
		}
		for _, part := range circle {
			told[part] = true
		}
		path := "bridges." + name + ".members"
		if _, isBridge := n.Bridges[name]; !isBridge {
			path = "vlans." + name + ".parent"
		}
		found = append(found, wrong(path, fmt.Sprintf("%s is made of itself: %s", name, strings.Join(circle, " of ")),
			"Take one of them out."))
	}
	return found
}

// circleUnder returns the path from a bridge or VLAN of a node through its parts
// back to itself, or nil.
func circleUnder(n *site.Node, name string) []string {
	seen := map[string]bool{}
	var way func(at string) []string
	way = func(at string) []string {
		for _, part := range under(n, at) {
			if part == name {
				return []string{at, name}
			}
			if seen[part] || isPort(n, part) {
				continue
			}
			seen[part] = true
			if rest := way(part); rest != nil {
				return append([]string{at}, rest...)
			}
		}
		return nil
	}
	if isPort(n, name) {
		return nil
	}
	return way(name)
}
