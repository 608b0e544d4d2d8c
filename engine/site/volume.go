package site

import (
	"maps"
	"slices"
	"strings"
)

// FieldUnattached is the field of FacetDisks with the volumes that belong to a
// virtual machine but are not attached to it, as the text of Volumes. They are
// deleted with the machine.
const FieldUnattached = "unattached"

// Volume is a volume made for a disk of a virtual machine.
type Volume struct {
	Disk, Pool, Size string
	// Unattached is set if no disk of the machine uses the volume now.
	Unattached bool
}

const (
	inPool      = " in the pool "
	notAttached = " (not attached)"
)

// String names the volume for whoever approves its loss: "data 16MiB in the pool default".
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

// Is reports whether both are of the same disk, in the same pool. Since its
// approval, a volume may have changed size or been detached.
func (v Volume) Is(other Volume) bool { return v.Disk == other.Disk && v.Pool == other.Pool }

// Volumes is a list of volumes. Loss.Disks is its text.
type Volumes []Volume

// String names all of them.
func (all Volumes) String() string {
	names := make([]string, len(all))
	for i, v := range all {
		names[i] = v.String()
	}
	return strings.Join(names, ", ")
}

// ParseVolumes parses the text of Volumes. It skips entries that name no volume,
// such as DisksUnknown.
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

// VolumesIn returns the volumes in the values of FacetDisks: those of the disks
// in order, then those that are not attached.
func VolumesIn(have Values) Volumes {
	var all Volumes
	for _, field := range slices.Sorted(maps.Keys(have)) {
		if disk, ok := strings.CutSuffix(field, ".size"); ok {
			all = append(all, Volume{Disk: disk, Pool: have[disk+".pool"], Size: have[field]})
		}
	}
	return append(all, ParseVolumes(have[FieldUnattached])...)
}

// Unnamed returns the volumes that others does not name. Each entry of others
// names one volume.
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
