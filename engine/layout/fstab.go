package layout

import (
	"fmt"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
)

// fstabField escapes the characters that would end a field (fstab(5)).
var fstabField = strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`)

// fstab returns the lines for mounted file systems and for swap.
func fstab(all []item.LayoutFilesystem) string {
	var b strings.Builder
	b.WriteString("# Written by Slipway when it laid out the disks.\n")
	for _, f := range all {
		mount, pass := f.Mount, 0
		switch {
		case f.Type == "swap":
			mount = "none"
		case mount == "":
			continue
		case mount == "/" && f.Type == "ext4":
			pass = 1
		case f.Type == "ext4" || f.Type == "vfat":
			pass = 2 // xfs and btrfs are not checked at boot: fsck.xfs(8), btrfs-check(8)
		}
		fmt.Fprintf(&b, "UUID=%s\t%s\t%s\t%s\t0\t%d\n", f.UUID, fstabField.Replace(mount), f.Type, fstabField.Replace(f.Options), pass)
	}
	return b.String()
}

// options returns the mount options of a file system. By default only root may access a vfat,
// because it has no owners.
func options(kind string, designed []string) string {
	switch {
	case len(designed) > 0:
		return strings.Join(designed, ",")
	case kind == "swap":
		return "sw"
	case kind == "vfat":
		return "umask=0077"
	}
	return "defaults"
}

// mdadm returns the lines for arrays.
func mdadm(all []item.LayoutArray) string {
	var b strings.Builder
	for _, a := range all {
		fmt.Fprintf(&b, "ARRAY /dev/md/%s metadata=1.2 UUID=%s\n", a.Name, a.MdadmUUID())
	}
	return b.String()
}
