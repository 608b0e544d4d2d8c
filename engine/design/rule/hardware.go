package rule

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

var hardwares = []Rule{
	{
		Code: "device-selector", Severity: site.SeverityError, Firm: true,
		What:  "A device is found in exactly one way: by pci, scsi, mac, a path under /dev/disk or /sys, or a neighbour's system and port.",
		Why:   "With none the device is not found; with two that disagree, or with a name such as /dev/sda that changes from boot to boot, it may be the wrong disk that is erased.",
		Wrong: `nodes: "n1": hardware: devices: "port-1": {kind: "nic", pci: "0000:18:00.0", mac: "52:54:00:12:34:56"}`,
		Right: `nodes: "n1": hardware: devices: "port-1": {kind: "nic", pci: "0000:18:00.0"}`,
		Node:  eachDevice(deviceSelector),
	},
	{
		Code: "device-same-place", Severity: site.SeverityError,
		What:  "No two devices of a node are at the same place.",
		Why:   "Two names stand for one device: what one does, the other undoes or overwrites.",
		Wrong: `nodes: "n1": hardware: devices: {a: pci: "0000:18:00.0", b: pci: "0000:18:00.0"}`,
		Right: `nodes: "n1": hardware: devices: {a: pci: "0000:18:00.0", b: pci: "0000:18:00.1"}`,
		Node:  deviceSamePlace,
	},
	{
		Code: "device-kind", Severity: site.SeverityError,
		What: "A device is of the kind that it is used for, and has the properties of its kind.",
		Why:  "The name probably belongs to something else: a disk cannot be an interface, and a network card cannot hold a file system.",
		Wrong: `nodes: "n4": {
	hardware: devices: data: {kind: "disk", scsi: "0:0:1:0"}
	interfaces: eno1: device: "data"
}`,
		Right: `nodes: "n4": {
	hardware: devices: data: {kind: "nic", pci: "0000:18:00.0"}
	interfaces: eno1: device: "data"
}`,
		Node: deviceKind,
	},
	{
		Code: "unknown-device", Severity: site.SeverityError, Firm: true,
		What:  "The device of an interface, a disk or a controller is an entry in the node's `hardware.devices`; that of a disk may be a controller's volume too.",
		Why:   noMeaning,
		Wrong: `nodes: "n4": interfaces: eno1: device: "port-1"`,
		Right: `nodes: "n4": {
	hardware: devices: "port-1": {kind: "nic", pci: "0000:18:00.0"}
	interfaces: eno1: device: "port-1"
}`,
		Node: unknownDevice,
	},
	{
		Code: "interface-device", Severity: site.SeverityError,
		What: "The device of an interface is found by `mac`, `pci` or a `path` below `/sys` with a PCI address, unless the interface has a `mac`.",
		Why:  "Slipway finds a port by nothing else, and would set up whichever port has the interface's name.",
		Wrong: `nodes: "n4": {
	hardware: devices: "port-1": {kind: "nic", neighbour: {system: "tor1", port: "1/7"}}
	interfaces: eno1: device: "port-1"
}`,
		Right: `nodes: "n4": {
	hardware: devices: "port-1": {kind: "nic", pci: "0000:18:00.0"}
	interfaces: eno1: device: "port-1"
}`,
		Node: interfaceDevice,
	},
	{
		Code: "device-used-twice", Severity: site.SeverityError, Firm: true,
		What: "A device is used once: no two interfaces, disks or controllers of a node are the same, and no two disks are found by the same rule.",
		Why:  "Both are the same device, and writing to one destroys the data of the other.",
		Wrong: `nodes: "n1": storage: disks: {
	root: {match: kind: "ssd", filesystem: mount: "/"}
	data: {match: kind: "ssd", filesystem: mount: "/srv"}
}`,
		Right: `nodes: "n1": storage: disks: {
	root: {match: kind: "ssd", filesystem: mount: "/"}
	data: {match: kind: "hdd", filesystem: mount: "/srv"}
}`,
		Node: deviceUsedTwice,
	},
	{
		Code: "cpu-set-range", Severity: site.SeverityError,
		What:  "Each range of a CPU set counts upwards and names only processors that the hardware has. Two sets have no processor in common.",
		Why:   "The kernel refuses such a list and starts without it (Documentation/core-api/kernel-api.rst, bitmap_parselist), and two users of one isolated processor disturb each other.",
		Wrong: `nodes: "n1": hardware: {cpus: 32, cpuSets: guests: "2-15,18-32"}`,
		Right: `nodes: "n1": hardware: {cpus: 32, cpuSets: guests: "2-15,18-31"}`,
		Node:  cpuSetRange,
	},
	{
		Code: "hugepage-size", Severity: site.SeverityError,
		What:  "The size of a hugepage is one that the processors have: 2MiB or 1GiB on amd64; 64KiB, 2MiB, 32MiB or 1GiB on arm64.",
		Why:   "The kernel reserves no page of another size (Documentation/admin-guide/mm/hugetlbpage.rst, Documentation/arch/arm64/hugetlbpage.rst), and what wants them does not start.",
		Wrong: `nodes: "n1": hardware: {architecture: "amd64", memory: "64GiB", hugepages: guests: {size: "32MiB", count: 8}}`,
		Right: `nodes: "n1": hardware: {architecture: "arm64", memory: "64GiB", hugepages: guests: {size: "32MiB", count: 8}}`,
		Node:  hugepageSize,
	},
	{
		Code: "hugepages-memory", Severity: site.SeverityError,
		What:  "The hugepages of a node leave 1 GiB of its memory, and another 1/64 of it, to everything else.",
		Why:   "The kernel uses 1/64 for its own record of the pages (Documentation/mm/vmemmap_dedup.rst); a node without free memory dies while it starts, before anyone can log in.",
		Wrong: `nodes: "n1": hardware: {memory: "64GiB", hugepages: guests: {size: "1GiB", count: 63}}`,
		Right: `nodes: "n1": hardware: {memory: "64GiB", hugepages: guests: {size: "1GiB", count: 48}}`,
		Node:  hugepagesMemory,
	},
}

