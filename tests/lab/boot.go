package lab

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// patchSystem changes the boot settings, at the system or its settings
// object. DSP0266, PATCH (update), lets what can be changed be changed when the rest of a
// request cannot; like most BMCs, the lab's change nothing then.
func (x *exchange) patchSystem() {
	b, ok := x.read()
	if !ok || !x.current(x.resource(x.path)) {
		return
	}
	given, ok := x.only(b, "Boot")
	if !ok || !x.bootable(given) {
		return
	}
	if !x.fullBoot(given) || !x.leadsSomewhere(given) {
		return
	}
	if x.kind.boot.postLocks && locked(x.Machine, x.inPOSTLocked) {
		x.fail(http.StatusBadRequest, "UnableToModifyDuringSystemPOST")
		return
	}
	do := func() { x.setBootLocked(given) }
	if x.later("Boot settings", do) {
		return
	}
	if !x.lies() && !x.meets(FaultOverrideLost) {
		locked(x.Machine, func() any { do(); return nil })
	}
	x.patched()
}

// fullBoot says whether a request for an override has what a BMC wants of it;
// it answers itself when it has not.
func (x *exchange) fullBoot(given body) bool {
	names := overrideNames
	boot := x.bootSettings()
	some := slices.ContainsFunc(names, func(n string) bool { return given[n] != nil })
	for _, name := range names {
		switch {
		case x.fault.Kind == FaultModeUnknown && name == names[2] && given[name] != nil:
			x.fail(http.StatusBadRequest, "PropertyUnknown", name)
			return false
		case x.fault.Kind == FaultFullBoot && some && given[name] == nil:
			x.fail(http.StatusBadRequest, "PropertyMissing", name)
			return false
		case x.fault.Kind == FaultUnchangedRefused && given[name] != nil && given[name] == boot[name]:
			x.fail(http.StatusBadRequest, "PropertyValueNotInList", shown(given[name]), name)
			return false
		}
	}
	return true
}

// leadsSomewhere says whether an override is to what is there, for a BMC that looks;
// it answers itself when it is not.
func (x *exchange) leadsSomewhere(given body) bool {
	target, targeted := given["BootSourceOverrideTarget"]
	toCD := target == "Cd" || target == "UsbCd"
	empty := locked(x.Machine, x.insertedLocked) == ""
	switch {
	case x.fault.Kind == FaultMediumFirst && toCD && empty:
		x.fail(http.StatusBadRequest, "PropertyValueNotInList", shown(target), "BootSourceOverrideTarget")
		return false
	case x.fault.Kind == FaultEmulator && (toCD && empty || target == "None"):
		x.fail(http.StatusInternalServerError, "InternalError")
		return false
	case x.fault.Kind == FaultEmulator && !targeted && given["BootSourceOverrideEnabled"] != nil && given["BootSourceOverrideMode"] == nil:
		x.fail(http.StatusBadRequest, "PropertyMissing", "BootSourceOverrideTarget")
		return false
	}
	return true
}

// only is the one object of a request that can be changed; it answers itself
// when there is more, or nothing.
func (x *exchange) only(b body, name string) (body, bool) {
	for k := range b {
		if k != name && !strings.Contains(k, "@") {
			x.failWith(http.StatusBadRequest, x.unwritable(k))
			return nil, false
		}
	}
	v, given := b[name]
	if !given {
		x.fail(http.StatusBadRequest, map[bool]string{true: "EmptyJSON", false: "NoOperation"}[len(b) == 0])
		return nil, false
	}
	o, ok := v.(body)
	if !ok {
		x.fail(http.StatusBadRequest, "PropertyValueTypeError", shown(v), name)
		return nil, false
	}
	return o, true
}

// unwritable says that a property cannot be changed, or is not there.
func (x *exchange) unwritable(name string) body {
	id := "PropertyUnknown"
	if _, there := x.resource(x.path)[name]; there {
		id = "PropertyNotWritable"
	}
	return x.kind.speech.info(id, name)
}

// bootable says whether boot settings can be made; it answers itself when
// they cannot.
func (x *exchange) bootable(given body) bool {
	boot := x.bootSettings()
	for name, v := range given {
		s, isText := v.(string)
		may := map[string][]string{
			"BootSourceOverrideEnabled": x.kind.boot.states, "BootSourceOverrideMode": x.kind.boot.modes,
			"BootSourceOverrideTarget": x.targets(boot),
		}[name]
		switch {
		case strings.Contains(name, "@"):
		case name == "HttpBootUri" && x.kind.boot.http:
			if !x.bootURI(v) {
				return false
			}
		case name == "BootOrder" && x.fault.Kind == FaultOrderRefused:
			x.fail(http.StatusBadRequest, "PropertyNotWritable", name)
			return false
		case name == "BootOrder":
			if !x.orderable(v) {
				return false
			}
		case x.lacksOverride(name):
			x.fail(http.StatusBadRequest, "PropertyUnknown", name)
			return false
		case may == nil && boot[name] != nil:
			x.fail(http.StatusBadRequest, "PropertyNotWritable", name)
			return false
		case may == nil:
			x.fail(http.StatusBadRequest, "PropertyUnknown", name)
			return false
		case !isText:
			x.fail(http.StatusBadRequest, "PropertyValueTypeError", shown(v), name)
			return false
		case !slices.Contains(may, s):
			x.fail(http.StatusBadRequest, "PropertyValueNotInList", s, name)
			return false
		}
	}
	return true
}

