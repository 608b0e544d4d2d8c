package wire

import "github.com/slipway-gitops/slipway/engine/item"

// Install is which system is put onto which disks of which machine: exactly what was approved.
type Install struct {
	// UUID and Serial are those of the machine, of which at least one is given. What is given
	// must be what the machine tells of itself.
	UUID   string `json:"uuid,omitempty"`
	Serial string `json:"serial,omitempty"`
	// Layout is what its disks become.
	Layout item.Layout `json:"layout"`
	Image  Image       `json:"image"`
	// Boot is "uefi" or "bios".
	Boot string `json:"boot"`
	// Apply are the facets that are configured in the new system before its first start, in
	// this order. Nothing is removed.
	Apply []Apply `json:"apply,omitempty"`
	// Marker is the content of /etc/slipway/marker.json, by which the system proves which
	// installation it is. It is the same for each try of one installation.
	Marker string `json:"marker"`
	// Erased are the disks, by what they are known by (item.Erasure.ID), that an earlier try of
	// this installation has erased as Layout.Erase asks. They are not erased again.
	Erased []string `json:"erased,omitempty"`
}

// Image is the one that a system is installed from.
type Image struct {
	// Kind is "root" or "disk", SHA256 the digest of the file, and Bytes its size.
	Kind   string `json:"kind"`
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
	// URL is where the daemon serves it to this machine, by http or https. CA is the SHA-256
	// of a certificate that an https server shows, its authority's or its own.
	URL string `json:"url"`
	CA  string `json:"ca,omitempty"`
}

// Installed is a system that was put there, and read again from the disks.
type Installed struct {
	// Already says that it was there before, from an earlier try.
	Already bool `json:"already,omitempty"`
	// SHA256 is the digest of the image that was unpacked, Files how many files, folders and
	// links it has, and Unpacked how many bytes.
	SHA256   string `json:"sha256"`
	Files    int    `json:"files,omitempty"`
	Unpacked int64  `json:"unpacked,omitempty"`
	// HostKeys are the public halves of the keys by which its SSH server is known, which were
	// made on the machine, a line of authorized_keys(5) each.
	HostKeys []string `json:"hostKeys,omitempty"`
	// Kernels are the versions that it can start.
	Kernels []string `json:"kernels,omitempty"`
	// Cleared are the entries of the firmware's boot manager that were removed, and Entries
	// those that start the new system. EntriesUnknown says why neither is known.
	Cleared        []string `json:"cleared,omitempty"`
	Entries        []string `json:"entries,omitempty"`
	EntriesUnknown string   `json:"entriesUnknown,omitempty"`
	// Erased is what came of erasing the disks, as far as this agent has done it.
	Erased []item.Erasure `json:"erased,omitempty"`
	// Facets are what was seen of the facets after they were applied.
	Facets map[string]Facet `json:"facets,omitempty"`
}
