package site

import (
	"strconv"
)

// Hardware is what the design expects of the machine. An empty field expects
// nothing.
type Hardware struct {
	Manufacturer string `json:"manufacturer,omitempty"`
	Model        string `json:"model,omitempty"`
	Architecture string `json:"architecture,omitempty"`
	// Memory and Sockets are minimums.
	Memory  Size `json:"memory,omitempty"`
	Sockets int  `json:"sockets,omitempty"`
	// CPUs is how many logical processors there are.
	CPUs int `json:"cpus,omitempty"`
	// DIMMs, Drives, NICs, Supplies and GPUs are how many memory modules,
	// drives, network adapters, power supply units and graphics processors
	// there are; nil expects nothing.
	DIMMs    *int `json:"dimms,omitempty"`
	Drives   *int `json:"drives,omitempty"`
	NICs     *int `json:"nics,omitempty"`
	Supplies *int `json:"supplies,omitempty"`
	GPUs     *int `json:"gpus,omitempty"`
	// Devices are devices by their names in the design.
	Devices map[string]Device `json:"devices,omitempty"`
	// CPUSets are lists of logical processors by name, as the kernel writes
	// them ("2-15,34-47").
	CPUSets   map[string]string    `json:"cpuSets,omitempty"`
	Hugepages map[string]Hugepages `json:"hugepages,omitempty"`
}

// Device is one part of a machine, identified by exactly one of PCI, SCSI, MAC,
// Path and Neighbour.
type Device struct {
	Kind      string     `json:"kind,omitempty"`
	PCI       string     `json:"pci,omitempty"`
	SCSI      string     `json:"scsi,omitempty"`
	MAC       string     `json:"mac,omitempty"`
	Path      string     `json:"path,omitempty"`
	Neighbour *Neighbour `json:"neighbour,omitempty"`
	// Size is for disks, Rate for network interfaces.
	Size Size `json:"size,omitempty"`
	Rate Rate `json:"rate,omitempty"`
}

// Neighbour is the port of a switch as LLDP names it.
type Neighbour struct {
	System string `json:"system,omitempty"`
	Port   string `json:"port,omitempty"`
}

// Hugepages are reserved memory pages of one size.
type Hugepages struct {
	Size  Size `json:"size"`
	Count int  `json:"count"`
}

// BIOS holds the firmware settings: intents by name, and attributes of the
// machine's own registry. A nil intent leaves the setting unchanged.
type BIOS struct {
	SMT            *bool   `json:"smt,omitempty"`
	Virtualization *bool   `json:"virtualization,omitempty"`
	IOMMU          *bool   `json:"iommu,omitempty"`
	SRIOV          *bool   `json:"sriov,omitempty"`
	Turbo          *bool   `json:"turbo,omitempty"`
	SecureBoot     *bool   `json:"secureBoot,omitempty"`
	TPM            *bool   `json:"tpm,omitempty"`
	Profile        string  `json:"profile,omitempty"`
	Attributes     Scalars `json:"attributes,omitempty"`
}

// Intents returns the intents that the design sets, by name: "true", "false"
// or, for a profile, its word.
func (b BIOS) Intents() Values {
	asked := Values{}
	for _, intent := range []struct {
		name string
		on   *bool
	}{
		{"smt", b.SMT}, {"virtualization", b.Virtualization}, {"iommu", b.IOMMU}, {"sriov", b.SRIOV},
		{"turbo", b.Turbo}, {"secureBoot", b.SecureBoot}, {"tpm", b.TPM},
	} {
		if intent.on != nil {
			asked[intent.name] = strconv.FormatBool(*intent.on)
		}
	}
	if b.Profile != "" {
		asked["profile"] = b.Profile
	}
	return asked
}

// AttributeField is the field of the design that sets an attribute.
func AttributeField(name string) string { return "attributes." + name }

// values returns what the design asks for, by the design's names.
func (b BIOS) values() Values {
	asked := b.Intents()
	for name, v := range b.Attributes {
		asked[AttributeField(name)] = SettingText(v)
	}
	return orNil(asked)
}

// Firmware is the wanted version of one component.
type Firmware struct {
	Version  string `json:"version"`
	Artifact string `json:"artifact,omitempty"`
}

// Driver is what a device needs in the operating system.
type Driver struct {
	Description string                  `json:"description,omitempty"`
	Match       DriverMatch             `json:"match"`
	Modules     map[string]KernelModule `json:"modules,omitempty"`
	// Packages are package names by OS family.
	Packages map[string][]string `json:"packages,omitempty"`
	// Firmware maps paths under /lib/firmware to names of artifacts.
	Firmware map[string]string `json:"firmware,omitempty"`
}

// DriverMatch is the hardware that a driver is for: one of the PCI IDs, or the
// model, in which "*" stands for any text.
type DriverMatch struct {
	PCI   []string `json:"pci,omitempty"`
	Model string   `json:"model,omitempty"`
}

// KernelModule is a module with its parameters.
type KernelModule struct {
	Parameters Scalars `json:"parameters,omitempty"`
}

// Boot is how the machine finds its operating system.
type Boot struct {
	// Order is the persistent boot order as Redfish boot source targets:
	// "Hdd", "Pxe", "Cd", "UefiHttp", "Usb".
	Order []string `json:"order,omitempty"`
	// Mode is "uefi" or "bios".
	Mode string `json:"mode,omitempty"`
	// InstallBy is how an installer reaches the machine: "media", "http", or
	// empty for whatever the BMC supports.
	InstallBy string `json:"installBy,omitempty"`
	// Start is how Slipway's agent is started on the machine; empty means the site's
	// setting.
	Start Start `json:"start,omitempty"`
	// Interface is the interface for booting from the network.
	Interface string `json:"interface,omitempty"`
}
