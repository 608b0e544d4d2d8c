package libvirt

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"libvirt.org/go/libvirtxml"

	"github.com/slipway-gitops/slipway/engine/site"
)

// shape changes a definition to match the design. It changes only what the design mentions, so a person's additions
// stay. If the machine type changes, it builds a new definition, because the devices have other addresses. The
// disks stay.
func shape(d *libvirtxml.Domain, n *site.Node, kind string) *libvirtxml.Domain {
	v := &n.Virtual
	if d == nil {
		d = blank(n)
		shapeBoot(d, cmp.Or(strings.Join(n.Boot.Order, ","), "Hdd"))
	} else if machineOf(d) != cmp.Or(v.Machine, "q35") {
		d = anew(d, n)
	}
	shapeAccelerator(d, v, kind)
	shapeProcessors(d, uint(v.CPUs))
	shapeMemory(d, v.Memory)
	shapeFirmware(d, v)
	shapeTPM(d, v)
	shapeWatchdog(d, v.Watchdog)
	shapeInterfaces(d, v.Interfaces)
	return d
}

// spare is the number of ports for devices that are plugged in while the machine runs.
const spare = 6

// blank is a machine without anything that the design mentions.
func blank(n *site.Node) *libvirtxml.Domain {
	v := &n.Virtual
	d := &libvirtxml.Domain{
		Name: n.Name,
		UUID: n.Identity.UUID,
		OS:   &libvirtxml.DomainOS{Type: &libvirtxml.DomainOSType{Type: "hvm", Machine: cmp.Or(v.Machine, "q35")}},
		Features: &libvirtxml.DomainFeatureList{
			ACPI: &libvirtxml.DomainFeature{},
			APIC: &libvirtxml.DomainFeatureAPIC{},
		},
		Clock:      &libvirtxml.DomainClock{Offset: "utc"},
		OnPoweroff: "destroy",
		OnReboot:   "restart",
		OnCrash:    "restart",
		Devices: &libvirtxml.DomainDeviceList{
			Controllers: []libvirtxml.DomainController{{Type: "usb", Model: "none"}},
			Serials: []libvirtxml.DomainSerial{{
				Source: &libvirtxml.DomainChardevSource{Pty: &libvirtxml.DomainChardevSourcePty{}},
				Target: &libvirtxml.DomainSerialTarget{Port: new(uint)},
			}},
			RNGs: []libvirtxml.DomainRNG{{
				Model:   "virtio",
				Backend: &libvirtxml.DomainRNGBackend{Random: &libvirtxml.DomainRNGBackendRandom{Device: "/dev/urandom"}},
			}},
		},
	}
	if machineOf(d) == "q35" {
		const others = 4 // the random number generator, the balloon, a disk controller and a watchdog
		d.Devices.Controllers = append(d.Devices.Controllers, libvirtxml.DomainController{Type: "pci", Index: new(uint), Model: "pcie-root"})
		for range spare + others + len(v.Disks) + len(v.Interfaces) {
			d.Devices.Controllers = append(d.Devices.Controllers, libvirtxml.DomainController{Type: "pci", Model: "pcie-root-port"})
		}
	}
	return d
}

// anew is a definition with another machine type. It keeps everything except devices, and also the disks and
// consoles. For SCSI disks it adds a controller, because libvirt's default one is unknown to cloud kernels.
func anew(old *libvirtxml.Domain, n *site.Node) *libvirtxml.Domain {
	d := blank(n)
	d.Name, d.Title, d.Description, d.Metadata = old.Name, old.Title, old.Description, old.Metadata
	shapeBoot(d, bootOrder(old))
	for _, disk := range old.Devices.Disks {
		disk.Address = nil
		d.Devices.Disks = append(d.Devices.Disks, disk)
		if disk.Target != nil && disk.Target.Bus == "scsi" {
			needSCSI(d)
		}
	}
	if len(old.Devices.Serials) > 0 {
		d.Devices.Serials[0].Log = old.Devices.Serials[0].Log
	}
	return d
}

// machineOf is "q35", "pc", or another type in libvirt's words. libvirt adds a version to the name (pc-q35-7.2,
// pc-i440fx-7.2).
func machineOf(d *libvirtxml.Domain) string {
	switch m := d.OS.Type.Machine; {
	case strings.HasPrefix(m, "pc-q35-"):
		return "q35"
	case strings.HasPrefix(m, "pc-i440fx-"):
		return "pc"
	default:
		return m
	}
}

// domainTypes are libvirt's words for the accelerators.
var domainTypes = map[string]string{"kvm": "kvm", "emulation": "qemu"}

