package lab

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"regexp"
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

// settable says whether the registry lets attributes have values; it answers
// itself when it does not.
func (x *exchange) settable(given body) bool {
	registry := x.registry()
	now := x.attributes()
	for _, name := range slices.Sorted(maps.Keys(given)) {
		a := registry.entry(name)
		_, there := now[name]
		id := ""
		switch {
		case a == nil && !there:
			id = "PropertyUnknown"
		case a == nil:
		case a["ReadOnly"] == true, registry.maps(name, now):
			id = "PropertyNotWritable"
		default:
			id = wrongValue(a, given[name], now[name])
		}
		switch id {
		case "":
		case "PropertyUnknown", "PropertyNotWritable":
			x.fail(http.StatusBadRequest, id, name)
			return false
		default:
			x.fail(http.StatusBadRequest, id, shown(given[name]), name)
			return false
		}
	}
	return true
}

// registry is the attribute registry of a machine's firmware.
type registry struct{ entries body }

func (m *Machine) registry() registry {
	entries, _ := m.kind.tree.at(m, m.kind.bios.store)["RegistryEntries"].(body)
	return registry{entries}
}

// entry describes an attribute, nil when the registry does not.
func (r registry) entry(name string) body {
	for _, a := range items(r.entries["Attributes"]) {
		if a, ok := a.(body); ok && a["AttributeName"] == name {
			return a
		}
	}
	return nil
}

// maps says whether a dependency makes an attribute unchangeable as long as
// the others are as they are (DSP0268, AttributeRegistry Dependencies).
func (r registry) maps(name string, now body) bool {
	for _, d := range items(r.entries["Dependencies"]) {
		d, _ := d.(body)
		on, _ := d["Dependency"].(body)
		to := on["MapToProperty"]
		if on["MapToAttribute"] == name && (to == "ReadOnly" || to == "GrayOut" || to == "Hidden") && on["MapToValue"] == true && holds(items(on["MapFrom"]), now) {
			return true
		}
	}
	return false
}

// holds says whether the conditions of a dependency are met.
func holds(conditions []any, now body) bool {
	met := false
	for i, c := range conditions {
		c, _ := c.(body)
		name, _ := c["MapFromAttribute"].(string)
		is := c["MapFromProperty"] == "CurrentValue" && (c["MapFromCondition"] == "EQU") == (fmt.Sprint(now[name]) == fmt.Sprint(c["MapFromValue"]))
		switch {
		case i == 0:
			met = is
		case c["MapTerms"] == "OR":
			met = met || is
		default:
			met = met && is
		}
	}
	return met
}

// wrongValue is the message about a value that an attribute cannot have, empty
// for one that it can. It is given in the words in which the present one is shown.
func wrongValue(a body, v, present any) string {
	switch a["Type"] {
	case "Enumeration":
		return wrongChoice(a, v, wordsOf(a, present))
	case "Integer":
		return wrongNumber(a, v)
	case "Boolean":
		if _, ok := v.(bool); !ok {
			return "PropertyValueTypeError"
		}
	default:
		return wrongText(a, v)
	}
	return ""
}

// wordsOf is the property of an enumeration's values that has the words in which
// the present one is shown: some firmware shows, and takes, the display names.
func wordsOf(a body, present any) string {
	words := "ValueName"
	for _, choice := range items(a["Value"]) {
		switch c, _ := choice.(body); {
		case c["ValueName"] == present:
			return "ValueName"
		case present != nil && c["ValueDisplayName"] == present:
			words = "ValueDisplayName"
		}
	}
	return words
}

func wrongChoice(a body, v any, words string) string {
	if _, ok := v.(string); !ok {
		return "PropertyValueTypeError"
	}
	for _, choice := range items(a["Value"]) {
		if c, ok := choice.(body); ok && c[words] == v {
			return ""
		}
	}
	return "PropertyValueNotInList"
}

func wrongNumber(a body, v any) string {
	n, ok := v.(float64)
	if !ok || n != math.Trunc(n) {
		return "PropertyValueTypeError"
	}
	low, hasLow := number(a["LowerBound"])
	high, hasHigh := number(a["UpperBound"])
	if hasLow && n < low || hasHigh && n > high {
		return "PropertyValueOutOfRange"
	}
	return ""
}

