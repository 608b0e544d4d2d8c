package rule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

var storages = []Rule{
	{
		Code: "disk-selector", Severity: site.SeverityError, Firm: true,
		What:  "A disk is found either by its device or by a rule that some disk can fit.",
		Why:   "If the rule fits other disks too, the installation may erase the wrong one.",
		Wrong: `nodes: "n1": storage: disks: root: filesystem: mount: "/"`,
		Right: `nodes: "n1": storage: disks: root: {match: {kind: "ssd", minSize: "400GB"}, filesystem: mount: "/"}`,
		Node:  diskSelector,
	},
	{
		Code: "storage-use", Severity: site.SeverityError, Firm: true,
		What: "A disk or an array has exactly one use: partitions (only a disk), a file system, a volume group or an array. A partition, a kept disk or a disk of a set has at most one.",
		Why:  "One use overwrites the other; and a disk without a use is erased for nothing.",
		Wrong: `nodes: "n1": storage: {
	disks: root: {match: kind: "ssd", filesystem: mount: "/", group: "data"}
	groups: data: {}
}`,
		Right: `nodes: "n1": storage: {
	disks: root: {match: kind: "ssd", filesystem: mount: "/"}
	disks: data: {match: kind: "hdd", group: "data"}
	groups: data: {}
}`,
		Node: storageUse,
	},
	{
		Code: "disk-count", Severity: site.SeverityError, Firm: true,
		What: "A set of disks, which has a `count`, is found by a rule, and has no mount, no label and no boot partition.",
		Why:  "A device is one disk; and each disk of a set gets the same, so that several file systems would be mounted on one path.",
		Wrong: `nodes: "n1": storage: disks: {
	root: {match: kind: "ssd", filesystem: mount: "/"}
	data: {match: kind: "hdd", count: 4, filesystem: mount: "/srv"}
}`,
		Right: `nodes: "n1": storage: {
	disks: root: {match: kind: "ssd", filesystem: mount: "/"}
	disks: data: {match: kind: "hdd", count: 4, array: "md0"}
	arrays: md0: {level: "raid6", filesystem: mount: "/srv"}
}`,
		Node: diskCount,
	},
	{
		Code: "kept-disk", Severity: site.SeverityError, Firm: true,
		What: "A disk with `keep: true` has only file systems, if any: on the whole disk or on numbered partitions. None of them is mounted on /, is for the firmware, or has a size or a label.",
		Why:  "Slipway makes nothing on a disk that is kept: everything that is designed on it must be there already, or the installation cannot begin.",
		Wrong: `nodes: "n1": storage: disks: {
	root: {match: kind: "ssd", filesystem: mount: "/"}
	data: {match: kind: "hdd", keep: true, partitions: srv: {number: 1, size: "1TB", filesystem: mount: "/srv"}}
}`,
		Right: `nodes: "n1": storage: disks: {
	root: {match: kind: "ssd", filesystem: mount: "/"}
	data: {match: kind: "hdd", keep: true, partitions: srv: {number: 1, filesystem: mount: "/srv"}}
}`,
		Node: keptDisk,
	},
	{
		Code: "unknown-volume-group", Severity: site.SeverityError, Firm: true,
		What: "The volume group of a disk, a partition or an array is an entry in the node's `storage.groups`.",
		Why:  noMeaning,
		Wrong: `nodes: "n1": storage: disks: {
	root: {match: kind: "ssd", filesystem: mount: "/"}
	data: {match: kind: "hdd", group: "data"}
}`,
		Right: `nodes: "n1": storage: {
	disks: root: {match: kind: "ssd", filesystem: mount: "/"}
	disks: data: {match: kind: "hdd", group: "data"}
	groups: data: volumes: srv: {size: "100GiB", filesystem: mount: "/srv"}
}`,
		Node: func(_ *site.Site, n *site.Node) (found []site.Finding) {
			for _, p := range parts(n) {
				if _, ok := n.Storage.Groups[p.Group]; !ok && p.Group != "" {
					found = append(found, absent(p.path()+".group", "volume group", "storage.groups", p.Group, n.Storage.Groups)...)
				}
			}
			return found
		},
	},
	{
		Code: "group-without-members", Severity: site.SeverityError,
		What: "A volume group has a disk, a partition or an array in it.",
		Why:  "There is no room for its volumes, and the installation ends with the disks erased and no system on them.",
		Wrong: `nodes: "n1": storage: {
	disks: root: {match: kind: "ssd", filesystem: mount: "/"}
	groups: data: volumes: srv: {size: "100GiB", filesystem: mount: "/srv"}
}`,
		Right: `nodes: "n1": storage: {
	disks: root: {match: kind: "ssd", filesystem: mount: "/"}
	disks: data: {match: kind: "hdd", group: "data"}
	groups: data: volumes: srv: {size: "100GiB", filesystem: mount: "/srv"}
}`,
		Node: groupWithoutMembers,
	},
	{
		Code: "partition-number", Severity: site.SeverityError,
		What: "No two partitions of a disk have one number.",
		Why:  "The second takes the place of the first.",
		Wrong: `nodes: "n1": storage: disks: os: {match: kind: "ssd", partitions: {
	root: {number: 1, size: "40GiB", filesystem: mount: "/"}
	data: {number: 1, size: ">40GiB", filesystem: mount: "/srv"}
}}`,
		Right: `nodes: "n1": storage: disks: os: {match: kind: "ssd", partitions: {
	root: {number: 1, size: "40GiB", filesystem: mount: "/"}
	data: {number: 2, size: ">40GiB", filesystem: mount: "/srv"}
}}`,
		Node: partitionNumber,
	},
	{
		Code: "mbr-limits", Severity: site.SeverityError,
		What: "An MBR partition table has at most four partitions, within the first 2 TiB, and none for a boot loader of GPT.",
		Why:  "It has four entries, with sectors of 512 bytes counted in 32 bits (UEFI specification 2.10, section 5.2.1); what lies beyond that is not made.",
		Wrong: `nodes: "n1": storage: disks: os: {match: kind: "ssd", table: "mbr", partitions: {
	root: {number: 5, size: "40GiB", filesystem: mount: "/"}
}}`,
		Right: `nodes: "n1": storage: disks: os: {match: kind: "ssd", table: "mbr", partitions: {
	root: {number: 1, size: "40GiB", filesystem: mount: "/"}
}}`,
		Node: mbrLimits,
	},
}

