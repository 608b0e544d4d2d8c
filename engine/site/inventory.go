package site

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
)

// Inventory is what a machine is made of. A look gives the first fields only,
// an inspection all of them. A list that is nil was not read; one that is empty
// was read and has nothing in it.
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
	// Drives are those that the BMC tells of.
	Drives   []Drive       `json:"drives,omitzero"`
	NICs     []NIC         `json:"nics,omitzero"`
	Supplies []PowerSupply `json:"supplies,omitzero"`
	// Devices are what is on the PCIe bus.
	Devices  []PCIeDevice `json:"devices,omitzero"`
	Firmware []Component  `json:"firmware,omitzero"`
	// DrivesUnread says that the machine may have drives that are not in Drives:
	// some could not be read.
	DrivesUnread bool `json:"drivesUnread,omitempty"`
	// Missing says what could not be read and why, a sentence each.
	Missing []string `json:"missing,omitempty"`
	// Lacks is what cannot be done to the machine; nil when nobody looked.
	Lacks *Lacks `json:"lacks,omitempty"`
}

// Disks are the drives by which a machine is told from one with others. It is
// empty where the BMC tells of none.
func (i *Inventory) Disks() *Disks {
	d := &Disks{Partly: i.DrivesUnread}
	for _, drive := range i.Drives {
		d.Serials = append(d.Serials, drive.DiskName())
	}
	slices.Sort(d.Serials)
	return d
}

// DiskName is what a drive is called in a list of disks: its serial number, or its
// place and size.
func (d Drive) DiskName() string {
	if name := DiskName(d.Serial); name != "" {
		return name
	}
	return DiskName(fmt.Sprintf("%s without a serial number (%d bytes)", d.ID, d.Bytes))
}

// DiskName is a serial number as it stands in a list of disks that are separated by
// a comma and a blank: one that holds these does not read as two.
func DiskName(serial string) string {
	words := strings.Fields(strings.ReplaceAll(serial, ",", ", "))
	return strings.ReplaceAll(strings.Join(words, " "), ", ", ",")
}

// Part is what every part of a machine may tell of itself. Slots that are empty
// are not parts.
type Part struct {
	// ID is the part's in its list, as the BMC has it.
	ID string `json:"id"`
	// Name is what people find it by: a slot, a bay, a socket.
	Name         string `json:"name,omitempty"`
	Manufacturer string `json:"manufacturer,omitempty"`
	Model        string `json:"model,omitempty"`
	PartNumber   string `json:"part,omitempty"`
	Serial       string `json:"serial,omitempty"`
	// Health is "OK", "Warning" or "Critical", State such as "Enabled" or
	// "Disabled" (DSP0268, Status); empty when the BMC does not say.
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
	// Architecture is that of the design, "amd64" or "arm64", or the BMC's word
	// for another.
	Architecture string `json:"architecture,omitempty"`
	Cores        int    `json:"cores,omitempty"`
	Threads      int    `json:"threads,omitempty"`
}

// DIMM is a memory module.
type DIMM struct {
	Part
	Bytes int64 `json:"bytes,omitempty"`
	// Kind is such as "DDR4", MHz the clock that it runs at.
	Kind string `json:"kind,omitempty"`
	MHz  int    `json:"mhz,omitempty"`
}

// Drive is one drive of a machine.
type Drive struct {
	Part
	Bytes int64 `json:"bytes,omitempty"`
	// Media is "HDD" or "SSD", Protocol such as "NVMe", "SATA" or "SAS".
	Media    string `json:"media,omitempty"`
	Protocol string `json:"protocol,omitempty"`
	Firmware string `json:"firmware,omitempty"`
	// Failing is set when the drive itself foretells its end.
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
	// MACs are the addresses, in lower case; those of its functions too.
	MACs []string `json:"macs,omitempty"`
	// Link is "up" or "down", empty when the BMC does not say; Mbps the speed
	// of a link that is up.
	Link string `json:"link,omitempty"`
	Mbps int    `json:"mbps,omitempty"`
	// Neighbours are what tells of itself at the other end by LLDP; a BMC tells of none.
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

// Component is something with a firmware.
type Component struct {
	ID      string `json:"id"`
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
}