func wrongText(a body, v any) string {
	s, ok := v.(string)
	if !ok {
		return "PropertyValueTypeError"
	}
	low, hasLow := number(a["MinLength"])
	high, hasHigh := number(a["MaxLength"])
	if hasLow && float64(len(s)) < low || hasHigh && float64(len(s)) > high {
		return "PropertyValueFormatError"
	}
	if e, ok := a["ValueExpression"].(string); ok && e != "" {
		if r, err := regexp.Compile(e); err == nil && !r.MatchString(s) {
			return "PropertyValueFormatError"
		}
	}
	return ""
}

// number is a JSON number, however it came.
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int:
		return float64(v), true
	}
	return 0, false
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

// attribute is one setting of the firmware.
type attribute struct {
	name, title, kind string
	value             any
	choices           []string
	low, high         int // of a number, or of a text's length
	readOnly          bool
	// only lets it be changed while another attribute has a value.
	only condition
}

type condition struct{ name, value string }

func choice(name, title, value string, choices ...string) attribute {
	return attribute{name: name, title: title, kind: "Enumeration", value: value, choices: choices}
}

func toggle(name, title, value string) attribute {
	return choice(name, title, value, "Enabled", "Disabled")
}

func count(name, title string, value, low, high int) attribute {
	return attribute{name: name, title: title, kind: "Integer", value: value, low: low, high: high}
}

func text(name, title, value string, longest int) attribute {
	return attribute{name: name, title: title, kind: "String", value: value, high: longest}
}

func flag(name, title string, value bool) attribute {
	return attribute{name: name, title: title, kind: "Boolean", value: value}
}

func (a attribute) fixed() attribute { a.readOnly = true; return a }

func (a attribute) while(name, value string) attribute {
	a.only = condition{name, value}
	return a
}

// slots are attributes of which a machine has as many as it has places.
func slots(n int, make func(i int) attribute) []attribute {
	var all []attribute
	for i := range n {
		all = append(all, make(i+1))
	}
	return all
}

// entry is how a registry describes the attribute.
func (h biosHabits) entry(i int, a attribute) body {
	b := body{
		"AttributeName": a.name, "DisplayName": a.title, "HelpText": a.title + ".", "Type": a.kind, "DefaultValue": a.value,
		"ReadOnly": a.readOnly, "WriteOnly": false, "GrayOut": false, "Hidden": false, "ResetRequired": true, "DisplayOrder": i + 1, "MenuPath": "./",
	}
	if h.textDefaults {
		b["DefaultValue"] = fmt.Sprint(a.value)
	}
	switch a.kind {
	case "Enumeration":
		values := make([]any, len(a.choices))
		for i, c := range a.choices {
			values[i] = body{"ValueName": c, "ValueDisplayName": spaced(c)}
		}
		b["Value"] = values
	case "Integer":
		b["LowerBound"], b["UpperBound"], b["ScalarIncrement"] = a.low, a.high, 1
	case "String":
		b["MinLength"], b["MaxLength"] = a.low, a.high
	}
	return b
}

// spaced is a name with spaces between its words.
func spaced(name string) string {
	return wordStart.ReplaceAllString(strings.ReplaceAll(name, "_", " - "), "$1 $2")
}

var wordStart = regexp.MustCompile(`([a-z])([A-Z])`)

// dependency is how a registry says that an attribute can be changed only
// while another has a value.
func (a attribute) dependency() body {
	return body{"DependencyFor": a.name, "Type": "Map", "Dependency": body{
		"MapFrom": []any{body{
			"MapFromAttribute": a.only.name, "MapFromProperty": "CurrentValue", "MapFromCondition": "NEQ", "MapFromValue": a.only.value,
		}},
		"MapToAttribute": a.name, "MapToProperty": "ReadOnly", "MapToValue": true,
	}}
}

