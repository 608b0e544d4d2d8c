package lab

import (
	"crypto/sha256"
	"fmt"
	"slices"
)

// Parts is what a machine has beside its processors and memory.
type Parts struct {
	// Drives is how many drives there are, 2 by default; -1 is none.
	Drives int `json:"drives,omitempty"`
	// MACs are the addresses of the network ports, two that the seed makes by
	// default.
	MACs []string `json:"macs,omitempty"`
	// Missing are parts that are not there, by the id that their resource
	// would have.
	Missing []string `json:"missing,omitempty"`
	// Firmware is versions over the usual, by component: bmc, bios, nic, psu,
	// drive.
	Firmware map[string]string `json:"firmware,omitempty"`
}

// volumeHabit is what a BMC lists as the volumes of drives that are in no array.
type volumeHabit string

const (
	volumesNone   volumeHabit = ""       // there is no such collection
	volumesEmpty  volumeHabit = "empty"  // it has no members
	volumesDrives volumeHabit = "drives" // each drive is one
)

// partHabits is what a BMC calls the parts of its machine, and where it has
// them.
type partHabits struct {
	processor func(n int) string
	// dimm names the nth module at a socket, both from 1; dimms is how many
	// places a socket has. Empty places are listed where listed says so.
	dimm   func(socket, n int) string
	dimms  int
	listed bool

	processorModel, processorMaker, memoryKind string
	cores                                      int

	storage    string // id of the one storage subsystem
	drive      func(n int) string
	adapter    string // id of the network adapter
	pcie       string // id of the PCIe device that it is
	port       func(n int) string
	function   func(n int) string
	ethernet   func(n int) string // interface of the system
	management string             // interface of the manager
	psu, fan   func(n int) string
	// backplane is the id of a second chassis, empty for none.
	backplane string
	// subsystems has PowerSubsystem, ThermalSubsystem and Sensors, legacy Power
	// and Thermal.
	subsystems, legacy bool
	// volumes is which volumes the storage has.
	volumes volumeHabit
	// ports says whether an adapter has Ports; else it has NetworkPorts, which
	// came before.
	ports bool
	// firmware names a component with a version in the inventory.
	firmware func(n int, component, version string) string
	logs     []logHabit
}

// logHabit is a log that a BMC has.
type logHabit struct {
	path string
	kind string // LogEntryType
}

// numbered makes ids of a format with one number, from 1.
func numbered(format string) func(n int) string {
	return func(n int) string { return fmt.Sprintf(format, n) }
}

// What a machine is made of, by its configuration.

func (m *Machine) sockets() int {
	if m.computer != nil {
		return 1 // its processors are cores of one
	}
	return max(1, m.config.Processors)
}

// dimm is a memory module, or a place for one.
type dimm struct {
	id          string
	socket, n   int
	gib         int
	unpopulated bool
}

// dimms shares the memory out among modules of one size, and these among the
// sockets.
func (m *Machine) dimms() []dimm {
	places := m.kind.parts.dimms * m.sockets()
	size, total := 1, m.memoryGiB()
	for size < 64 && total%(size*2) == 0 && total/(size*2) >= m.sockets() || size > 0 && total/size > places {
		size *= 2
	}
	var all []dimm
	count := total / size
	for n := 1; n <= m.kind.parts.dimms; n++ {
		for s := 1; s <= m.sockets(); s++ {
			d := dimm{id: m.kind.parts.dimm(s, n), socket: s, n: n, gib: size}
			d.unpopulated = (n-1)*m.sockets()+s > count || !m.has(d.id)
			if !d.unpopulated || m.kind.parts.listed {
				all = append(all, d)
			}
		}
	}
	return all
}

func (m *Machine) drives() int {
	if m.computer != nil {
		return len(m.computer.drives())
	}
	switch n := m.config.Parts.Drives; {
	case n < 0:
		return 0
	case n == 0:
		return 2
	default:
		return n
	}
}

// macs are the addresses of the network ports.
func (m *Machine) macs() []string {
	if len(m.config.Parts.MACs) > 0 {
		return m.config.Parts.MACs
	}
	return []string{m.mac("port 1"), m.mac("port 2")}
}

// mac is an address that the seed makes; the second bit says that nobody gave
// it out.
func (m *Machine) mac(what string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %s", m.fleet.config.Seed, m.config.Name, what))
	return fmt.Sprintf("02:%02x:%02x:%02x:%02x:%02x", sum[0], sum[1], sum[2], sum[3], sum[4])
}

// partSerial is the serial number of a part.
func (m *Machine) partSerial(id string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s serial %s", m.fleet.config.Seed, m.config.Name, id))
	return fmt.Sprintf("%X", sum[:5])
}

// firmwareOf is the version of a component.
func (m *Machine) firmwareOf(component, usual string) string {
	return or(m.config.Parts.Firmware[component], usual)
}

func (m *Machine) biosVersion() string { return m.firmwareOf("bios", m.kind.biosVersion) }
func (m *Machine) bmcVersion() string  { return m.firmwareOf("bmc", m.kind.bmcVersion) }

// has says whether a part is there.
func (m *Machine) has(id string) bool {
	if slices.Contains(m.config.Parts.Missing, id) {
		return false
	}
	return locked(m, func() bool { return m.health[id] != absent })
}

// absent is the health of a part that was taken out.
const absent = "Absent"

// some of a part's numbers are those of the parts that are there, by id.
func (m *Machine) present(n int, id func(int) string) []string {
	var ids []string
	for i := 1; i <= n; i++ {
		if m.has(id(i)) {
			ids = append(ids, id(i))
		}
	}
	return ids
}

// SetHealth makes a part's health Warning, Critical or OK, or takes it out
// with Absent. A part is known by the id of its resource; the machine's own
// rollup becomes the worst.
func (m *Machine) SetHealth(part, health string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.health == nil {
		m.health = map[string]string{}
	}
	m.health[part] = health
}

// status is the Status of a part.
func (m *Machine) status(id string) body {
	return body{"State": "Enabled", "Health": or(locked(m, func() string { return m.health[id] }), "OK")}
}

// rollup is the worst health of all parts.
func (m *Machine) rollup() string {
	return locked(m, func() string {
		worst := "OK"
		for _, h := range m.health {
			if h == "Critical" || h == "Warning" && worst == "OK" {
				worst = h
			}
		}
		return worst
	})
}
