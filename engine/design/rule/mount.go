package rule

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

var mounts = []Rule{
	{
		Code: "efi-partition", Severity: site.SeverityError,
		What: "A node that boots by UEFI and has its storage designed has a partition with the flag \"efi\", with vfat and at least 100 MiB; one that boots by BIOS has none.",
		Why:  "The firmware finds its boot loader there and nowhere else (UEFI specification 2.10, section 13.3); the machine installs, and then does not start. 100 MiB is room for two boot loaders and an update of the firmware.",
		Wrong: `nodes: "n1": {
	boot: mode: "uefi"
	storage: disks: os: {match: kind: "ssd", partitions: root: {size: ">20GB", filesystem: mount: "/"}}
}`,
		Right: `nodes: "n1": {
	boot: mode: "uefi"
	storage: disks: os: {match: kind: "ssd", partitions: {
		efi: {number: 1, size: "512MiB", flag: "efi", filesystem: {type: "vfat", mount: "/boot/efi"}}
		root: {number: 2, size: ">20GB", filesystem: mount: "/"}
	}}
}`,
		Node: efiPartition,
	},
	{
		Code: "boot-disk", Severity: site.SeverityError,
		What: "The disk that the firmware boots from is one of the node's, and has the boot loader's partition: \"efi\" for UEFI, \"bios-boot\" for BIOS with a GPT.",
		Why:  "The firmware would find nothing to start on that disk (for BIOS: GRUB manual, section 3.4): the machine would be installed and then not start.",
		Wrong: `nodes: "n1": storage: {
	bootDisk: "system"
	disks: os: {match: kind: "ssd", filesystem: mount: "/"}
}`,
		Right: `nodes: "n1": storage: {
	bootDisk: "os"
	disks: os: {match: kind: "ssd", filesystem: mount: "/"}
}`,
		Node: bootDisk,
	},
	{
		Code: "root-missing", Severity: site.SeverityError,
		What:  "A node whose storage is designed has a file system mounted on /.",
		Why:   "The system has nowhere to be installed to.",
		Wrong: `nodes: "n1": storage: disks: data: {match: kind: "ssd", filesystem: mount: "/srv"}`,
		Right: `nodes: "n1": storage: disks: os: {match: kind: "ssd", filesystem: mount: "/"}`,
		Node:  rootMissing,
	},
	{
		Code: "root-filesystem", Severity: site.SeverityError,
		What:  "The file system / is one that a system can run from: not vfat, and not swap.",
		Why:   "Without owners and permissions no Linux system can be put on it.",
		Wrong: `nodes: "n1": storage: disks: os: {match: kind: "ssd", filesystem: {type: "vfat", mount: "/"}}`,
		Right: `nodes: "n1": storage: disks: os: {match: kind: "ssd", filesystem: {type: "xfs", mount: "/"}}`,
		Node: eachFilesystem(func(p part) (field, message, fix string) {
			if p.Filesystem.Mount != "/" || p.Filesystem.Type != "vfat" && p.Filesystem.Type != "swap" {
				return "", "", ""
			}
			return "type", fmt.Sprintf("the file system / is %s", p.Filesystem.Type), `Write type: "ext4", "xfs" or "btrfs".`
		}),
	},
	{
		Code: "duplicate-mount", Severity: site.SeverityError,
		What: "No two file systems of a node are mounted on one path.",
		Why:  "The one that is mounted last hides the other, and files are written to either, depending on the order.",
		Wrong: `nodes: "n1": storage: disks: {
	os: {match: kind: "ssd", filesystem: mount: "/"}
	data: {match: kind: "hdd", filesystem: mount: "/srv"}
	more: {match: kind: "nvme", filesystem: mount: "/srv"}
}`,
		Right: `nodes: "n1": storage: disks: {
	os: {match: kind: "ssd", filesystem: mount: "/"}
	data: {match: kind: "hdd", filesystem: mount: "/srv"}
	more: {match: kind: "nvme", filesystem: mount: "/srv/more"}
}`,
		Node: duplicateMount,
	},
	{
		Code: "mount-path", Severity: site.SeverityError,
		What: "A file system is mounted on a path in its shortest form, outside of /dev, /proc, /run and /sys.",
		Why:  "Those are the kernel's, or emptied at every start; what is mounted there hides what the system needs to start.",
		Wrong: `nodes: "n1": storage: disks: {
	os: {match: kind: "ssd", filesystem: mount: "/"}
	data: {match: kind: "hdd", filesystem: mount: "/srv/"}
}`,
		Right: `nodes: "n1": storage: disks: {
	os: {match: kind: "ssd", filesystem: mount: "/"}
	data: {match: kind: "hdd", filesystem: mount: "/srv"}
}`,
		Node: eachFilesystem(mountPath),
	},
	{
		Code: "swap-mounted", Severity: site.SeverityError,
		What: "Swap is mounted nowhere.",
		Why:  "There are no files in it; the mount fails, and with it the start of the system (systemd.mount(5)).",
		Wrong: `nodes: "n1": storage: disks: {
	os: {match: kind: "ssd", filesystem: mount: "/"}
	swap: {match: kind: "hdd", filesystem: {type: "swap", mount: "/swap"}}
}`,
		Right: `nodes: "n1": storage: disks: {
	os: {match: kind: "ssd", filesystem: mount: "/"}
	swap: {match: kind: "hdd", filesystem: type: "swap"}
}`,
		Node: eachFilesystem(func(p part) (field, message, fix string) {
			if p.Filesystem.Type != "swap" || p.Filesystem.Mount == "" || p.Filesystem.Mount == "/" {
				return "", "", ""
			}
			return "mount", fmt.Sprintf("the swap on %s is mounted on %s", p, p.Filesystem.Mount), "Remove mount, or choose another type."
		}),
	},
	{
		Code: "mount-options", Severity: site.SeverityError,
		What: "Mount options are single words, of a file system that is mounted or of swap.",
		Why:  "Without a mount nothing reads them; and a blank ends the field of fstab(5), so that the rest of the line is misread and the system does not start.",
		Wrong: `nodes: "n1": storage: disks: {
	os: {match: kind: "ssd", filesystem: mount: "/"}
	data: {match: kind: "hdd", filesystem: options: ["noatime"]}
}`,
		Right: `nodes: "n1": storage: disks: {
	os: {match: kind: "ssd", filesystem: mount: "/"}
	data: {match: kind: "hdd", filesystem: {mount: "/srv", options: ["noatime"]}}
}`,
		Node: mountOptions,
	},
	{
		Code: "filesystem-label", Severity: site.SeverityError,
		What:  "The label of a file system fits its type (ext4 16 bytes, xfs 12, vfat 11, swap 15, btrfs 255), and is unique on its node.",
		Why:   "A label that is too long is cut or refused (e2label(8), mkfs.xfs(8), mkfs.fat(8), mkswap(8)); with two equal labels, the system may mount or boot the wrong file system.",
		Wrong: `nodes: "n1": storage: disks: os: {match: kind: "ssd", filesystem: {type: "xfs", mount: "/", label: "operating-system"}}`,
		Right: `nodes: "n1": storage: disks: os: {match: kind: "ssd", filesystem: {type: "ext4", mount: "/", label: "operating-system"}}`,
		Node:  filesystemLabel,
	},
}

