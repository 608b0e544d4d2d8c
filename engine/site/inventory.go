package site

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
)

// Inventory is what a machine is made of. A look fills in only the first
// fields, an inspection all. A nil list was not read; an empty list was read
// and is empty.
type Inventory struct {
	Manufacturer string `json:"manufacturer,omitempty"`
	Model        string `json:"model,omitempty"`
	SKU          string `json:"sku,omitempty"`
	// BIOS is the version of the system's firmware.
	BIOS string `json:"bios,omitempty"`
	// Processors is the number of sockets in use.
	Processors int     `json:"processors,omitempty"`
	MemoryGiB  float64 `json:"memoryGiB,omitempty"`

	// BMC is the management controller.
	BMC  *Controller `json:"bmc,omitempty"`
	CPUs []Processor `json:"cpus,omitzero"`
	// GPUs are graphics processors and other accelerators.
	GPUs  []Processor `json:"gpus,omitzero"`
	DIMMs []DIMM      `json:"dimms,omitzero"`
	// Drives are the drives that the BMC reports.
	Drives   []Drive       `json:"drives,omitzero"`
	NICs     []NIC         `json:"nics,omitzero"`
	Supplies []PowerSupply `json:"supplies,omitzero"`
	// Devices are the devices on the PCIe bus.
	Devices  []PCIeDevice `json:"devices,omitzero"`
	Firmware []Component  `json:"firmware,omitzero"`
	// DrivesUnread means that the machine may have more drives: some could not
	// be read.
	DrivesUnread bool `json:"drivesUnread,omitempty"`
	// Missing says what could not be read and why, one sentence each.
	Missing []string `json:"missing,omitempty"`
	// Lacks is what cannot be done to the machine; nil if nobody looked.
	Lacks *Lacks `json:"lacks,omitempty"`
}

// Disks returns the drives that distinguish this machine from one with other
// drives. It is empty if the BMC reports none.
func (i *Inventory) Disks() *Disks {
	d := &Disks{Partly: i.DrivesUnread}
	for _, drive := range i.Drives {
		d.Serials = append(d.Serials, drive.DiskName())
	}
	slices.Sort(d.Serials)
	return d
}

// DiskName is the drive's name in a list of disks: its serial number, or its place
// and size.
func (d Drive) DiskName() string {
	if name := DiskName(d.Serial); name != "" {
		return name
	}
	return DiskName(fmt.Sprintf("%s without a serial number (%d bytes)", d.ID, d.Bytes))
}

// DiskName returns a serial number in the form for a list of disks that is separated by
// ", ". It removes that separator from the number, so that one disk never reads as two.
func DiskName(serial string) string {
	words := strings.Fields(strings.ReplaceAll(serial, ",", ", "))
	return strings.ReplaceAll(strings.Join(words, " "), ", ", ",")
}

// Part is what each part of a machine may report of itself. Empty slots are not
// parts.
type Part struct {
	// ID is the part's ID in the BMC's list.
	ID string `json:"id"`
	// Name is how people find the part: a slot, a bay, a socket.
	Name         string `json:"name,omitempty"`
	Manufacturer string `json:"manufacturer,omitempty"`
	Model        string `json:"model,omitempty"`
	PartNumber   string `json:"part,omitempty"`
	Serial       string `json:"serial,omitempty"`
	// Health is "OK", "Warning" or "Critical"; State is a value like "Enabled"
	// or "Disabled" (DSP0268, Status). Both are empty if the BMC does not say.
	Health string `json:"health,omitempty"`
	State  string `json:"state,omitempty"`
}

// Controller is a management controller.
type Controller struct {
	Model   string `json:"model,omitempty"`
	Version string `json:"version,omitempty"`
}

// Processor is a central or a graphics processor.
type Processor struct {
	Part
	// Architecture is the design's word, "amd64" or "arm64", or the BMC's word
	// for another.
	Architecture string `json:"architecture,omitempty"`
	Cores        int    `json:"cores,omitempty"`
	Threads      int    `json:"threads,omitempty"`
}

// DIMM is a memory module.
type DIMM struct {
	Part
	Bytes int64 `json:"bytes,omitempty"`
	// Kind is a value like "DDR4"; MHz is the current clock.
	Kind string `json:"kind,omitempty"`
	MHz  int    `json:"mhz,omitempty"`
}

// Drive is one drive of a machine.
type Drive struct {
	Part
	Bytes int64 `json:"bytes,omitempty"`
	// Media is "HDD" or "SSD"; Protocol is a value like "NVMe", "SATA" or "SAS".
	Media    string `json:"media,omitempty"`
	Protocol string `json:"protocol,omitempty"`
	Firmware string `json:"firmware,omitempty"`
	// Failing means that the drive predicts its own failure.
	Failing bool `json:"failing,omitempty"`
}

// NIC is a network adapter.
type NIC struct {
	Part
	Firmware string `json:"firmware,omitempty"`
	Ports    []Port `json:"ports,omitempty"`
}

// Port is a port of a network adapter.
type Port struct {
	ID string `json:"id"`
	// MACs are the addresses in lower case, including those of the port's functions.
	MACs []string `json:"macs,omitempty"`
	// Link is "up" or "down", empty if the BMC does not say. Mbps is the speed
	// of a link that is up.
	Link string `json:"link,omitempty"`
	Mbps int    `json:"mbps,omitempty"`
	// Neighbours are what announces itself by LLDP at the other end. A BMC reports none.
	Neighbours []item.Neighbour `json:"neighbours,omitempty"`
}

// PowerSupply is a power supply unit.
type PowerSupply struct {
	Part
	Watts    int    `json:"watts,omitempty"`
	Firmware string `json:"firmware,omitempty"`
}

// PCIeDevice is a device on the PCIe bus.
type PCIeDevice struct {
	Part
	Firmware string `json:"firmware,omitempty"`
}

// Component is a component with firmware.
type Component struct {
	ID      string `json:"id"`
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
}
