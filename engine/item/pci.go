package item

// PCI is what a system tells of the devices on its PCI bus.
type PCI struct {
	// IDs are the ids of all of them, "VENDOR:DEVICE" in lower-case hex such as
	// "8086:1592", in order and each once. A machine without the bus has none.
	IDs []string `json:"ids,omitempty"`
	// Unread says why nobody knows which devices there are; empty where they were read.
	Unread string `json:"unread,omitempty"`
	// Devices are those that were asked for by their ids, in the order of their addresses.
	Devices []PCIDevice `json:"devices,omitempty"`
}

// PCIDevice is one device and what drives it.
type PCIDevice struct {
	Address string `json:"address"` // "0000:18:00.0"
	ID      string `json:"id"`
	// Driver is the kernel's driver that is bound to it; empty where none is.
	Driver string `json:"driver,omitempty"`
	// Modules are the kernel modules of that driver and of the drivers of what is right
	// below the device, such as the "virtio_rng" behind a "virtio-pci".
	Modules []string `json:"modules,omitempty"`
	// Lacked are files of firmware, below /lib/firmware, that the kernel asked for and did
	// not find, as far as its log still says so.
	Lacked []LackedFirmware `json:"lacked,omitempty"`
}

// LackedFirmware is a file of firmware that the kernel did not find when it asked for it.
type LackedFirmware struct {
	File string `json:"file"`
	// There says that there is such a file by now.
	There bool `json:"there,omitempty"`
}

// PCIProbe is what is asked of the PCI bus: the ids of the devices that are told of one by
// one.
type PCIProbe struct {
	IDs []string `json:"ids,omitempty"`
}

// The bounds of what is told of the PCI bus.
const (
	MaxPCI        = 4096 // devices that are looked at
	MaxPCIIDs     = 1024 // of them, and of those that are asked for
	MaxPCIDevices = 256  // devices that are told of one by one
	MaxLacked     = 16   // of one device
)