// eachFilesystem checks every file system of a node. An objection is a field, a
// message and what to do.
func eachFilesystem(object func(p part) (field, message, fix string)) func(*site.Site, *site.Node) []site.Finding {
	return func(_ *site.Site, n *site.Node) []site.Finding {
		var found []site.Finding
		for _, p := range filesystems(n) {
			if field, message, fix := object(p); message != "" {
				found = append(found, wrong(p.path()+".filesystem."+field, message, fix))
			}
		}
		return found
	}
}

// filesystems lists the parts of a node with a file system.
func filesystems(n *site.Node) []part {
	return slices.DeleteFunc(parts(n), func(p part) bool { return p.Filesystem == nil })
}

// leastEFI is the smallest size of the boot loader's partition.
const leastEFI = site.Size(100 << 20)

func efiPartition(s *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	flags := 0
	for _, p := range sized(n) {
		if p.kind != aPartition || p.flag(n) != "efi" {
			continue
		}
		flags++
		if field, message, fix := badEFI(n, p); message != "" {
			found = append(found, wrong(p.path()+field, message, fix))
		}
	}
	if n.Boot.Mode == "uefi" && flags == 0 && len(n.Storage.Disks) > 0 && !becomesImage(s, n) && !n.Retires() && !unclear(n, "flag", func(p part) bool { return p.flag(n) != "" }) {
		found = append(found, beside(n, "boot.mode", wrong("storage.disks", `boot.mode is "uefi", and no partition has the flag "efi"`,
			`Add a partition: efi: {size: "512MiB", flag: "efi", filesystem: {type: "vfat", mount: "/boot/efi"}}.`)))
	}
	return found
}

