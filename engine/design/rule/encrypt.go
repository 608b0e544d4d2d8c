package rule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

var encryptions = []Rule{
	{
		Code: "encrypted-use", Severity: site.SeverityError, Firm: true,
		What: "What is encrypted has a file system or is in a volume group. It is not kept, not for the firmware, and not mounted on /boot. The members of a volume group are all encrypted, or none is.",
		Why:  "An array is encrypted as a whole, the firmware and the boot loader read no encrypted file system, and Slipway has no key of what an earlier installation has encrypted. Where only some members of a group are encrypted, a part of its volumes can be read from a stolen disk.",
		Wrong: anEncryptedNode + `nodes: "n1": storage: disks: {
	os: partitions: root: encrypt: "tpm"
	data: {match: kind: "hdd", keep: true, encrypt: "tpm", filesystem: mount: "/srv"}
}`,
		Right: anEncryptedNode + `nodes: "n1": storage: disks: {
	os: partitions: root: encrypt: "tpm"
	data: {match: kind: "hdd", encrypt: "tpm", filesystem: mount: "/srv"}
}`,
		Node: encryptedUse,
	},
	{
		Code: "encrypted-not-made", Severity: site.SeverityError, Firm: true,
		What:  "A node with encrypted disks is a physical machine, and its image is a root file system that Slipway's agent unpacks.",
		Why:   "Only Slipway's agent lays out and encrypts disks. Any other installer makes them as it is told elsewhere, most likely in clear, and whoever relies on the design gives away a readable disk.",
		Wrong: aSiteKey + erasedFirst + aBootNode + `nodes: "n1": storage: disks: os: partitions: root: encrypt: "tpm"`,
		Right: anEncryptedNode + `nodes: "n1": storage: disks: os: partitions: root: encrypt: "tpm"`,
		Node:  encryptedNotMade,
	},
	{
		Code: "encrypted-without-tpm", Severity: site.SeverityError,
		What:  "A node whose TPM opens its disks does not switch the TPM off.",
		Why:   "After the next restart nothing opens the disks, and the machine waits at its console until a person types the passphrase.",
		Wrong: anEncryptedNode + `nodes: "n1": {bios: tpm: false, storage: disks: os: partitions: root: encrypt: "tpm"}`,
		Right: anEncryptedNode + `nodes: "n1": {bios: tpm: true, storage: disks: os: partitions: root: encrypt: "tpm"}`,
		Node:  encryptedWithoutTPM,
	},
	{
		Code: "clear-beside-encrypted", Severity: site.SeverityWarning,
		What: "Where the file system on / is encrypted, all others are, except for /boot and what the firmware reads.",
		Why:  "Such a machine reads as one with encrypted disks, and what is written to the other file system can be read from a stolen disk: under /var are logs, keys and data of programs. Where nothing on it is secret, this warning can be suppressed.",
		Wrong: anEncryptedNode + `nodes: "n1": storage: disks: os: partitions: {
	root: encrypt: "tpm"
	var: {number: 4, size: "10GiB", filesystem: mount: "/var"}
}`,
		Right: anEncryptedNode + `nodes: "n1": storage: disks: os: partitions: {
	root: encrypt: "tpm"
	var: {number: 4, size: "10GiB", encrypt: "tpm", filesystem: mount: "/var"}
}`,
		Node: clearBesideEncrypted,
	},
	{
		Code: "encrypted-start", Severity: site.SeverityError, Firm: true,
		What: "A node with an encrypted file system on / has another one on /boot. Nothing that /boot lies on is encrypted.",
		Why:  "The boot loader reads the kernel and the initramfs from /boot, before anything can open the encrypted volume: the machine would be installed and then not start.",
		Wrong: aSiteKey + erasedFirst + aSystem + `nodes: "n1": {
	boot: mode: "uefi"
	storage: disks: os: {match: kind: "ssd", partitions: {
		efi: {number: 1, size: "512MiB", flag: "efi", filesystem: {type: "vfat", mount: "/boot/efi"}}
		root: {number: 2, size: ">20GiB", encrypt: "tpm", filesystem: mount: "/"}
	}}
}`,
		Right: anEncryptedNode + `nodes: "n1": storage: disks: os: partitions: root: encrypt: "tpm"`,
		Node:  encryptedStart,
	},
	{
		Code: "encrypted-identity", Severity: site.SeverityError, Firm: true,
		What:  "A node with encrypted disks has the UUID of its machine in the design.",
		Why:   "Slipway derives the passphrase of the disks from the site key and this UUID. Without it nobody could derive the passphrase again where the TPM is gone.",
		Wrong: aFifthNode + `nodes: n5: identity: serial: "SN5"`,
		Right: aFifthNode + `nodes: n5: identity: {serial: "SN5", uuid: "4c4c4544-0000-4000-8000-000000000005"}`,
		Node:  encryptedIdentity,
	},
	{
		Code: "encrypted-key", Severity: site.SeverityError, Firm: true,
		What:  "A site with encrypted disks names the public half of its site key.",
		Why:   "The passphrase of the disks is derived from the site key. Without a key in the design, a daemon that finds no key file makes another key by itself, and the passphrase of the disks is lost with the first one: then nobody can open them where the TPM is gone.",
		Wrong: erasedFirst + anEncryptedRoot,
		Right: aSiteKey + erasedFirst + anEncryptedRoot,
		Node:  encryptedKey,
	},
	{
		Code: "encrypted-over-clear", Severity: site.SeverityWarning,
		What:  "The disks of a node with encrypted disks are erased first, with `storage: erase: \"secure\"`.",
		Why:   "LUKS2 writes only its header. What was on the disk in clear before stays there until it is overwritten, and can be read from a stolen disk. So does what an earlier installation has encrypted on an array or in a volume group, with its header: the TPM of the machine and the passphrase of that generation still open it. Where the disks are new, or never held anything, this warning can be suppressed.",
		Wrong: aSiteKey + anEncryptedRoot,
		Right: aSiteKey + erasedFirst + anEncryptedRoot,
		Node:  encryptedOverClear,
	},
	{
		Code: "swap-in-clear", Severity: site.SeverityWarning,
		What: "The swap of a node with an encrypted file system is encrypted.",
		Why:  "The kernel writes pages of memory to swap: parts of files from the encrypted disk, and keys of programs. They can be read from a stolen disk.",
		Wrong: anEncryptedNode + `nodes: "n1": storage: disks: os: partitions: {
	root: encrypt: "tpm"
	swap: {number: 4, size: "1GiB", filesystem: type: "swap"}
}`,
		Right: anEncryptedNode + `nodes: "n1": storage: disks: os: partitions: {
	root: encrypt: "tpm"
	swap: {number: 4, size: "1GiB", encrypt: "tpm", filesystem: type: "swap"}
}`,
		Node: swapInClear,
	},
	{
		Code: "waits-at-console", Severity: site.SeverityNote,
		What:  "A node's encrypted disks are opened by its TPM.",
		Why:   "A node with `encrypt: \"console\"` waits at each boot until a person types the passphrase at its console, also at the first boot after an installation and after each restart by Slipway or by a power cut. It cannot be restarted unattended.",
		Wrong: anEncryptedNode + `nodes: "n1": storage: disks: os: partitions: root: encrypt: "console"`,
		Right: anEncryptedNode + `nodes: "n1": storage: disks: os: partitions: root: encrypt: "tpm"`,
		Node:  waitsAtConsole,
	},
}

