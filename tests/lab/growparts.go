package lab

import (
	"fmt"
	"path"
	"strings"
)

// growParts adds what the machine is made of.
func (p *personality) growParts(l layout) {
	p.growProcessors(l)
	p.growStorage(l)
	p.growNetwork(l)
	p.growPower(l)
	p.growFirmware(l)
	p.growLogs(l)
	if p.parts.backplane != "" {
		l.singles[path.Dir(p.chassis)+"/"+p.parts.backplane] = func(m *Machine) body {
			return p.thing("Chassis", path.Dir(p.chassis)+"/"+p.parts.backplane, "Backplane", body{
				"ChassisType": "Enclosure", "Manufacturer": m.manufacturer(), "Model": nil, "SerialNumber": m.partSerial("backplane"), "Status": healthy(),
				"Links": body{"ManagedBy": []any{ref(p.manager)}, "ContainedBy": ref(p.chassis)},
			})
		}
	}
}

func (p *personality) growProcessors(l layout) {
	l.lists[p.system+"/Processors"] = list{"Processor", func(m *Machine) []string { return m.present(m.sockets(), p.parts.processor) }, p.processor}
	l.lists[p.system+"/Memory"] = list{"Memory", func(m *Machine) (ids []string) {
		for _, d := range m.dimms() {
			ids = append(ids, d.id)
		}
		return ids
	}, p.memory}
}

func (p *personality) processor(m *Machine, id, at string) body {
	return m.asReal(p.thing("Processor", at, "Processor", body{
		"ProcessorType": "CPU", "ProcessorArchitecture": "x86", "InstructionSet": "x86-64", "Socket": "CPU " + id[len(id)-1:], "Manufacturer": p.parts.processorMaker,
		"Model": p.parts.processorModel, "MaxSpeedMHz": 3600, "TotalCores": p.parts.cores, "TotalThreads": 2 * p.parts.cores,
		"Status": m.status(id), "Links": body{"Chassis": ref(p.chassis)},
	}), 1)
}

func (p *personality) memory(m *Machine, id, at string) body {
	for _, d := range m.dimms() {
		if d.id != id {
			continue
		}
		b := p.thing("Memory", at, fmt.Sprintf("DIMM %d of processor %d", d.n, d.socket), body{
			"DeviceLocator": fmt.Sprintf("PROC %d DIMM %d", d.socket, d.n), "MemoryLocation": body{"Socket": d.socket, "Slot": d.n},
			"MemoryType": "DRAM", "Links": body{"Chassis": ref(p.chassis)},
		})
		if d.unpopulated {
			b["Status"], b["CapacityMiB"] = body{"State": absent}, nil
			return b
		}
		b["Status"], b["CapacityMiB"], b["MemoryDeviceType"] = m.status(id), d.gib<<10, p.parts.memoryKind
		b["OperatingSpeedMhz"], b["RankCount"], b["ErrorCorrection"], b["BaseModuleType"] = 3200, 2, "MultiBitECC", "RDIMM"
		b["Manufacturer"], b["PartNumber"], b["SerialNumber"] = "Lab Memory", fmt.Sprintf("LM%d-3200", d.gib), m.partSerial(id)
		return m.asReal(b, d.n)
	}
	return nil
}

// The drives of all machines.
const (
	driveBytes = 960_197_124_096
	driveModel = "LAB-NVME-960"
)

