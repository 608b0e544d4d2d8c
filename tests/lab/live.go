package lab

import (
	"path"
	"strings"
	"time"
)

// live lays over a resource what has happened to the machine.
func (m *Machine) live(at string, b body) {
	switch kindOf(b) {
	case "ComputerSystem":
		if at == m.kind.system {
			m.liveSystem(b)
		}
		if at == m.kind.settings {
			locked(m, func() any { m.liveSettingsLocked(b); return nil })
		}
	case "Chassis":
		if at == m.kind.chassis && b["PowerState"] != nil {
			b["PowerState"] = m.Power()
		}
	case "VirtualMedia":
		if i := m.slot(at); i >= 0 {
			m.liveMedia(i, at, b)
		}
	case "Bios":
		if at == m.kind.bios.path {
			m.liveBIOS(b)
		} else if at == m.kind.bios.settings {
			m.liveBIOSSettings(b)
		}
	case "TaskCollection", "JobCollection", "DellJobCollection":
		m.liveTasks(at, b)
	case "LogEntryCollection":
		if m.config.Capture == "" {
			m.liveLog(at, b)
		}
	case "ServiceRoot":
		if m.config.BasicOnly {
			delete(b, "SessionService")
			delete(b, "Links")
		}
	case "Manager":
		m.liveEnclosure(b, "Links", "ManagerForServers")
	case "ChassisCollection":
		m.liveEnclosure(b, "Members")
	case "ComputerSystemCollection":
		m.liveEnclosure(b, "Members")
		if m.hasBaseboard() {
			members := append([]any{ref(at + "/Baseboard_0")}, items(b["Members"])...)
			b["Members"], b["Members@odata.count"] = members, len(members)
		}
	case "SessionCollection":
		m.liveSessions(at, b)
	}
}

// hasBaseboard says whether the BMC lists a baseboard as a system.
func (m *Machine) hasBaseboard() bool {
	return m.config.Baseboard || m.State().Fault.Kind == FaultTwoSystems
}

func (m *Machine) liveSystem(b body) {
	m.identify(b)
	s := m.State()
	m.mu.Lock()
	defer m.mu.Unlock()
	b["PowerState"] = s.Power
	boot, _ := b["Boot"].(body) // a capture may have none
	m.liveOverrideLocked(boot)
	if m.kind.boot.http && boot != nil {
		boot["HttpBootUri"] = nil
		if m.httpURI != "" {
			boot["HttpBootUri"] = m.httpURI
		}
	}
	if boot["BootOrder"] != nil {
		boot["BootOrder"] = m.order
	}
	if m.kind.boot.progress {
		b["BootProgress"] = body{"LastState": or(m.progress, "None")}
	}
	if !m.reset.IsZero() {
		b["LastResetTime"] = m.reset.UTC().Format(time.RFC3339)
	}
}

// liveSettingsLocked lays over a system's settings object what the next boot is
// from.
func (m *Machine) liveSettingsLocked(b body) {
	boot, _ := b["Boot"].(body)
	if boot["BootOrder"] != nil {
		boot["BootOrder"] = m.pendingOrderLocked()
	}
	m.liveOverrideLocked(boot)
}

// overrideNames are the properties of a boot override.
var overrideNames = []string{"BootSourceOverrideEnabled", "BootSourceOverrideTarget", "BootSourceOverrideMode"}

// liveOverrideLocked lays the override over boot settings that have the properties
// of one: a capture may have none of them, or have them in its settings object.
func (m *Machine) liveOverrideLocked(boot body) {
	o := m.override
	if m.fault.Kind == FaultEmulator && o.enabled == "Disabled" {
		o.enabled, o.target = "Continuous", "Hdd"
	}
	for i, is := range []string{o.enabled, o.target, o.mode} {
		if _, has := boot[overrideNames[i]]; has && is != "" {
			boot[overrideNames[i]] = is
		}
	}
}

// identify has a system say which machine it is.
func (m *Machine) identify(b body) {
	if m.config.Capture != "" {
		b["UUID"], b["SerialNumber"] = m.config.Identity.UUID, m.config.Identity.Serial
	}
	if m.State().Fault.Kind == FaultWrongUUID {
		b["UUID"], b["SerialNumber"] = "0badcafe-0000-4000-8000-000000000000", "NOT-"+m.config.Identity.Serial
	}
}

// slot is the number of the slot at a path, -1 for none.
func (m *Machine) slot(at string) int {
	for i, s := range m.kind.media.slots {
		for _, p := range s.paths {
			if p == at {
				return i
			}
		}
	}
	return -1
}

// loaded is what is in a slot.
type loaded struct {
	url, user string
	writable  bool
}

// liveMedia shows what is in a slot.
func (m *Machine) liveMedia(i int, at string, b body) {
	in := locked(m, func() loaded { return m.shownLocked(i) })
	b["Inserted"], b["ConnectedVia"], b["Image"] = in.url != "", "NotConnected", m.kind.media.empty
	if a, ok := b["Actions"].(body); ok && in.url == "" && m.kind.media.hidesEject {
		delete(a, "#VirtualMedia.EjectMedia")
	}
	if in.url == "" {
		return
	}
	if a, ok := b["Actions"].(body); ok && m.kind.media.hidesEject && a["#VirtualMedia.InsertMedia"] != nil {
		a["#VirtualMedia.EjectMedia"] = body{"target": at + "/Actions/VirtualMedia.EjectMedia"}
	}
	b["Image"], b["ConnectedVia"], b["ImageName"] = in.url, "URI", path.Base(strings.SplitN(in.url, "?", 2)[0])
	b["WriteProtected"] = !in.writable
	if in.user != "" {
		b["UserName"], b["Password"] = in.user, nil
	}
}

// shownLocked is what is shown to be in a slot.
func (m *Machine) shownLocked(i int) loaded {
	in := m.mediumLocked(i)
	in.url = or(in.url, m.ghost)
	return in
}

// mediumLocked is what is in a slot.
func (m *Machine) mediumLocked(i int) loaded {
	if i < len(m.media) {
		return m.media[i]
	}
	return loaded{}
}

// insertedLocked is the first medium from which a machine can boot.
func (m *Machine) insertedLocked() string {
	for _, in := range m.media {
		if in.url != "" {
			return in.url
		}
	}
	return ""
}