// anEncryptedNode and its partitions are what examples of these rules begin with.
const (
	aSiteKey = `site: keys: ["ed25519:5CDrNH1JD9p/2BkqnNgGPebSYbdvXf2CsjTNrQtta3Q="]
`
	erasedFirst = `nodes: "n1": storage: erase: "secure"
`
	aSystem = `images: debian12: {url: "https://images.example.org/debian12.tar.zst", kind: "root"}
`
	anEncryptedNode = aSiteKey + erasedFirst + aSystem + aBootNode
	aBootNode       = `nodes: "n1": {
	boot: mode: "uefi"
}
` + someBootDisk
	anEncryptedRoot = aSystem + aBootNode + `nodes: "n1": storage: disks: os: partitions: root: encrypt: "tpm"`
	someBootDisk    = `nodes: "n1": storage: disks: os: {match: kind: "ssd", partitions: {
	efi: {number: 1, size: "512MiB", flag: "efi", filesystem: {type: "vfat", mount: "/boot/efi"}}
	boot: {number: 2, size: "1GiB", filesystem: mount: "/boot"}
	root: {number: 3, size: ">20GiB", filesystem: mount: "/"}
}}
`
)

// aFifthNode has an encrypted disk, and no identity.
const aFifthNode = aSiteKey + aSystem + `nodes: n5: {
	profiles: ["base"], role: "compute", rack: "r2", addresses: mgmt: "10.1.0.15"
	endpoints: manager: url: "redfish+https://10.9.0.15/redfish/v1/Systems/1"
	endpoints: os: {url: "ssh://10.1.0.15", trust: hostKeys: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMachine5"]}
	storage: erase: "secure"
	storage: disks: {
		os: {match: kind: "ssd", filesystem: mount: "/"}
		data: {match: kind: "hdd", encrypt: "tpm", filesystem: mount: "/srv"}
	}
}
`

