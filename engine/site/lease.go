package site

import (
	"fmt"
	"time"
)

// Lease is an address that the daemon's DHCP server has given to a client.
type Lease struct {
	Network string `json:"network"`
	// Address is an address of IPv4 or IPv6.
	Address string `json:"address"`
	// MAC is the client's. It is empty for a client that Client identifies, and for an
	// address that a host without a lease uses.
	MAC string `json:"mac,omitempty"`
	// Client identifies a client of DHCPv6 whose MAC address is unknown: "duid:", its
	// DUID, a slash and its IAID, in hexadecimal. It is empty for others.
	Client string `json:"client,omitempty"`
	// Node is the client's node in the design; empty for other clients.
	Node string `json:"node,omitempty"`
	// Expires is when the address may be given to another client.
	Expires time.Time `json:"expires"`
}

// DHCPMode is what the daemon does about DHCP in a network.
type DHCPMode string

// The modes, which are also the values of NetworkBoot.DHCP.
const (
	// DHCPServe assigns addresses, and tells machines that are to boot over the
	// network what to boot.
	DHCPServe DHCPMode = "serve"
	// DHCPProxy leaves addresses to another server and adds what to boot
	// (Intel's PXE specification 2.1, section 2.2.3).
	DHCPProxy DHCPMode = "proxy"
)

// Served is the state of the daemon's DHCP in one network.
type Served struct {
	Network   string   `json:"network"`
	Interface string   `json:"interface"`
	Mode      DHCPMode `json:"mode,omitempty"`
	// Why says why the daemon sends nothing; empty while it answers clients.
	Why string `json:"why,omitempty"`
	// Leases is how many addresses clients have. Free of Range dynamic addresses
	// are available.
	Leases int `json:"leases"`
	Free   int `json:"free"`
	Range  int `json:"range"`
	// Announces says that router advertisements are sent.
	Announces bool `json:"announces,omitempty"`
	// Armed are the nodes that will boot over this network at their next start.
	Armed []string `json:"armed,omitempty"`
}

// Line describes how DHCP is served in a network, without numbers that change with
// each client.
func (s Served) Line() string {
	at := fmt.Sprintf("%s on %s", s.Network, s.Interface)
	if s.Why != "" {
		return fmt.Sprintf("not on %s: %s", at, s.Why)
	}
	if s.Announces {
		at += ", with router advertisements"
	}
	switch {
	case s.Mode == DHCPProxy:
		return at + ": boot files beside another DHCP server"
	case s.Range == 0:
		return at + ": addresses for designed nodes"
	case s.Free == 0:
		return fmt.Sprintf("%s: addresses for designed nodes; all %d dynamic addresses are in use", at, s.Range)
	}
	return fmt.Sprintf("%s: addresses for designed nodes, and %d dynamic addresses", at, s.Range)
}

// Detail returns Line with the number of leases.
func (s Served) Detail() string {
	if s.Why != "" || s.Mode != DHCPServe {
		return s.Line()
	}
	return fmt.Sprintf("%s (leases: %d, free: %d)", s.Line(), s.Leases, s.Free)
}
