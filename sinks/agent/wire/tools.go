package wire

// Tools is the archive of programs for disks that belongs to a ramdisk. The ramdisk stores it as JSON in ToolsFile,
// so that its agent accepts only this archive.
type Tools struct {
	// SHA256 is the digest of the archive, in lower-case hex. Bytes is its size.
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
	// Unpacked is the size of its files in bytes.
	Unpacked int64 `json:"unpacked"`
}

const (
	// ToolsFor is the purpose in the request of an agent that was booted over the network.
	ToolsFor = "the programs for disks"
	// ToolsFile is a path in the initramfs.
	ToolsFile = "/etc/slipway/tools.json"
	// ToolsFolder is where the agent unpacks the archive. ToolsLinks point there.
	ToolsFolder = "/tools"
	// MaxTools bounds the archive, and MaxUnpackedTools its files, in bytes.
	MaxTools         = 40 << 20
	MaxUnpackedTools = 256 << 20
)

// ToolsLinks are the paths of the initramfs where programs look for files of the archive. Each links to the same
// path below ToolsFolder.
var ToolsLinks = []string{"/usr", "/lib64", "/etc/mke2fs.conf"}

// Program is a program that the agent runs in the ramdisk during an installation.
type Program struct {
	Name string
	// Package is the Debian package that provides it.
	Package string
	// File is a file of the package that the program reads, without a leading "/"; empty for none.
	File string
}

// Programs are all programs that the agent runs outside the new system. The ramdisk is built with them, and an
// installation checks for them before it writes.
var Programs = []Program{
	{Name: "chroot", Package: "coreutils"},
	{Name: "cryptsetup", Package: "cryptsetup-bin"},
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
