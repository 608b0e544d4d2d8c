package lab

import (
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"
)

// grown gives a personality its tree.
func (p *personality) grown() *personality {
	l := layout{map[string]func(*Machine) body{}, map[string]list{}}
	p.growServices(l)
	p.growSystem(l)
	p.growManager(l)
	p.growChassis(l)
	p.growBIOS(l)
	p.growRegistries(l)
	p.growTasks(l)
	p.growParts(l)
	p.growAccounts(l)
	if p.complete {
		p.growNetworkProtocol(l)
		p.growSchemas(l)
		p.growEvents(l)
	}
	p.tree = l
	p.cased = map[string]string{}
	for _, paths := range []iter.Seq[string]{maps.Keys(l.singles), maps.Keys(l.lists)} {
		for at := range paths {
			p.cased[strings.ToLower(at)] = at
		}
	}
	return p
}

// one puts the only member of a collection into the layout, and the
// collection.
func (l layout) one(kind, at string, body func(*Machine) body) {
	l.singles[at] = body
	l.some(kind, path.Dir(at), path.Base(at))
}

// some puts a collection into the layout whose members are there by
// themselves.
func (l layout) some(kind, at string, ids ...string) {
	l.lists[at] = list{kind, fixed(ids...), func(*Machine, string, string) body { return nil }}
}

func (p *personality) growServices(l layout) {
	l.singles[root] = p.root
	l.some("Session", p.sessionsPath())
	l.singles[root+"/SessionService"] = func(*Machine) body {
		return p.thing("SessionService", root+"/SessionService", "Session Service", body{
			"ServiceEnabled": true, "SessionTimeout": p.sessions.shown, "Sessions": ref(p.sessionsPath()), "Status": healthy(),
		})
	}
}

// root is the service root. Its path ends in a slash (DSP0266, Redfish-defined URIs), which
// some leave out.
func (p *personality) root(m *Machine) body {
	b := p.thing("ServiceRoot", root, "Root Service", body{
		"@odata.id": root + "/", "Id": "RootService", "RedfishVersion": p.redfish, "UUID": m.serviceUUID(), "Product": p.product,
		"Systems": ref(root + "/Systems"), "Managers": ref(root + "/Managers"), "Chassis": ref(root + "/Chassis"),
		"SessionService": ref(root + "/SessionService"), "Links": body{"Sessions": ref(p.sessionsPath())},
		"Registries": ref(root + "/Registries"), "Tasks": ref(root + "/TaskService"), "UpdateService": ref(root + "/UpdateService"), "AccountService": ref(root + "/AccountService"),
		"ProtocolFeaturesSupported": p.query.features(),
	})
	if p.bios.jobs != "" {
		b["JobService"] = ref(root + "/JobService")
	}
	if p.complete {
		b["CertificateService"], b["JsonSchemas"], b["EventService"] = ref(root+"/CertificateService"), ref(root+"/JsonSchemas"), ref(eventsPath)
	}
	if v := m.vendor(); v != "" {
		b["Vendor"] = v
	}
	return b
}

func (h queryHabits) features() body {
	b := body{"ExcerptQuery": false, "FilterQuery": false, "OnlyMemberQuery": h.only, "SelectQuery": h.selects}
	if h.pages {
		b["TopSkipQuery"] = true
	}
	expand := body{"ExpandAll": h.all, "Links": h.links, "NoLinks": h.expand > 0, "Levels": h.expand > 0}
	if h.expand > 0 {
		expand["MaxLevels"] = h.expand
	}
	b["ExpandQuery"] = expand
	return b
}

func (p *personality) growSystem(l layout) {
	l.one("ComputerSystem", p.system, p.computerSystem)
	options := p.system + "/BootOptions"
	var ids []string
	for _, o := range p.boot.options {
		ids = append(ids, o.id)
		l.singles[options+"/"+o.id] = func(*Machine) body { return p.bootOption(o) }
	}
	l.some("BootOption", options, ids...)
	if p.power.info != "" {
		l.singles[p.power.info] = func(*Machine) body {
			return p.thing("ActionInfo", p.power.info, "Reset Action Info", body{"Parameters": []any{
				body{"Name": "ResetType", "Required": true, "DataType": "String", "AllowableValues": p.power.resets},
			}})
		}
	}
	if p.settings != "" {
		l.singles[p.settings] = func(m *Machine) body {
			return p.thing("ComputerSystem", p.settings, "Pending", body{"Boot": body{"BootOrder": []string{}}})
		}
	}
}