// encrypted lists the encrypted parts of a node.
func encrypted(n *site.Node) []part {
	return slices.DeleteFunc(parts(n), func(p part) bool { return p.Encrypt == "" })
}

func encryptedUse(_ *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	object := func(p part, message, fix string) { found = append(found, wrong(p.path()+".encrypt", message, fix)) }
	for _, p := range encrypted(n) {
		of := p.name
		if p.kind == aPartition {
			of = p.in
		}
		isKept := (p.kind == aDisk || p.kind == aPartition) && n.Storage.Disks[of].Keep
		switch {
		case isKept:
			object(p, fmt.Sprintf("%s is kept, and is to be encrypted", p), "Remove encrypt, or keep: then the disk is erased.")
		case p.Array != "":
			object(p, fmt.Sprintf("%s is encrypted, and is a member of the array %s", p, p.Array), fmt.Sprintf("Write encrypt in storage: arrays: %s.", p.Array))
		case p.kind == aPartition && p.flag(n) != "":
			object(p, fmt.Sprintf("%s is encrypted, and has the flag %q", p, p.flag(n)), "Remove encrypt: the firmware cannot read it then.")
		case p.Filesystem != nil && isForBoot(p.Filesystem.Mount):
			object(p, fmt.Sprintf("%s is encrypted, and is mounted on %s", p, p.Filesystem.Mount), "Remove encrypt: the boot loader cannot read it then.")
		case p.Filesystem == nil && p.Group == "" && !triesToBeUsed(n, p):
			object(p, fmt.Sprintf("%s is encrypted, and has no file system and no volume group", p), "Remove encrypt, or set filesystem or group.")
		}
	}
	return append(found, halfEncrypted(n)...)
}

func encryptedNotMade(s *site.Site, n *site.Node) []site.Finding {
	image := s.Images[n.Image]
	for _, p := range encrypted(n) {
		switch {
		case n.IsVirtual():
			return []site.Finding{wrong(p.path()+".encrypt", fmt.Sprintf("%s is encrypted, and the node is a virtual machine, whose disks Slipway does not encrypt", p),
				"Remove encrypt, and encrypt the disks of the hypervisor.")}
		case image != nil && !image.IsRoot():
			return []site.Finding{wrong(p.path()+".encrypt", fmt.Sprintf("%s is encrypted, and the image %s is not a root file system, so that Slipway's agent does not make the disks of the node", p, n.Image),
				`Use an image with kind: "root", or remove encrypt.`)}
		}
	}
	return nil
}

func encryptedWithoutTPM(_ *site.Site, n *site.Node) []site.Finding {
	if n.BIOS.TPM == nil || *n.BIOS.TPM {
		return nil
	}
	for _, p := range encrypted(n) {
		if p.Encrypt == item.OpenedByTPM {
			return []site.Finding{beside(n, "bios.tpm", wrong(p.path()+".encrypt", fmt.Sprintf("the TPM opens %s, and bios.tpm is false", p),
				`Write bios: tpm: true, or encrypt: "console".`))}
		}
	}
	return nil
}

func clearBesideEncrypted(_ *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	hides := false
	for _, p := range parts(n) {
		if p.Filesystem == nil {
			continue
		}
		mount, under := p.Filesystem.Mount, encryptedUnder(n, p)
		hides = hides || mount == "/" && under != nil
		if mount != "" && under == nil && !isForBoot(mount) && (p.kind != aPartition || p.flag(n) == "") && !states(n, p.path()+".encrypt") {
			found = append(found, wrong(p.path()+".filesystem.mount", fmt.Sprintf("%s is mounted on %s and is not encrypted, and / is", p, mount),
				`Write encrypt: "tpm" or "console" beside the file system, or suppress this where nothing on it is secret.`))
		}
	}
	if !hides {
		return nil
	}
	return found
}

// halfEncrypted reports volume groups of which only some members are encrypted.
func halfEncrypted(n *site.Node) []site.Finding {
	var found []site.Finding
	for _, group := range keys(n.Storage.Groups) {
		var with, without *part
		for _, p := range parts(n) {
			switch {
			case p.Group != group:
			case p.Encrypt == "":
				without = &p
			default:
				with = &p
			}
		}
		if with != nil && without != nil && !states(n, without.path()+".encrypt") {
			found = append(found, beside(n, with.path()+".encrypt", wrong(without.path()+".group",
				fmt.Sprintf("%s is in the volume group %s and is not encrypted, and %s is", without, group, with), "Encrypt all members of the group, or none.")))
		}
	}
	return found
}

