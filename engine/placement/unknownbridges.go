package placement

import (
	"fmt"
	"strings"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// unknownBridges returns a note for each bridge of a hypervisor's node of which the design does not say whether it carries
// a network that a machine has over it.
func (f *fleet) unknownBridges() []site.Finding {
	type unknown struct {
		why, fix string
		machines []string
	}
	at := map[*site.Node]map[string]*unknown{}
	for _, g := range f.guests {
		if g.node == nil || g.at == nil || g.leaving || g.at.metal == nil {
			continue
		}
		n := g.at.metal
		for _, p := range g.plugs.all {
			bridge, there := n.Bridges[p.bridge]
			if !there {
				continue // of which unfit tells
			}
			carries, known := f.carriedBy(n, bridge)
			networks := f.uncarried(p, carries)
			if known || len(networks) == 0 {
				continue
			}
			if at[n] == nil {
				at[n] = map[string]*unknown{}
			}
			if at[n][p.bridge] == nil {
				why, fix := f.unknownOf(n, p.bridge)
				at[n][p.bridge] = &unknown{why: why, fix: fix}
			}
			u := at[n][p.bridge]
			u.machines = append(u.machines, fmt.Sprintf("%s (%s in %s)", g.name, p.name, strings.Join(networks, ", ")))
		}
	}
	var all []site.Finding
	for n, bridges := range at {
		for name, u := range bridges {
			x := site.Finding{Code: "bridge-unknown", Severity: site.SeverityNote, Node: n.Name, Path: "bridges." + name, Why: whyUnknown, Fix: u.fix,
				Message: fmt.Sprintf("the design does not say which networks the bridge %s carries, because %s; these machines are plugged into it: %s", name, u.why, say.Some(u.machines, 3))}
			o := n.Origins.Of(x.Path)
			if o.IsZero() {
				o = n.Place
			}
			all = append(all, located(x, o))
		}
	}
	return all
}

// uncarried returns the networks of an interface that are not known to be carried, with or without a tag as they need it.
func (f *fleet) uncarried(p plug, carries carried) (networks []string) {
	for _, network := range p.untagged {
		if f.isOnWire(network) && !carries.untagged[network] {
			networks = append(networks, network)
		}
	}
	for _, network := range p.tagged {
		if f.site.Networks[network] != nil && !carries.tagged[network] {
			networks = append(networks, network+" with a tag")
		}
	}
	return networks
}

// unknownOf says why carriedBy does not know all networks of a node's bridge, and what to write for it to know them.
func (f *fleet) unknownOf(n *site.Node, name string) (why, fix string) {
	b := n.Bridges[name]
	if len(b.Members) == 0 {
		return "it has neither members nor networks", fmt.Sprintf("Write bridges.%s.networks at the node %s.", name, n.Name)
	}
	for _, member := range b.Members {
		link, list := "", ""
		switch {
		case has(n.VLANs, member):
			continue
		case has(n.Bonds, member):
			link, list = n.Bonds[member].Link, "bonds"
		case has(n.Interfaces, member):
			link, list = n.Interfaces[member].Link, "interfaces"
		default:
			return fmt.Sprintf("its member %s is not in the design", member), fmt.Sprintf("Declare %s in interfaces, bonds or vlans of the node %s.", member, n.Name)
		}
		if f.site.Links[link] == nil {
			return fmt.Sprintf("its member %s has no link", member), fmt.Sprintf("Write %s.%s.link at the node %s.", list, member, n.Name)
		}
	}
	return "", ""
}