// partKind is the kind of a part of a node's storage.
type partKind int

const (
	aDisk partKind = iota
	aPartition
	anArray
	aVolume
)

// part is a part of a node's storage that holds data.
type part struct {
	kind partKind
	// in is the disk of a partition, the group of a volume.
	in, name string
	site.Use
	// extent is what a partition or volume asks for. size is its minimum size, whole
	// that of its disk or group; both are 0 if unknown, see sized.
	extent      site.Extent
	size, whole site.Size
	// count is how many parts this one stands for, one on each disk of a set. more says
	// that count is only the minimum.
	count int
	more  bool
}

// path returns the part's path in the design.
func (p part) path() string {
	switch p.kind {
	case aPartition:
		return "storage.disks." + p.in + ".partitions." + p.name
	case anArray:
		return "storage.arrays." + p.name
	case aVolume:
		return "storage.groups." + p.in + ".volumes." + p.name
	}
	return "storage.disks." + p.name
}

// String returns the part's name for people.
func (p part) String() string {
	switch p.kind {
	case aPartition:
		return "the partition " + p.name + " of the disk " + p.in
	case anArray:
		return "the array " + p.name
	case aVolume:
		return "the volume " + p.name + " of the group " + p.in
	}
	return "the disk " + p.name
}

// parts lists everything that holds data on a node: disks, each with its partitions,
// arrays, and volumes.
func parts(n *site.Node) []part {
	size := len(n.Storage.Disks) + len(n.Storage.Arrays)
	for _, d := range n.Storage.Disks {
		size += len(d.Partitions)
	}
	for _, g := range n.Storage.Groups {
		size += len(g.Volumes)
	}
	all := make([]part, 0, size) // many rules ask, and most designs have none
	for _, name := range keys(n.Storage.Disks) {
		d := n.Storage.Disks[name]
		count, more := d.Count.Least()
		all = append(all, part{kind: aDisk, name: name, Use: d.Use, count: count, more: more})
		for _, p := range keys(d.Partitions) {
			all = append(all, part{kind: aPartition, in: name, name: p, Use: d.Partitions[p].Use, extent: d.Partitions[p].Size, count: count, more: more})
		}
	}
	for _, name := range keys(n.Storage.Arrays) {
		all = append(all, part{kind: anArray, name: name, Use: n.Storage.Arrays[name].Use, count: 1})
	}
	for _, name := range keys(n.Storage.Groups) {
		for _, v := range keys(n.Storage.Groups[name].Volumes) {
			volume := n.Storage.Groups[name].Volumes[v]
			all = append(all, part{kind: aVolume, in: name, name: v, Use: volume.Use(), extent: volume.Size, count: 1})
		}
	}
	return all
}