// below lists what a part lies on, as far as it can be encrypted: itself, and the members of its group.
func below(n *site.Node, p part) []part {
	all := []part{p}
	if p.kind == aVolume {
		for _, member := range parts(n) {
			if member.Group == p.in {
				all = append(all, member)
			}
		}
	}
	return all
}

// encryptedUnder returns what is encrypted of a part and of what it lies on; nil for nothing.
func encryptedUnder(n *site.Node, p part) *part {
	for _, on := range below(n, p) {
		if on.Encrypt != "" {
			return &on
		}
	}
	return nil
}

// isForBoot reports whether the boot loader reads what is mounted there.
func isForBoot(mount string) bool { return mount == "/boot" || strings.HasPrefix(mount, "/boot/") }

func encryptedStart(_ *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	var root *part
	hasBoot := false
	for _, p := range parts(n) {
		if p.Filesystem == nil {
			continue
		}
		mount, under := p.Filesystem.Mount, encryptedUnder(n, p)
		hasBoot = hasBoot || mount == "/boot"
		switch {
		case under == nil:
		case mount == "/":
			root = under
		case isForBoot(mount) && p.Encrypt == "": // encrypted-use reports one that is encrypted itself
			found = append(found, wrong(under.path()+".encrypt", fmt.Sprintf("%s is encrypted and holds %s", under, mount), fmt.Sprintf("Put %s on a partition that is not encrypted.", mount)))
		}
	}
	if root != nil && !hasBoot {
		found = append(found, wrong(root.path()+".encrypt", fmt.Sprintf("%s is encrypted and holds /, and the node has no file system on /boot", root),
			`Add a partition of 1 GiB with filesystem: mount: "/boot" and without encrypt.`))
	}
	return found
}

func encryptedIdentity(_ *site.Site, n *site.Node) []site.Finding {
	for _, p := range encrypted(n) {
		if n.Machine().UUID == "" && !states(n, "identity.uuid") && !states(n, "moved.uuid") {
			return []site.Finding{wrong(p.path()+".encrypt", fmt.Sprintf("%s is encrypted, and the design does not say the UUID of the machine", p),
				"Add identity: uuid, as the BMC reports it.")}
		}
	}
	return nil
}

func encryptedKey(s *site.Site, n *site.Node) []site.Finding {
	if len(s.Keys) > 0 || s.Origins.Has("site.keys") {
		return nil
	}
	for _, p := range encrypted(n) {
		return []site.Finding{wrong(p.path()+".encrypt", fmt.Sprintf("%s is encrypted, and the site names no site key", p),
			"Run `slipway site key` where the daemon runs, write what it shows as site: keys, and keep a copy of the key off that host (`slipway site export-key`).")}
	}
	return nil
}

func encryptedOverClear(_ *site.Site, n *site.Node) []site.Finding {
	if n.Storage.Erase == item.EraseSecure || states(n, "storage.erase") && n.Storage.Erase == "" {
		return nil
	}
	for _, p := range encrypted(n) {
		return []site.Finding{wrong(p.path()+".encrypt", fmt.Sprintf("%s is encrypted, and what was on its disk in clear before is not erased", p),
			`Write storage: erase: "secure", or suppress this where nothing was on the disks.`)}
	}
	return nil
}

func swapInClear(_ *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	hides := false
	for _, p := range parts(n) {
		if p.Filesystem == nil {
			continue
		}
		under := encryptedUnder(n, p)
		hides = hides || p.Filesystem.Type != "swap" && under != nil
		if p.Filesystem.Type == "swap" && under == nil && !states(n, p.path()+".encrypt") {
			found = append(found, wrong(p.path()+".filesystem.type", fmt.Sprintf("%s is swap and is not encrypted, and another file system is", p), `Write encrypt: "tpm" or "console" beside it.`))
		}
	}
	if !hides {
		return nil
	}
	return found
}

func waitsAtConsole(_ *site.Site, n *site.Node) []site.Finding {
	for _, p := range encrypted(n) {
		if p.Encrypt == item.OpenedAtConsole {
			return []site.Finding{wrong(p.path()+".encrypt", fmt.Sprintf("the node %s waits at each boot until a person types the passphrase of %s at its console", n.Name, p),
				`Write encrypt: "tpm" where the machine has a TPM 2.0, or leave it, and be at the console at each restart.`)}
		}
	}
	return nil
}