// bootSettings are a system's boot settings, with what only its settings object
// has of them.
func (x *exchange) bootSettings() body {
	all := body{}
	for _, at := range []string{x.kind.settings, x.kind.system} {
		boot, _ := x.resource(at)["Boot"].(body)
		maps.Copy(all, boot)
	}
	return all
}

// lacksOverride says whether a property is one of an override, and the captured
// resource that is written to does not have it.
func (x *exchange) lacksOverride(name string) bool {
	boot, _ := x.resource(x.path)["Boot"].(body)
	_, has := boot[name]
	return x.config.Capture != "" && slices.Contains(overrideNames, name) && !has
}

// targets are what an override can be of.
func (x *exchange) targets(boot body) []string {
	all := slices.Clone(texts(boot["BootSourceOverrideTarget@Redfish.AllowableValues"]))
	if i := slices.Index(all, "Cd"); i >= 0 && x.fault.Kind == FaultUsbCd {
		all[i] = "UsbCd"
	}
	return all
}

// bootURI says whether a URL to boot from can be set, or taken back by null or
// an empty one; it answers itself when it cannot.
func (x *exchange) bootURI(v any) bool {
	s, isText := v.(string)
	switch {
	case v == nil || isText && (s == "" || x.fetchable(s)):
		return true
	case !isText:
		x.fail(http.StatusBadRequest, "PropertyValueTypeError", shown(v), "HttpBootUri")
	default:
		x.fail(http.StatusBadRequest, "PropertyValueFormatError", s, "HttpBootUri")
	}
	return false
}

// orderable says whether a boot order names existing options, each once; it
// answers itself when it does not.
func (x *exchange) orderable(v any) bool {
	refs := texts(v)
	if refs == nil {
		x.fail(http.StatusBadRequest, "PropertyValueTypeError", shown(v), "BootOrder")
		return false
	}
	seen := map[string]bool{}
	for _, r := range refs {
		if x.kind.boot.alias(r) == "" || seen[r] {
			x.fail(http.StatusBadRequest, "PropertyValueNotInList", r, "BootOrder")
			return false
		}
		seen[r] = true
	}
	if len(refs) == 0 {
		x.fail(http.StatusBadRequest, "PropertyValueNotInList", "[]", "BootOrder")
	}
	return len(refs) > 0
}

// setBootLocked makes boot settings; those of a settings object wait for the
// next boot.
func (x *exchange) setBootLocked(given body) {
	m, before := x.Machine, x.override
	if refs := texts(given["BootOrder"]); refs != nil {
		if x.path == x.kind.settings && x.fault.Kind != FaultFutureState {
			m.nextOrder = refs
		} else {
			m.order = refs
		}
	}
	for name, to := range map[string]*string{
		"BootSourceOverrideEnabled": &m.override.enabled, "BootSourceOverrideTarget": &m.override.target, "BootSourceOverrideMode": &m.override.mode,
	} {
		if s, ok := given[name].(string); ok {
			*to = s
		}
	}
	if uri, ok := given["HttpBootUri"]; ok {
		m.httpURI, _ = uri.(string) // none when it is null
	}
	x.twistLocked(given, before)
	if m.override.enabled == "Disabled" {
		m.override.target = "None"
	}
}

// twistLocked is what a fault makes of an override, which was another before.
func (x *exchange) twistLocked(given body, before override) {
	o := &x.override
	target := given["BootSourceOverrideTarget"]
	switch {
	case x.fault.Kind == FaultEmulator && target == nil:
		*o = before
	case x.fault.Kind == FaultEmulator, x.fault.Kind == FaultOnceLasts && o.enabled == "Once":
		o.enabled = "Continuous"
	case target == nil:
	case x.fault.Kind == FaultOnceUnlessSent && given["BootSourceOverrideEnabled"] == nil:
		o.enabled = "Once"
	case x.fault.Kind == FaultModeFlips && given["BootSourceOverrideMode"] == nil:
		o.mode = map[string]string{"Legacy": "UEFI"}[o.mode]
		o.mode = or(o.mode, "Legacy")
	case x.fault.Kind == FaultPxeRenamed && target == "Pxe":
		o.target = "UefiBootNext"
	}
}

// pendingOrderLocked is the boot order from the next boot on.
func (m *Machine) pendingOrderLocked() []string {
	if m.nextOrder != nil {
		return m.nextOrder
	}
	return m.order
}

// inPOSTLocked says whether the machine's firmware is at work: the first half
// of a boot.
func (m *Machine) inPOSTLocked() bool {
	if m.power == poweringOn {
		return true
	}
	boot := m.fleet.scaled(m.fleet.config.Latency.Boot)
	return m.power == on && m.running == "system" && time.Until(m.upAt) > boot/2
}

// texts are the texts of a JSON list, nil when it is none of texts.
func texts(v any) []string {
	if s, ok := v.([]string); ok {
		return s
	}
	l, ok := v.([]any)
	if !ok {
		return nil
	}
	s := make([]string, len(l))
	for i := range l {
		if s[i], ok = l[i].(string); !ok {
			return nil
		}
	}
	return s
}

// items is a JSON list, nil when it is none.
func items(v any) []any { l, _ := v.([]any); return l }

// shown is a JSON value as an error names it.
func shown(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return fmt.Sprintf("%.64s", encode(v))
}
