package lab

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// biosHabits is how a BMC has the settings of its machine's firmware.
type biosHabits struct {
	path, settings string // of the Bios and of its settings object
	slashes        bool   // both call themselves with a slash at the end
	// registry is the id of the attribute registry, file where the collection
	// of registries has it, and store where it is.
	registry, file, store string
	attributes            []attribute
	applyTimes            []string
	// takesApplyTime is what becomes of @Redfish.SettingsApplyTime in a
	// request.
	takesApplyTime applyTimeHabit
	// mirrors has the settings object show all attributes, and not only those
	// that wait.
	mirrors bool
	// jobs is where a change becomes a job, without which it does not come
	// about; empty where it just waits for the next boot.
	jobs string
	// textDefaults has the registry's defaults as text, numbers too.
	textDefaults bool
}

// applyTimeHabit is what a BMC makes of a wanted apply time.
type applyTimeHabit string

const (
	applyTimeTaken   applyTimeHabit = "taken"
	applyTimeIgnored applyTimeHabit = "ignored"
	applyTimeUnknown applyTimeHabit = "unknown" // a property that it does not know
)

// biosState is what has become of a machine's settings.
type biosState struct {
	current map[string]any // over what the tree has
	pending map[string]any // what waits for a boot
	job     *task          // what carries the pending values, where that needs one
	at      time.Time      // when the running boot has applied them; zero when it has none to
	applied time.Time      // when values were last applied
}

// liveBIOS shows the settings that are in force.
func (m *Machine) liveBIOS(b body) {
	b["Attributes"] = m.attributes()
	s, ok := b["@Redfish.Settings"].(body)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fault.Kind == FaultPendingShown {
		maps.Copy(b["Attributes"].(body), m.bios.pending)
	}
	if ok && !m.bios.applied.IsZero() {
		s["Time"] = m.bios.applied.UTC().Format(time.RFC3339)
		s["Messages"] = []any{m.kind.speech.info("Success")}
	}
}

// liveBIOSSettings shows the settings that wait.
func (m *Machine) liveBIOSSettings(b body) {
	all := body{}
	if m.kind.bios.mirrors {
		all = m.attributes()
	}
	locked(m, func() any { m.settleBIOSLocked(); maps.Copy(all, m.bios.pending); return nil })
	b["Attributes"] = all
}

// attributes are a machine's settings as they are in force.
func (m *Machine) attributes() body {
	b := m.kind.tree.at(m, m.kind.bios.path)
	now, _ := b["Attributes"].(body)
	return locked(m, func() body {
		m.settleBIOSLocked()
		maps.Copy(now, m.bios.current)
		return now
	})
}

// patchBIOS puts settings down for the next boot.
func (x *exchange) patchBIOS() {
	b, ok := x.read()
	if !ok || !x.current(x.resource(x.path)) || !x.applyTime(b) {
		return
	}
	delete(b, applyTimeAnnotation)
	given, ok := x.only(b, "Attributes")
	if !ok || !x.settable(given) {
		return
	}
	if locked(x.Machine, func() bool { x.settleBIOSLocked(); return x.bios.job.open() }) {
		x.fail(http.StatusBadRequest, "SYS011")
		return
	}
	if x.lies() {
		x.patched()
		return
	}
	locked(x.Machine, func() any {
		next := maps.Clone(x.bios.pending)
		if next == nil {
			next = map[string]any{}
		}
		maps.Copy(next, given)
		x.bios.pending = next
		return nil
	})
	if x.kind.bios.jobs != "" && x.wantsApply {
		x.commitBIOS()
		return
	}
	x.patched()
}

const applyTimeAnnotation = "@Redfish.SettingsApplyTime"

// applyTime reads when a change is to be applied (DSP0266, Settings resource); it answers
// itself when that cannot be.
func (x *exchange) applyTime(b body) bool {
	v, given := b[applyTimeAnnotation]
	if !given || x.kind.bios.takesApplyTime == applyTimeIgnored {
		return true
	}
	if x.kind.bios.takesApplyTime == applyTimeUnknown {
		x.fail(http.StatusBadRequest, "PropertyUnknown", applyTimeAnnotation)
		return false
	}
	o, _ := v.(body)
	when, _ := o["ApplyTime"].(string)
	if !slices.Contains(x.kind.bios.applyTimes, when) {
		x.fail(http.StatusBadRequest, "PropertyValueNotInList", shown(o["ApplyTime"]), "ApplyTime")
		return false
	}
	if strings.Contains(when, "MaintenanceWindow") {
		for _, name := range []string{"MaintenanceWindowStartTime", "MaintenanceWindowDurationInSeconds"} {
			if o[name] == nil {
				x.fail(http.StatusBadRequest, "PropertyMissing", name)
				return false
			}
		}
	}
	x.wantsApply = true
	return true
}

// resetBIOS has the defaults of the registry apply at the next boot.
func (x *exchange) resetBIOS(string) {
	if _, ok := x.read(); !ok {
		return
	}
	defaults := x.defaults()
	if !x.lies() {
		locked(x.Machine, func() any { x.bios.pending = defaults; return nil })
	}
	x.done()
}

// defaults are what the attributes are that somebody has changed, when nobody
// has.
func (m *Machine) defaults() map[string]any {
	was, _ := m.kind.tree.at(m, m.kind.bios.path)["Attributes"].(body)
	all := map[string]any{}
	for name := range m.attributes() {
		if v, ok := was[name]; ok {
			all[name] = v
		}
	}
	return all
}

// bootBIOSLocked begins to apply what waits, which is in force when the POST
// is done.
func (m *Machine) bootBIOSLocked() {
	if len(m.bios.pending) == 0 || m.kind.bios.jobs != "" && !m.bios.job.open() {
		return
	}
	m.bios.at = time.Now().Add(m.fleet.scaled(m.fleet.config.Latency.Boot / 2))
	m.bios.job.run()
	m.settleBIOSLocked()
}

// settleBIOSLocked is the end of the POST in which settings are applied, if it
// has come.
func (m *Machine) settleBIOSLocked() {
	if m.bios.at.IsZero() || time.Now().Before(m.bios.at) {
		return
	}
	switch m.fault.Kind {
	case FaultBIOSDropped:
	case FaultBIOSFails:
		m.bios.job.end("CompletedWithErrors")
	default:
		if m.bios.current == nil {
			m.bios.current = map[string]any{}
		}
		maps.Copy(m.bios.current, m.bios.pending)
	}
	m.bios.job.end("Completed")
	m.bios.pending, m.bios.at, m.bios.applied, m.bios.job = nil, time.Time{}, time.Now(), nil
}

// stopBIOSLocked is the power that goes before the POST is done: what was
// being applied waits again.
func (m *Machine) stopBIOSLocked() {
	m.settleBIOSLocked()
	m.bios.at = time.Time{}
	m.bios.job.wait()
}