// unclear reports whether a part states a field that it does not have, so that another
// finding reports the field.
func unclear(n *site.Node, field string, has func(part) bool) bool {
	for _, p := range parts(n) {
		if !has(p) && states(n, p.path()+"."+field) {
			return true
		}
	}
	return false
}

func diskSelector(_ *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	for _, name := range keys(n.Storage.Disks) {
		d, path := n.Storage.Disks[name], "storage.disks."+name
		device, match := states(n, path+".device"), d.Match != nil || states(n, path+".match")
		switch {
		case device && match:
			found = append(found, wrong(path+".match", fmt.Sprintf("the disk %s is found by its device and by a rule", name), "Keep one of the two."))
		case !device && !match:
			found = append(found, wrong(path, fmt.Sprintf("nothing says which disk %s is", name), "Set device, or match."))
		case d.Match != nil && fitsEvery(n, path+".match"):
			found = append(found, wrong(path, fmt.Sprintf("the rule for the disk %s fits every disk", name), "Set kind, model, minSize or maxSize in match."))
		case d.Match != nil && d.Match.MaxSize != 0 && d.Match.MaxSize < d.Match.MinSize:
			found = append(found, wrong(path+".match.maxSize",
				fmt.Sprintf("no disk fits the rule for the disk %s, of at least %s and at most %s", name, d.Match.MinSize, d.Match.MaxSize),
				fmt.Sprintf("Write minSize: %q, maxSize: %q.", d.Match.MaxSize, d.Match.MinSize)))
		}
	}
	return found
}

// fitsEvery reports whether a rule for disks states nothing.
func fitsEvery(n *site.Node, path string) bool {
	return !slices.ContainsFunc([]string{"kind", "model", "minSize", "maxSize"}, func(field string) bool { return states(n, path+"."+field) })
}

func storageUse(s *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	for _, p := range parts(n) {
		if p.kind == aDisk && becomesImage(s, n) {
			continue // another rule checks how its disks may be used
		}
		uses := usesOf(n, p)
		if len(uses) > 1 {
			found = append(found, wrong(p.path()+"."+uses[1], fmt.Sprintf("%s is used in %d ways: %s", p, len(uses), and(uses)), "Keep one of them."))
		}
		if len(uses) == 0 && p.mustBeUsed(n) && !triesToBeUsed(n, p) {
			found = append(found, wrong(p.path(), fmt.Sprintf("%s is used for nothing", p),
				fmt.Sprintf("Set %s, or remove it.", strings.ReplaceAll(and(waysToUse(p.kind)), " and ", " or "))))
		}
	}
	return found
}

// mustBeUsed reports whether it is a mistake not to use a part. A kept disk may only be
// kept, and the disks of a set may be left to programs on the node.
func (p part) mustBeUsed(n *site.Node) bool {
	if p.kind == aDisk {
		d, path := n.Storage.Disks[p.name], p.path()
		return !n.Retires() && !d.Keep && d.Count == "" && !states(n, path+".keep") && !states(n, path+".count")
	}
	return p.kind == anArray
}

