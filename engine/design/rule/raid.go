package rule

import (
	"fmt"
	"slices"

	"github.com/slipway-gitops/slipway/engine/layout"
	"github.com/slipway-gitops/slipway/engine/site"
)

// mirror is a correct array for examples.
const mirror = `nodes: "n1": storage: {
	disks: {
		root: {match: kind: "ssd", filesystem: mount: "/"}
		data1: {match: {kind: "hdd", model: "A*"}, array: "md0"}
		data2: {match: {kind: "hdd", model: "B*"}, array: "md0"}
	}
	arrays: md0: {level: "raid1", filesystem: mount: "/srv"}
}`

var raids = []Rule{
	{
		Code: "unknown-array", Severity: site.SeverityError, Firm: true,
		What: "The array of a disk, a partition or another array is an entry in the node's `storage.arrays`.",
		Why:  noMeaning,
		Wrong: `nodes: "n1": storage: disks: {
	root: {match: kind: "ssd", filesystem: mount: "/"}
	data: {match: kind: "hdd", array: "md0"}
}`,
		Right: mirror,
		Node: func(_ *site.Site, n *site.Node) (found []site.Finding) {
			for _, p := range parts(n) {
				if _, ok := n.Storage.Arrays[p.Array]; !ok && p.Array != "" {
					found = append(found, absent(p.path()+".array", "array", "storage.arrays", p.Array, n.Storage.Arrays)...)
				}
			}
			return found
		},
	},
	{
		Code: "array-members", Severity: site.SeverityError,
		What: "An array has as many members as its level needs besides its spares: raid5 three, raid6 four, the others two; raid0 has no spares, and no array is in itself.",
		Why:  "Slipway cannot make it, or it lacks what the level promises (md(4)): then the first failed disk destroys the data.",
		Wrong: `nodes: "n1": storage: {
	disks: {
		root: {match: kind: "ssd", filesystem: mount: "/"}
		data: {match: kind: "hdd", array: "md0"}
	}
	arrays: md0: {level: "raid1", filesystem: mount: "/srv"}
}`,
		Right: mirror,
		Node:  arrayMembers,
	},
	{
		Code: "array-same-disk", Severity: site.SeverityWarning,
		What: "The members of a redundant array are on different disks.",
		Why:  "The disk that fails takes several members with it, and the array's data.",
		Wrong: `nodes: "n1": storage: {
	disks: os: {match: kind: "ssd", partitions: {
		root: {number: 1, size: "40GiB", filesystem: mount: "/"}
		a: {number: 2, size: "100GiB", array: "md0"}
		b: {number: 3, size: "100GiB", array: "md0"}
	}}
	arrays: md0: {level: "raid1", filesystem: mount: "/srv"}
}`,
		Right: `nodes: "n1": storage: {
	disks: {
		os: {match: kind: "ssd", partitions: {
			root: {number: 1, size: "40GiB", filesystem: mount: "/"}
			a: {number: 2, size: "100GiB", array: "md0"}
		}}
		other: {match: kind: "nvme", partitions: b: {size: "100GiB", array: "md0"}}
	}
	arrays: md0: {level: "raid1", filesystem: mount: "/srv"}
}`,
		Node: arraySameDisk,
	},
	{
		Code: "controller-volume", Severity: site.SeverityError,
		What: "A volume of a RAID controller has as many drives as its level needs: raid0 one, raid1 two, raid5 three, raid6 and raid10 four, raid50 six, raid60 eight; raid1, raid10, raid50 and raid60 an even number.",
		Why:  "The controller refuses the volume, which is only seen when the old ones are deleted.",
		Wrong: `nodes: "n1": {
	hardware: devices: raid: {kind: "controller", pci: "0000:65:00.0"}
	storage: controllers: perc: {device: "raid", volumes: os: {level: "raid1", drives: ["Bay 0"]}}
	storage: disks: os: {device: "perc/os", filesystem: mount: "/"}
}`,
		Right: `nodes: "n1": {
	hardware: devices: raid: {kind: "controller", pci: "0000:65:00.0"}
	storage: controllers: perc: {device: "raid", volumes: os: {level: "raid1", drives: ["Bay 0", "Bay 1"]}}
	storage: disks: os: {device: "perc/os", filesystem: mount: "/"}
}`,
		Node: controllerVolume,
	},
	{
		Code: "drive-twice", Severity: site.SeverityError,
		What: "A drive is in one volume of its controller, or in several with the same drives that each take a part of them.",
		Why:  "The second volume cannot be made, which is only seen when the old ones are deleted.",
		Wrong: `nodes: "n1": {
	hardware: devices: raid: {kind: "controller", pci: "0000:65:00.0"}
	storage: controllers: perc: {device: "raid", volumes: {
		os: {level: "raid1", drives: ["Bay 0", "Bay 1"]}
		data: {level: "raid1", drives: ["Bay 1", "Bay 2"]}
	}}
	storage: disks: os: {device: "perc/os", filesystem: mount: "/"}
}`,
		Right: `nodes: "n1": {
	hardware: devices: raid: {kind: "controller", pci: "0000:65:00.0"}
	storage: controllers: perc: {device: "raid", volumes: {
		os: {level: "raid1", drives: ["Bay 0", "Bay 1"]}
		data: {level: "raid1", drives: ["Bay 2", "Bay 3"]}
	}}
	storage: disks: os: {device: "perc/os", filesystem: mount: "/"}
}`,
		Node: driveTwice,
	},
}