// shapeAccelerator sets the accelerator from the design. It never detects one, because a device that can be opened
// may still not work.
func shapeAccelerator(d *libvirtxml.Domain, v *site.Virtual, kind string) {
	wanted := cmp.Or(kind, domainTypes[v.Host.Accelerator], "kvm")
	if d.Type == wanted {
		return
	}
	d.Type = wanted
	d.CPU = &libvirtxml.DomainCPU{Mode: "host-model"}
	switch wanted {
	case "qemu":
		d.CPU.Mode = "maximum"
	case "test":
		d.CPU = nil
	}
}

func shapeProcessors(d *libvirtxml.Domain, n uint) {
	if processors(d) == n {
		return
	}
	if d.VCPU == nil {
		d.VCPU = &libvirtxml.DomainVCPU{}
	}
	d.VCPU.Value, d.VCPU.Current, d.VCPUs = n, 0, nil
	if d.CPU != nil {
		d.CPU.Topology = nil // it is for another number
	}
}

func processors(d *libvirtxml.Domain) uint {
	if d.VCPU == nil {
		return 0
	}
	return cmp.Or(d.VCPU.Current, d.VCPU.Value)
}

// mebibyte is the unit to which QEMU rounds memory up.
const mebibyte = 1 << 20

func roundUp(s site.Size, to int64) site.Size {
	return site.Size((int64(s) + to - 1) / to * to)
}

func shapeMemory(d *libvirtxml.Domain, size site.Size) {
	size = roundUp(size, mebibyte)
	if memory(d) == size {
		return
	}
	d.Memory = &libvirtxml.DomainMemory{Value: uint(size / 1024), Unit: "KiB"}
	d.CurrentMemory, d.MaximumMemory = nil, nil
}

// byteUnits are libvirt's units of memory and storage.
var byteUnits = map[string]int64{
	"b": 1, "bytes": 1, "": 1 << 10, "k": 1 << 10, "KiB": 1 << 10, "KB": 1e3,
	"M": 1 << 20, "MiB": 1 << 20, "MB": 1e6, "G": 1 << 30, "GiB": 1 << 30, "GB": 1e9, "T": 1 << 40, "TiB": 1 << 40, "TB": 1e12,
}

func memory(d *libvirtxml.Domain) site.Size {
	if d.Memory == nil {
		return 0
	}
	return site.Size(int64(d.Memory.Value) * byteUnits[d.Memory.Unit])
}

