package rule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

var booting = []Rule{
	{
		Code: "boot-order", Severity: site.SeverityError,
		What:  "A boot order names each target once, and only targets that the boot mode and the networks support.",
		Why:   "The firmware refuses the order, or the machine waits at every start for an answer that never comes.",
		Wrong: `nodes: "n1": boot: order: ["Hdd", "Pxe", "Hdd"]`,
		Right: `nodes: "n1": boot: order: ["Hdd", "Pxe", "Usb"]`,
		Node:  bootOrder,
	},
	{
		Code: "install-by", Severity: site.SeverityError,
		What:  "A node that is installed by HTTP boots by UEFI, and so does its image.",
		Why:   "Firmware that boots by BIOS knows no HTTP boot; the machine starts what was on its disk before, and the installation never ends.",
		Wrong: `nodes: "n1": boot: {mode: "bios", installBy: "http"}`,
		Right: `nodes: "n1": boot: {mode: "uefi", installBy: "http"}`,
		Node:  installBy,
	},
	{
		Code: "boot-interface", Severity: site.SeverityError,
		What:  "The interface to boot by is one of the node's, and on a network with DHCP.",
		Why:   "The firmware gets no address, and the machine does not boot from the network.",
		Wrong: `nodes: "n4": boot: interface: "eno9"`,
		Right: `networks: mgmt: ranges: leases: {from: "10.1.0.200", to: "10.1.0.250", use: "dhcp"}
nodes: "n4": boot: interface: "eno1"`,
		Node: bootInterface,
	},
	{
		Code: "boot-network", Severity: site.SeverityError,
		What: "The network that a port starts the machine in has a DHCP server, and the port's link carries it without a tag. A machine that boots by BIOS needs an IPv4 network.",
		Why:  "Firmware sends no tags and asks for its address, and a BIOS asks by IPv4 alone: it gets no answer, and the machine does not start from the network.",
		Wrong: `networks: data: ranges: leases: {from: "10.20.0.200", to: "10.20.0.250", use: "dhcp"}
nodes: "n4": interfaces: eno1: boot: "data"`,
		Right: `networks: mgmt: ranges: leases: {from: "10.1.0.200", to: "10.1.0.250", use: "dhcp"}
nodes: "n4": interfaces: eno1: boot: "mgmt"`,
		Node: bootNetwork,
	},
	{
		Code: "root-image", Severity: site.SeverityError, Firm: true,
		What:  "A node that is installed from a root file system has a UUID or a serial number, a BMC that starts it, UEFI, and storage with a file system on / and a rule or a device for each disk.",
		Why:   "The BMC starts Slipway's agent by UEFI, and the agent erases only the disks that the design describes, on only that machine. Without these values the agent would refuse, when the machine is already out of service.",
		Wrong: aRootImage + `nodes: "n1": {image: "root12", generation: 1}`,
		Right: aRootImage + `nodes: "n1": {image: "root12", generation: 1, identity: serial: "EX101", boot: mode: "uefi", storage: disks: os: {
	match: kind: "ssd"
	partitions: esp: {size: "512MiB", flag: "efi", filesystem: {type: "vfat", mount: "/boot/efi"}}
	partitions: root: {size: ">20GiB", filesystem: mount: "/"}
}}`,
		Node: rootImage,
	},
	{
		Code: "disk-image", Severity: site.SeverityError, Firm: true,
		What: "A node that is installed from the image of a whole disk has what a root file system asks for too, and storage with one disk for it, which is used for nothing else. Every other disk has keep: true and nothing designed on it.",
		Why:  "The image contains its own partitions. Slipway would make no other storage of the design, and the disks would be erased already.",
		Wrong: aDiskImage + `nodes: "n1": {image: "cloud", generation: 1, identity: serial: "EX101", boot: mode: "uefi", storage: disks: {
	os: match: kind: "nvme"
	data: {match: kind: "hdd", filesystem: mount: "/srv"}
}}`,
		Right: aDiskImage + `nodes: "n1": {image: "cloud", generation: 1, identity: serial: "EX101", boot: mode: "uefi", storage: disks: {
	os: match: kind: "nvme"
	data: {match: kind: "hdd", keep: true}
}}`,
		Node: diskImage,
	},
	{
		Code: "image-architecture", Severity: site.SeverityError,
		What:  "The image of a node is for its processors.",
		Why:   "The machine cannot boot the image, and its disks are erased already.",
		Wrong: `images: arm: {url: "https://images.example.org/arm.iso", sha256: "` + someDigest + `", architecture: "arm64"}` + "\n" + `nodes: "n1": {image: "arm", hardware: architecture: "amd64"}`,
		Right: `images: arm: {url: "https://images.example.org/arm.iso", sha256: "` + someDigest + `", architecture: "arm64"}` + "\n" + `nodes: "n1": {image: "arm", hardware: architecture: "arm64"}`,
		Node: eachNodeImage(func(n *site.Node, name string, i *site.Image) (message, fix string) {
			if !differ(i.Architecture, n.Hardware.Architecture) {
				return "", ""
			}
			return fmt.Sprintf("the image %s is for %s, and the processors are %s", name, i.Architecture, n.Hardware.Architecture),
				fmt.Sprintf("Use an image for %s.", n.Hardware.Architecture)
		}),
	},
	{
		Code: "image-boot-mode", Severity: site.SeverityError,
		What:  "The image of a node boots in the mode in which the node boots.",
		Why:   "The firmware ignores the medium and boots the old system from the disk.",
		Wrong: `images: old: {url: "https://images.example.org/old.iso", sha256: "` + someDigest + `", bootMode: "bios"}` + "\n" + `nodes: "n1": {image: "old", boot: mode: "uefi"}`,
		Right: `images: old: {url: "https://images.example.org/old.iso", sha256: "` + someDigest + `", bootMode: "bios"}` + "\n" + `nodes: "n1": {image: "old", boot: mode: "bios"}`,
		Node: eachNodeImage(func(n *site.Node, name string, i *site.Image) (message, fix string) {
			mode, path := bootMode(n)
			if !differ(i.BootMode, mode) {
				return "", ""
			}
			return fmt.Sprintf("the image %s boots by %s, and %s is %q", name, i.BootMode, path, mode),
				fmt.Sprintf("Write %s: %q, or use an image that boots by %s.", strings.ReplaceAll(path, ".", ": "), i.BootMode, i.BootMode)
		}),
	},
	{
		Code: "duplicate-image", Severity: site.SeverityNote,
		What:  "No two images have the same digest.",
		Why:   "They are one image under two names. Probably somebody changed a URL and not its digest; then Slipway refuses the file.",
		Wrong: `images: other: {url: "https://images.example.org/other.iso", sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}` + "\nnodes: \"n1\": image: \"other\"",
		Right: `images: other: {url: "https://images.example.org/other.iso", sha256: "` + someDigest + `"}` + "\nnodes: \"n1\": image: \"other\"",
		Site:  duplicateImage,
	},
	{
		Code: "install-timeout", Severity: site.SeverityError,
		What:  "An installation may take from a minute to a day.",
		Why:   "In less time no server finishes its self-test, so every installation fails with its disks erased; with more time, nobody notices a hanging one until the next day.",
		Wrong: `images: quick: {url: "https://images.example.org/quick.iso", sha256: "` + someDigest + `", installTimeout: "45s"}` + "\nnodes: \"n1\": image: \"quick\"",
		Right: `images: quick: {url: "https://images.example.org/quick.iso", sha256: "` + someDigest + `", installTimeout: "45m"}` + "\nnodes: \"n1\": image: \"quick\"",
		Site:  installTimeout,
	},
}