// computerSystem is the system as its BMC has it; what changes in its life,
// live fills in.
func (p *personality) computerSystem(m *Machine) body {
	c := m.config
	b := p.thing("ComputerSystem", p.system, m.systemName(), body{
		"SystemType": "Physical", "UUID": c.Identity.UUID, "SerialNumber": m.serial(), "Manufacturer": m.manufacturer(), "Model": m.model(),
		"SKU": m.sku(), "BiosVersion": m.biosVersion(), "PowerState": "Off", "Status": body{"State": "Enabled", "Health": m.rollup(), "HealthRollup": m.rollup()},
		"ProcessorSummary": body{"Count": m.processors(), "Model": p.parts.processorModel, "Status": healthy()},
		"MemorySummary":    body{"TotalSystemMemoryGiB": m.memoryGiB(), "Status": healthy()},
		"Processors":       ref(p.system + "/Processors"), "Memory": ref(p.system + "/Memory"), "Storage": ref(p.system + "/Storage"),
		"EthernetInterfaces": ref(p.system + "/EthernetInterfaces"), "PCIeDevices": []any{ref(p.chassis + "/PCIeDevices/" + p.parts.pcie)},
		"Bios": ref(p.bios.path), "Boot": p.bootBody(), "Links": body{"ManagedBy": []any{ref(p.manager)}, "Chassis": []any{ref(p.chassis)}},
		"Actions": body{"#ComputerSystem.Reset": p.reset(p.system + "/Actions/ComputerSystem.Reset")},
	})
	if p.complete { // which the schema has deprecated
		delete(b["ProcessorSummary"].(body), "Status")
		delete(b["MemorySummary"].(body), "Status")
	}
	p.locate(b)
	if p.boot.progress {
		b["BootProgress"] = body{"LastState": "None"}
	}
	if p.settings != "" {
		b["@Redfish.Settings"] = body{"@odata.type": "#Settings.v1_3_0.Settings", "SettingsObject": ref(p.settings), "SupportedApplyTimes": []string{"OnReset"}}
	}
	if p.mediaAtSystem() {
		b["VirtualMedia"] = ref(p.system + "/VirtualMedia")
	}
	if p.logsAt(p.system) {
		b["LogServices"] = ref(p.system + "/LogServices")
	}
	return b
}

// locate adds the light by which a machine is found in its rack: what the schema
// has today, or what it has deprecated for that.
func (p *personality) locate(b body) {
	switch {
	case p.complete:
		b["LocationIndicatorActive"] = false
	case p.vendor == "Dell":
		b["IndicatorLED"] = "Lit"
	default:
		b["IndicatorLED"] = "Off"
	}
}

func (p *personality) bootBody() body {
	b := body{
		"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None", "BootSourceOverrideMode": "UEFI",
		"BootSourceOverrideTarget@Redfish.AllowableValues": p.boot.targets,
		"BootOrder": []string{}, "BootOptions": ref(p.system + "/BootOptions"),
	}
	if p.boot.listed {
		b["BootSourceOverrideEnabled@Redfish.AllowableValues"] = p.boot.states
		b["BootSourceOverrideMode@Redfish.AllowableValues"] = p.boot.modes
	}
	return b
}

func (p *personality) reset(target string) body {
	b := body{"target": target}
	if p.power.info != "" {
		b["@Redfish.ActionInfo"] = p.power.info
	}
	if p.power.listed {
		b["ResetType@Redfish.AllowableValues"] = p.power.resets
	}
	return b
}

func (p *personality) bootOption(o option) body {
	b := p.thing("BootOption", p.system+"/BootOptions/"+o.id, o.ref, body{"BootOptionReference": o.ref, "DisplayName": o.name, "UefiDevicePath": o.path})
	if p.name == "plain" {
		b["Alias"], b["BootOptionEnabled"] = o.alias, true
	}
	return b
}

func (p *personality) growManager(l layout) {
	l.one("Manager", p.manager, func(m *Machine) body {
		b := p.thing("Manager", p.manager, "BMC", body{
			"ManagerType": "BMC", "Model": p.bmcModel, "FirmwareVersion": m.bmcVersion(), "Status": healthy(), "PowerState": "On",
			"UUID":  m.serviceUUID(),
			"Links": body{"ManagerForServers": []any{ref(p.system)}, "ManagerForChassis": []any{ref(p.chassis)}, "ManagerInChassis": ref(p.chassis)},
			"Actions": body{"#Manager.Reset": body{
				"target": p.manager + "/Actions/Manager.Reset", "ResetType@Redfish.AllowableValues": p.power.managerResets,
			}},
			"EthernetInterfaces": ref(p.manager + "/EthernetInterfaces"), "DateTime": now(), "DateTimeLocalOffset": "+00:00",
		})
		if p.complete {
			b["NetworkProtocol"] = ref(p.manager + "/NetworkProtocol")
		}
		if slices.ContainsFunc(p.media.slots, func(s slot) bool {
			return slices.ContainsFunc(s.paths, func(at string) bool { return under(at, p.manager) })
		}) {
			b["VirtualMedia"] = ref(p.manager + "/VirtualMedia")
		}
		if p.logsAt(p.manager) {
			b["LogServices"] = ref(p.manager + "/LogServices")
		}
		return b
	})
	drives := map[string][]string{}
	for _, s := range p.media.slots {
		for _, at := range s.paths {
			dir, id := path.Split(at)
			dir = strings.TrimSuffix(dir, "/")
			drives[dir] = append(drives[dir], id)
			l.singles[at] = func(*Machine) body { return p.virtualMedia(at, s) }
		}
	}
	for dir, ids := range drives {
		l.some("VirtualMedia", dir, ids...)
	}
}