func (p *personality) growStorage(l layout) {
	at := p.system + "/Storage/" + p.parts.storage
	l.one("Storage", at, func(m *Machine) body {
		b := p.thing("Storage", at, "Storage", body{
			"Status": body{"State": "Enabled", "Health": "OK", "HealthRollup": "OK"}, "Links": body{"Enclosures": []any{ref(p.chassis)}},
			"Drives": refs(at+"/Drives", m.present(m.drives(), p.parts.drive)...), "Drives@odata.count": len(m.present(m.drives(), p.parts.drive)),
		})
		if p.parts.volumes != volumesNone {
			b["Volumes"] = ref(at + "/Volumes")
		}
		if p.parts.subsystems {
			b["Controllers"] = ref(at + "/Controllers")
		} else {
			b["StorageControllers"] = []any{body{
				"@odata.id": at + "#/StorageControllers/0", "MemberId": "0", "Name": "NVMe", "Status": healthy(), "SupportedDeviceProtocols": []string{"NVMe"},
			}}
		}
		return b
	})
	l.lists[at+"/Drives"] = list{"Drive", func(m *Machine) []string { return m.present(m.drives(), p.parts.drive) }, p.driveBody}
	if p.parts.volumes != volumesNone {
		l.lists[at+"/Volumes"] = list{"Volume", func(m *Machine) []string {
			if p.parts.volumes == volumesEmpty {
				return nil
			}
			return m.present(m.drives(), p.parts.drive)
		}, p.volumeBody}
	}
	if p.parts.subsystems {
		l.one("StorageController", at+"/Controllers/0", func(m *Machine) body {
			return m.asReal(p.thing("StorageController", at+"/Controllers/0", "NVMe controller", body{"Status": healthy(), "SupportedDeviceProtocols": []string{"NVMe"}}), 1)
		})
	}
}

// volumeBody is the volume that is a whole drive.
func (p *personality) volumeBody(m *Machine, id, at string) body {
	drives := p.system + "/Storage/" + p.parts.storage + "/Drives"
	b := p.thing("Volume", at, "Volume "+id, body{
		"CapacityBytes": driveBytes, "BlockSizeBytes": 512, "RAIDType": "None", "Status": m.status(id), "Links": body{"Drives": refs(drives, id)},
	})
	if !p.complete { // of an older schema
		b["RAIDType"], b["VolumeType"] = nil, "RawDevice"
	}
	return m.asReal(b, placeOf(id, p.parts.drive))
}

func (p *personality) driveBody(m *Machine, id, at string) body {
	links := body{"Chassis": ref(p.chassis)}
	if p.parts.volumes == volumesDrives {
		links["Volumes"] = refs(p.system+"/Storage/"+p.parts.storage+"/Volumes", id)
	}
	return m.asReal(p.thing("Drive", at, "Drive "+id, body{
		"CapacityBytes": driveBytes, "BlockSizeBytes": 512, "MediaType": "SSD", "Protocol": "NVMe", "Manufacturer": "Lab Drives", "Model": driveModel,
		"SerialNumber": m.partSerial(id), "PartNumber": "LD960", "Revision": m.firmwareOf("drive", "1.2.0"), "FailurePredicted": false,
		"PredictedMediaLifeLeftPercent": 99, "HotspareType": "None", "Status": m.status(id),
		"Identifiers":      []any{body{"DurableNameFormat": "EUI", "DurableName": m.eui(id)}},
		"PhysicalLocation": body{"PartLocation": body{"LocationType": "Bay", "ServiceLabel": id}},
		"Links":            links,
	}), placeOf(id, p.parts.drive))
}

// eui is the durable name of a drive.
func (m *Machine) eui(id string) string {
	return strings.ToUpper(strings.ReplaceAll(strings.Replace(m.mac(id), "02:", "00:5e:1d:", 1), ":", "-"))
}

