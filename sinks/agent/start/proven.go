package start

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// readOnly are the file systems to search, with options that keep the kernel from replaying their journals, which
// would write.
var readOnly = []struct{ kind, options string }{{"ext4", "noload"}, {"xfs", "norecovery,nouuid"}}

// provenSystem finds a file system with the marker of a system that Slipway installed. It cannot find a system on
// LVM or on several disks, because the programs for these are only loaded for an installation.
func provenSystem(blocks, devices, at string) (device string, found bool) {
	names, err := os.ReadDir(blocks)
	if err != nil {
		return "", false
	}
	for _, n := range names {
		device := filepath.Join(devices, n.Name())
		for _, fs := range readOnly {
			if syscall.Mount(device, at, fs.kind, syscall.MS_RDONLY|syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, fs.options) != nil {
				continue
			}
			found := hasMarker(at)
			_ = syscall.Unmount(at, syscall.MNT_DETACH) // the machine is about to go down
			if found {
				return device, true
			}
		}
	}
	return "", false
}

// hasMarker reports whether a system has the marker of an installation.
func hasMarker(root string) bool {
	folder, err := os.OpenRoot(root)
	if err != nil {
		return false
	}
	defer folder.Close()
	f, err := folder.Open("etc/slipway/marker.json")
	if err != nil {
		return false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 1<<20))
	var marker struct {
		Node string `json:"node"`
	}
	return err == nil && json.Unmarshal(text, &marker) == nil && marker.Node != ""
}
