package site

import (
	"cmp"
	"path"
	"regexp"
	"strings"
)

// MACOf returns the designed MAC address of a port in lower case: its own, or that of its device.
// It is empty if the design has none.
func (n *Node) MACOf(port string) string {
	i := n.Interfaces[port]
	return strings.ToLower(cmp.Or(i.MAC, n.Hardware.Devices[i.Device].MAC))
}

// PCIOf returns the PCI address of a port without a designed MAC address, in lower case. It is
// empty if the design has neither.
func (n *Node) PCIOf(port string) string {
	if n.MACOf(port) != "" {
		return ""
	}
	return n.Hardware.Devices[n.Interfaces[port].Device].PCIAddress()
}

var pciAddress = regexp.MustCompile(`^[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$`)

// PCIAddress returns a device's place on the PCI bus in lower case, from its address or from a path
// below /sys. It is empty for a device found by other means.
func (d Device) PCIAddress() string {
	if d.PCI != "" || !strings.HasPrefix(d.Path, "/sys/") {
		return strings.ToLower(d.PCI)
	}
	for at := strings.ToLower(path.Clean(d.Path)); at != "/"; at = path.Dir(at) {
		if pciAddress.MatchString(path.Base(at)) {
			return path.Base(at)
		}
	}
	return ""
}