// growBIOS adds the settings and their registry.
func (p *personality) growBIOS(l layout) {
	h := p.bios
	end := map[bool]string{true: "/"}[h.slashes]
	l.singles[h.path] = func(*Machine) body {
		settings := body{"@odata.type": "#Settings.v1_3_3.Settings", "SettingsObject": ref(h.settings + end)}
		if h.applyTimes != nil {
			settings["SupportedApplyTimes"] = h.applyTimes
		}
		return p.thing("Bios", h.path, "BIOS Configuration Current Settings", body{
			"@odata.id": h.path + end, "AttributeRegistry": h.registry, "Attributes": h.defaults(), "@Redfish.Settings": settings,
			"Actions": body{"#Bios.ResetBios": body{"target": h.path + "/Actions/Bios.ResetBios" + end}},
		})
	}
	l.singles[h.settings] = func(*Machine) body {
		b := p.thing("Bios", h.settings, "BIOS Configuration Pending Settings", body{
			"@odata.id": h.settings + end, "AttributeRegistry": h.registry, "Attributes": body{},
		})
		if p.complete { // DSP0266, Settings resource: which apply times a request may name
			b[applyTimeAnnotation] = body{
				"@odata.type": "#Settings.v1_3_3.PreferredApplyTime", "ApplyTime": h.applyTimes[0], "ApplyTime@Redfish.AllowableValues": h.applyTimes,
			}
		}
		return b
	}
	l.singles[h.store] = func(m *Machine) body { return p.attributeRegistry(m) }
}

func (h biosHabits) defaults() body {
	all := make(body, len(h.attributes))
	for _, a := range h.attributes {
		all[a.name] = a.value
	}
	return all
}

func (p *personality) attributeRegistry(m *Machine) body {
	h := p.bios
	var entries, dependencies []any
	for i, a := range h.attributes {
		entries = append(entries, h.entry(i, a))
		if a.only.name != "" {
			dependencies = append(dependencies, a.dependency())
		}
	}
	_, version, _ := strings.Cut(h.registry, ".")
	b := p.thing("AttributeRegistry", h.store, "BIOS Attribute Registry", body{
		"Id": h.registry, "Language": "en", "OwningEntity": or(p.vendor, "Slipway"), "RegistryVersion": strings.ReplaceAll(strings.TrimPrefix(version, "v"), "_", "."),
		"SupportedSystems": []any{body{"ProductName": m.model(), "SystemId": strings.ReplaceAll(m.sku(), "-", ""), "FirmwareVersion": m.biosVersion()}},
		"RegistryEntries":  body{"Attributes": entries, "Menus": []any{}, "Dependencies": dependencies},
	})
	if p.bios.textDefaults || p.bios.slashes {
		delete(b, "@odata.id") // as these vendors' registries have none
	}
	return b
}

// growRegistries adds the collection of registries. What is in the standard
// ones DMTF publishes.
func (p *personality) growRegistries(l layout) {
	const at = root + "/Registries"
	base := at + "/Base/" + p.speech.base + ".0"
	l.singles[at+"/Base"] = func(*Machine) body {
		where := body{"Language": "en", "PublicationUri": fmt.Sprintf("https://redfish.dmtf.org/registries/%s.0.json", p.speech.base)}
		if p.complete {
			where["Uri"] = base
		}
		return p.thing("MessageRegistryFile", at+"/Base", "Base Message Registry File", body{
			"Languages": []string{"en"}, "Registry": p.speech.base, "Location": []any{where},
		})
	}
	if p.complete {
		l.singles[base] = func(*Machine) body { return p.baseRegistry(base) }
	}
	l.singles[at+"/"+p.bios.file] = func(*Machine) body {
		name, version, _ := strings.Cut(strings.TrimPrefix(p.bios.registry, "."), ".")
		major, minor := strings.TrimPrefix(version, "v"), "0"
		if i := strings.IndexAny(major, "._"); i > 0 {
			major, minor = major[:i], strings.FieldsFunc(major[i+1:], func(r rune) bool { return r == '.' || r == '_' })[0]
		}
		return p.thing("MessageRegistryFile", at+"/"+p.bios.file, "BIOS Attribute Registry File", body{
			"Languages": []string{"en"}, "Registry": fmt.Sprintf("%s.%s.%s", name, major, minor),
			"Location": []any{body{"Language": "en", "Uri": p.bios.store}},
		})
	}
	l.some("MessageRegistryFile", at, "Base", p.bios.file)
}