func (p *personality) growNetwork(l layout) {
	l.lists[p.system+"/EthernetInterfaces"] = list{"EthernetInterface", func(m *Machine) []string { return m.present(len(m.macs()), p.parts.ethernet) }, p.ethernet}
	l.one("EthernetInterface", p.manager+"/EthernetInterfaces/"+p.parts.management, p.managementInterface)
	adapter := p.chassis + "/NetworkAdapters/" + p.parts.adapter
	l.one("NetworkAdapter", adapter, p.adapter)
	kind, ports := "Port", adapter+"/Ports"
	if !p.parts.ports {
		kind, ports = "NetworkPort", adapter+"/NetworkPorts"
	}
	l.lists[ports] = list{kind, func(m *Machine) []string { return m.present(len(m.macs()), p.parts.port) }, p.portBody}
	l.lists[adapter+"/NetworkDeviceFunctions"] = list{"NetworkDeviceFunction", func(m *Machine) []string { return m.present(len(m.macs()), p.parts.function) }, p.function}
	device := p.chassis + "/PCIeDevices/" + p.parts.pcie
	l.one("PCIeDevice", device, func(m *Machine) body {
		return m.asReal(p.thing("PCIeDevice", device, "Network adapter", body{
			"DeviceType": "MultiFunction", "Manufacturer": "Lab Networks", "Model": "LN25-2", "SerialNumber": m.partSerial(p.parts.adapter), "PartNumber": "LN252",
			"FirmwareVersion": m.firmwareOf("nic", "22.31.6"), "Status": m.status(p.parts.pcie), "PCIeFunctions": ref(device + "/PCIeFunctions"),
			"Slot":  body{"Location": body{"PartLocation": body{"LocationType": "Slot", "LocationOrdinalValue": 1, "ServiceLabel": "Slot 1"}}},
			"Links": body{"Chassis": []any{ref(p.chassis)}},
		}), 1)
	})
	l.lists[device+"/PCIeFunctions"] = list{"PCIeFunction", func(m *Machine) []string { return m.present(len(m.macs()), p.parts.function) }, p.pcieFunction}
}

// placeOf is the place of an id among those of a kind of part, from 1.
func placeOf(id string, name func(int) string) int {
	for n := 1; n < 100; n++ {
		if name(n) == id {
			return n
		}
	}
	return 1
}

func (p *personality) ethernet(m *Machine, id, at string) body {
	mac := m.macs()[placeOf(id, p.parts.ethernet)-1]
	return m.asReal(p.thing("EthernetInterface", at, "System interface "+id, body{
		"MACAddress": mac, "PermanentMACAddress": mac, "SpeedMbps": 25000, "LinkStatus": "LinkUp", "InterfaceEnabled": true, "FullDuplex": true, "AutoNeg": true,
		"EthernetInterfaceType": "Physical", "UefiDevicePath": fmt.Sprintf("PciRoot(0x0)/Pci(0x1,0x%d)/MAC(%s,0x1)", placeOf(id, p.parts.ethernet)-1, strings.ToUpper(strings.ReplaceAll(mac, ":", ""))),
		"Status": m.status(id), "Links": body{"Chassis": ref(p.chassis)},
	}), placeOf(id, p.parts.ethernet))
}

func (p *personality) managementInterface(m *Machine) body {
	return p.thing("EthernetInterface", p.manager+"/EthernetInterfaces/"+p.parts.management, "Manager interface", body{
		"MACAddress": m.mac("bmc"), "PermanentMACAddress": m.mac("bmc"), "SpeedMbps": 1000, "LinkStatus": "LinkUp", "InterfaceEnabled": true, "FullDuplex": true,
		"HostName": m.config.Name + "-bmc", "FQDN": m.config.Name + "-bmc", "Status": healthy(), "AutoNeg": true, "EthernetInterfaceType": "Physical",
		"IPv4Addresses": []any{body{"Address": m.config.BMCAddr, "SubnetMask": "255.0.0.0", "AddressOrigin": "Static", "Gateway": "127.0.0.1"}},
		"Links":         body{"Chassis": ref(p.chassis)},
	})
}

func (p *personality) adapter(m *Machine) body {
	at := p.chassis + "/NetworkAdapters/" + p.parts.adapter
	ports := "Ports"
	if !p.parts.ports {
		ports = "NetworkPorts"
	}
	return m.asReal(p.thing("NetworkAdapter", at, "Network adapter", body{
		"Manufacturer": "Lab Networks", "Model": "LN25-2", "SerialNumber": m.partSerial(p.parts.adapter), "PartNumber": "LN252", "Status": m.status(p.parts.adapter),
		ports: ref(at + "/" + ports), "NetworkDeviceFunctions": ref(at + "/NetworkDeviceFunctions"),
		"Controllers": []any{body{"FirmwarePackageVersion": m.firmwareOf("nic", "22.31.6"), "Links": body{"PCIeDevices": []any{ref(p.chassis + "/PCIeDevices/" + p.parts.pcie)}}}},
	}), 1)
}