// eachDevice checks every device of a node. An objection is a message and what to do.
func eachDevice(object func(n *site.Node, path, name string, d site.Device) (message, fix string)) func(*site.Site, *site.Node) []site.Finding {
	return func(_ *site.Site, n *site.Node) []site.Finding {
		var found []site.Finding
		for _, name := range keys(n.Hardware.Devices) {
			path := "hardware.devices." + name
			if message, fix := object(n, path, name, n.Hardware.Devices[name]); message != "" {
				found = append(found, wrong(path, message, fix))
			}
		}
		return found
	}
}

func deviceSelector(n *site.Node, path, name string, d site.Device) (message, fix string) {
	var ways []string
	for _, way := range []string{"pci", "scsi", "mac", "path"} {
		if states(n, path+"."+way) {
			ways = append(ways, way)
		}
	}
	if d.Neighbour != nil {
		ways = append(ways, "neighbour")
	}
	switch {
	case len(ways) == 0:
		return fmt.Sprintf("nothing says how the device %s is found", name), "Set one of pci, scsi, mac, path and neighbour."
	case len(ways) > 1:
		return fmt.Sprintf("the device %s is found by %s", name, and(ways)), "Keep one of them."
	case d.Neighbour != nil && !(states(n, path+".neighbour.system") && states(n, path+".neighbour.port")):
		return fmt.Sprintf("the neighbour of the device %s has no system or no port", name), "Set neighbour.system and neighbour.port."
	case d.Path != "" && !strings.HasPrefix(d.Path, "/dev/disk/") && !strings.HasPrefix(d.Path, "/sys/"):
		return fmt.Sprintf("the device %s is found by %s, which is not under /dev/disk or /sys", name, d.Path),
			"Write the path that `ls -l /dev/disk/by-path` shows."
	}
	return "", ""
}