// bootMode returns the boot mode of a node's firmware, and the path that sets it.
func bootMode(n *site.Node) (mode, path string) {
	switch {
	case !n.IsVirtual():
		return n.Boot.Mode, "boot.mode"
	case n.Virtual.Firmware == "" && states(n, "virtual.firmware"):
		return "", "virtual.firmware"
	}
	return cmp.Or(n.Virtual.Firmware, "bios"), "virtual.firmware"
}

func bootOrder(s *site.Site, n *site.Node) []site.Finding {
	order := n.Boot.Order
	object := func(message, fix string) site.Finding { return wrong("boot.order", message, fix) }
	for i, target := range order {
		if slices.Contains(order[:i], target) {
			return []site.Finding{object(fmt.Sprintf("the boot order names %s twice", target), "Remove one of them.")}
		}
	}
	if n.Boot.Mode == "bios" && slices.Contains(order, "UefiHttp") {
		return []site.Finding{beside(n, "boot.mode", object(`the boot order has UefiHttp, and boot.mode is "bios"`, `Remove it, or write boot: mode: "uefi".`))}
	}
	if len(order) > 0 && (order[0] == "Pxe" || order[0] == "UefiHttp") && !slices.ContainsFunc(keys(s.Networks), func(name string) bool { return leases(s, name) }) {
		f := object(fmt.Sprintf("the boot order begins with %s, and no network has DHCP", order[0]),
			`Give a network a range with use: "dhcp" or a relay, or put another target first.`)
		f.Severity, f.Why = site.SeverityNote, "Unless a DHCP server answers that the design does not know, the machine waits for one at every start."
		return []site.Finding{f}
	}
	return nil
}