func (p *personality) portBody(m *Machine, id, at string) body {
	mac := m.macs()[placeOf(id, p.parts.port)-1]
	if !p.parts.ports {
		return m.asReal(p.thing("NetworkPort", at, "Port "+id, body{
			"LinkStatus": "Up", "CurrentLinkSpeedMbps": 25000, "AssociatedNetworkAddresses": []string{mac}, "PhysicalPortNumber": id, "Status": m.status(id),
		}), 1)
	}
	return m.asReal(p.thing("Port", at, "Port "+id, body{
		"PortId": id, "PortProtocol": "Ethernet", "PortType": "BidirectionalPort", "LinkStatus": "LinkUp", "LinkState": "Enabled", "InterfaceEnabled": true,
		"CurrentSpeedGbps": 25, "MaxSpeedGbps": 25, "Ethernet": body{"AssociatedMACAddresses": []string{mac}}, "Status": m.status(id),
	}), 1)
}

func (p *personality) function(m *Machine, id, at string) body {
	n := placeOf(id, p.parts.function)
	mac := m.macs()[n-1]
	adapter := path.Dir(path.Dir(at))
	ports := "/Ports/"
	if !p.parts.ports {
		ports = "/NetworkPorts/"
	}
	b := p.thing("NetworkDeviceFunction", at, "Function "+id, body{
		"NetDevFuncType": "Ethernet", "NetDevFuncCapabilities": []string{"Ethernet"}, "DeviceEnabled": true, "Status": m.status(id),
		"Ethernet": body{"MACAddress": mac, "PermanentMACAddress": mac},
		"Links":    body{"PhysicalPortAssignment": ref(adapter + ports + p.parts.port(n)), "PCIeFunction": ref(p.chassis + "/PCIeDevices/" + p.parts.pcie + "/PCIeFunctions/" + id)},
	})
	if p.parts.ports { // what came after it has another name
		links := b["Links"].(body)
		links["PhysicalNetworkPortAssignment"] = links["PhysicalPortAssignment"]
		delete(links, "PhysicalPortAssignment")
	}
	return b
}

func (p *personality) pcieFunction(m *Machine, id, at string) body {
	return m.asReal(p.thing("PCIeFunction", at, "Function "+id, body{
		"FunctionId": placeOf(id, p.parts.function) - 1, "FunctionType": "Physical", "DeviceClass": "NetworkController", "ClassCode": "0x020000",
		"VendorId": "0x15b3", "DeviceId": "0x1015", "SubsystemVendorId": "0x15b3", "SubsystemId": "0x0004", "RevisionId": "0x00", "Status": m.status(id),
		"Links": body{"PCIeDevice": ref(path.Dir(path.Dir(at)))},
	}), 1)
}

// The power supplies and fans of all machines.
const (
	supplies    = 2
	supplyWatts = 1100
	fans        = 4
)

func (p *personality) growPower(l layout) {
	if p.parts.legacy {
		l.singles[p.chassis+"/Power"] = p.legacyPower
		l.singles[p.chassis+"/Thermal"] = p.legacyThermal
	}
	if !p.parts.subsystems {
		return
	}
	power, thermal := p.chassis+"/PowerSubsystem", p.chassis+"/ThermalSubsystem"
	l.singles[power] = func(*Machine) body {
		return p.thing("PowerSubsystem", power, "Power Subsystem", body{"CapacityWatts": supplyWatts, "Status": healthy(), "PowerSupplies": ref(power + "/PowerSupplies")})
	}
	l.lists[power+"/PowerSupplies"] = list{"PowerSupply", func(m *Machine) []string { return m.present(supplies, p.parts.psu) }, p.supply}
	l.singles[thermal] = func(*Machine) body {
		return p.thing("ThermalSubsystem", thermal, "Thermal Subsystem", body{
			"Status": healthy(), "Fans": ref(thermal + "/Fans"), "ThermalMetrics": ref(thermal + "/ThermalMetrics"),
		})
	}
	l.lists[thermal+"/Fans"] = list{"Fan", func(m *Machine) []string { return m.present(fans, p.parts.fan) }, p.fanBody}
	l.singles[thermal+"/ThermalMetrics"] = func(*Machine) body {
		return p.thing("ThermalMetrics", thermal+"/ThermalMetrics", "Thermal Metrics", body{"TemperatureReadingsCelsius": []any{
			body{"Reading": 23, "DataSourceUri": p.chassis + "/Sensors/InletTemp", "DeviceName": "Inlet", "PhysicalContext": "Intake"},
		}})
	}
	l.lists[p.chassis+"/Sensors"] = list{"Sensor", func(m *Machine) []string { return m.sensorIDs() }, p.sensor}
}