func waysToUse(kind partKind) []string {
	if kind == aDisk {
		return []string{"partitions", "filesystem", "group", "array"}
	}
	return []string{"filesystem", "group", "array"}
}

// usesOf lists the ways in which a part is used.
func usesOf(n *site.Node, p part) []string {
	var uses []string
	if p.kind == aDisk && len(n.Storage.Disks[p.name].Partitions) > 0 {
		uses = append(uses, "partitions")
	}
	if p.Filesystem != nil {
		uses = append(uses, "filesystem")
	}
	if p.Group != "" {
		uses = append(uses, "group")
	}
	if p.Array != "" {
		uses = append(uses, "array")
	}
	return uses
}

// triesToBeUsed reports whether a part states a use that is not valid.
func triesToBeUsed(n *site.Node, p part) bool {
	return slices.ContainsFunc(waysToUse(p.kind), func(way string) bool { return states(n, p.path()+"."+way) })
}

// onDisk lists a disk and its partitions.
func onDisk(n *site.Node, disk string) []part {
	return slices.DeleteFunc(parts(n), func(p part) bool {
		return (p.kind != aDisk || p.name != disk) && (p.kind != aPartition || p.in != disk)
	})
}

func diskCount(_ *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	for _, name := range keys(n.Storage.Disks) {
		d, at := n.Storage.Disks[name], "storage.disks."+name
		if d.Count == "" {
			continue
		}
		if d.Device != "" {
			found = append(found, wrong(at+".count", fmt.Sprintf("the disk %s is a device, which is one disk, and has a count", name), "Remove count, or find the disks by match."))
		}
		if n.Storage.BootDisk == name {
			found = append(found, beside(n, "storage.bootDisk", wrong(at+".count", fmt.Sprintf("the boot disk %s is a set of disks", name), "Name one disk as the boot disk.")))
		}
		for _, p := range onDisk(n, name) {
			switch f := p.Filesystem; {
			case f != nil && f.Mount != "":
				found = append(found, wrong(p.path()+".filesystem.mount", fmt.Sprintf("%s is one of a set, and is mounted on %s", p, f.Mount),
					"Remove mount, put the disks into an array or a group, or design each disk by itself."))
			case f != nil && f.Label != "":
				found = append(found, wrong(p.path()+".filesystem.label", fmt.Sprintf("%s is one of a set, and has the label %q", p, f.Label), "Remove label, or design each disk by itself."))
			case p.kind == aPartition && p.flag(n) != "":
				found = append(found, wrong(p.path()+".flag", fmt.Sprintf("%s is one of a set, and has the flag %q", p, p.flag(n)), "Remove flag, or design each disk by itself."))
			}
		}
	}
	return found
}

func keptDisk(_ *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	for _, name := range keys(n.Storage.Disks) {
		if !n.Storage.Disks[name].Keep {
			continue
		}
		if table := n.Storage.Disks[name].Table; table != "" {
			found = append(found, wrong("storage.disks."+name+".table", fmt.Sprintf("the kept disk %s has a table of partitions to be made", name), "Remove table, or keep."))
		}
		for _, p := range onDisk(n, name) {
			if field, message, fix := notKept(n, p); message != "" {
				found = append(found, wrong(p.path()+field, message, fix))
			}
		}
	}
	return found
}

