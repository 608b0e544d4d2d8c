package links

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// maxPorts bounds how many ports are reported.
const maxPorts = 64

// interfaceName matches a plausible interface name.
var interfaceName = inside.Pattern(`^[A-Za-z0-9_.-]{1,15}$`)

// port is a port with its kernel index.
type port struct {
	item.Port
	index int
}

// readPorts reads the interfaces that are hardware or requested.
func readPorts(h *inside.Host, asked []string) ([]*port, error) {
	entries, err := os.ReadDir(h.Path("/sys/class/net"))
	if err != nil {
		return nil, fmt.Errorf("the interfaces cannot be listed: %w", err)
	}
	var ports []*port
	for _, e := range entries {
		folder := h.Path("/sys/class/net/" + e.Name())
		wanted := slices.Contains(asked, e.Name())
		if !interfaceName().MatchString(e.Name()) || len(ports) == maxPorts && !wanted {
			continue
		}
		if isHardware(folder) || wanted {
			ports = append(ports, readPort(folder, e.Name()))
		}
	}
	return ports, nil
}

// isHardware reports whether an interface is a port of an adapter. Virtual functions do not count; they belong to
// guests.
func isHardware(folder string) bool {
	_, err := os.Lstat(filepath.Join(folder, "device"))
	_, function := os.Lstat(filepath.Join(folder, "device/physfn"))
	return err == nil && function != nil
}

// readPort reads one folder of /sys/class/net.
func readPort(folder, name string) *port {
	text := func(file string) string { return inside.Text(filepath.Join(folder, file)) }
	count := func(file string) int { n, _ := strconv.Atoi(text(file)); return max(n, 0) }
	p := &port{item.Port{Name: name, MAC: text("address"), PCI: inside.PCIAddress(folder), MTU: count("mtu")}, count("ifindex")}
	if own := text("bonding_slave/perm_hwaddr"); own != "" { // a member uses its bond's address
		p.MAC = own
	}
	flags, _ := strconv.ParseUint(strings.TrimPrefix(text("flags"), "0x"), 16, 32)
	p.Off = flags&1 == 0 // IFF_UP
	p.Changes = int64(count("carrier_changes"))
	if !p.Off {
		p.Carrier = map[string]string{"1": "up", "0": "down"}[text("carrier")]
	}
	if p.Carrier == "up" { // otherwise the kernel reports old values
		p.Speed = count("speed")
		if d := text("duplex"); d == "full" || d == "half" {
			p.Duplex = d
		}
	}
	if to, err := os.Readlink(filepath.Join(folder, "master")); err == nil && interfaceName().MatchString(filepath.Base(to)) {
		p.Master = filepath.Base(to)
	}
	return p
}
