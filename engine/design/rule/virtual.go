package rule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// aMachine is a virtual machine for examples, anInstalled its installation.
const (
	aHypervisor = `hypervisors: "hv-1": url: "libvirt+unix:///system"
`
	aMachine = aHypervisor + `profiles: vm: {style: "virtual", role: "compute", virtual: {cpus: 2, memory: "2GiB", disks: root: {size: "20GiB", image: "overlay"}}}
`
	anInstalled = aMachine + `images: cloud: {url: "https://images.example.org/debian12.qcow2", sha256: "` + someDigest + `", format: "qcow2"}
profiles: vm: {image: "cloud", generation: 1, endpoints: os: url: "ssh://{name}.example.org", system: users: admin: keys: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFPWpdVTB1pw77PbuCSIbtGfp/5U0O8L3tgZg87e64Sv"]}
`
)

// virtuals: is a virtual machine consistent, and can Slipway create and install
// it?
var virtuals = []Rule{
	{
		Code: "unknown-hypervisor", Severity: site.SeverityError, Firm: true,
		What: "The hypervisor that a virtual machine asks for is an entry in `hypervisors`.", Why: noMeaning,
		Wrong: aMachine + `nodes: "vm-1": {profiles: ["vm"], virtual: hypervisor: "hv-2"}`,
		Right: aMachine + `nodes: "vm-1": {profiles: ["vm"], virtual: hypervisor: "hv-1"}`,
		Node: func(s *site.Site, n *site.Node) []site.Finding {
			return refer("virtual.hypervisor", "hypervisors", n.Virtual.Hypervisor, s.Hypervisors)
		},
	},
	{
		Code: "virtual-without-hypervisor", Severity: site.SeverityError, Firm: true,
		What: "A site with virtual machines has a hypervisor.",
		Why:  "There is nothing that the machine could run on.",
		Wrong: `profiles: vm: {style: "virtual", role: "compute", virtual: {cpus: 2, memory: "2GiB", disks: root: size: "20GiB"}}
nodes: "vm-1": profiles: ["vm"]`,
		Right: aMachine + `nodes: "vm-1": profiles: ["vm"]`,
		Node: func(s *site.Site, n *site.Node) []site.Finding {
			if !n.IsVirtual() || len(s.Hypervisors) > 0 || lost(s.Origins, "hypervisors", s.Hypervisors) {
				return nil
			}
			return []site.Finding{wrong("style", fmt.Sprintf("the node %s is virtual, and the site has no hypervisor", n.Name),
				`Declare one, such as hypervisors: "hv-1": url: "libvirt+ssh://root@192.0.2.21/system".`)}
		},
	},
	{
		Code: "physical-fields-on-virtual", Severity: site.SeverityError, Firm: true,
		What:  "A virtual machine has nothing that only a physical one has: " + and(physicalOnly) + ".",
		Why:   "Its identity follows from the names of the site and of the node, its rack is that of its hypervisor, and the rest is under `virtual`; what stands elsewhere would have no effect.",
		Wrong: aMachine + `nodes: "vm-1": {profiles: ["vm"], rack: "r1"}`,
		Right: aMachine + `nodes: "vm-1": profiles: ["vm"]`,
		Node:  physicalFields,
	},
	{
		Code: "virtual-fields-on-physical", Severity: site.SeverityError, Firm: true,
		What:  "A physical machine has nothing under `virtual`.",
		Why:   "Nobody can change what a physical machine is made of, so these fields would have no effect. Or the style is missing, and Slipway would not make the machine.",
		Wrong: `nodes: "n1": virtual: cpus: 2`,
		Right: `nodes: "n1": hardware: cpus: 2`,
		Node: func(_ *site.Site, n *site.Node) []site.Finding {
			if _, has := within(n.Origins, "virtual"); !has || n.IsVirtual() || states(n, "style") && n.Style == "" {
				return nil
			}
			return []site.Finding{wrong("virtual", fmt.Sprintf("the node %s is not virtual, and has fields under `virtual`", n.Name),
				`Write style: "virtual", or remove them.`)}
		},
	},
	{
		Code: "virtual-incomplete", Severity: site.SeverityError,
		What: "A virtual machine has a disk.",
		Why:  "It has nothing to start from, and nothing can be installed.",
		Wrong: aHypervisor + `profiles: vm: {style: "virtual", role: "compute", virtual: {cpus: 2, memory: "2GiB", disks: {}}}
nodes: "vm-1": profiles: ["vm"]`,
		Right: aMachine + `nodes: "vm-1": profiles: ["vm"]`,
		Node: func(_ *site.Site, n *site.Node) []site.Finding {
			if !n.IsVirtual() || len(n.Virtual.Disks) > 0 || !states(n, "virtual.disks") {
				return nil // if it sets no disks, the field is missing
			}
			return []site.Finding{wrong("virtual.disks", fmt.Sprintf("the virtual machine %s has no disk", n.Name),
				`Give it one, such as disks: root: {size: "20GiB", image: "overlay"}.`)}
		},
	},
	{
		Code: "virtual-interface", Severity: site.SeverityError,
		What:  "An interface of a virtual machine is also under `virtual.interfaces`, the only place for its adapter and MAC address.",
		Why:   "Slipway makes the machine with only the interfaces under `virtual.interfaces`. Any other interface of the design never comes up.",
		Wrong: aMachine + `nodes: "vm-1": {profiles: ["vm"], virtual: interfaces: eth0: bridge: "br0", interfaces: ens3: {}}`,
		Right: aMachine + `nodes: "vm-1": {profiles: ["vm"], virtual: interfaces: eth0: bridge: "br0", interfaces: eth0: {}}`,
		Node:  virtualInterface,
	},
	{
		Code: "image-format", Severity: site.SeverityError, Firm: true,
		What:  "The image of a virtual machine is a disk (format \"qcow2\" or \"raw\"), that of a physical one has a kind: \"installer\", \"root\" or \"disk\".",
		Why:   "A virtual machine starts from the image of a disk alone, and for a physical one the design has to say that its disk becomes the image; the machine would not start, with its disks erased.",
		Wrong: aMachine + `nodes: "vm-1": {profiles: ["vm"], image: "debian12"}`,
		Right: aMachine + `images: cloud: {url: "https://images.example.org/debian12.qcow2", sha256: "` + someDigest + `", format: "qcow2"}
nodes: "vm-1": {profiles: ["vm"], image: "cloud"}`,
		Node: eachNodeImage(imageFormat),
	},
	{
		Code: "image-kind", Severity: site.SeverityError, Firm: true,
		What:  "An installer or a root file system has a kind and no format, the image of a disk a format, and a root file system is a tar.",
		Why:   "Slipway would not know how a machine is installed from it, and it would refuse an archive that it cannot unpack only after the machine is out of service.",
		Wrong: `images: debian12: format: "iso"`,
		Right: `images: debian12: kind: "installer"`,
		Site:  imageKind,
	},
	{
		Code: "image-disk", Severity: site.SeverityError, Firm: true,
		What:  "A virtual machine with a generation has one disk for its image, and an overlay is of the format qcow2.",
		Why:   "Slipway must know which disk an installation erases, and only a file in the format qcow2 can be an overlay of another file.",
		Wrong: anInstalled + `nodes: "vm-1": {profiles: ["vm"], virtual: disks: data: {size: "10GiB", image: "copy"}}`,
		Right: anInstalled + `nodes: "vm-1": {profiles: ["vm"], virtual: disks: data: size: "10GiB"}`,
		Node:  imageDisk,
	},
	{
		Code: "image-disk-too-small", Severity: site.SeverityError,
		What:  "The disk for the image of a virtual machine is as large as the disk in the image, where that has a size.",
		Why:   "The end of the system would be cut off, so that it does not start; the installation is refused.",
		Wrong: anInstalled + `images: cloud: size: "30GiB"` + "\n" + `nodes: "vm-1": profiles: ["vm"]`,
		Right: anInstalled + `images: cloud: size: "3GiB"` + "\n" + `nodes: "vm-1": profiles: ["vm"]`,
		Node:  imageDiskTooSmall,
	},
	{
		Code: "virtual-without-os-endpoint", Severity: site.SeverityError,
		What:  "A virtual machine with a generation has endpoints.os.",
		Why:   "An installation is done when the system itself says so, which is read through this endpoint; without it nothing could prove it, and it would never end.",
		Wrong: anInstalled + `nodes: "vm-1": {profiles: ["vm"], endpoints: os: _ @unset()}`,
		Right: anInstalled + `nodes: "vm-1": profiles: ["vm"]`,
		Node: func(_ *site.Site, n *site.Node) []site.Finding {
			if _, has := within(n.Origins, "endpoints.os"); has || !isInstalled(n) {
				return nil
			}
			return []site.Finding{wrong("generation", fmt.Sprintf("the virtual machine %s has a generation and no endpoints.os", n.Name),
				`Write endpoints: os: url: "ssh://{addresses.NETWORK}", with the name of the network.`)}
		},
	},
	{
		Code: "virtual-without-login", Severity: site.SeverityWarning,
		What:  "On a virtual machine with a generation somebody can log in with an SSH key.",
		Why:   "Without a key the first boot makes no account. Unless the image has one, neither you nor Slipway can log in, and the installation never ends.",
		Wrong: anInstalled + `nodes: "vm-1": {profiles: ["vm"], system: users: admin: keys: _ @unset()}`,
		Right: anInstalled + `nodes: "vm-1": profiles: ["vm"]`,
		Node:  virtualWithoutLogin,
	},
}

