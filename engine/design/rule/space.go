package rule

import (
	"fmt"
	"slices"

	"github.com/slipway-gitops/slipway/engine/layout"
	"github.com/slipway-gitops/slipway/engine/site"
)

var spaces = []Rule{
	{
		Code: "several-rests", Severity: site.SeverityError,
		What: "At most one part of a disk or a volume group takes the remaining space.",
		Why:  "Slipway cannot tell how large each of them must be.",
		Wrong: `nodes: "n1": storage: disks: os: {match: kind: "ssd", partitions: {
	root: {number: 1, size: ">40GiB", filesystem: mount: "/"}
	data: {number: 2, size: ">40GiB", filesystem: mount: "/srv"}
}}`,
		Right: `nodes: "n1": storage: disks: os: {match: kind: "ssd", partitions: {
	root: {number: 1, size: "40GiB", filesystem: mount: "/"}
	data: {number: 2, size: ">40GiB", filesystem: mount: "/srv"}
}}`,
		Node: severalRests,
	},
	{
		Code: "sizes-over-whole", Severity: site.SeverityError,
		What: "The shares of a disk or a volume group are 100% at most, and leave room for its other parts.",
		Why:  "The installation could not make the last parts, and would end with the disks erased and no system on them.",
		Wrong: `nodes: "n1": storage: disks: os: {match: kind: "ssd", partitions: {
	root: {number: 1, size: "50%", filesystem: mount: "/"}
	data: {number: 2, size: "60%", filesystem: mount: "/srv"}
}}`,
		Right: `nodes: "n1": storage: disks: os: {match: kind: "ssd", partitions: {
	root: {number: 1, size: "40%", filesystem: mount: "/"}
	data: {number: 2, size: "60%", filesystem: mount: "/srv"}
}}`,
		Node: sizesOverWhole,
	},
	{
		Code: "size-over-disk", Severity: site.SeverityError,
		What: "The partitions of a disk fit on it as hardware.devices or its rule has it, and the volumes of a group in what the group is made of.",
		Why:  "The installation cannot make them, and ends with the disks erased and no system on them.",
		Wrong: `nodes: "n1": {
	hardware: devices: boot: {kind: "disk", pci: "0000:03:00.0", size: "480GB"}
	storage: disks: os: {device: "boot", partitions: {
		root: {number: 1, size: "40GiB", filesystem: mount: "/"}
		data: {number: 2, size: "480GB", filesystem: mount: "/srv"}
	}}
}`,
		Right: `nodes: "n1": {
	hardware: devices: boot: {kind: "disk", pci: "0000:03:00.0", size: "480GB"}
	storage: disks: os: {device: "boot", partitions: {
		root: {number: 1, size: "40GiB", filesystem: mount: "/"}
		data: {number: 2, size: ">400GB", filesystem: mount: "/srv"}
	}}
}`,
		Node: sizeOverDisk,
	},
	{
		Code: "root-too-small", Severity: site.SeverityError,
		What:  "The file system / has at least 20 GB.",
		Why:   "The first upgrade or a day of log messages fills a root file system of less than 20 GB, and a full root file system stops the services of the node.",
		Wrong: `nodes: "n1": storage: disks: os: {match: kind: "ssd", partitions: root: {size: "10GiB", filesystem: mount: "/"}}`,
		Right: `nodes: "n1": storage: disks: os: {match: kind: "ssd", partitions: root: {size: ">20GB", filesystem: mount: "/"}}`,
		Node: func(_ *site.Site, n *site.Node) []site.Finding {
			return roomFor(n, "/", 20e9)
		},
	},
	{
		Code: "boot-too-small", Severity: site.SeverityWarning,
		What: "A file system /boot has at least 1 GB.",
		Why:  "With less there is no room for a third kernel, and an upgrade ends with half of it written.",
		Wrong: `nodes: "n1": storage: disks: os: {match: kind: "ssd", partitions: {
	boot: {number: 1, size: "256MiB", filesystem: mount: "/boot"}
	root: {number: 2, size: ">20GB", filesystem: mount: "/"}
}}`,
		Right: `nodes: "n1": storage: disks: os: {match: kind: "ssd", partitions: {
	boot: {number: 1, size: "1GiB", filesystem: mount: "/boot"}
	root: {number: 2, size: ">20GB", filesystem: mount: "/"}
}}`,
		Node: func(_ *site.Site, n *site.Node) []site.Finding {
			return roomFor(n, "/boot", 1e9)
		},
	},
}

