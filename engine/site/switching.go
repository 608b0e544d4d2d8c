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

// SwitchedPort is a port over which a node's machine boots from the network, with its designed
// cabling.
type SwitchedPort struct {
	// Interface is the node's interface, MAC its address in lower case; empty if the design does
	// not have it.
	Interface string `json:"interface"`
	MAC       string `json:"mac,omitempty"`
	// Switch and Port are the other end of its cable; empty if the design does not say.
	Switch string `json:"switch,omitempty"`
	Port   string `json:"port,omitempty"`
	// Boot is the network that the port carries, untagged, for the network boot.
	Boot CarriedNetwork `json:"boot"`
	// Networks are the networks that the port carries afterwards, sorted by name.
	Networks []CarriedNetwork `json:"networks,omitempty"`
	// Heard is what was last heard at the port by LLDP while the machine's system answered; empty
	// if unknown.
	Heard []item.Neighbour `json:"-"`
}

// CarriedNetwork is a network on a port.
type CarriedNetwork struct {
	Network string `json:"network"`
	// VLAN is the VLAN ID; 0 if the design has none.
	VLAN   int  `json:"vlan,omitempty"`
	Tagged bool `json:"tagged,omitempty"`
}

// String names the port for people: "port Ethernet1/7 of switch leaf-1".
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

// StartPorts returns the ports over which a node can boot from the network, sorted by name.
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

// PortsBack returns the ports that were prepared for a node's network boots, with the networks that
// they have to carry now. These come from the present design of the switch port, whichever node is
// plugged in. A port that left the design keeps its earlier networks.
func (s *Site) PortsBack(n *Node, prepared []SwitchedPort) []SwitchedPort {
	ports := slices.Clone(prepared)
	for i, p := range ports {
		if at, port := s.pluggedInto(n, p); at != nil {
			ports[i].Networks = s.networksOn(at, port)
		}
	}
	return ports
}

// pluggedInto returns the node and its port that the design has at the other end of a switch port;
// nil if it has none. A port without a name in the design is known only through node n.
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
				return other, name // rule duplicate-port makes it unique
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

// networksOn returns the networks that a port of a node carries: those of the link that it is
// plugged into, or else those of the interfaces that use the port.
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

// upon returns a port, and the bonds, bridges and VLANs that use it.
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

// PreparedPorts are ports that were prepared for a network boot and are not yet proven to be back
// on the networks of the design.
type PreparedPorts struct {
	Ports []SwitchedPort `json:"ports"`
	// Since is when they were first prepared. Back is when they were last reported back; zero
	// before.
	Since time.Time `json:"since"`
	Back  time.Time `json:"back,omitzero"`
	// Tries counts how often they were reported back.
	Tries int `json:"tries,omitempty"`
}