// isInstalled reports whether a virtual machine gets its system by an
// installation, if everything about it is known.
func isInstalled(n *site.Node) bool {
	return n.IsVirtual() && states(n, "generation") && isWhole(n)
}

// physicalOnly are the paths that only a physical machine has.
var physicalOnly = []string{
	"identity", "moved", "rack", "position", "hardware", "bios", "firmware", "bmc", "endpoints.manager", "boot.mode", "boot.installBy", "boot.start", "storage.controllers",
}

func physicalFields(s *site.Site, n *site.Node) []site.Finding {
	if !n.IsVirtual() {
		return nil
	}
	var found []site.Finding
	for _, path := range physicalOnly {
		if path == "identity" && isDerived(s, n) {
			continue
		}
		if _, has := within(n.Origins, path); has {
			found = append(found, wrong(path, fmt.Sprintf("the node %s is virtual, and has %s, which only a physical machine has", n.Name, path),
				fmt.Sprintf("Remove it; where a profile sets it that physical nodes have too, remove it with `%s: _ @unset()`.", strings.ReplaceAll(path, ".", ": "))))
		}
	}
	return found
}

// isDerived reports whether the identity of a virtual machine is the one
// derived from its name, whether or not the design repeats it.
func isDerived(s *site.Site, n *site.Node) bool {
	return n.Identity == site.Identity{UUID: site.MachineUUID(s.Name, n.Name)} && !states(n, "identity.serial")
}