// logsAt says whether a system or manager has logs.
func (p *personality) logsAt(at string) bool {
	for _, h := range p.parts.logs {
		if strings.HasPrefix(h.path, at+"/") {
			return true
		}
	}
	return false
}

func (p *personality) mediaAtSystem() bool {
	for _, s := range p.media.slots {
		if strings.HasPrefix(s.paths[0], p.system+"/") {
			return true
		}
	}
	return false
}

func (p *personality) virtualMedia(at string, s slot) body {
	b := p.thing("VirtualMedia", at, "Virtual media", body{
		"MediaTypes": s.types, "Inserted": false, "WriteProtected": true, "ConnectedVia": "NotConnected", "Image": p.media.empty, "ImageName": nil,
	})
	if !p.media.patched {
		b["Actions"] = body{
			"#VirtualMedia.InsertMedia": body{"target": at + "/Actions/VirtualMedia.InsertMedia"},
			"#VirtualMedia.EjectMedia":  body{"target": at + "/Actions/VirtualMedia.EjectMedia"},
		}
	}
	return b
}

func (p *personality) growChassis(l layout) {
	l.some("Chassis", path.Dir(p.chassis), p.chassisIDs()...)
	l.singles[p.chassis] = func(m *Machine) body {
		b := p.thing("Chassis", p.chassis, "Chassis", body{
			"ChassisType": "RackMount", "Manufacturer": m.manufacturer(), "Model": m.model(), "SerialNumber": m.serial(),
			"SKU": m.sku(), "PowerState": "Off", "Status": healthy(), "NetworkAdapters": ref(p.chassis + "/NetworkAdapters"), "PCIeDevices": ref(p.chassis + "/PCIeDevices"),
			"Links": body{"ComputerSystems": []any{ref(p.system)}, "ManagedBy": []any{ref(p.manager)}},
		})
		p.locate(b)
		if p.parts.subsystems {
			b["PowerSubsystem"], b["ThermalSubsystem"], b["Sensors"] = ref(p.chassis+"/PowerSubsystem"), ref(p.chassis+"/ThermalSubsystem"), ref(p.chassis+"/Sensors")
		}
		if p.parts.legacy {
			b["Power"], b["Thermal"] = ref(p.chassis+"/Power"), ref(p.chassis+"/Thermal")
		}
		return b
	}
}

func (p *personality) chassisIDs() []string {
	ids := []string{path.Base(p.chassis)}
	if p.parts.backplane != "" {
		ids = append(ids, p.parts.backplane)
	}
	return ids
}

func (p *personality) sessionsPath() string { return or(p.sessions.path, sessionsPath) }

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// What a machine says of itself where its configuration says nothing.
func (m *Machine) manufacturer() string { return or(m.config.Manufacturer, m.kind.manufacturer) }
func (m *Machine) model() string        { return or(m.config.Model, m.kind.model) }
func (m *Machine) vendor() string       { return or(m.kind.vendor, m.config.Manufacturer) }

// systemName is what the system is called: vendors call all of theirs the
// same.
func (m *Machine) systemName() string {
	if m.kind.name == "plain" {
		return m.config.Name
	}
	return "System"
}

// serial is what the BMC takes for the machine's serial number: Dell's that of
// its board, and the service tag that everybody else goes by is the SKU.
func (m *Machine) serial() string {
	if m.kind.vendor == "Dell" && m.config.Identity.Serial != "" {
		return "CN" + m.config.Identity.Serial + "A01"
	}
	return m.config.Identity.Serial
}

func (m *Machine) sku() string {
	if m.kind.vendor == "Dell" {
		return m.config.Identity.Serial
	}
	return fmt.Sprintf("LAB-%s", m.config.Identity.Serial)
}

// serviceUUID identifies the BMC's service, which is not the machine.
func (m *Machine) serviceUUID() string {
	return bootID(m.fleet.config.Seed, "service "+m.config.Name, 0)
}
