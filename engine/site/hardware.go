package site

import (
	"strconv"
)

// Hardware is what the machine is expected to be; an empty field expects
// nothing.
type Hardware struct {
	Manufacturer string `json:"manufacturer,omitempty"`
	Model        string `json:"model,omitempty"`
	Architecture string `json:"architecture,omitempty"`
	// Memory and Sockets are least amounts.
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
	// Devices are devices by the design's own names.
	Devices map[string]Device `json:"devices,omitempty"`
	// CPUSets are lists of logical processors by name, as the kernel writes
	// them ("2-15,34-47").
	CPUSets   map[string]string    `json:"cpuSets,omitempty"`
	Hugepages map[string]Hugepages `json:"hugepages,omitempty"`
}

// Device is one part of a machine, found by exactly one of PCI, SCSI, MAC, Path
// and Neighbour.
type Device struct {
	Kind      string     `json:"kind,omitempty"`
	PCI       string     `json:"pci,omitempty"`
	SCSI      string     `json:"scsi,omitempty"`
	MAC       string     `json:"mac,omitempty"`
	Path      string     `json:"path,omitempty"`
	Neighbour *Neighbour `json:"neighbour,omitempty"`
	// Size is a disk's, Rate a network interface's.
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

// BIOS is how the firmware is set: intents by name, and attributes of the
// machine's own registry. A nil intent leaves the setting as it is.
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

// Intents are what the design asks for by the names of intents: "true" or
// "false", or the word that stands for a profile.
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

// AttributeField is the field of the design that asks for an attribute.
func AttributeField(name string) string { return "attributes." + name }

// values are what the design asks for in its own terms.
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
	// Firmware are names of artifacts by path under /lib/firmware.
	Firmware map[string]string `json:"firmware,omitempty"`
}

// DriverMatch is the hardware that a driver is for: one of the PCI ids, or the
// model, in which "*" stands for any letters.
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
	// InstallBy is how an installer comes to the machine: "media", "http" or,
	// for what the BMC has, empty.
	InstallBy string `json:"installBy,omitempty"`
	// Start is how Slipway's agent is started on the machine; as the site says where it is
	// empty.
	Start Start `json:"start,omitempty"`
	// Interface is the interface to boot from the network by.
	Interface string `json:"interface,omitempty"`
}
