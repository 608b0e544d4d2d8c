package site

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
)

// SwitchedPort is a port by which a node's machine starts over the network, with what the design
// has it plugged into.
type SwitchedPort struct {
	// Interface is the node's, and MAC its address in lower case; empty where the design does not
	// have it.
	Interface string `json:"interface"`
	MAC       string `json:"mac,omitempty"`
	// Switch and Port are at the other end of its cable; empty where the design does not say.
	Switch string `json:"switch,omitempty"`
	Port   string `json:"port,omitempty"`
	// Boot is the network that it carries for the start, without a tag.
	Boot CarriedNetwork `json:"boot"`
	// Networks are those that it carries afterwards, in the order of their names.
	Networks []CarriedNetwork `json:"networks,omitempty"`
	// Heard is what was last heard at it by LLDP while the machine's system answered; nothing
	// where that is not known.
	Heard []item.Neighbour `json:"-"`
}

// CarriedNetwork is a network on a port.
type CarriedNetwork struct {
	Network string `json:"network"`
	// VLAN is its number; 0 where the design has none.
	VLAN   int  `json:"vlan,omitempty"`
	Tagged bool `json:"tagged,omitempty"`
}

// String is the port as people know it: "port Ethernet1/7 of switch leaf-1".
func (p SwitchedPort) String() string {
	switch {
	case p.Switch == "":
		return "the switch port of " + p.Interface
	case p.Port == "":
		return "the port of switch " + p.Switch + " for " + p.Interface
	}
	return fmt.Sprintf("port %s of switch %s", p.Port, p.Switch)
}

// PortsText names ports for people.
func PortsText(ports []SwitchedPort) string {
	var all []string
	for _, p := range ports {
		all = append(all, p.String())
	}
	return strings.Join(all, ", ")
}

// StartPorts are the ports by which a node can be told to start over the network, in the order of
// their names.
func (s *Site) StartPorts(n *Node) (ports []SwitchedPort) {
	for _, name := range slices.Sorted(maps.Keys(n.Interfaces)) {
		i := n.Interfaces[name]
		if net := s.Networks[i.Boot]; net == nil || net.Boot.DHCP == "" {
			continue
		}
		ports = append(ports, SwitchedPort{
			Interface: name, MAC: strings.ToLower(n.MACOf(name)), Switch: i.Switch, Port: i.Port,
			Boot: s.carried(i.Boot, false), Networks: s.networksOn(n, name),
		})
	}
	return ports
}

// PortsBack are ports that were prepared for starts of a node, with the networks that they have to
// carry from now on: what the design has for the port of the switch by now, whichever node is
// plugged into it. A port that the design no longer has keeps the networks that it had.
func (s *Site) PortsBack(n *Node, prepared []SwitchedPort) []SwitchedPort {
	ports := slices.Clone(prepared)
	for i, p := range ports {
		if at, port := s.pluggedInto(n, p); at != nil {
			ports[i].Networks = s.networksOn(at, port)
		}
	}
	return ports
}

// pluggedInto is the node and its port that the design has at the other end of a switch's port; nil
// where it has none. What the design does not name is known by the port of node n alone.
func (s *Site) pluggedInto(n *Node, p SwitchedPort) (at *Node, port string) {
	if p.Switch == "" || p.Port == "" {
		if i, is := n.Interfaces[p.Interface]; is && i.Switch == p.Switch && i.Port == p.Port {
			return n, p.Interface
		}
		return nil, ""
	}
	for _, other := range s.Nodes {
		for name, i := range other.Interfaces {
			if i.Switch == p.Switch && i.Port == p.Port {
				return other, name // no two have one: rule duplicate-port
			}
		}
	}
	return nil, ""
}

func (s *Site) carried(name string, tagged bool) CarriedNetwork {
	c := CarriedNetwork{Network: name, Tagged: tagged}
	if net := s.Networks[name]; net != nil {
		c.VLAN = net.VLAN
	}
	return c
}

// networksOn are the networks that a port of a node carries: those of the link that it is plugged
// into, or else those of the node's interfaces that it is part of.
func (s *Site) networksOn(n *Node, port string) (all []CarriedNetwork) {
	name, _ := n.LinkOf(port)
	if l := s.Links[name]; l != nil {
		for _, network := range l.Networks {
			all = append(all, s.carried(network, l.Trunk && network != l.Native))
		}
	} else {
		upon := n.upon(port)
		for _, name := range upon {
			for _, network := range slices.Concat(n.Interfaces[name].Networks, n.Bonds[name].Networks, n.Bridges[name].Networks) {
				all = append(all, s.carried(network, n.VLANs[name].Network != ""))
			}
			if v, is := n.VLANs[name]; is {
				all = append(all, s.carried(v.Network, true))
			}
		}
	}
	slices.SortFunc(all, func(a, b CarriedNetwork) int { return cmp.Compare(a.Network, b.Network) })
	return slices.CompactFunc(all, func(a, b CarriedNetwork) bool { return a.Network == b.Network })
}

// upon are a port, and the bonds, bridges and VLANs that are made of it.
func (n *Node) upon(port string) []string {
	all := []string{port}
	on := func(name string, parts ...string) {
		if !slices.Contains(all, name) && slices.ContainsFunc(parts, func(part string) bool { return slices.Contains(all, part) }) {
			all = append(all, name)
		}
	}
	for before := 0; before < len(all); {
		before = len(all)
		for _, name := range slices.Sorted(maps.Keys(n.Bonds)) {
			on(name, n.Bonds[name].Members...)
		}
		for _, name := range slices.Sorted(maps.Keys(n.Bridges)) {
			on(name, n.Bridges[name].Members...)
		}
		for _, name := range slices.Sorted(maps.Keys(n.VLANs)) {
			on(name, n.VLANs[name].Parent)
		}
	}
	return all
}

// PreparedPorts are ports that were prepared for a start over the network and that are not proven
// to be back on the networks of the design.
type PreparedPorts struct {
	Ports []SwitchedPort `json:"ports"`
	// Since is when they were prepared first, and Back when they were last said to be back; zero
	// before.
	Since time.Time `json:"since"`
	Back  time.Time `json:"back,omitzero"`
	// Tries counts how often they were said to be back.
	Tries int `json:"tries,omitempty"`
}
