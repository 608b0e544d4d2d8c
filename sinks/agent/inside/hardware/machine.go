package hardware

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/disk"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// maxPorts bounds the ports that are reported.
const maxPorts = 128

// Observe reports what Machine reports, and what is on each disk.
func Observe(ctx context.Context, h *inside.Host) wire.Machine {
	return machine(h, func() ([]item.Disk, error) { return disk.Observe(ctx, h) })
}

// Machine reports the machine's identity, its own network ports and its disks, from /sys. It opens no disk. It
// lists what cannot be read.
func Machine(h *inside.Host) wire.Machine {
	return machine(h, func() ([]item.Disk, error) { return disk.List(h) })
}

func machine(h *inside.Host, disks func() ([]item.Disk, error)) wire.Machine {
	dmi := func(name string) string { return printable(inside.Text(h.Path("/sys/class/dmi/id/" + name))) }
	m := wire.Machine{
		UUID: strings.ToLower(dmi("product_uuid")), Serial: dmi("product_serial"), Manufacturer: dmi("sys_vendor"), Product: dmi("product_name"),
		BIOS: dmi("bios_version"), MemoryBytes: memory(inside.Text(h.Path("/proc/meminfo"))),
	}
	if text, err := inside.ReadAtMost(h.Path("/proc/cpuinfo"), maxCPUInfo); err == nil {
		m.Processors = processors(string(text))
	}
	var err error
	if m.Ports, err = ports(h); err != nil {
		m.Unread = append(m.Unread, "The network ports could not be read: "+err.Error())
	}
	if m.Disks, err = disks(); err != nil {
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

// These are the bounds on what is read and reported of processors.
const (
	maxCPUInfo    = 8 << 20
	maxProcessors = 64
)

// processors reads /proc/cpuinfo (proc_cpuinfo(5)), which has a part for each thread. On architectures that name no
// sockets, it reports nothing.
func processors(text string) (all []wire.Processor) {
	threads, cores := map[string]int{}, map[string]map[string]bool{}
	models := map[string]string{}
	for part := range strings.SplitSeq(text, "\n\n") {
		is := map[string]string{}
		for l := range strings.Lines(part) {
			name, value, _ := strings.Cut(l, ":")
			is[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
		socket, ok := is["physical id"]
		if !ok {
			continue
		}
		if threads[socket]++; cores[socket] == nil {
			cores[socket] = map[string]bool{}
		}
		cores[socket][is["core id"]] = true
		models[socket] = printable(is["model name"])
	}
	for _, socket := range slices.Sorted(maps.Keys(threads)) {
		if len(all) < maxProcessors {
			all = append(all, wire.Processor{ID: printable(socket), Model: models[socket], Cores: len(cores[socket]), Threads: threads[socket]})
		}
	}
	return all
}

// ports are those of the machine's network adapters: links with a device.
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
		p := wire.Port{Name: name, MAC: strings.ToLower(inside.Text(filepath.Join(folder, "address"))), Driver: linked(filepath.Join(folder, "device/driver"))}
		if c := inside.Text(filepath.Join(folder, "carrier")); c == "0" || c == "1" { // reading it fails while the port is down
			is := c == "1"
			p.Carrier = &is
		}
		if n, err := strconv.Atoi(inside.Text(filepath.Join(folder, "speed"))); err == nil && n > 0 {
			p.Mbps = n
		}
		all = append(all, p)
	}
	return all, nil
}

// list lists the names in a kernel folder, sorted.
func list(h *inside.Host, folder string) (names []string, err error) {
	entries, err := os.ReadDir(h.Path(folder))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// printable is a hardware text with printable characters only, bounded.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, s)
	return strings.TrimSpace(s[:min(len(s), 256)])
}
