package item

// PCI is what a system reports of the devices on its PCI bus.
type PCI struct {
	// IDs are the distinct IDs of all devices, sorted: "VENDOR:DEVICE" in lower-case hex such as
	// "8086:1592". It is empty on a machine without the bus.
	IDs []string `json:"ids,omitempty"`
	// Unread says why the devices are unknown; empty if they were read.
	Unread string `json:"unread,omitempty"`
	// Devices are the devices that were asked for by ID, sorted by address.
	Devices []PCIDevice `json:"devices,omitempty"`
}

// PCIDevice is one device and its driver.
type PCIDevice struct {
	Address string `json:"address"` // "0000:18:00.0"
	ID      string `json:"id"`
	// Driver is the kernel driver that is bound to the device; empty for none.
	Driver string `json:"driver,omitempty"`
	// Modules are the kernel modules of that driver and of the drivers right below the device, such
	// as the "virtio_rng" behind a "virtio-pci".
	Modules []string `json:"modules,omitempty"`
	// Lacked are firmware files, below /lib/firmware, that the kernel asked for and did not find,
	// as far as its log still shows.
	Lacked []LackedFirmware `json:"lacked,omitempty"`
}

// LackedFirmware is a firmware file that the kernel did not find when it asked for it.
type LackedFirmware struct {
	File string `json:"file"`
	// There means that the file exists now.
	There bool `json:"there,omitempty"`
}

// PCIProbe is what to ask of the PCI bus: the IDs of the devices to report individually.
type PCIProbe struct {
	IDs []string `json:"ids,omitempty"`
}

// The limits of what is reported of the PCI bus.
const (
	MaxPCI        = 4096 // devices that are looked at
	MaxPCIIDs     = 1024 // IDs that are reported, and that may be asked for
	MaxPCIDevices = 256  // devices that are reported individually
	MaxLacked     = 16   // firmware files per device
)