func virtualInterface(_ *site.Site, n *site.Node) []site.Finding {
	if !n.IsVirtual() || lost(n.Origins, "virtual.interfaces", n.Virtual.Interfaces) && len(n.Virtual.Interfaces) == 0 {
		return nil
	}
	var found []site.Finding
	for _, name := range keys(n.Interfaces) {
		path := "interfaces." + name
		if _, ok := n.Virtual.Interfaces[name]; !ok {
			found = append(found, absent(path, "interface", "virtual.interfaces", name, n.Virtual.Interfaces)...)
		}
		if n.Interfaces[name].MAC != "" {
			found = append(found, wrong(path+".mac", fmt.Sprintf("the MAC address of %s, which is virtual, is not under virtual.interfaces", name),
				fmt.Sprintf("Move it to virtual.interfaces.%s.mac, or remove it: then it follows from the names of the site and the node.", name)))
		}
		if n.Interfaces[name].Device != "" {
			found = append(found, wrong(path+".device", fmt.Sprintf("%s is virtual, and has a device of the hardware", name),
				"Remove it: the interface is the one of its name under virtual.interfaces."))
		}
	}
	return found
}

func imageFormat(n *site.Node, name string, i *site.Image) (message, fix string) {
	isDisk := i.Format != "" && i.Format != "iso"
	switch {
	case n.IsVirtual() && !isDisk:
		return fmt.Sprintf("the image %s is not the image of a disk, and the node %s is virtual", name, n.Name),
			`Use an image with format: "qcow2" or "raw".`
	case n.IsVirtual() && strings.HasPrefix(i.URL, "file:"):
		return fmt.Sprintf("the image %s has a file URL, and the hypervisor of the node %s gets it over http or https", name, n.Name),
			"Write https://images.example.org/debian12.qcow2."
	case !n.IsVirtual() && isDisk && !i.IsDisk():
		return fmt.Sprintf("the image %s is a disk (%s), and the node %s is a physical machine", name, i.Format, n.Name),
			`Write kind: "disk", so that Slipway's agent writes it to the machine's disk, or write style: "virtual".`
	}
	return "", ""
}

