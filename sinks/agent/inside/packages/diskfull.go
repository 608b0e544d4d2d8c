package packages

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"syscall"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// diskFull is outcome's text for a full disk.
const diskFull = "the disk is full"

// packageFolders are where package managers write. They are checked if the error names no path.
var packageFolders = []string{"/var/cache/apt/archives", "/var/lib/apt/lists", "/var/lib/dpkg", "/var/cache/dnf", "/var/lib/rpm", "/usr", "/boot", "/etc", "/tmp", "/"}

// quoted matches a path in the write errors of dpkg, apt and rpm.
var quoted = inside.Pattern(`(?:['"]| in | on )(/[^'" \n]*)`)

// withRoom adds to a disk-full error which file system is full, as far as that is visible.
func withRoom(h *inside.Host, err error) error {
	var e *wire.Error
	if !errors.As(err, &e) || !says(err, diskFull) {
		return err
	}
	var folders []string
	for _, m := range quoted().FindAllStringSubmatch(e.Text, -1) {
		folders = append(folders, m[1])
	}
	if len(folders) == 0 {
		folders = packageFolders
	}
	full := fullest(h, folders)
	if full == "" {
		return err
	}
	return classed(e.Class, "%s. Make room there; Slipway goes on from there at its next try.\n%s", full, e.Text)
}

// fullest names the file system with the least free space among those of the folders.
func fullest(h *inside.Host, folders []string) string {
	type room struct {
		mount      string
		free, size uint64 // bytes
		files      bool   // out of inodes, not of bytes
	}
	var all []room
	for _, folder := range folders {
		var s syscall.Statfs_t
		mount := mountOf(h, folder)
		if mount == "" || syscall.Statfs(h.Path(mount), &s) != nil || s.Blocks == 0 || s.Bsize <= 0 {
			continue
		}
		r := room{mount, s.Bavail * uint64(s.Bsize), s.Blocks * uint64(s.Bsize), s.Files > 0 && s.Ffree == 0}
		all = append(all, r)
	}
	if len(all) == 0 {
		return ""
	}
	least := slices.MinFunc(all, func(a, b room) int {
		if a.files != b.files {
			return map[bool]int{true: -1, false: 1}[a.files]
		}
		return cmp.Compare(a.free, b.free)
	})
	if least.files {
		return fmt.Sprintf("the file system %s has no room for more files", least.mount)
	}
	return fmt.Sprintf("the file system %s has %s free of %s", least.mount, item.Bytes(int64(least.free)), item.Bytes(int64(least.size)))
}

// mountOf is the mount point of the file system of a path, or of its future place; empty if unknown.
func mountOf(h *inside.Host, name string) string {
	device := func(name string) (dev uint64, ok bool) {
		where, err := resolve(h, name)
		if err != nil {
			return 0, false
		}
		info, err := os.Stat(where)
		if err != nil {
			return 0, false
		}
		s, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return 0, false
		}
		return s.Dev, true
	}
	name = path.Clean(name)
	dev, ok := device(name)
	for !ok && name != "/" { // the path does not exist yet
		name = path.Dir(name)
		dev, ok = device(name)
	}
	for ok && name != "/" {
		above, seen := device(path.Dir(name))
		if !seen || above != dev {
			return name
		}
		name = path.Dir(name)
	}
	if !ok {
		return ""
	}
	return "/"
}