// shapeFirmware lets libvirt choose the firmware files by the required features. When the features change, it drops
// the earlier choice.
func shapeFirmware(d *libvirtxml.Domain, v *site.Virtual) {
	if firmware(d) == cmp.Or(v.Firmware, "bios") && secureBoot(d) == v.SecureBoot {
		return
	}
	d.OS.Firmware, d.OS.FirmwareInfo, d.OS.Loader, d.OS.NVRam = "", nil, nil, nil
	if d.Features != nil {
		d.Features.SMM = nil
	}
	if v.Firmware != "uefi" {
		return
	}
	d.OS.Firmware = "efi"
	d.OS.FirmwareInfo = &libvirtxml.DomainOSFirmwareInfo{Features: []libvirtxml.DomainOSFirmwareFeature{
		{Name: "enrolled-keys", Enabled: yesNo(v.SecureBoot)},
		{Name: "secure-boot", Enabled: yesNo(v.SecureBoot)},
	}}
	if v.SecureBoot && d.Features != nil {
		d.Features.SMM = &libvirtxml.DomainFeatureSMM{State: "on"}
	}
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

func firmware(d *libvirtxml.Domain) string {
	if d.OS.Firmware == "efi" || d.OS.Loader != nil && d.OS.Loader.Type == "pflash" {
		return "uefi"
	}
	return "bios"
}

func secureBoot(d *libvirtxml.Domain) bool {
	if d.OS.FirmwareInfo != nil {
		for _, f := range d.OS.FirmwareInfo.Features {
			if f.Name == "secure-boot" {
				return f.Enabled == "yes"
			}
		}
	}
	return d.OS.Loader != nil && d.OS.Loader.Secure == "yes"
}

func shapeTPM(d *libvirtxml.Domain, v *site.Virtual) {
	if len(d.Devices.TPMs) > 0 == v.TPM {
		return
	}
	d.Devices.TPMs = nil
	if v.TPM {
		model := "tpm-crb"
		if v.Machine == "pc" {
			model = "tpm-tis"
		}
		d.Devices.TPMs = []libvirtxml.DomainTPM{{
			Model:   model,
			Backend: &libvirtxml.DomainTPMBackend{Emulator: &libvirtxml.DomainTPMBackendEmulator{Version: "2.0"}},
		}}
	}
}

// watchdogModel is a watchdog for any machine type. The q35 chipset has another one, which newer versions of
// libvirt list automatically.
const watchdogModel = "i6300esb"

func shapeWatchdog(d *libvirtxml.Domain, action string) {
	if watchdog(d) == action {
		return
	}
	d.Devices.Watchdogs = slices.DeleteFunc(d.Devices.Watchdogs, isOurWatchdog)
	if action != "" {
		d.Devices.Watchdogs = append(d.Devices.Watchdogs, libvirtxml.DomainWatchdog{Model: watchdogModel, Action: action})
	}
}

func isOurWatchdog(w libvirtxml.DomainWatchdog) bool { return w.Model == watchdogModel }

func watchdog(d *libvirtxml.Domain) string {
	if i := slices.IndexFunc(d.Devices.Watchdogs, isOurWatchdog); i >= 0 {
		return cmp.Or(d.Devices.Watchdogs[i].Action, "reset")
	}
	return ""
}

// These prefixes are for aliases of designed devices. Libvirt keeps aliases that start with "ua-". They may contain
// only letters, digits, - and _.
const (
	aliasInterface = "ua-net-"
	aliasDisk      = "ua-disk-"
)

// alias is the alias for a name in the design.
func alias(prefix, name string) string {
	var b strings.Builder
	b.WriteString(prefix)
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	return b.String()
}

// aliased is the design's name of a device with an alias; empty for a device that a person added.
func aliased(prefix string, a *libvirtxml.DomainAlias) string {
	if a == nil || !strings.HasPrefix(a.Name, prefix) {
		return ""
	}
	rest := a.Name[len(prefix):]
	var b strings.Builder
	for i := 0; i < len(rest); i++ {
		var c byte
		if rest[i] != '_' {
			b.WriteByte(rest[i])
		} else if n, err := fmt.Sscanf(rest[i+1:min(len(rest), i+3)], "%02x", &c); err == nil && n == 1 {
			b.WriteByte(c)
			i += 2
		}
	}
	return b.String()
}

// shapeInterfaces changes the interfaces to match the design. An existing interface keeps its other settings.
func shapeInterfaces(d *libvirtxml.Domain, designed map[string]site.VirtualInterface) {
	var all []libvirtxml.DomainInterface
	there := map[string]bool{}
	for _, i := range d.Devices.Interfaces {
		name := aliased(aliasInterface, i.Alias)
		want, ok := designed[name]
		switch {
		case name == "":
			all = append(all, i)
		case ok && !there[name]:
			all = append(all, shapeInterface(i, want))
			there[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(designed)) {
		if !there[name] {
			all = append(all, newInterface(name, designed[name]))
		}
	}
	d.Devices.Interfaces = all
}

func shapeInterface(i libvirtxml.DomainInterface, want site.VirtualInterface) libvirtxml.DomainInterface {
	if bridge(i) != want.Bridge {
		i.Source = source(want.Bridge)
	}
	if model(i) != cmp.Or(want.Model, "virtio") {
		i.Model, i.Driver, i.Address = &libvirtxml.DomainInterfaceModel{Type: cmp.Or(want.Model, "virtio")}, nil, nil
	}
	if mac(i) != want.MAC {
		i.MAC = &libvirtxml.DomainInterfaceMAC{Address: want.MAC}
	}
	return i
}

func newInterface(name string, want site.VirtualInterface) libvirtxml.DomainInterface {
	return shapeInterface(libvirtxml.DomainInterface{Alias: &libvirtxml.DomainAlias{Name: alias(aliasInterface, name)}}, want)
}

func source(bridge string) *libvirtxml.DomainInterfaceSource {
	return &libvirtxml.DomainInterfaceSource{Bridge: &libvirtxml.DomainInterfaceSourceBridge{Bridge: bridge}}
}

func bridge(i libvirtxml.DomainInterface) string {
	switch {
	case i.Source == nil:
		return ""
	case i.Source.Bridge != nil:
		return i.Source.Bridge.Bridge
	case i.Source.Network != nil:
		return i.Source.Network.Bridge // of a running machine; a person has connected it
	}
	return ""
}

func model(i libvirtxml.DomainInterface) string {
	if i.Model == nil {
		return ""
	}
	return i.Model.Type
}

func mac(i libvirtxml.DomainInterface) string {
	if i.MAC == nil {
		return ""
	}
	return strings.ToLower(i.MAC.Address)
}

// withOwner puts the owner into a definition's metadata, and keeps foreign metadata.
func withOwner(d *libvirtxml.Domain, o owner) {
	others := ""
	if d.Metadata != nil {
		others = withoutOwner(d.Metadata.XML)
	}
	d.Metadata = &libvirtxml.DomainMetadata{XML: others + o.element()}
}
