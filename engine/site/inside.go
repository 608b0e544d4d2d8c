package site

import "time"

// Inside is what an installed system reports of itself, brief enough to keep for
// every node. Values that change from look to look are left out, so that it
// stays equal as long as the system does. A nil list was not read; an empty list
// was read and is empty.
type Inside struct {
	// BootedAt is when the system booted, to the minute.
	BootedAt time.Time `json:"bootedAt,omitzero"`
	// MemoryBytes and SwapBytes are the kernel's memory and swap.
	MemoryBytes int64       `json:"memoryBytes,omitempty"`
	SwapBytes   int64       `json:"swapBytes,omitempty"`
	Links       []NetDevice `json:"links,omitzero"`
	Disks       []Block     `json:"disks,omitzero"`
	Mounts      []Mount     `json:"mounts,omitzero"`
	FailedUnits []string    `json:"failedUnits,omitzero"`
}

// NetDevice is a network interface. Interfaces that lead into containers are left out.
type NetDevice struct {
	Name string `json:"name"`
	// State is "up", "down" or "unknown", which ip-link(8) prints in capitals.
	State string `json:"state,omitempty"`
	MAC   string `json:"mac,omitempty"`
	MTU   int    `json:"mtu,omitempty"`
	// Addresses have a prefix length: "192.0.2.11/24". IPv6 addresses that are
	// valid only on the link are left out.
	Addresses []string `json:"addresses,omitempty"`
}

// Block is a block device: a disk, or what is made of disks.
type Block struct {
	Name string `json:"name"`
	// Kind is lsblk(8)'s type: "disk", "part", "lvm", "raid1", "crypt" …
	Kind   string `json:"kind,omitempty"`
	Bytes  int64  `json:"bytes,omitempty"`
	Model  string `json:"model,omitempty"`
	Serial string `json:"serial,omitempty"`
}

// Mount is a mounted file system on this system's own disks.
type Mount struct {
	Path       string `json:"path"`
	Source     string `json:"source,omitempty"`
	FileSystem string `json:"fileSystem,omitempty"`
	Bytes      int64  `json:"bytes,omitempty"`
	// Used is the least percentage in use, in steps of five. Otherwise each
	// written file would be a change.
	Used int `json:"used,omitempty"`
}

// NearlyFull reports whether at most 5 % of the file system is free.
func (m Mount) NearlyFull() bool { return m.Used >= 95 }
