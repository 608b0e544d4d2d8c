package hardware

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// The bounds of what is told of a machine.
const (
	maxPorts = 128
	maxDisks = 512
)

// Machine tells what the machine is: its identity, its own network ports and its disks, by
// what the kernel shows in /sys. What cannot be read is told.
func Machine(h *inside.Host) wire.Machine {
	dmi := func(name string) string { return printable(text(h.Path("/sys/class/dmi/id/" + name))) }
	m := wire.Machine{
		UUID: strings.ToLower(dmi("product_uuid")), Serial: dmi("product_serial"), Manufacturer: dmi("sys_vendor"), Product: dmi("product_name"),
		BIOS: dmi("bios_version"), MemoryBytes: memory(text(h.Path("/proc/meminfo"))),
	}
	var err error
	if m.Ports, err = ports(h); err != nil {
		m.Unread = append(m.Unread, "The network ports could not be read: "+err.Error())
	}
	if m.Disks, err = disks(h); err != nil {
		m.Unread = append(m.Unread, "The disks could not be read: "+err.Error())
	}
	return m
}

// memory is MemTotal of proc_meminfo(5) in bytes.
func memory(text string) int64 {
	for l := range strings.Lines(text) {
		if f := strings.Fields(l); len(f) == 3 && f[0] == "MemTotal:" && f[2] == "kB" {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n << 10
		}
	}
	return 0
}

// ports are those of network adapters of the machine: links that have a device.
func ports(h *inside.Host) (all []wire.Port, err error) {
	names, err := list(h, "/sys/class/net")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		folder := h.Path("/sys/class/net/" + name)
		if _, err := os.Stat(filepath.Join(folder, "device")); err != nil {
			continue // a bridge, a VLAN, the loopback
		}
		if len(all) == maxPorts {
			return all, fmt.Errorf("there are more than %d", maxPorts)
		}
		p := wire.Port{Name: name, MAC: strings.ToLower(text(filepath.Join(folder, "address"))), Driver: linked(filepath.Join(folder, "device/driver"))}
		if c := text(filepath.Join(folder, "carrier")); c == "0" || c == "1" { // an error of a port that is down
			is := c == "1"
			p.Carrier = &is
		}
		if n, err := strconv.Atoi(text(filepath.Join(folder, "speed"))); err == nil && n > 0 {
			p.Mbps = n
		}
		all = append(all, p)
	}
	return all, nil
}

// notDisks are what the kernel makes of something else, or of nothing.
var notDisks = []string{"loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd"}

// disks are whole disks, in the order of their names.
func disks(h *inside.Host) (all []wire.Disk, err error) {
	names, err := list(h, "/sys/block")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		folder := h.Path("/sys/block/" + name)
		isNone := slices.ContainsFunc(notDisks, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
		sectors, err := strconv.ParseInt(text(filepath.Join(folder, "size")), 10, 64)
		if isNone || err != nil || sectors <= 0 || text(filepath.Join(folder, "hidden")) == "1" {
			continue // a reader without a medium has no sectors
		}
		if len(all) == maxDisks {
			return all, fmt.Errorf("there are more than %d", maxDisks)
		}
		all = append(all, wire.Disk{
			Name: name, Bytes: sectors * 512, // whatever the sectors of the disk are: sysfs counts these
			Model:  printable(text(filepath.Join(folder, "device/model"))),
			Serial: serial(folder), WWN: printable(first(filepath.Join(folder, "wwid"), filepath.Join(folder, "device/wwid"))),
			Kind:      kind(name, text(filepath.Join(folder, "queue/rotational"))),
			Removable: text(filepath.Join(folder, "removable")) == "1", ReadOnly: text(filepath.Join(folder, "ro")) == "1",
		})
	}
	return all, nil
}

// serial is what a disk tells: of NVMe and of virtio by the kernel, of SCSI and SATA in the
// page 0x80 of its vital product data (SPC, "Unit Serial Number"), behind a head of four bytes.
func serial(folder string) string {
	if s := first(filepath.Join(folder, "serial"), filepath.Join(folder, "device/serial")); s != "" {
		return printable(s)
	}
	page, err := read(filepath.Join(folder, "device/vpd_pg80"))
	if err != nil || len(page) < 4 || page[1] != 0x80 {
		return ""
	}
	size := int(page[2])<<8 | int(page[3])
	return printable(strings.Trim(page[4:min(len(page), 4+size)], " \x00"))
}

func kind(name, rotational string) string {
	switch {
	case strings.HasPrefix(name, "nvme"):
		return "nvme"
	case rotational == "0":
		return "ssd"
	case rotational == "1":
		return "hdd"
	}
	return ""
}

// first is the content of the first file that has any.
func first(files ...string) string {
	for _, f := range files {
		if s := text(f); s != "" {
			return s
		}
	}
	return ""
}

// list are the names in a folder of the kernel, in order.
func list(h *inside.Host, folder string) (names []string, err error) {
	entries, err := os.ReadDir(h.Path(folder))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// printable is a text of hardware without what is not printed, and bounded.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, s)
	return strings.TrimSpace(s[:min(len(s), 256)])
}
