package rule

import (
	"fmt"

	"github.com/slipway-gitops/slipway/engine/site"
)

var switches = []Rule{
	{
		Code: "unknown-switch", Severity: site.SeverityError, Firm: true,
		What: "The switch that an interface is plugged into is one of the node's rack.", Why: noMeaning,
		Wrong: `nodes: "n1": {interfaces: eno9: switch: "tor2", addresses: mgmt: _ @unset()}`,
		Right: `nodes: "n1": {interfaces: eno9: switch: "tor1", addresses: mgmt: _ @unset()}`,
		Node: func(s *site.Site, n *site.Node) []site.Finding {
			return eachPlug(s, n, func(path string, i site.Interface, r *site.Rack) []site.Finding {
				if _, ok := r.Switches[i.Switch]; ok || i.Switch == "" {
					return nil
				}
				return []site.Finding{wrong(path+".switch",
					fmt.Sprintf("the rack %s has no switch %q%s", n.Rack, i.Switch, DidYouMean(i.Switch, keys(r.Switches))),
					fmt.Sprintf("Use the name of a switch of the rack, or declare it under racks.%s.switches.", n.Rack))}
			})
		},
	},
	{
		Code: "unknown-port", Severity: site.SeverityError, Firm: true,
		What: "The port that an interface is plugged into is one of its switch, if the switch's ports are listed.", Why: noMeaning,
		Wrong: `nodes: "n1": {interfaces: eno9: {switch: "tor1", port: "1/11"}, addresses: mgmt: _ @unset()}`,
		Right: `nodes: "n1": {interfaces: eno9: {switch: "tor1", port: "1/1"}, addresses: mgmt: _ @unset()}`,
		Node:  unknownPort,
	},
	{
		Code: "duplicate-port", Severity: site.SeverityError,
		What: "No two interfaces are plugged into one port.",
		Why:  "One of them is plugged in elsewhere, so its node comes up in networks that are not its own, or in none.",
		Wrong: `nodes: "n1": {interfaces: eno9: {switch: "tor1", port: "1/1"}, addresses: mgmt: _ @unset()}
nodes: "n2": {interfaces: eno9: {switch: "tor1", port: "1/1"}, addresses: mgmt: _ @unset()}`,
		Right: `nodes: "n1": {interfaces: eno9: {switch: "tor1", port: "1/1"}, addresses: mgmt: _ @unset()}
nodes: "n3": {interfaces: eno9: {switch: "tor1", port: "1/1"}, addresses: mgmt: _ @unset()}
racks: r2: switches: tor1: {}`,
		Facts: portFacts, Fleet: twice("the port"),
	},
	{
		Code: "port-link", Severity: site.SeverityError,
		What: "An interface and the switch's port that it is plugged into have the same link.",
		Why:  "Two ends with different links differ in tags, largest packet or bonding, and the node cannot be reached.",
		Wrong: `links: access: networks: ["bmc"]
nodes: "n1": {interfaces: eno9: {link: "access", switch: "tor1", port: "1/1"}, addresses: mgmt: _ @unset()}`,
		Right: `links: access: networks: ["bmc"]
racks: r1: switches: tor1: ports: "1/2": link: "access"
nodes: "n1": {interfaces: eno9: {link: "access", switch: "tor1", port: "1/2"}, addresses: mgmt: _ @unset()}`,
		Node: portLink,
	},
	{
		Code: "switch-address", Severity: site.SeverityWarning,
		What:  "The address of a switch is its own, and in one of the networks.",
		Why:   "It may be mistyped: then the switch cannot be managed at this address, or is mistaken for another one.",
		Wrong: `racks: r1: switches: tor1: address: "10.90.0.2"`,
		Right: `racks: r1: switches: tor1: address: "10.9.0.2"`,
		Site:  switchAddress,
	},
}

// port is a port of a switch, with its link.
type port struct{ path, link string }

// ports returns the ports of all switches.
func ports(s *site.Site) []port {
	var all []port
	eachSwitch(s, func(path string, sw site.Switch) {
		for _, name := range keys(sw.Ports) {
			all = append(all, port{path + ".ports." + name, sw.Ports[name].Link})
		}
	})
	return all
}

func eachSwitch(s *site.Site, visit func(path string, sw site.Switch)) {
	for _, rack := range keys(s.Racks) {
		for _, name := range keys(s.Racks[rack].Switches) {
			visit("racks."+rack+".switches."+name, s.Racks[rack].Switches[name])
		}
	}
}

// eachPlug checks every interface of a node whose rack is known.
func eachPlug(s *site.Site, n *site.Node, check func(path string, i site.Interface, r *site.Rack) []site.Finding) []site.Finding {
	var found []site.Finding
	rack := s.Racks[n.Rack]
	if rack == nil {
		return nil
	}
	for _, name := range keys(n.Interfaces) {
		found = append(found, check("interfaces."+name, n.Interfaces[name], rack)...)
	}
	return found
}

func unknownPort(s *site.Site, n *site.Node) []site.Finding {
	return eachPlug(s, n, func(path string, i site.Interface, r *site.Rack) []site.Finding {
		if i.Port != "" && !states(n, path+".switch") {
			return []site.Finding{wrong(path+".port", fmt.Sprintf("the port %q is of no switch", i.Port), "Set `switch` too.")}
		}
		ports := r.Switches[i.Switch].Ports
		if _, ok := ports[i.Port]; ok || i.Port == "" || len(ports) == 0 {
			return nil
		}
		return []site.Finding{wrong(path+".port",
			fmt.Sprintf("the switch %s has no port %q%s", i.Switch, i.Port, DidYouMean(i.Port, keys(ports))),
			fmt.Sprintf("Use the name of a port of the switch, or declare it under racks.%s.switches.%s.ports.", n.Rack, i.Switch))}
	})
}

func portFacts(_ *site.Site, n *site.Node) []Fact {
	var facts []Fact
	for _, name := range keys(n.Interfaces) {
		if i := n.Interfaces[name]; n.Rack != "" && i.Switch != "" && i.Port != "" {
			facts = append(facts, Fact{Key: n.Rack + "/" + i.Switch + "/" + i.Port, Path: "interfaces." + name + ".port"})
		}
	}
	return facts
}

func portLink(s *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	for _, name := range keys(n.Interfaces) {
		rack, i := s.Racks[n.Rack], n.Interfaces[name]
		if rack == nil {
			break
		}
		at, mine := rack.Switches[i.Switch].Ports[i.Port].Link, pluggedInto(n, name)
		if at == "" || mine == "" || at == mine {
			continue
		}
		found = append(found, also(s, "racks."+n.Rack+".switches."+i.Switch+".ports."+i.Port, wrong("interfaces."+name+".port",
			fmt.Sprintf("the port %s of %s is set up for the link %s, and %s for %s", i.Port, i.Switch, at, name, mine),
			"Correct the port, or the link of one of them.")))
	}
	return found
}

func switchAddress(s *site.Site) []site.Finding {
	var found []site.Finding
	first := map[string]string{}
	eachSwitch(s, func(path string, sw site.Switch) {
		a := addrOf(sw.Address)
		if !a.IsValid() {
			return
		}
		if before, twice := first[a.String()]; twice {
			found = append(found, also(s, before, wrong(path+".address", fmt.Sprintf("the address %s is that of another switch too", a), "Correct the one that is wrong.")))
		} else if len(s.Networks) > 0 && len(networksOf(s, a)) == 0 {
			found = append(found, wrong(path+".address", fmt.Sprintf("the address %s is in none of the networks", a), "Correct it, or describe the network that it is in."))
		}
		first[a.String()] = path + ".address"
	})
	return found
}
