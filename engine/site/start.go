package site

import (
	"cmp"
	"maps"
	"slices"
)

// Start is how Slipway's agent is started on a machine.
type Start string

// The ways to start it.
const (
	StartMedia   Start = "media"   // from virtual media of the BMC
	StartNetwork Start = "network" // by a boot file of the daemon
)

// TrustLevel is what a machine that is being installed, and the daemon, know each other by.
type TrustLevel string

// The levels of trust, the least last.
const (
	TrustBMC     TrustLevel = "bmc"     // the BMC has given the machine a token and the daemon's certificate
	TrustNetwork TrustLevel = "network" // the network has told both: whoever owns the segment could be either
)

// Install is how machines are installed by Slipway's agent.
type Install struct {
	Start Start `json:"start,omitempty"` // media where it is empty
	// Trust is the least at which a machine is installed; that of the BMC where it is empty.
	Trust TrustLevel `json:"trust,omitempty"`
}

// StartOf is how the agent is started on a node's machine.
func (s *Site) StartOf(n *Node) Start { return cmp.Or(n.Boot.Start, s.Install.Start, StartMedia) }

// Reaches is the trust at which a machine is installed on which the agent starts in this way.
func (s Start) Reaches() TrustLevel {
	if s == StartNetwork {
		return TrustNetwork
	}
	return TrustBMC
}

// Allows says whether a machine may be installed at a trust.
func (i Install) Allows(t TrustLevel) bool { return t == TrustBMC || i.Trust == TrustNetwork }

// NetworkStart is by what a machine can be told to start the agent over the network: the networks
// with DHCP of the daemon that its ports boot from, and the MAC addresses of these ports in lower
// case, both in the order of the ports' names.
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