func installBy(s *site.Site, n *site.Node) []site.Finding {
	image := s.Images[n.Image]
	switch {
	case n.Boot.InstallBy != "http":
		return nil
	case n.Boot.Mode == "bios":
		return []site.Finding{beside(n, "boot.mode", wrong("boot.installBy", `boot.installBy is "http", and boot.mode is "bios"`,
			`Write installBy: "media", or mode: "uefi".`))}
	case image != nil && image.BootMode == "bios":
		return []site.Finding{beside(n, "image", wrong("boot.installBy", fmt.Sprintf(`boot.installBy is "http", and the image %s boots by bios`, n.Image),
			`Write installBy: "media", or use an image that boots by uefi.`))}
	}
	return nil
}

// leases reports whether a DHCP server gives addresses in a network.
func leases(s *site.Site, network string) bool {
	n := s.Networks[network]
	if n == nil {
		return false
	}
	for _, r := range n.Ranges {
		if r.Use == site.RangeDHCP {
			return true
		}
	}
	return n.DHCPRelay != nil || n.Boot.DHCP != ""
}

func bootInterface(s *site.Site, n *site.Node) []site.Finding {
	name := n.Boot.Interface
	if name == "" {
		return nil
	}
	if _, ok := n.Interfaces[name]; !ok {
		return absent("boot.interface", "interface", "interfaces", name, n.Interfaces)
	}
	networks := untaggedNetworks(s, n, name)
	if len(networks) == 0 || slices.ContainsFunc(networks, func(network string) bool { return leases(s, network) || n.Addresses[network] == site.AddressDHCP }) {
		return nil
	}
	return []site.Finding{wrong("boot.interface",
		fmt.Sprintf("the interface %s is on %s, without DHCP", name, and(networks)),
		fmt.Sprintf(`Give %s a range with use: "dhcp" or a relay, or boot by another interface.`, networks[0]))}
}

func bootNetwork(s *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	for _, name := range keys(n.Interfaces) {
		boot, path := n.Interfaces[name].Boot, "interfaces."+name+".boot"
		net, link := s.Networks[boot], pluggedInto(n, name)
		if net == nil {
			continue
		}
		if l := s.Links[link]; l != nil && (tagged(s, l, boot) || boot != l.Native && !slices.Contains(l.Networks, boot)) {
			found = append(found, also(s, "links."+link, wrong(path,
				fmt.Sprintf("%s boots from the network %s, which its link %s carries only with a tag or not at all", name, boot, link),
				fmt.Sprintf("Write the native network of the link, or set native: %q there.", boot))))
		}
		switch p := prefixOf(s, boot); {
		case p.IsValid() && p.Addr().Is6() && n.Boot.Mode == "bios":
			found = append(found, beside(n, "boot.mode", wrong(path, fmt.Sprintf("the network %s, %s, is of IPv6, and boot.mode is \"bios\"", boot, p),
				`Name the network of IPv4 on the same VLAN, or write boot: mode: "uefi".`)))
		case !leases(s, boot):
			found = append(found, wrong(path, fmt.Sprintf("the network %s has no DHCP", boot),
				fmt.Sprintf(`Set networks.%s.boot.dhcp, give it a range with use: "dhcp" or a relay, or name another network.`, boot)))
		}
	}
	return found
}