// flag returns the flag of a partition.
func (p part) flag(n *site.Node) string {
	return n.Storage.Disks[p.in].Partitions[p.name].Flag
}

// badEFI says what is wrong with a partition for boot loaders.
func badEFI(n *site.Node, p part) (field, message, fix string) {
	switch {
	case n.Boot.Mode == "bios":
		return ".flag", fmt.Sprintf(`%s has the flag "efi", and boot.mode is "bios"`, p), `Write flag: "bios-boot", or boot: mode: "uefi".`
	case p.Filesystem == nil:
		return ".flag", fmt.Sprintf(`%s has the flag "efi" and no file system`, p), `Write filesystem: {type: "vfat", mount: "/boot/efi"}.`
	case cmp.Or(p.Filesystem.Type, "ext4") != "vfat" && !states(n, p.path()+".filesystem.type"):
		return ".filesystem", fmt.Sprintf(`%s has the flag "efi" and no file system type, so it would get the default, ext4`, p), `Write type: "vfat".`
	case p.Filesystem.Type != "vfat" && p.Filesystem.Type != "":
		return ".filesystem.type", fmt.Sprintf(`%s has the flag "efi" and the file system %s`, p, p.Filesystem.Type), `Write type: "vfat".`
	case p.size != 0 && p.size < leastEFI:
		return ".size", fmt.Sprintf("%s has %s", p, amount(p.size)), `Write size: "512MiB".`
	}
	return "", "", ""
}

func bootDisk(s *site.Site, n *site.Node) []site.Finding {
	name := n.Storage.BootDisk
	d, ok := n.Storage.Disks[name]
	if !ok {
		return absent("storage.bootDisk", "disk", "storage.disks", name, n.Storage.Disks)
	}
	has := func(in site.Disk, flag string) bool {
		for _, p := range in.Partitions {
			if p.Flag == flag {
				return true
			}
		}
		return false
	}
	switch {
	case becomesImage(s, n):
	case n.Boot.Mode == "uefi" && !has(d, "efi"):
		for _, other := range keys(n.Storage.Disks) {
			if has(n.Storage.Disks[other], "efi") {
				return []site.Finding{wrong("storage.bootDisk",
					fmt.Sprintf(`the boot disk is %s, and the partition with the flag "efi" is on %s`, name, other), fmt.Sprintf("Write bootDisk: %q.", other))}
			}
		}
	case n.Boot.Mode == "bios" && len(d.Partitions) > 0 && d.Table != "mbr" && !has(d, "bios-boot"):
		return []site.Finding{wrong("storage.bootDisk",
			fmt.Sprintf(`the boot disk %s has a GPT, and no partition with the flag "bios-boot"`, name),
			`Add a partition, boot: {size: "1MiB", flag: "bios-boot"}, or write table: "mbr".`)}
	}
	return nil
}