func imageKind(s *site.Site) (found []site.Finding) {
	for _, name := range keys(s.Images) {
		i, at := s.Images[name], "images."+name
		file := strings.ToLower(i.URL)
		switch tar := slices.ContainsFunc(tars, func(end string) bool { return strings.HasSuffix(file, end) }); {
		case i.Format == "iso":
			found = append(found, wrong(at+".format", fmt.Sprintf("the image %s has format: \"iso\", which is kind: \"installer\" now", name),
				"Run `slipway migrate`, which rewrites it."))
		case i.IsDisk() && i.Format == "" && !s.Origins.Has(at+".format"):
			found = append(found, wrong(at+".kind", fmt.Sprintf("the image %s is of a whole disk, and has no format", name), `Write format: "qcow2" or "raw".`))
		case i.Kind != "" && !i.IsDisk() && i.Format != "":
			found = append(found, also(s, at+".format", wrong(at+".kind", fmt.Sprintf("the image %s has kind: %q, and a format, which the image of a disk has", name, i.Kind),
				`Remove one of them, or write kind: "disk".`)))
		case i.IsRoot() && !tar:
			found = append(found, also(s, at+".kind", wrong(at+".url", fmt.Sprintf("the image %s is a root file system, and its URL does not end as that of a tar does", name),
				"Name a file that ends in .tar, .tar.zst, .tar.gz or .tar.xz: Slipway unpacks nothing else.")))
		}
	}
	return found
}

// tars are the file name extensions of archives that the agent unpacks.
var tars = []string{".tar", ".tar.zst", ".tar.gz", ".tar.xz"}

func imageDisk(_ *site.Site, n *site.Node) []site.Finding {
	if !n.IsVirtual() {
		return nil
	}
	var disks []string
	var found []site.Finding
	for _, name := range keys(n.Virtual.Disks) {
		d, path := n.Virtual.Disks[name], "virtual.disks."+name
		if d.Image == "" {
			continue
		}
		disks = append(disks, name)
		if d.Image == "overlay" && d.Format == "raw" {
			found = append(found, beside(n, path+".format", wrong(path+".image",
				fmt.Sprintf("the disk %s is an overlay, and its format is raw", name), `Write image: "copy", or format: "qcow2".`)))
		}
	}
	switch {
	case len(disks) > 1:
		found = append(found, beside(n, "virtual.disks."+disks[0]+".image", wrong("virtual.disks."+disks[1]+".image",
			fmt.Sprintf("the image of %s is put on the disks %s", n.Name, and(disks)), "Keep `image` on one of them; the others are for data.")))
	case len(disks) == 0 && len(n.Virtual.Disks) > 0 && isInstalled(n) && !saysImageDisk(n):
		found = append(found, wrong("generation", fmt.Sprintf("the virtual machine %s has a generation and no disk for its image", n.Name),
			`Write image: "overlay" or image: "copy" at one of its disks.`))
	}
	return found
}

// saysImageDisk reports whether a disk has an image, valid or not.
func saysImageDisk(n *site.Node) bool {
	for path := range n.Origins.Within("virtual.disks") {
		if strings.HasSuffix(path, ".image") {
			return true
		}
	}
	return false
}

func imageDiskTooSmall(s *site.Site, n *site.Node) []site.Finding {
	i := s.Images[n.Image]
	if i == nil || i.Size == 0 {
		return nil
	}
	var found []site.Finding
	for _, name := range keys(n.Virtual.Disks) {
		d, path := n.Virtual.Disks[name], "virtual.disks."+name+".size"
		if d.Image == "" || d.Size == 0 || d.Size >= i.Size {
			continue
		}
		found = append(found, also(s, "images."+n.Image+".size", wrong(path,
			fmt.Sprintf("the disk %s has %s, and the image %s needs %s", name, amount(d.Size), n.Image, amount(i.Size)),
			fmt.Sprintf("Give it at least %s.", amount(i.Size)))))
	}
	return found
}

func virtualWithoutLogin(s *site.Site, n *site.Node) []site.Finding {
	if !isInstalled(n) {
		return nil
	}
	systems := []site.System{n.System}
	if i := s.Images[n.Image]; i != nil {
		systems = append(systems, n.Families[i.Family])
	}
	for _, x := range systems {
		for _, u := range x.Users {
			if len(u.Keys) > 0 && u.State != "absent" {
				return nil
			}
		}
	}
	return []site.Finding{wrong("generation", fmt.Sprintf("no account of the virtual machine %s has an SSH key", n.Name),
		"Give one keys under system.users; that of the credential of endpoints.os has to be among them.")}
}
