package item

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Shared is something that spans several disks: an md array, an LVM volume group or a btrfs.
// Without one of its disks the rest may be useless. Whatever is inside of encrypted volumes is not
// visible, and may span all disks with such volumes.
type Shared struct {
	// Kind is "md", "lvm", "btrfs", or "luks" for what is inside of an encrypted volume. UUID and
	// Name are as in Signature.
	Kind string `json:"kind"`
	UUID string `json:"uuid,omitempty"`
	Name string `json:"name,omitempty"`
}

// String names it for people: "the array data".
func (s Shared) String() string {
	if s.Kind == "luks" {
		return fmt.Sprintf("a volume group or array that may be inside of the encrypted volume %s", cmp.Or(s.UUID, "without a UUID"))
	}
	what := map[string]string{"md": "array", "lvm": "volume group", "btrfs": "btrfs file system"}[s.Kind]
	return fmt.Sprintf("the %s %s", what, cmp.Or(s.Name, s.UUID, "without a name"))
}

// sharedBy returns what two disks both have a part of, under the first disk's names.
func sharedBy(x, y Disk) (all []Shared) {
	seen := map[Shared]bool{}
	for _, h := range x.Holds {
		for _, other := range y.Holds {
			one := Shared{Kind: h.Kind, UUID: cmp.Or(h.UUID, other.UUID), Name: cmp.Or(h.Name, h.Label, other.Name)}
			if h.sharedWith(other) && !seen[one] {
				seen[one] = true
				all = append(all, one)
			}
		}
	}
	return all
}

// Severs returns what a disk that the layout erases shares with one that stays, under the erased
// disk's names. The layout's own encrypted volumes, which a run that was cut has made, share nothing
// with a disk that stays.
func (l Layout) Severs(erased, stays Disk) []Shared {
	erased.Holds = slices.DeleteFunc(slices.Clone(erased.Holds), func(h Signature) bool {
		return h.Kind == "luks" && slices.ContainsFunc(l.Encrypted, func(e LayoutEncrypted) bool { return strings.EqualFold(e.UUID, h.UUID) })
	})
	return sharedBy(erased, stays)
}

// sharedWith reports whether two signatures are parts of one thing. A member of LVM may not say which
// group it belongs to, because pvcreate(8) can leave that out. Such a member may belong to any group.
// So may an encrypted volume: nobody sees what it is a member of before it is opened.
func (h Signature) sharedWith(other Signature) bool {
	switch {
	case h.Kind != other.Kind:
		return false
	case h.Kind == "luks":
		return true
	case h.Kind == "lvm" && (h.UUID == "" || other.UUID == ""):
		return h.Name == other.Name && h.Name != "" || (h.Name == "") != (other.Name == "")
	}
	return (h.Kind == "md" || h.Kind == "lvm" || h.Kind == "btrfs") && h.UUID != "" && h.UUID == other.UUID
}