func rootMissing(s *site.Site, n *site.Node) []site.Finding {
	if len(n.Storage.Disks) == 0 || becomesImage(s, n) || n.Retires() {
		return nil
	}
	for _, p := range filesystems(n) {
		if p.Filesystem.Mount != "" && path.Clean(p.Filesystem.Mount) == "/" {
			return nil
		}
	}
	if unclear(n, "filesystem", hasFilesystem) || unclear(n, "filesystem.mount", hasMount) {
		return nil
	}
	return []site.Finding{wrong("storage.disks", "no file system is mounted on /", `Write mount: "/" in the file system of a partition, a volume or a disk.`)}
}

func hasFilesystem(p part) bool { return p.Filesystem != nil }

func hasMount(p part) bool { return p.Filesystem != nil && p.Filesystem.Mount != "" }

func duplicateMount(_ *site.Site, n *site.Node) []site.Finding {
	first := map[string]part{}
	var found []site.Finding
	for _, p := range filesystems(n) {
		if p.Filesystem.Mount == "" {
			continue
		}
		mount := path.Clean(p.Filesystem.Mount)
		if before, ok := first[mount]; ok {
			found = append(found, beside(n, before.path()+".filesystem.mount", wrong(p.path()+".filesystem.mount",
				fmt.Sprintf("%s and %s are both mounted on %s", before, p, mount), "Mount one of them elsewhere.")))
			continue
		}
		first[mount] = p
	}
	return found
}

func mountPath(p part) (field, message, fix string) {
	mount := p.Filesystem.Mount
	if mount == "" {
		return "", "", ""
	}
	if clean := path.Clean(mount); clean != mount {
		return "mount", fmt.Sprintf("%s is mounted on %q, which has a shorter form", p, mount), fmt.Sprintf("Write %q.", clean)
	}
	for _, top := range []string{"/dev", "/proc", "/run", "/sys"} {
		if mount == top || strings.HasPrefix(mount, top+"/") {
			return "mount", fmt.Sprintf("%s is mounted on %s, in %s", p, mount, top), "Mount it elsewhere."
		}
	}
	return "", "", ""
}

func mountOptions(_ *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	for _, p := range filesystems(n) {
		f, at := p.Filesystem, p.path()+".filesystem.options"
		if len(f.Options) > 0 && f.Type != "swap" && !states(n, p.path()+".filesystem.mount") {
			found = append(found, wrong(at, fmt.Sprintf("the file system on %s has mount options and is not mounted", p), "Set mount, or remove the options."))
		}
		for _, o := range f.Options {
			if strings.ContainsAny(o, " \t\n") {
				found = append(found, wrong(at, fmt.Sprintf("the mount option %q has a blank in it", o), "Write each option as an item of its own."))
			}
		}
	}
	return found
}

// longestLabels are the longest labels, in bytes, by file system.
var longestLabels = map[string]int{"": 16, "ext4": 16, "xfs": 12, "vfat": 11, "swap": 15, "btrfs": 255}

func filesystemLabel(_ *site.Site, n *site.Node) []site.Finding {
	first := map[string]part{}
	var found []site.Finding
	for _, p := range filesystems(n) {
		label, at := p.Filesystem.Label, p.path()+".filesystem.label"
		if label == "" {
			continue
		}
		if most := longestLabels[p.Filesystem.Type]; len(label) > most {
			found = append(found, wrong(at, fmt.Sprintf("the label %q has %d bytes, and %s holds %d", label, len(label), cmp.Or(p.Filesystem.Type, "ext4"), most),
				fmt.Sprintf("Write one of at most %d.", most)))
		}
		if before, ok := first[label]; ok {
			found = append(found, beside(n, before.path()+".filesystem.label", wrong(at,
				fmt.Sprintf("the label %q is on %s and on %s", label, before, p), "Give each its own.")))
			continue
		}
		first[label] = p
	}
	return found
}