// wholes groups the parts of a node into the partitions of each disk and the volumes of
// each group.
func wholes(all []part) [][]part {
	var found [][]part
	for i := 0; i < len(all); i++ {
		first := i
		for i+1 < len(all) && all[i+1].in == all[first].in && all[i+1].kind == all[first].kind {
			i++
		}
		if all[first].kind == aPartition || all[first].kind == aVolume {
			found = append(found, all[first:i+1])
		}
	}
	return found
}

// wholeText names the whole that a part belongs to, for people.
func (p part) wholeText() string {
	if p.kind == aVolume {
		return "the volume group " + p.in
	}
	return "the disk " + p.in
}

// sized returns the parts of a node with their minimum sizes, as far as known, by the
// same rules as a layout.
func sized(n *site.Node) []part {
	all := parts(n)
	asked := map[string]site.Size{} // by all partitions of a disk, volumes of a group
	disks := map[string]site.Size{}
	for i, p := range all {
		switch p.kind {
		case aDisk:
			size, _ := diskSize(n, p.name)
			all[i].size = size
			disks[p.name] = layout.TableRoom(n.Storage.Disks[p.name].Table, size, 0)
		case aPartition:
			all[i].whole = disks[p.in]
			asked[p.in] = asked[p.in].Plus(all[i].asks())
		}
	}
	for i, p := range all {
		if p.kind == aPartition {
			all[i].size = p.taken(asked[p.in])
		}
	}
	arrays := arraySizes(n, all)
	for i, p := range all {
		if p.kind == anArray {
			all[i].size = arrays[p.name]
		}
	}
	groups := groupSizes(n, all)
	clear(asked)
	for i, p := range all {
		if p.kind == aVolume {
			all[i].whole = groups[p.in]
			asked[p.in] = asked[p.in].Plus(all[i].asks())
		}
	}
	for i, p := range all {
		if p.kind == aVolume {
			all[i].size = p.taken(asked[p.in])
		}
	}
	return all
}

// taken returns how much of its whole a part takes at least, if all parts together ask
// for asked.
func (p part) taken(asked site.Size) site.Size {
	if p.extent.Rest && p.whole > asked {
		return p.asks() + p.whole - asked
	}
	return p.asks()
}

// asks returns how much of its whole a part asks for at least.
func (p part) asks() site.Size {
	if p.kind == aVolume {
		return layout.VolumeBytes(p.extent, p.whole)
	}
	return layout.PartitionBytes(p.extent, p.whole)
}

// diskSize returns the minimum size of a disk, and the path that sets it; 0 if none
// does.
func diskSize(n *site.Node, name string) (site.Size, string) {
	d := n.Storage.Disks[name]
	if d.Match != nil {
		return d.Match.MinSize, "storage.disks." + name + ".match.minSize"
	}
	return n.Hardware.Devices[d.Device].Size, "hardware.devices." + d.Device + ".size"
}

// arraySizes returns the sizes of arrays by name, without arrays that have a member of
// unknown size.
func arraySizes(n *site.Node, all []part) map[string]site.Size {
	members, unknown := map[string][]site.Size{}, map[string]bool{}
	for _, p := range all {
		if p.Array != "" {
			unknown[p.Array] = unknown[p.Array] || p.size == 0
			members[p.Array] = append(members[p.Array], slices.Repeat([]site.Size{p.size}, p.count)...)
		}
	}
	sizes := map[string]site.Size{}
	for name, a := range n.Storage.Arrays {
		if size := layout.ArrayBytes(a.Level, members[name], a.Spares); size > 0 && !unknown[name] {
			sizes[name] = size
		}
	}
	return sizes
}

