package site

import "testing"

// A port is known by its own MAC address, by that of its device, or by where its device is
// on the PCI bus.
func TestPorts(t *testing.T) {
	for name, c := range map[string]struct {
		of       Interface
		device   Device
		mac, pci string
	}{
		"its own":       {Interface{MAC: "52:54:00:AA:00:01", Device: "d"}, Device{MAC: "52:54:00:aa:00:02"}, "52:54:00:aa:00:01", ""},
		"of its device": {Interface{Device: "d"}, Device{MAC: "52:54:00:aa:00:02"}, "52:54:00:aa:00:02", ""},
		"a place":       {Interface{Device: "d"}, Device{PCI: "0000:18:00.0"}, "", "0000:18:00.0"},
		"its own first": {Interface{MAC: "52:54:00:aa:00:01", Device: "d"}, Device{PCI: "0000:18:00.0"}, "52:54:00:aa:00:01", ""},
		"a path":        {Interface{Device: "d"}, Device{Path: "/sys/devices/pci0000:17/0000:17:00.0/0000:18:00.1/net/eth0"}, "", "0000:18:00.1"},
		"another path":  {Interface{Device: "d"}, Device{Path: "/sys/class/net/eth0"}, "", ""},
		"a disk's path": {Interface{Device: "d"}, Device{Path: "/dev/disk/by-path/pci-0000:00:17.0-ata-1"}, "", ""},
		"a neighbour":   {Interface{Device: "d"}, Device{Neighbour: &Neighbour{System: "tor1", Port: "1/7"}}, "", ""},
		"no device":     {Interface{}, Device{}, "", ""},
	} {
		n := &Node{Interfaces: map[string]Interface{"eno1": c.of}, Hardware: Hardware{Devices: map[string]Device{"d": c.device}}}
		links, err := (&Site{}).Wiring(n)
		if mac, pci := n.MACOf("eno1"), n.PCIOf("eno1"); err != nil || mac != c.mac || pci != c.pci || links["eno1"].PCI != c.pci {
			t.Errorf("%s: MAC address %q, PCI address %q, wired %+v, %v", name, mac, pci, links["eno1"], err)
		}
	}
}
