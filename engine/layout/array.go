package layout

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// makeArrays creates the arrays, members before the arrays that contain them.
func (b *builder) makeArrays() {
	made := map[string]bool{}
	for range b.node.Storage.Arrays {
		for _, name := range slices.Sorted(maps.Keys(b.node.Storage.Arrays)) {
			if !made[name] && !b.waitsForArray(name, made) {
				made[name] = true
				b.makeArray(name, b.node.Storage.Arrays[name])
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.node.Storage.Arrays)) {
		if !made[name] {
			b.object("storage.arrays."+name, fmt.Sprintf("the array %s is a member of itself", name), "Remove it, or name another array.", whyHalf)
		}
	}
}

// waitsForArray reports whether an array has a member array that was not made yet.
func (b *builder) waitsForArray(name string, made map[string]bool) bool {
	for other, a := range b.node.Storage.Arrays {
		if a.Array == name && !made[other] {
			return true
		}
	}
	return false
}

// maxArrayName is the maximum length of an array's name in its superblock.
const maxArrayName = 31

func (b *builder) makeArray(name string, design site.Array) {
	at := "storage.arrays." + name
	a := item.LayoutArray{Name: name, Level: design.Level, Spares: design.Spares}
	var sizes []site.Size
	var ids []string
	for _, p := range b.parts {
		if p.use.Array == name && p.kept == nil {
			a.Members, sizes, ids = append(a.Members, p.on), append(sizes, p.bytes), append(ids, b.idOf(p.on))
		}
	}
	bytes := ArrayBytes(a.Level, sizes, a.Spares)
	switch active := len(sizes) - a.Spares; {
	case len(name) > maxArrayName:
		b.object(at, fmt.Sprintf("the name of the array %s has %d letters, and can have %d", name, len(name), maxArrayName), "Shorten it.", whyHalf)
		return
	case active < max(LeastMembers(a.Level), 1):
		b.object(at+".level", fmt.Sprintf("the array %s has %d members and %d spares, and %s needs %d members", name, active, a.Spares, a.Level, LeastMembers(a.Level)),
			"Add members, or choose another level.", whyHalf)
		return
	case bytes <= 0:
		b.object(at, fmt.Sprintf("the smallest member of the array %s has %s, which is too little", name, least(sizes)), "Make it larger.", whyHalf)
		return
	}
	small := least(sizes)
	a.DataOffset, a.Bytes = int64(dataOffset(small)), int64(bytes)
	if a.Level != "raid1" {
		a.Chunk = chunk
	}
	if a.Level != "raid0" {
		a.MemberBytes = int64(memberBytes(small))
	}
	a.UUID = b.identity(append([]string{"array", name}, ids...)...).uuid()
	b.arrays[name] = a
	b.layout.Arrays = append(b.layout.Arrays, a)
	b.add(part{on: item.Place{Array: name}, path: at, use: design.Use, bytes: bytes})
}

// reserved are names that LVM reserves for its own volumes (lvm(8), VALID NAMES).
var reserved = []string{"_cdata", "_cmeta", "_corig", "_cpool", "_cvol", "_wcorig", "_mimage", "_mlog", "_rimage", "_rmeta", "_tdata", "_tmeta", "_tpool", "_vdata", "_vorigin", "_pmspare", "_imeta", "_iorig"}

func isReserved(volume string) bool {
	return strings.HasPrefix(volume, "snapshot") || strings.HasPrefix(volume, "pvmove") ||
		slices.ContainsFunc(reserved, func(r string) bool { return strings.Contains(volume, r) })
}

// makeGroups divides volume groups.
func (b *builder) makeGroups() {
	for _, name := range slices.Sorted(maps.Keys(b.node.Storage.Groups)) {
		design, at := b.node.Storage.Groups[name], "storage.groups."+name
		g := item.LayoutGroup{Name: name}
		var room site.Size
		var ids []string
		for _, p := range b.parts {
			if p.use.Group != name || p.kept != nil {
				continue
			}
			extents := int64(MemberRoom(p.bytes) / item.ExtentBytes)
			if extents == 0 {
				b.object(p.path, fmt.Sprintf("%s has %s, which is too little for a member of the volume group %s", p.on, p.bytes, name), "Make it larger.", whyHalf)
				return
			}
			id := b.idOf(p.on)
			g.Members = append(g.Members, item.LayoutMember{On: p.on, UUID: b.identity("member", name, id).lvm(), Extents: extents})
			room, ids = room+site.Size(extents)*item.ExtentBytes, append(ids, id)
		}
		if len(g.Members) == 0 {
			b.object(at, fmt.Sprintf("the volume group %s has no disk, partition or array in it", name), fmt.Sprintf("Write group: %q in what it is to be made of.", name), whyHalf)
			continue
		}
		b.groupIDs[name] = strings.Join(ids, " ")
		b.otherGroup(name, at)
		names := slices.Sorted(maps.Keys(design.Volumes))
		sizes, ok := b.share(shares{of: "the volume group " + name, room: room, bytes: VolumeBytes}, names,
			func(v string) (site.Extent, string) { return design.Volumes[v].Size, at + ".volumes." + v })
		if !ok {
			continue
		}
		for i, v := range names {
			if isReserved(v) {
				b.object(at+".volumes."+v, fmt.Sprintf("LVM keeps the name of the volume %s for itself", v), "Choose another name.", whyHalf)
			}
			g.Volumes = append(g.Volumes, item.LayoutVolume{Name: v, Extents: int64(sizes[i] / item.ExtentBytes)})
			b.add(part{on: item.Place{Group: name, Volume: v}, path: at + ".volumes." + v, use: design.Volumes[v].Use(), bytes: sizes[i]})
		}
		b.layout.Groups = append(b.layout.Groups, g)
	}
}

// otherGroup objects to a group of the same name on a disk that stays unchanged.
func (b *builder) otherGroup(name, at string) {
	for _, d := range b.seen {
		for _, h := range d.Holds {
			if h.Kind == "lvm" && h.Name == name && !b.erases(d) {
				b.object(at, fmt.Sprintf("there is a volume group %s on %s, which stays", name, d), "Choose another name, or take the disk out.",
					"If two volume groups have one name, the system uses either of them, by chance.")
				return
			}
		}
	}
}
