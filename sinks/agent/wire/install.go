package wire

import "github.com/slipway-gitops/slipway/engine/item"

// Install says which system goes onto which disks of which machine: exactly what was approved.
type Install struct {
	// UUID and Serial identify the machine. At least one is given, and what is given must match the machine's own
	// report.
	UUID   string `json:"uuid,omitempty"`
	Serial string `json:"serial,omitempty"`
	// Layout is the new layout of its disks.
	Layout item.Layout `json:"layout"`
	Image  Image       `json:"image"`
	// Boot is "uefi" or "bios".
	Boot string `json:"boot"`
	// Apply lists the facets that are configured in the new system before its first boot, in this order. Nothing is
	// removed.
	Apply []Apply `json:"apply,omitempty"`
	// Marker is the content of /etc/slipway/marker.json, by which the system proves which installation it is. It is
	// the same for each try of one installation.
	Marker string `json:"marker"`
	// Erased are the disks, by item.Erasure.ID, that an earlier try of this installation has erased as Layout.Erase
	// asks. They are not erased again.
	Erased []string `json:"erased,omitempty"`
	// Passphrase opens all encrypted volumes of the layout. It is a secret: no program gets it as an argument or in
	// its environment, and it is not written to a disk.
	Passphrase string `json:"passphrase,omitempty"`
	// Derived is what it was derived from, which the agent notes on the encrypted volumes.
	Derived item.DerivedFrom `json:"derived,omitzero"`
}

// Image is the image that a system is installed from.
type Image struct {
	// Kind is "root" or "disk". SHA256 is the digest of the file. Bytes is its size.
	Kind   string `json:"kind"`
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
	// URL is where the daemon serves it to this machine, by http or https. CA is the SHA-256 of a certificate in an
	// https server's chain, its authority's or its own.
	URL string `json:"url"`
	CA  string `json:"ca,omitempty"`
}

// Installed describes a system that was installed, and read back from the disks.
type Installed struct {
	// Already says that an earlier try had installed it.
	Already bool `json:"already,omitempty"`
	// SHA256 is the digest of the unpacked image. Files counts its files, folders and links. Unpacked is their size
	// in bytes.
	SHA256   string `json:"sha256"`
	Files    int    `json:"files,omitempty"`
	Unpacked int64  `json:"unpacked,omitempty"`
	// HostKeys are the public keys of its SSH server, made on the machine, one line of authorized_keys(5) each.
	HostKeys []string `json:"hostKeys,omitempty"`
	// Kernels are the versions that it can boot.
	Kernels []string `json:"kernels,omitempty"`
	// Cleared are the boot manager entries that were removed from the firmware. Entries are those that boot the new
	// system. EntriesUnknown says why the entries are unknown.
	Cleared        []string `json:"cleared,omitempty"`
	Entries        []string `json:"entries,omitempty"`
	EntriesUnknown string   `json:"entriesUnknown,omitempty"`
	// Erased is the result of erasing the disks, as far as this agent did it.
	Erased []item.Erasure `json:"erased,omitempty"`
	// Facets are the observed facets after they were applied.
	Facets map[string]Facet `json:"facets,omitempty"`
}
