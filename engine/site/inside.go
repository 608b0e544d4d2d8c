package site

import "time"

// Inside is what an installed system tells of itself, in brief enough to be kept
// of every node. What changes from look to look is not in it, so that it is the
// same as long as the system is. A list that is nil was not read; one that is
// empty was read and has nothing in it.
type Inside struct {
	// BootedAt is when the system was booted, to the minute.
	BootedAt time.Time `json:"bootedAt,omitzero"`
	// MemoryBytes is what the kernel has of memory, SwapBytes of swap.
	MemoryBytes int64       `json:"memoryBytes,omitempty"`
	SwapBytes   int64       `json:"swapBytes,omitempty"`
	Links       []NetDevice `json:"links,omitzero"`
	Disks       []Block     `json:"disks,omitzero"`
	Mounts      []Mount     `json:"mounts,omitzero"`
	FailedUnits []string    `json:"failedUnits,omitzero"`
}

// NetDevice is a network interface. Those that lead into containers are left out.
type NetDevice struct {
	Name string `json:"name"`
	// State is "up", "down" or "unknown", as ip-link(8) has it in capitals.
	State string `json:"state,omitempty"`
	MAC   string `json:"mac,omitempty"`
	MTU   int    `json:"mtu,omitempty"`
	// Addresses are those with a prefix length, "192.0.2.11/24"; of IPv6 those
	// that are good beyond the link.
	Addresses []string `json:"addresses,omitempty"`
}

// Block is a block device: a disk, or what is made of disks.
type Block struct {
	Name string `json:"name"`
	// Kind is as lsblk(8) has it: "disk", "part", "lvm", "raid1", "crypt" …
	Kind   string `json:"kind,omitempty"`
	Bytes  int64  `json:"bytes,omitempty"`
	Model  string `json:"model,omitempty"`
	Serial string `json:"serial,omitempty"`
}

// Mount is a mounted file system of this system's own disks.
type Mount struct {
	Path       string `json:"path"`
	Source     string `json:"source,omitempty"`
	FileSystem string `json:"fileSystem,omitempty"`
	Bytes      int64  `json:"bytes,omitempty"`
	// Used is how much of it is in use at least, in percent and in steps of
	// five: every file that is written would be a change otherwise.
	Used int `json:"used,omitempty"`
}

// NearlyFull says whether a file system has a twentieth left or less.
func (m Mount) NearlyFull() bool { return m.Used >= 95 }