// notKept says what would have to be created on a part of a kept disk.
func notKept(n *site.Node, p part) (field, message, fix string) {
	partition := p.kind == aPartition
	switch f := p.Filesystem; {
	case p.Array != "":
		return ".array", fmt.Sprintf("%s is kept, and is to be a member of the array %s", p, p.Array), "Remove array, or keep: an array is made of disks that are erased."
	case p.Group != "":
		return ".group", fmt.Sprintf("%s is kept, and is to be a member of the volume group %s", p, p.Group), "Remove group, or keep: a volume group is made of disks that are erased."
	case partition && !p.extent.IsZero():
		return ".size", fmt.Sprintf("%s is kept, and has a size to be made with", p), "Remove size: the partition is as large as it is."
	case partition && p.flag(n) != "":
		return ".flag", fmt.Sprintf("%s is kept, and has the flag %q", p, p.flag(n)), "Remove flag, and put the boot loader on a disk that is not kept."
	case partition && n.Storage.Disks[p.in].Partitions[p.name].Number == 0 && !states(n, p.path()+".number"):
		return "", fmt.Sprintf("%s is kept, and nothing says which partition it is", p), "Set number: it is what the partition is found by."
	case f != nil && f.Mount == "/":
		return ".filesystem.mount", fmt.Sprintf("%s is kept, and its file system would be mounted on /", p), "Mount / from a disk that is not kept: an installation writes the system there."
	case f != nil && f.Label != "":
		return ".filesystem.label", fmt.Sprintf("%s is kept, and has a label to be made with", p), "Remove label: the file system keeps its own."
	}
	return "", "", ""
}

func groupWithoutMembers(_ *site.Site, n *site.Node) []site.Finding {
	if len(n.Storage.Groups) == 0 {
		return nil
	}
	has := map[string]bool{}
	for _, p := range parts(n) {
		has[p.Group] = true
	}
	var found []site.Finding
	for _, name := range keys(n.Storage.Groups) {
		if !has[name] && !unclear(n, "group", func(p part) bool { return p.Group != "" }) {
			found = append(found, wrong("storage.groups."+name, fmt.Sprintf("the volume group %s has no disk, partition or array in it", name),
				fmt.Sprintf("Write group: %q in what it is to be made of.", name)))
		}
	}
	return found
}

func partitionNumber(_ *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	for _, name := range keys(n.Storage.Disks) {
		first := map[int]string{}
		for _, p := range keys(n.Storage.Disks[name].Partitions) {
			number := n.Storage.Disks[name].Partitions[p].Number
			path := "storage.disks." + name + ".partitions."
			if before, ok := first[number]; ok && number != 0 {
				found = append(found, beside(n, path+before+".number", wrong(path+p+".number",
					fmt.Sprintf("the partitions %s and %s of the disk %s both have the number %d", before, p, name, number), "Give each its own.")))
				continue
			}
			first[number] = p
		}
	}
	return found
}

// The limits of an MBR partition table.
const (
	mbrPartitions = 4
	mbrBytes      = site.Size(2 << 40)
)

func mbrLimits(_ *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	for _, name := range keys(n.Storage.Disks) {
		if n.Storage.Disks[name].Table == "mbr" {
			found = append(found, overMBR(n, name)...)
		}
	}
	return found
}

func overMBR(n *site.Node, disk string) []site.Finding {
	d := n.Storage.Disks[disk]
	var found []site.Finding
	if len(d.Partitions) > mbrPartitions {
		found = append(found, wrong("storage.disks."+disk+".table",
			fmt.Sprintf("the disk %s has %d partitions in an MBR table, which has %d", disk, len(d.Partitions), mbrPartitions), `Write table: "gpt".`))
	}
	var end site.Size
	for _, p := range sized(n) {
		if p.kind != aPartition || p.in != disk {
			continue
		}
		begin := end
		end = begin.Plus(p.size)
		object := func(field, message string) {
			found = append(found, wrong(p.path()+field, message, `Write table: "gpt", or correct the partition.`))
		}
		switch asked := d.Partitions[p.name]; {
		case asked.Number > mbrPartitions:
			object(".number", fmt.Sprintf("%s has the number %d in an MBR table, which has %d", p, asked.Number, mbrPartitions))
		case asked.Flag == "bios-boot":
			object(".flag", fmt.Sprintf(`%s has the flag "bios-boot" in an MBR table, which has its own place for a boot loader`, p))
		case begin <= mbrBytes && end > mbrBytes:
			object(".size", fmt.Sprintf("%s ends after 2TiB, which is as far as an MBR table reaches", p))
		}
	}
	return found
}