// untaggedNetworks returns the networks that the firmware, which knows no tags, can use
// on an interface: its own, those of its bond, and its link's native one.
func untaggedNetworks(s *site.Site, n *site.Node, name string) []string {
	if boot := n.Interfaces[name].Boot; boot != "" {
		return []string{boot}
	}
	in := map[string]bool{}
	add := func(link string, networks []string) {
		for _, network := range networks {
			in[network] = true
		}
		if l := s.Links[link]; l != nil && l.Native != "" {
			clear(in)
			in[l.Native] = true
		}
	}
	add(n.Interfaces[name].Link, n.Interfaces[name].Networks)
	for _, b := range n.Bonds {
		if slices.Contains(b.Members, name) {
			add(b.Link, b.Networks)
		}
	}
	return keys(in)
}

// eachNodeImage checks the image of a node. An objection is a message and what to do.
func eachNodeImage(object func(n *site.Node, name string, i *site.Image) (message, fix string)) func(*site.Site, *site.Node) []site.Finding {
	return func(s *site.Site, n *site.Node) []site.Finding {
		i := s.Images[n.Image]
		if i == nil {
			return nil
		}
		message, fix := object(n, n.Image, i)
		if message == "" {
			return nil
		}
		return []site.Finding{wrong("image", message, fix)}
	}
}

func duplicateImage(s *site.Site) []site.Finding {
	first := map[string]string{}
	var found []site.Finding
	for _, name := range keys(s.Images) {
		digest := s.Images[name].SHA256
		if before, ok := first[digest]; ok && digest != "" {
			found = append(found, also(s, "images."+before+".sha256", wrong("images."+name+".sha256",
				fmt.Sprintf("the images %s and %s have one digest", before, name),
				"Write the digest that `sha256sum` prints for each, or remove one of them.")))
			continue
		}
		first[digest] = name
	}
	return found
}

// The limits of an installation's time. A server's self-test alone takes minutes.
const (
	leastInstall = site.Duration(time.Minute)
	mostInstall  = site.Duration(24 * time.Hour)
)

func installTimeout(s *site.Site) []site.Finding {
	var found []site.Finding
	for _, name := range keys(s.Images) {
		limit, path := s.Images[name].InstallTimeout, "images."+name+".installTimeout"
		if limit > 0 && limit < leastInstall { // 0 means that it is missing
			found = append(found, wrong(path, fmt.Sprintf("the installation of %s may take %s only", name, time.Duration(limit)),
				"Write at least a minute; 45m is usual."))
		}
		if limit > mostInstall {
			f := wrong(path, fmt.Sprintf("the installation of %s may take %s", name, time.Duration(limit)), "Write at most 24h; 45m is usual.")
			f.Severity = site.SeverityWarning
			found = append(found, f)
		}
	}
	return found
}

// aRootImage is an image of a root file system for examples.
const aRootImage = `images: root12: {url: "https://images.example.org/root12.tar.zst", sha256: "` + someDigest + `", kind: "root"}
`

// aDiskImage is an image of a whole disk for examples.
const aDiskImage = `images: cloud: {url: "https://images.example.org/cloud.qcow2", sha256: "` + someDigest + `", kind: "disk", format: "qcow2"}
`

// becomesImage reports whether an installation writes a whole disk image to a disk of the
// node's machine.
func becomesImage(s *site.Site, n *site.Node) bool {
	return s != nil && s.Images[n.Image].IsDisk() && !n.IsVirtual()
}

// rootImage checks what a node needs for the installation of a root file system.
func rootImage(s *site.Site, n *site.Node) []site.Finding {
	if !s.Images[n.Image].IsRoot() || n.IsVirtual() || n.Generation == 0 {
		return nil
	}
	found := byAgent(s, n)
	if len(n.Storage.Disks) == 0 && !states(n, "storage.disks") {
		found = append(found, also(s, "images."+n.Image+".kind", wrong("image", fmt.Sprintf("the image %s is a root file system, and the node %s has no storage to put it on", n.Image, n.Name),
			`Design storage: disks with a file system that has mount: "/".`)))
	}
	return found
}