func (p *personality) supply(m *Machine, id, at string) body {
	return p.thing("PowerSupply", at, "Power supply "+id, body{
		"PowerSupplyType": "AC", "PowerCapacityWatts": supplyWatts, "Manufacturer": "Lab Power", "Model": "LP1100", "PartNumber": "LP1100-A",
		"SerialNumber": m.partSerial(id), "FirmwareVersion": m.firmwareOf("psu", "1.03"), "HotPluggable": true, "Status": m.status(id),
	})
}

func (p *personality) fanBody(m *Machine, id, at string) body {
	return p.thing("Fan", at, "Fan "+id, body{
		"SpeedPercent": body{"Reading": 30, "SpeedRPM": 7200, "DataSourceUri": p.chassis + "/Sensors/" + id}, "PhysicalContext": "Chassis", "HotPluggable": true, "Status": m.status(id),
	})
}

// sensor is one reading of a machine.
type sensor struct {
	id, kind, unit, context string
	reading, limit          float64
}

func (m *Machine) sensorsOf() []sensor {
	all := []sensor{
		{"InletTemp", "Temperature", "Cel", "Intake", 23, 47}, {"ExhaustTemp", "Temperature", "Cel", "Exhaust", 36, 80}, {"TotalPower", "Power", "W", "Chassis", 240, 0},
	}
	for n := range m.sockets() {
		all = append(all, sensor{fmt.Sprintf("CPU%dTemp", n+1), "Temperature", "Cel", "CPU", 51, 95})
	}
	for _, id := range m.present(fans, m.kind.parts.fan) {
		all = append(all, sensor{id, "Percent", "%", "Fan", 30, 0})
	}
	return all
}

func (m *Machine) sensorIDs() (ids []string) {
	for _, s := range m.sensorsOf() {
		ids = append(ids, s.id)
	}
	return ids
}

func (p *personality) sensor(m *Machine, id, at string) body {
	for _, s := range m.sensorsOf() {
		if s.id != id {
			continue
		}
		b := p.thing("Sensor", at, s.id, body{"Reading": s.reading, "ReadingType": s.kind, "ReadingUnits": s.unit, "PhysicalContext": s.context, "Status": m.status(id)})
		if s.limit > 0 {
			b["Thresholds"] = body{"UpperCritical": body{"Reading": s.limit}}
		}
		return b
	}
	return nil
}

func (p *personality) legacyPower(m *Machine) body {
	at := p.chassis + "/Power"
	var all []any
	for i, id := range m.present(supplies, p.parts.psu) {
		all = append(all, body{
			"@odata.id": fmt.Sprintf("%s#/PowerSupplies/%d", at, i), "MemberId": fmt.Sprint(i), "Name": "Power supply " + id, "PowerSupplyType": "AC", "PowerCapacityWatts": supplyWatts,
			"Manufacturer": "Lab Power", "Model": "LP1100", "PartNumber": "LP1100-A", "SerialNumber": m.partSerial(id), "FirmwareVersion": m.firmwareOf("psu", "1.03"),
			"LineInputVoltage": 230, "LastPowerOutputWatts": 120, "Status": m.status(id),
		})
	}
	return p.thing("Power", at, "Power", body{
		"PowerControl": []any{body{
			"@odata.id": at + "#/PowerControl/0", "MemberId": "0", "Name": "System Power Control", "PowerConsumedWatts": 240, "PowerCapacityWatts": supplyWatts,
		}},
		"PowerSupplies": all,
	})
}

