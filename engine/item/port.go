package item

import (
	"slices"
	"time"
)

// LinkProbes says what a look should find out about a system's network links.
type LinkProbes struct {
	// Ports are the interfaces that the design names. Hardware ports are reported too.
	Ports []string `json:"ports,omitempty"`
	// Targets are other machines on the system's own networks that should answer.
	Targets []Target `json:"targets,omitempty"`
	// Listen is the maximum number of seconds to listen on designed ports whose neighbour is
	// unknown; 0 means not at all.
	Listen int `json:"listen,omitempty"`
}

// MaxListen is the longest Listen, in seconds: neighbours announce themselves every 30 s (IEEE
// 802.1AB, msgTxInterval).
const MaxListen = 35

// Target is a machine in a network of the system.
type Target struct {
	// Network is the network in the design. Node is the node with the address; empty for the gateway.
	Network string `json:"network"`
	Node    string `json:"node,omitempty"`
	Address string `json:"address"`
	// MTU is the designed packet size there, in bytes. If the design has none it is 0, and no
	// packet of that size is sent.
	MTU int `json:"mtu,omitempty"`
}

// LinksSeen is what was seen of a system's links.
type LinksSeen struct {
	// BootID is the boot in which the links were seen.
	BootID  string    `json:"bootID,omitempty"`
	Ports   []Port    `json:"ports,omitempty"`
	Reached []Reached `json:"reached,omitempty"`
}

// Port is one physical port as the kernel shows it.
type Port struct {
	Name string `json:"name"`
	// MAC is the port's own address, even while a bond gives it another one.
	MAC string `json:"mac,omitempty"`
	// PCI is the place of its adapter on the PCI bus; empty if it is not on one.
	PCI string `json:"pci,omitempty"`
	// Off means that the system does not use the port. Then its cable is unknown.
	Off bool `json:"off,omitempty"`
	// Carrier is "up" or "down"; empty if unknown.
	Carrier string `json:"carrier,omitempty"`
	// Changes is how often the carrier came or went since boot.
	Changes int64 `json:"changes,omitempty"`
	// Speed is in Mb/s, 0 if the port does not say. Duplex is "full" or "half".
	Speed  int    `json:"speed,omitempty"`
	Duplex string `json:"duplex,omitempty"`
	MTU    int    `json:"mtu,omitempty"`
	// Master is the bond or bridge that the port belongs to.
	Master string `json:"master,omitempty"`
	// Neighbours are what announced itself at the other end; empty if none was heard.
	Neighbours []Neighbour `json:"neighbours,omitempty"`
}

// MaxNeighbours is how many neighbours are kept per port.
const MaxNeighbours = 4

// Neighbour is what a port at the other end announces by LLDP (IEEE 802.1AB).
type Neighbour struct {
	Chassis         string `json:"chassis,omitempty"`
	System          string `json:"system,omitempty"`
	Port            string `json:"port,omitempty"`
	PortDescription string `json:"portDescription,omitempty"`
	// By is who heard it: "lldpd", "systemd-networkd" or "slipway".
	By string `json:"by,omitempty"`
	// Heard is when a look reported the neighbour, by the daemon's clock. lldpd and
	// systemd-networkd forget neighbours that have been silent for long.
	Heard time.Time `json:"heard,omitzero"`
}

// Reached is whether a target answered.
type Reached struct {
	Target
	// Answers is Answered or Silent. It is empty if the target was not tried or nobody knows; then
	// Why says why.
	Answers string `json:"answers,omitempty"`
	// Sized says in the same terms whether the target also answered a packet of Target.MTU bytes.
	Sized string `json:"sized,omitempty"`
	Why   string `json:"why,omitempty"`
}

// The values of Answers and Sized.
const (
	Answered = "answers"
	Silent   = "silent"
)

// Port returns the port of that name; false if it does not exist.
func (s *LinksSeen) Port(name string) (Port, bool) { return s.PortAt(name, "", "") }

// PortAt returns the port with a MAC address or at a place on the PCI bus. It uses the name if
// neither is given or the port does not report it. It is false if there is no such port.
func (s *LinksSeen) PortAt(name, mac, pci string) (Port, bool) {
	if s == nil {
		return Port{}, false
	}
	i := slices.IndexFunc(s.Ports, func(p Port) bool {
		switch {
		case mac != "" && p.MAC != "":
			return p.MAC == mac
		case pci != "" && p.PCI != "":
			return p.PCI == pci
		}
		return p.Name == name
	})
	if i < 0 {
		return Port{}, false
	}
	return s.Ports[i], true
}

// sameNeighbour is how long a neighbour keeps the time at which it was first heard, so that not
// every frame is a change.
const sameNeighbour = time.Hour

// After returns s with the neighbours that earlier looks heard. An earlier neighbour counts as long
// as the port keeps its carrier without a break. After changes neither s nor earlier.
func (s *LinksSeen) After(earlier *LinksSeen) *LinksSeen {
	if s == nil || earlier == nil {
		return s
	}
	both := *s
	both.Ports = slices.Clone(s.Ports)
	for i, p := range both.Ports {
		was, known := earlier.Port(p.Name)
		switch {
		case !known || len(was.Neighbours) == 0:
		case len(p.Neighbours) > 0:
			both.Ports[i].Neighbours = steady(p.Neighbours, was.Neighbours)
		case s.BootID != "" && s.BootID == earlier.BootID && p.Carrier == "up" && p.MAC == was.MAC && p.Changes == was.Changes:
			both.Ports[i].Neighbours = was.Neighbours
		}
	}
	if both.Reached == nil {
		both.Reached = earlier.Reached
	}
	return &both
}

// steady returns neighbours with their earlier times of hearing, if these are recent.
func steady(all, earlier []Neighbour) []Neighbour {
	all = slices.Clone(all)
	for i, n := range all {
		for _, was := range earlier {
			gap := n.Heard.Sub(was.Heard)
			n.Heard = was.Heard
			if n == was && gap >= 0 && gap < sameNeighbour {
				all[i] = was
			}
		}
	}
	return all
}