func arrayMembers(_ *site.Site, n *site.Node) []site.Finding {
	if len(n.Storage.Arrays) == 0 {
		return nil
	}
	count, more := map[string]int{}, map[string]bool{}
	for _, p := range parts(n) {
		count[p.Array] += p.count
		more[p.Array] = more[p.Array] || p.more
	}
	var found []site.Finding
	for _, name := range keys(n.Storage.Arrays) {
		a, path := n.Storage.Arrays[name], "storage.arrays."+name
		least := layout.LeastMembers(a.Level)
		switch {
		case inItself(n, name):
			found = append(found, wrong(path+".array", fmt.Sprintf("the array %s is a member of itself", name), "Remove it, or name another array."))
		case a.Level == "raid0" && a.Spares > 0:
			found = append(found, wrong(path+".spares", fmt.Sprintf("the array %s is raid0, which has no use for spares", name), "Remove spares."))
		case count[name]-a.Spares < least && !more[name] && !unclear(n, "array", func(p part) bool { return p.Array != "" }):
			found = append(found, wrong(path+".level",
				fmt.Sprintf("the array %s has %s, and %s needs %d", name, membersText(count[name], a.Spares), a.Level, least),
				fmt.Sprintf("Write array: %q in more disks or partitions, or choose another level.", name)))
		}
	}
	return found
}

func membersText(count, spares int) string {
	switch {
	case spares > 0:
		return fmt.Sprintf("%d members, %d of them spares", count, spares)
	case count == 0:
		return "no members"
	case count == 1:
		return "1 member"
	}
	return fmt.Sprintf("%d members", count)
}

// deepest limits how far arrays of arrays are followed.
const deepest = 16

// inItself reports whether an array is a member of itself, directly or through
// others, and has the first name among those.
func inItself(n *site.Node, name string) bool {
	at := n.Storage.Arrays[name].Array
	for range deepest {
		if at == name || at < name {
			return at == name
		}
		at = n.Storage.Arrays[at].Array
	}
	return false
}

func arraySameDisk(_ *site.Site, n *site.Node) []site.Finding {
	if len(n.Storage.Arrays) == 0 {
		return nil
	}
	first := map[[2]string]part{}
	var found []site.Finding
	for _, p := range parts(n) {
		if p.kind != aPartition || p.Array == "" || n.Storage.Arrays[p.Array].Level == "raid0" {
			continue
		}
		at := [2]string{p.Array, p.in}
		if before, ok := first[at]; ok {
			found = append(found, beside(n, before.path()+".array", wrong(p.path()+".array",
				fmt.Sprintf("the members %s and %s of the array %s are on one disk, %s", before.name, p.name, p.Array, p.in),
				"Put them on different disks.")))
			continue
		}
		first[at] = p
	}
	return found
}

// leastDrives are the fewest drives of a controller's volume, and pairedDrives
// the levels that need an even number (Dell PERC H755 User's Guide, summary of
// RAID levels; HPE Smart Array SR Gen10 User Guide, RAID levels).
var (
	leastDrives  = map[string]int{"raid0": 1, "raid1": 2, "raid5": 3, "raid6": 4, "raid10": 4, "raid50": 6, "raid60": 8}
	pairedDrives = []string{"raid1", "raid10", "raid50", "raid60"}
)

func controllerVolume(_ *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	eachVolume(n, func(path, name string, v site.RAIDVolume) {
		have, least := len(v.Drives), leastDrives[v.Level]
		switch {
		case v.Drives == nil:
		case have < least:
			found = append(found, wrong(path+".drives", fmt.Sprintf("the volume %s is %s of %d, and needs %d drives", name, v.Level, have, least),
				"Add drives, or choose another level."))
		case have%2 == 1 && slices.Contains(pairedDrives, v.Level):
			found = append(found, wrong(path+".drives", fmt.Sprintf("the volume %s is %s of %d drives, an odd number", name, v.Level, have),
				"Add or remove a drive, or choose another level."))
		}
	})
	return found
}

// eachVolume calls f for every volume of the node's controllers.
func eachVolume(n *site.Node, f func(path, name string, v site.RAIDVolume)) {
	for _, controller := range keys(n.Storage.Controllers) {
		volumes := n.Storage.Controllers[controller].Volumes
		for _, name := range keys(volumes) {
			f("storage.controllers."+controller+".volumes."+name, name, volumes[name])
		}
	}
}

func driveTwice(_ *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	for _, controller := range keys(n.Storage.Controllers) {
		volumes := n.Storage.Controllers[controller].Volumes
		first := map[string]string{}
		for _, name := range keys(volumes) {
			path := "storage.controllers." + controller + ".volumes."
			drive, before := sharedDrive(volumes, name, first)
			switch {
			case before == "":
			case before == name:
				found = append(found, wrong(path+name+".drives", fmt.Sprintf("the volume %s has the drive %q twice", name, drive), "Remove one of them."))
			default:
				found = append(found, beside(n, path+before+".drives", wrong(path+name+".drives",
					fmt.Sprintf("the drive %q is in the volumes %s and %s", drive, before, name), "Take it out of one of them.")))
			}
		}
	}
	return found
}

// sharedDrive finds a drive that a volume has twice, or that an earlier volume
// has. first holds the first volume of each drive; sharedDrive adds to it.
func sharedDrive(volumes map[string]site.RAIDVolume, name string, first map[string]string) (drive, before string) {
	for _, d := range volumes[name].Drives {
		holder, taken := first[d]
		if taken && drive == "" && (holder == name || !sliced(volumes[holder], volumes[name])) {
			drive, before = d, holder
		}
		if !taken {
			first[d] = name
		}
	}
	return drive, before
}

// sliced reports whether two volumes are parts of the same drives.
func sliced(a, b site.RAIDVolume) bool {
	return !a.Size.IsZero() && !b.Size.IsZero() && a.Level == b.Level &&
		slices.Equal(slices.Sorted(slices.Values(a.Drives)), slices.Sorted(slices.Values(b.Drives)))
}