// groupSizes returns the room in volume groups by name, without groups that have a
// member of unknown size.
func groupSizes(n *site.Node, all []part) map[string]site.Size {
	sizes, unknown := map[string]site.Size{}, map[string]bool{}
	for _, p := range all {
		if p.Group != "" {
			unknown[p.Group] = unknown[p.Group] || p.size == 0
			sizes[p.Group] = sizes[p.Group].Plus(layout.MemberRoom(layout.OpenedBytes(p.size, p.Encrypt)).Times(p.count))
		}
	}
	for name := range unknown {
		if unknown[name] {
			delete(sizes, name)
		}
	}
	return sizes
}

func severalRests(_ *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	for _, w := range wholes(parts(n)) {
		var first *part
		for i, p := range w {
			if !p.extent.Rest {
				continue
			}
			if first == nil {
				first = &w[i]
				continue
			}
			found = append(found, beside(n, first.path()+".size", wrong(p.path()+".size",
				fmt.Sprintf("a second part of %s takes the rest, %s", p.wholeText(), p.name),
				fmt.Sprintf("Write size: %q.", site.Extent{Size: p.extent.Size}))))
		}
	}
	return found
}

func sizesOverWhole(_ *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	for _, w := range wholes(parts(n)) {
		sum, last, other := shares(w)
		switch {
		case sum > 100:
			found = append(found, wrong(last.path()+".size", fmt.Sprintf("the shares of %s are %d%%", last.wholeText(), sum), "Lower them to 100% at most."))
		case sum == 100 && other.name != "":
			found = append(found, beside(n, other.path()+".size", wrong(last.path()+".size",
				fmt.Sprintf("the shares of %s add up to 100%% and leave no space for %s", last.wholeText(), other.name), "Lower them, or remove what is besides.")))
		}
	}
	return found
}

// shares returns the sum of the per cent that parts of a whole ask for, the last such
// part, and a part that asks for a size.
func shares(w []part) (sum int, last, other part) {
	for _, p := range w {
		if p.extent.Share != 0 {
			sum, last = sum+p.extent.Share, p
		} else if !p.extent.IsZero() {
			other = p
		}
	}
	return sum, last, other
}

func sizeOverDisk(_ *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	for _, w := range wholes(sized(n)) {
		sum, _, other := shares(w)
		whole := w[0].whole
		if whole == 0 || sum > 100 || sum == 100 && other.name != "" {
			continue
		}
		var asked site.Size
		var last part
		for _, p := range w {
			if asked <= whole {
				last = p
			}
			asked = asked.Plus(p.asks())
		}
		if asked > whole {
			found = append(found, besideSize(n, last, wrong(last.path()+".size",
				fmt.Sprintf("the parts of %s ask for %s, and only %s are sure to be there", last.wholeText(), amount(asked), amount(whole)),
				"Lower a size; \">\" and a size takes what is left.")))
		}
	}
	return found
}

// besideSize adds the place that sets the size of a partition's disk.
func besideSize(n *site.Node, p part, f site.Finding) site.Finding {
	if p.kind != aPartition {
		return f
	}
	_, known := diskSize(n, p.in)
	return beside(n, known, f)
}

// roomFor reports a file system at a mount point that is smaller than least.
func roomFor(n *site.Node, mount string, least site.Size) []site.Finding {
	if !slices.ContainsFunc(filesystems(n), func(p part) bool { return p.Filesystem.Mount == mount }) {
		return nil
	}
	var found []site.Finding
	for _, p := range sized(n) {
		size := layout.OpenedBytes(p.size, p.Encrypt)
		if p.Filesystem == nil || p.Filesystem.Mount != mount || p.size == 0 || size >= least {
			continue
		}
		path := p.path()
		if !p.extent.IsZero() {
			path += ".size"
		}
		found = append(found, wrong(path, fmt.Sprintf("the file system %s has %s", mount, amount(size)), fmt.Sprintf("Give it %s at least.", least)))
	}
	return found
}
