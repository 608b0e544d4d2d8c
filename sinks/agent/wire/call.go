package wire

import "github.com/slipway-gitops/slipway/engine/item"

// MaxHello bounds a Hello and a Welcome, in bytes.
const MaxHello = 256 << 10

// Hello is the first message of an agent in a ramdisk on a connection to the daemon. The daemon answers with a
// Welcome. If the Welcome refuses nothing, the daemon writes requests, and the agent answers each as over SSH.
type Hello struct {
	Version int `json:"version"`
	// Token is the token with which the machine was started. It is for one node and one boot.
	Token   string  `json:"token"`
	Machine Machine `json:"machine"`
	// Said are the last lines on the machine's console that no daemon has received, at most MaxSaid.
	Said []string `json:"said,omitempty"`
}

// MaxSaid is the maximum number of console lines in a Hello.
const MaxSaid = 100

// Welcome says whether the daemon accepts the agent.
type Welcome struct {
	Version int `json:"version"`
	// Refused says why the daemon refuses the agent; empty if it accepts it.
	Refused string `json:"refused,omitempty"`
	Site    string `json:"site,omitempty"`
	Node    string `json:"node,omitempty"`
}

// Machine describes a machine as seen from inside.
type Machine struct {
	// UUID and Serial are those of SMBIOS, as the kernel reports them; empty if it does not.
	UUID         string      `json:"uuid,omitempty"`
	Serial       string      `json:"serial,omitempty"`
	Manufacturer string      `json:"manufacturer,omitempty"`
	Product      string      `json:"product,omitempty"`
	BIOS         string      `json:"bios,omitempty"` // the version of the firmware
	MemoryBytes  int64       `json:"memoryBytes,omitempty"`
	Processors   []Processor `json:"processors,omitempty"`
	Ports        []Port      `json:"ports,omitempty"`
	Disks        []item.Disk `json:"disks,omitempty"`
	// Unread says what could not be read and why, one sentence each.
	Unread []string `json:"unread,omitempty"`
}

// Processor is a processor in its own socket.
type Processor struct {
	ID      string `json:"id"`
	Model   string `json:"model,omitempty"`
	Cores   int    `json:"cores,omitempty"`
	Threads int    `json:"threads,omitempty"`
}

// Port is a port of the machine's own network adapters.
type Port struct {
	Name   string `json:"name"`
	MAC    string `json:"mac"` // the permanent one, if the kernel knows it
	Driver string `json:"driver,omitempty"`
	// Carrier reports whether the port has a link; nil if unknown, for example on a port that is down.
	Carrier *bool `json:"carrier,omitempty"`
	Mbps    int   `json:"mbps,omitempty"`
	// Neighbours are what the other end of the cable announces by LLDP.
	Neighbours []item.Neighbour `json:"neighbours,omitempty"`
}