// and lists words: "a, b and c".
func and(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

func deviceSamePlace(_ *site.Site, n *site.Node) []site.Finding {
	at := map[string]string{}
	var found []site.Finding
	for _, name := range keys(n.Hardware.Devices) {
		where, field := placeOf(n.Hardware.Devices[name])
		first, taken := at[where]
		if where != "" && taken {
			found = append(found, beside(n, "hardware.devices."+first+"."+field, wrong("hardware.devices."+name+"."+field,
				fmt.Sprintf("the devices %s and %s are both at %s", first, name, where), "Correct one of them, or use one name for both.")))
			continue
		}
		at[where] = name
	}
	return found
}

// placeOf returns where a device is, and the field that says so; empty if unknown.
func placeOf(d site.Device) (where, field string) {
	switch {
	case d.Neighbour != nil && d.Neighbour.System != "" && d.Neighbour.Port != "":
		return d.Neighbour.System + " port " + d.Neighbour.Port, "neighbour.port"
	case d.PCI != "":
		return d.PCI, "pci"
	case d.SCSI != "":
		return d.SCSI, "scsi"
	case d.MAC != "":
		return d.MAC, "mac"
	}
	return d.Path, "path"
}

// beside adds the place of another value of the node to a finding.
func beside(n *site.Node, path string, f site.Finding) site.Finding {
	if o, ok := nearest(n.Origins, path); ok {
		f.Related = append(f.Related, o.String())
	}
	return f
}

// deviceUse is a part of a node that refers to a device.
type deviceUse struct {
	// section is its section, what its name for people.
	section, what, name string
	device              string
	// kind is the kind of device that it needs.
	kind string
}

// path returns the path that names the device.
func (u deviceUse) path() string { return u.section + "." + u.name + ".device" }

func (u deviceUse) String() string { return "the " + u.what + " " + u.name }

// deviceUses lists references to devices, known or not, except to volumes of
// controllers.
func deviceUses(n *site.Node) []deviceUse {
	var uses []deviceUse
	add := func(u deviceUse) {
		if u.device != "" && !strings.Contains(u.device, "/") {
			uses = append(uses, u)
		}
	}
	for _, name := range keys(n.Interfaces) {
		add(deviceUse{"interfaces", "interface", name, n.Interfaces[name].Device, "nic"})
	}
	for _, name := range keys(n.Storage.Controllers) {
		add(deviceUse{"storage.controllers", "controller", name, n.Storage.Controllers[name].Device, "controller"})
	}
	for _, name := range keys(n.Storage.Disks) {
		add(deviceUse{"storage.disks", "disk", name, n.Storage.Disks[name].Device, "disk"})
	}
	return uses
}

func deviceKind(_ *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	for _, name := range keys(n.Hardware.Devices) {
		d := n.Hardware.Devices[name]
		kind, path := kindOf(d), "hardware.devices."+name
		switch {
		case d.Kind != "" && impliedKind(d) != "" && d.Kind != impliedKind(d):
			found = append(found, wrong(path+".kind", fmt.Sprintf("the device %s is a %s, but it is identified in a way that finds only a %s", name, d.Kind, impliedKind(d)),
				fmt.Sprintf("Write kind: %q, or find it by pci or path.", impliedKind(d))))
		case d.Size != 0 && kind != "" && kind != "disk":
			found = append(found, wrong(path+".size", fmt.Sprintf("the device %s is a %s and has a size", name, kind), `Remove size, or write kind: "disk".`))
		case d.Rate != 0 && kind != "" && kind != "nic":
			found = append(found, wrong(path+".rate", fmt.Sprintf("the device %s is a %s and has a rate", name, kind), `Remove rate, or write kind: "nic".`))
		}
	}
	for _, u := range deviceUses(n) {
		if kind := kindOf(n.Hardware.Devices[u.device]); kind != "" && kind != u.kind {
			found = append(found, beside(n, "hardware.devices."+u.device+".kind", wrong(u.path(),
				fmt.Sprintf("%s is the device %s, which is a %s", u, u.device, kind),
				fmt.Sprintf("Name a device of kind %q.", u.kind))))
		}
	}
	return found
}

// interfaceDevice reports interfaces whose device does not identify a port.
func interfaceDevice(_ *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	for _, name := range keys(n.Interfaces) {
		device := n.Interfaces[name].Device
		d, known := n.Hardware.Devices[device]
		where, field := placeOf(d)
		if kind := kindOf(d); !known || where == "" || kind != "" && kind != "nic" || n.MACOf(name) != "" || n.PCIOf(name) != "" || n.Virtual.Interfaces[name].MAC != "" {
			continue
		}
		field, _, _ = strings.Cut(field, ".")
		found = append(found, beside(n, "hardware.devices."+device+"."+field, wrong("interfaces."+name+".device",
			fmt.Sprintf("the interface %s is the device %s, which is found by its %s: Slipway finds no port by that", name, device, field),
			fmt.Sprintf("Find the device by mac or pci, or write interfaces: %s: mac.", name))))
	}
	return found
}

// kindOf returns a device's kind, stated or implied; empty if unknown.
func kindOf(d site.Device) string { return cmp.Or(d.Kind, impliedKind(d)) }

// impliedKind returns the only kind that can have the device's selector. A SCSI
// address implies none: it belongs to a disk or an enclosure.
func impliedKind(d site.Device) string {
	if d.MAC != "" || d.Neighbour != nil {
		return "nic"
	}
	return ""
}

func unknownDevice(_ *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	for _, u := range deviceUses(n) {
		if _, ok := n.Hardware.Devices[u.device]; !ok {
			found = append(found, absent(u.path(), "device", "hardware.devices", u.device, n.Hardware.Devices)...)
		}
	}
	for _, name := range keys(n.Storage.Disks) {
		controller, volume, ok := strings.Cut(n.Storage.Disks[name].Device, "/")
		if !ok {
			continue
		}
		path := "storage.disks." + name + ".device"
		c, known := n.Storage.Controllers[controller]
		if !known {
			found = append(found, absent(path, "controller", "storage.controllers", controller, n.Storage.Controllers)...)
			continue
		}
		found = append(found, absent(path, "volume", "storage.controllers."+controller+".volumes", volume, c.Volumes)...)
	}
	return found
}

// absent reports a name that a map of the node does not have.
func absent[V any](path, what, in, name string, known map[string]V) []site.Finding {
	if _, ok := known[name]; ok || name == "" {
		return nil
	}
	return []site.Finding{wrong(path,
		fmt.Sprintf("there is no %s %q%s", what, name, DidYouMean(name, keys(known))),
		fmt.Sprintf("Use a name that `%s` of the node has, or declare %q there.", in, name))}
}

func deviceUsedTwice(_ *site.Site, n *site.Node) []site.Finding {
	first := map[string]deviceUse{}
	var found []site.Finding
	for _, u := range deviceUses(n) {
		if before, taken := first[u.device]; taken {
			found = append(found, sameThing(n, before, u, before.path(), u.path(), "the device "+u.device))
			continue
		}
		first[u.device] = u
	}
	return append(found, diskTwice(n)...)
}

func sameThing(n *site.Node, a, b fmt.Stringer, atA, atB, thing string) site.Finding {
	return beside(n, atA, wrong(atB, fmt.Sprintf("%s is %s, and so is %s", a, thing, b), "Give each its own."))
}

// diskTwice finds disks that share a volume of a controller or a rule.
func diskTwice(n *site.Node) []site.Finding {
	volumes, rules := map[string]string{}, map[site.DiskMatch]string{}
	var found []site.Finding
	for _, name := range keys(n.Storage.Disks) {
		d, p := n.Storage.Disks[name], part{kind: aDisk, name: name}
		if strings.Contains(d.Device, "/") {
			if before, ok := volumes[d.Device]; ok {
				first := part{kind: aDisk, name: before}
				found = append(found, sameThing(n, first, p, first.path()+".device", p.path()+".device", "the volume "+d.Device))
			} else {
				volumes[d.Device] = name
			}
		}
		if d.Match != nil && *d.Match != (site.DiskMatch{}) {
			if before, ok := rules[*d.Match]; ok {
				first := part{kind: aDisk, name: before}
				found = append(found, sameThing(n, first, p, first.path()+".match", p.path()+".match", "the disk that is "+matchText(*d.Match)))
			} else {
				rules[*d.Match] = name
			}
		}
	}
	return found
}

// matchText describes a rule for disks in words.
func matchText(m site.DiskMatch) string {
	var words []string
	for _, w := range []struct {
		what string
		set  bool
	}{
		{m.Kind, m.Kind != ""}, {"of the model " + m.Model, m.Model != ""},
		{"at least " + m.MinSize.String(), m.MinSize != 0}, {"at most " + m.MaxSize.String(), m.MaxSize != 0},
	} {
		if w.set {
			words = append(words, w.what)
		}
	}
	return and(words)
}