func (p *personality) legacyThermal(m *Machine) body {
	at := p.chassis + "/Thermal"
	var turning, warm []any
	for i, id := range m.present(fans, p.parts.fan) {
		turning = append(turning, body{
			"@odata.id": fmt.Sprintf("%s#/Fans/%d", at, i), "MemberId": fmt.Sprint(i), "Name": "Fan " + id, "Reading": 30, "ReadingUnits": "Percent", "Status": m.status(id),
		})
	}
	for _, s := range m.sensorsOf() {
		if s.kind == "Temperature" {
			warm = append(warm, body{
				"@odata.id": fmt.Sprintf("%s#/Temperatures/%d", at, len(warm)), "MemberId": fmt.Sprint(len(warm)), "Name": s.id, "ReadingCelsius": s.reading,
				"UpperThresholdCritical": s.limit, "PhysicalContext": s.context, "Status": m.status(s.id),
			})
		}
	}
	return p.thing("Thermal", at, "Thermal", body{"Fans": turning, "Temperatures": warm})
}

// component is something with firmware of its own.
type component struct{ kind, name, version string }

func (m *Machine) components() []component {
	all := []component{
		{"bmc", m.kind.bmcModel, m.bmcVersion()}, {"bios", "BIOS", m.biosVersion()}, {"nic", "LN25-2", m.firmwareOf("nic", "22.31.6")}, {"psu", "LP1100", m.firmwareOf("psu", "1.03")},
	}
	if m.drives() > 0 {
		all = append(all, component{"drive", driveModel, m.firmwareOf("drive", "1.2.0")})
	}
	return all
}

func (p *personality) growFirmware(l layout) {
	const at = root + "/UpdateService"
	l.singles[at] = func(*Machine) body {
		return p.thing("UpdateService", at, "Update Service", body{"ServiceEnabled": true, "Status": healthy(), "FirmwareInventory": ref(at + "/FirmwareInventory")})
	}
	l.lists[at+"/FirmwareInventory"] = list{"SoftwareInventory", func(m *Machine) (ids []string) {
		for i, c := range m.components() {
			ids = append(ids, p.parts.firmware(i+1, c.kind, c.version))
		}
		return ids
	}, func(m *Machine, id, at string) body {
		for i, c := range m.components() {
			if p.parts.firmware(i+1, c.kind, c.version) == id {
				return p.thing("SoftwareInventory", at, c.name, body{"Version": c.version, "Updateable": true, "SoftwareId": "LAB-" + c.kind, "Status": healthy()})
			}
		}
		return nil
	}}
}

func (p *personality) growLogs(l layout) {
	services := map[string][]string{}
	for _, h := range p.parts.logs {
		l.singles[h.path] = func(*Machine) body {
			return p.thing("LogService", h.path, "Log", body{
				"ServiceEnabled": true, "LogEntryType": h.kind, "MaxNumberOfRecords": maxLog, "OverWritePolicy": "WrapsWhenFull", "DateTime": now(), "DateTimeLocalOffset": "+00:00",
				"Entries": ref(h.path + "/Entries"), "Status": healthy(),
				"Actions": body{"#LogService.ClearLog": body{"target": h.path + "/Actions/LogService.ClearLog"}},
			})
		}
		l.lists[h.path+"/Entries"] = list{"LogEntry", (*Machine).logIDs, func(m *Machine, id, at string) body { return p.logEntry(m, h, id, at) }}
		dir, id := path.Split(h.path)
		dir = strings.TrimSuffix(dir, "/")
		services[dir] = append(services[dir], id)
	}
	for dir, ids := range services {
		l.some("LogService", dir, ids...)
	}
}
