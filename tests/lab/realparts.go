package lab

import (
	"fmt"
	"slices"
)

// real has a BMC offer what the emulated computer behind it can do.
func (p *personality) real(r *Real) {
	can := func(target string) bool {
		return target == "None" || target == "Hdd" || target == "Pxe" || target == "Cd"
	}
	p.boot.http, p.boot.progress = false, false
	p.boot.targets = slices.DeleteFunc(slices.Clone(p.boot.targets), func(t string) bool { return !can(t) })
	p.boot.options = slices.DeleteFunc(slices.Clone(p.boot.options), func(o option) bool { return !can(o.alias) })
	p.boot.modes = []string{"UEFI"}
	if r.bios() {
		p.boot.modes = []string{"Legacy"}
	}
	p.parts.processorModel = "QEMU TCG"
}

// processors is how many processors the machine has.
func (m *Machine) processors() int {
	if m.computer != nil {
		return 1
	}
	return m.config.Processors
}

// What QEMU's drives call themselves, and the protocols they are spoken to by (DSP0268, Drive).
var (
	driveModels    = map[string]string{busNVMe: "QEMU NVMe Ctrl", busSATA: "QEMU HARDDISK", busVirtio: "Virtio block device"}
	driveProtocols = map[string]any{busNVMe: "NVMe", busSATA: "SATA"}
)

// asReal is the resource of a part, the nth of its kind, as a real machine has it: what QEMU gives
// no value is not there.
func (m *Machine) asReal(b body, n int) body {
	if m.computer == nil {
		return b
	}
	set := func(to body) {
		for name, v := range to {
			if _, has := b[name]; has {
				b[name] = v
			}
			if v == nil {
				delete(b, name)
			}
		}
	}
	switch kindOf(b) {
	case "Processor":
		cores := max(1, m.config.Processors)
		set(body{"Manufacturer": "QEMU", "MaxSpeedMHz": nil, "TotalCores": cores, "TotalThreads": cores})
	case "Memory":
		set(body{"Manufacturer": "QEMU", "PartNumber": nil, "SerialNumber": nil, "MemoryDeviceType": nil, "OperatingSpeedMhz": nil, "RankCount": nil, "BaseModuleType": nil})
	case "Volume":
		set(body{"CapacityBytes": m.computer.drives()[n-1].bytes()})
	case "Drive":
		d := m.computer.drives()[n-1]
		if d.Bus != busNVMe {
			set(body{"MediaType": nil}) // QEMU does not say whether they turn
		}
		set(body{
			"CapacityBytes": d.bytes(), "SerialNumber": m.driveSerial(n), "Manufacturer": "QEMU", "Model": driveModels[d.Bus], "Protocol": driveProtocols[d.Bus],
			"PartNumber": nil, "Revision": nil, "PredictedMediaLifeLeftPercent": nil, "Identifiers": nil,
		})
	case "StorageController":
		set(body{"Name": "Storage controllers", "SupportedDeviceProtocols": nil})
	case "EthernetInterface":
		set(body{"SpeedMbps": nil, "UefiDevicePath": nil})
	case "NetworkAdapter", "PCIeDevice":
		set(body{"Manufacturer": "Red Hat, Inc.", "Model": "Virtio network device", "SerialNumber": nil, "PartNumber": nil, "FirmwareVersion": nil})
	case "Port", "NetworkPort":
		set(body{"CurrentSpeedGbps": nil, "MaxSpeedGbps": nil, "CurrentLinkSpeedMbps": nil})
	case "PCIeFunction":
		set(body{"VendorId": "0x1af4", "DeviceId": "0x1000", "SubsystemVendorId": "0x1af4", "SubsystemId": "0x0001"})
	default:
		panic(fmt.Sprintf("a real machine has no %s", kindOf(b)))
	}
	return b
}
