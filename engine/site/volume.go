package site

import (
	"maps"
	"slices"
	"strings"
)

// FieldUnattached is what FacetDisks has of the volumes that belong to a virtual
// machine and that none of its disks is made of now, as the text of Volumes. They
// go when the machine is taken away.
const FieldUnattached = "unattached"

// Volume is a volume that was made for a disk of a virtual machine.
type Volume struct {
	Disk, Pool, Size string
	// Unattached is set when no disk of the machine is made of it now.
	Unattached bool
}

const (
	inPool      = " in the pool "
	notAttached = " (not attached)"
)

// String names the volume as people approve its loss: "data 16MiB in the pool default".
func (v Volume) String() string {
	text := strings.TrimSpace(v.Disk + " " + v.Size)
	if v.Pool != "" {
		text += inPool + v.Pool
	}
	if v.Unattached {
		text += notAttached
	}
	return text
}

// Is says whether both are of the same disk, in the same pool. A volume that was
// approved may have another size by now, and may have been detached.
func (v Volume) Is(other Volume) bool { return v.Disk == other.Disk && v.Pool == other.Pool }

// Volumes are several volumes. Loss.Disks is their text.
type Volumes []Volume

// String names all of them.
func (all Volumes) String() string {
	names := make([]string, len(all))
	for i, v := range all {
		names[i] = v.String()
	}
	return strings.Join(names, ", ")
}

// ParseVolumes reads the text of Volumes. It leaves out what names no volume, such
// as DisksUnknown.
func ParseVolumes(text string) Volumes {
	var all Volumes
	for _, name := range strings.Split(text, ", ") {
		name, unattached := strings.CutSuffix(name, notAttached)
		what, pool, told := strings.Cut(name, inPool)
		if disk, size, ok := strings.Cut(what, " "); ok && told {
			all = append(all, Volume{disk, pool, size, unattached})
		}
	}
	return all
}

// VolumesIn are the volumes in what FacetDisks has: those of the disks in their
// order, then those that are not attached.
func VolumesIn(have Values) Volumes {
	var all Volumes
	for _, field := range slices.Sorted(maps.Keys(have)) {
		if disk, ok := strings.CutSuffix(field, ".size"); ok {
			all = append(all, Volume{Disk: disk, Pool: have[disk+".pool"], Size: have[field]})
		}
	}
	return append(all, ParseVolumes(have[FieldUnattached])...)
}

// Unnamed are those of the volumes that others do not name. Each of the others
// names one.
func (all Volumes) Unnamed(others Volumes) Volumes {
	left := slices.Clone(others)
	return slices.DeleteFunc(slices.Clone(all), func(v Volume) bool {
		i := slices.IndexFunc(left, v.Is)
		if i >= 0 {
			left = slices.Delete(left, i, i+1)
		}
		return i >= 0
	})
}
