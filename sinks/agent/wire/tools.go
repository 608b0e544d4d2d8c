package wire

// Tools is the archive of programs for disks that belongs to a ramdisk. The ramdisk has it as
// JSON in ToolsFile, so that its agent takes this archive and no other.
type Tools struct {
	// SHA256 is the digest of the archive, in lower-case hex, and Bytes its size.
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
	// Unpacked is how many bytes its files have.
	Unpacked int64 `json:"unpacked"`
}

const (
	// ToolsFor is what an agent that was started over the network wants them for.
	ToolsFor = "the programs for disks"
	// ToolsFile is in the initramfs.
	ToolsFile = "/etc/slipway/tools.json"
	// ToolsFolder is where the agent unpacks the archive. ToolsLinks lead there.
	ToolsFolder = "/tools"
	// MaxTools bounds the archive, and MaxUnpackedTools its files, in bytes.
	MaxTools         = 40 << 20
	MaxUnpackedTools = 256 << 20
)

// ToolsLinks are the paths of the initramfs at which programs look for what the archive has;
// each leads to the same path below ToolsFolder.
var ToolsLinks = []string{"/usr", "/lib64", "/etc/mke2fs.conf"}

// Program is one that the agent runs in memory when it installs a system.
type Program struct {
	Name string
	// Package of Debian brings it.
	Package string
	// File is one of the package that the program reads, without "/" in front; empty for none.
	File string
}

// Programs are all that the agent runs outside of the new system. The ramdisk is built with
// them, and an installation looks for them before it writes.
var Programs = []Program{
	{Name: "chroot", Package: "coreutils"},
	{Name: "dmsetup", Package: "dmsetup"},
	{Name: "lvm", Package: "lvm2"},
	{Name: "mdadm", Package: "mdadm"},
	{Name: "mkfs.btrfs", Package: "btrfs-progs"},
	{Name: "mkfs.ext4", Package: "e2fsprogs", File: "etc/mke2fs.conf"},
	{Name: "mkfs.vfat", Package: "dosfstools"},
	{Name: "mkfs.xfs", Package: "xfsprogs"},
	{Name: "mkswap", Package: "util-linux"},
	{Name: "mount", Package: "mount"},
	{Name: "umount", Package: "mount"},
}
