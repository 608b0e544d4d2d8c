package site

import (
	"cmp"
	"maps"
	"slices"
)

// Start is how Slipway's agent is started on a machine.
type Start string

// The ways to start the agent.
const (
	StartMedia   Start = "media"   // from virtual media of the BMC
	StartNetwork Start = "network" // by a boot file of the daemon
)

// TrustLevel is how a machine being installed and the daemon authenticate each other.
type TrustLevel string

// The levels of trust, strongest first.
const (
	TrustBMC     TrustLevel = "bmc"     // the BMC gave the machine a token and the daemon's certificate
	TrustNetwork TrustLevel = "network" // both rely on the network: whoever controls the segment can impersonate either
)

// Install says how Slipway's agent installs machines.
type Install struct {
	Start Start `json:"start,omitempty"` // empty means StartMedia
	// Trust is the minimum level for installing a machine; empty means TrustBMC.
	Trust TrustLevel `json:"trust,omitempty"`
}

// StartOf returns how the agent is started on a node's machine.
func (s *Site) StartOf(n *Node) Start { return cmp.Or(n.Boot.Start, s.Install.Start, StartMedia) }

// Reaches returns the trust level of an installation whose agent starts in this way.
func (s Start) Reaches() TrustLevel {
	if s == StartNetwork {
		return TrustNetwork
	}
	return TrustBMC
}

// Allows reports whether a machine may be installed at a trust level.
func (i Install) Allows(t TrustLevel) bool { return t == TrustBMC || i.Trust == TrustNetwork }

// NetworkStart returns what lets a machine start the agent over the network: the networks with the
// daemon's DHCP that its ports boot from, and the MAC addresses of these ports in lower case. Both
// are in the order of the ports' names.
func (s *Site) NetworkStart(n *Node) (networks, macs []string) {
	for _, name := range slices.Sorted(maps.Keys(n.Interfaces)) {
		i := n.Interfaces[name]
		if net := s.Networks[i.Boot]; net == nil || net.Boot.DHCP == "" {
			continue
		}
		if !slices.Contains(networks, i.Boot) {
			networks = append(networks, i.Boot)
		}
		if mac := n.MACOf(name); mac != "" && !slices.Contains(macs, mac) {
			macs = append(macs, mac)
		}
	}
	return networks, macs
}
