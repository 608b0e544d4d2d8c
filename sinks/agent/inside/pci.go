package inside

import (
	"path/filepath"
)

var pciAddress = Pattern(`^[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$`)

// PCIAddress is the PCI address of a network interface's adapter, by the interface's folder in sysfs; empty if
// there is none. A virtual machine's device is behind its adapter: ".../0000:00:03.0/virtio0".
func PCIAddress(folder string) string {
	at, err := filepath.EvalSymlinks(filepath.Join(folder, "device"))
	if err != nil {
		return ""
	}
	for ; len(at) > 1; at = filepath.Dir(at) {
		if pciAddress().MatchString(filepath.Base(at)) {
			return filepath.Base(at)
		}
	}
	return ""
}