// diskImage checks what a node needs for the installation of a whole disk image.
func diskImage(s *site.Site, n *site.Node) []site.Finding {
	if !becomesImage(s, n) || n.Generation == 0 {
		return nil
	}
	found := byAgent(s, n)
	object := func(path, message, fix string) {
		found = append(found, also(s, "images."+n.Image+".kind", wrong(path, message, fix)))
	}
	target := n.Storage.BootDisk
	for _, name := range keys(n.Storage.Disks) {
		d, at := n.Storage.Disks[name], "storage.disks."+name
		uses := usesOf(n, part{kind: aDisk, name: name, Use: d.Use})
		switch {
		case len(uses) > 0:
			object(at+"."+uses[0], fmt.Sprintf("the node %s becomes the image %s of a whole disk, and its disk %s is designed with %s", n.Name, n.Image, name, and(uses)),
				"Remove it: nothing of the storage is made beside the image.")
		case d.Keep:
		case d.Count != "":
			object(at+".count", fmt.Sprintf("the image %s is written to one disk, and %s is a set of disks", n.Image, name), "Remove count, or write keep: true.")
			target = cmp.Or(target, name)
		case target == "":
			target = name
		case target != name:
			object(at, fmt.Sprintf("the image %s is written to the disk %s, and the disk %s would be erased for nothing", n.Image, target, name), "Write keep: true, or remove it.")
		}
	}
	switch d, ok := n.Storage.Disks[target]; {
	case target == "" && !states(n, "storage.disks"):
		object("image", fmt.Sprintf("the image %s is of a whole disk, and the node %s has no disk in its storage to write it to", n.Image, n.Name), "Design storage: disks: os: match: kind: \"nvme\".")
	case ok && d.Keep:
		object("storage.disks."+target+".keep", fmt.Sprintf("the image %s is written to the disk %s, which is kept", n.Image, target), "Remove keep, or design another disk for the image.")
	}
	extra := func(path string) {
		object(path, fmt.Sprintf("the node %s becomes the image %s of a whole disk, beside which nothing of the storage is made", n.Name, n.Image), "Remove it.")
	}
	for _, name := range keys(n.Storage.Arrays) {
		extra("storage.arrays." + name)
	}
	for _, name := range keys(n.Storage.Groups) {
		extra("storage.groups." + name)
	}
	return found
}

// byAgent checks what a node needs for an installation by Slipway's agent.
func byAgent(s *site.Site, n *site.Node) (found []site.Finding) {
	object := func(path, message, fix string) {
		found = append(found, also(s, "images."+n.Image+".kind", wrong(path, message, fix)))
	}
	if m := n.Machine(); m.UUID == "" && m.Serial == "" {
		object("image", fmt.Sprintf("the image %s is installed by Slipway's agent, and the node %s names neither the UUID nor the serial number of its machine", n.Image, n.Name),
			"Write identity: uuid or identity: serial; `slipway discover` shows them.")
	}
	if _, ok := n.Endpoints[site.Manager]; !ok && !states(n, "endpoints.manager") {
		object("image", fmt.Sprintf("the image %s is installed by Slipway's agent, which the BMC starts, and the node %s has no BMC", n.Image, n.Name),
			"Write endpoints: manager, or use an image that is installed in another way.")
	}
	if n.Boot.InstallBy != "" && n.Boot.InstallBy != "media" {
		object("boot.installBy", fmt.Sprintf("the image %s is installed by Slipway's agent, and boot.installBy %s is for installers only", n.Image, n.Boot.InstallBy),
			`Remove it. boot.start says how the agent starts.`)
	}
	if n.Boot.Mode == "bios" {
		object("boot.mode", fmt.Sprintf("the image %s is installed by Slipway's agent, which starts by UEFI, and the machine boots by BIOS", n.Image),
			`Write mode: "uefi", or use an image with kind: "installer".`)
	}
	for _, name := range keys(n.Storage.Disks) {
		if d := n.Storage.Disks[name]; d.Match == nil && d.Device == "" && !states(n, "storage.disks."+name+".match") && !states(n, "storage.disks."+name+".device") {
			object("storage.disks."+name, fmt.Sprintf("nothing says how to find the disk %s: it has neither match nor device", name), "Write match or device.")
		}
	}
	return found
}
