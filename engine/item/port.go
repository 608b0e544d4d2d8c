package item

import (
	"slices"
	"time"
)

// LinkProbes is what a look is to find out of a system's network links.
type LinkProbes struct {
	// Ports are the interfaces that the design names. Beside them the ports that are
	// hardware are told of.
	Ports []string `json:"ports,omitempty"`
	// Targets are other machines on the system's own networks that are to answer.
	Targets []Target `json:"targets,omitempty"`
	// Listen is for how many seconds at most the ports of the design whose neighbour is
	// not known are listened to; 0 for not at all.
	Listen int `json:"listen,omitempty"`
}

// MaxListen is the longest Listen, in seconds: neighbours tell of themselves every 30 s
// (IEEE 802.1AB, msgTxInterval).
const MaxListen = 35

// Target is a machine in a network of the system.
type Target struct {
	// Network is that of the design. Node is whose address it is; empty for the gateway.
	Network string `json:"network"`
	Node    string `json:"node,omitempty"`
	Address string `json:"address"`
	// MTU is the designed size of packets there, in bytes; 0 where the design names
	// none, and none of that size is sent.
	MTU int `json:"mtu,omitempty"`
}

// LinksSeen is what was seen of a system's links.
type LinksSeen struct {
	// BootID is the boot in which it was seen.
	BootID  string    `json:"bootID,omitempty"`
	Ports   []Port    `json:"ports,omitempty"`
	Reached []Reached `json:"reached,omitempty"`
}

// Port is one physical port as the kernel has it.
type Port struct {
	Name string `json:"name"`
	// MAC is its own address, also while a bond lends it another one.
	MAC string `json:"mac,omitempty"`
	// PCI is where its adapter is on the PCI bus; empty where it is on none.
	PCI string `json:"pci,omitempty"`
	// Off says that the system does not use it: then nothing is known of its cable.
	Off bool `json:"off,omitempty"`
	// Carrier is "up" or "down"; empty where that is not known.
	Carrier string `json:"carrier,omitempty"`
	// Changes is how often the carrier came or went since the boot.
	Changes int64 `json:"changes,omitempty"`
	// Speed is in Mb/s, 0 where the port does not say; Duplex is "full" or "half".
	Speed  int    `json:"speed,omitempty"`
	Duplex string `json:"duplex,omitempty"`
	MTU    int    `json:"mtu,omitempty"`
	// Master is the bond or bridge that it is in.
	Master string `json:"master,omitempty"`
	// Neighbours are what tells of itself at the other end; none where none was heard.
	Neighbours []Neighbour `json:"neighbours,omitempty"`
}

// MaxNeighbours is how many neighbours of a port are kept.
const MaxNeighbours = 4

// Neighbour is what a port at the other end tells of itself by LLDP (IEEE 802.1AB).
type Neighbour struct {
	Chassis         string `json:"chassis,omitempty"`
	System          string `json:"system,omitempty"`
	Port            string `json:"port,omitempty"`
	PortDescription string `json:"portDescription,omitempty"`
	// By is who heard it: "lldpd", "systemd-networkd" or "slipway".
	By string `json:"by,omitempty"`
	// Heard is when a look was told of it, by the clock of the daemon. lldpd and
	// systemd-networkd forget what they have not heard for long.
	Heard time.Time `json:"heard,omitzero"`
}

// Reached is whether a target answered.
type Reached struct {
	Target
	// Answers is Answered or Silent; empty where it was not tried or nobody knows, and
	// Why says why.
	Answers string `json:"answers,omitempty"`
	// Sized is whether it answered a packet of Target.MTU bytes too, in the same terms.
	Sized string `json:"sized,omitempty"`
	Why   string `json:"why,omitempty"`
}

// What a target does.
const (
	Answered = "answers"
	Silent   = "silent"
)

// Port is the port of that name; false where it is not there.
func (s *LinksSeen) Port(name string) (Port, bool) { return s.PortAt(name, "", "") }

// PortAt is the port with a MAC address or at a place on the PCI bus, or the one of a name
// where neither is given or the port does not tell it; false where it is not there.
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

// sameNeighbour is how long the time at which a neighbour was heard stays as it was
// told first, so that each of its frames is no news.
const sameNeighbour = time.Hour

// After is what was seen with what earlier looks heard: a neighbour counts as long as
// the port has its carrier without a break. It changes neither of the two.
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

// steady are neighbours with the times at which the same were heard before, where those
// are about the same.
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
