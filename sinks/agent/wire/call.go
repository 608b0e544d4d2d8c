package wire

import "github.com/slipway-gitops/slipway/engine/item"

// MaxHello bounds a Hello and a Welcome, in bytes.
const MaxHello = 256 << 10

// Hello is the first that an agent in memory says on a connection to the daemon. The daemon
// answers with a Welcome; after one that refuses nothing it writes requests, and each is
// answered as over SSH.
type Hello struct {
	Version int `json:"version"`
	// Token is what the machine was started with. It is for one node and one boot.
	Token   string  `json:"token"`
	Machine Machine `json:"machine"`
	// Said are the last lines on the machine's console that no daemon was told, MaxSaid of
	// them at most.
	Said []string `json:"said,omitempty"`
}

// MaxSaid is how many lines of the console a Hello has at most.
const MaxSaid = 100

// Welcome says whether the daemon works with the agent.
type Welcome struct {
	Version int `json:"version"`
	// Refused says why it does not; empty where it does.
	Refused string `json:"refused,omitempty"`
	Site    string `json:"site,omitempty"`
	Node    string `json:"node,omitempty"`
}

// Machine is what a machine is, as it is seen from inside.
type Machine struct {
	// UUID and Serial are those of SMBIOS, as the kernel tells them; empty where it does not.
	UUID         string      `json:"uuid,omitempty"`
	Serial       string      `json:"serial,omitempty"`
	Manufacturer string      `json:"manufacturer,omitempty"`
	Product      string      `json:"product,omitempty"`
	BIOS         string      `json:"bios,omitempty"` // the version of the firmware
	MemoryBytes  int64       `json:"memoryBytes,omitempty"`
	Processors   []Processor `json:"processors,omitempty"`
	Ports        []Port      `json:"ports,omitempty"`
	Disks        []item.Disk `json:"disks,omitempty"`
	// Unread says what could not be read and why, a sentence each.
	Unread []string `json:"unread,omitempty"`
}

// Processor is a processor in a socket of its own.
type Processor struct {
	ID      string `json:"id"`
	Model   string `json:"model,omitempty"`
	Cores   int    `json:"cores,omitempty"`
	Threads int    `json:"threads,omitempty"`
}

// Port is a port of the machine's own network adapters.
type Port struct {
	Name   string `json:"name"`
	MAC    string `json:"mac"` // the one that it is made with, where the kernel knows it
	Driver string `json:"driver,omitempty"`
	// Carrier says whether it has a link; nil where that is not known, as of one that is down.
	Carrier *bool `json:"carrier,omitempty"`
	Mbps    int   `json:"mbps,omitempty"`
	// Neighbours are what tells of itself at the other end of the cable by LLDP.
	Neighbours []item.Neighbour `json:"neighbours,omitempty"`
}
