package lab

import (
	"net/http"
	"slices"
	"time"
)

// reset is the action ComputerSystem.Reset (DSP0268).
func (x *exchange) reset(owner string) {
	const action = "ComputerSystem.Reset"
	b, ok := x.read()
	if !ok || !x.current(x.resource(owner)) {
		return
	}
	kind, ok := x.parameter(b, action, "ResetType", x.resets(owner))
	if !ok {
		return
	}
	if x.lies() || x.meets(FaultResetIgnored) {
		x.done()
		return
	}
	do := func() { x.resetLocked(kind) }
	switch {
	case x.later("Reset", do):
		return
	case x.meets(FaultResetLate):
		x.after(time.Duration(x.fault.Delay), do)
		x.done()
		return
	}
	switch locked(x.Machine, func() resetAnswer { return x.resetLocked(kind) }) {
	case resetAccepted:
		x.done()
	case resetAlready:
		x.already()
	default:
		x.fail(http.StatusConflict, "ResourceInUse")
	}
}

// resets are the ways in which a system says that it can be reset, in its
// action or the ActionInfo of it.
func (x *exchange) resets(owner string) []string {
	actions, _ := x.resource(owner)["Actions"].(body)
	a, _ := actions["#ComputerSystem.Reset"].(body)
	if kinds := texts(a["ResetType@Redfish.AllowableValues"]); kinds != nil {
		return kinds
	}
	info, _ := a["@Redfish.ActionInfo"].(string)
	for _, p := range items(x.resource(info)["Parameters"]) {
		if p, ok := p.(body); ok && p["Name"] == "ResetType" {
			return texts(p["AllowableValues"])
		}
	}
	return nil
}

// parameter is the one parameter of an action, which is to be one of some; it
// answers itself when it is not.
func (x *exchange) parameter(b body, action, name string, may []string) (string, bool) {
	for k := range b {
		if k != name {
			x.fail(http.StatusBadRequest, "ActionParameterUnknown", action, k)
			return "", false
		}
	}
	v, given := b[name]
	s, isText := v.(string)
	switch {
	case !given:
		x.fail(http.StatusBadRequest, "ActionParameterMissing", action, name)
	case !isText:
		x.fail(http.StatusBadRequest, "ActionParameterValueTypeError", shown(v), name, action)
	case !slices.Contains(may, s):
		x.fail(http.StatusBadRequest, "ActionParameterValueNotInList", s, name, action)
	default:
		return s, true
	}
	return "", false
}

// already answers a reset that would change nothing, as the kind of BMC does.
func (x *exchange) already() {
	answer := x.kind.power.already
	if x.meets(FaultAlready) {
		answer = http.StatusConflict
	}
	switch answer {
	case http.StatusConflict:
		x.fail(http.StatusConflict, "PSU501", map[bool]string{true: "ON", false: "OFF"}[x.Power() == on])
	case http.StatusBadRequest:
		x.fail(http.StatusBadRequest, "InvalidOperationForSystemState")
	default:
		x.done()
	}
}

// resetManager restarts the BMC: it is away for as long as its machine takes
// to come on, and its sessions are gone.
func (x *exchange) resetManager(owner string) {
	b, ok := x.read()
	if !ok || !x.current(x.resource(owner)) {
		return
	}
	if len(b) > 0 {
		if _, ok := x.parameter(b, "Manager.Reset", "ResetType", x.kind.power.managerResets); !ok {
			return
		}
	}
	x.done()
	if x.lies() {
		return
	}
	x.ForgetSessions()
	away := x.fleet.scaled(2 * x.fleet.config.Latency.PowerOn)
	x.after(0, func() { x.backAt = time.Now().Add(away); x.bmcSide.cut() })
}

// resetAnswer is what came of a reset.
type resetAnswer int

const (
	resetAccepted resetAnswer = iota
	resetAlready              // it is so, or on its way there
	resetRefused              // not at this moment
)

// resetLocked carries out a ComputerSystem.Reset.
func (m *Machine) resetLocked(kind string) resetAnswer {
	switch kind {
	case "PushPowerButton":
		if m.power == off {
			return m.resetLocked("On")
		}
		return m.resetLocked("GracefulShutdown")
	case "On", "ForceOn":
		return m.switchOnLocked()
	case "ForceOff":
		if m.power == off {
			return resetAlready
		}
		m.acceptLocked(poweringOff, min(m.fleet.config.Latency.PowerOff, second), off)
		return resetAccepted
	case "GracefulShutdown":
		return m.shutDownLocked()
	case "Nmi":
		return m.interruptLocked()
	}
	return m.restartLocked(kind)
}

func (m *Machine) switchOnLocked() resetAnswer {
	switch m.power {
	case poweringOff:
		return resetRefused
	case off:
		m.acceptLocked(poweringOn, m.fleet.config.Latency.PowerOn, on)
		return resetAccepted
	}
	return resetAlready
}

func (m *Machine) shutDownLocked() resetAnswer {
	switch {
	case m.power == off:
		return resetAlready
	case m.computer != nil && m.power == on:
		m.pressLocked(false)
	case m.listensLocked():
		m.acceptLocked(poweringOff, m.fleet.config.Latency.PowerOff, off)
	case m.power != on:
		return resetRefused
	}
	return resetAccepted // nothing may run that would listen
}

// restartLocked carries out a restart, which comes back by itself.
func (m *Machine) restartLocked(kind string) resetAnswer {
	if m.power == off && m.kind.power.starts && kind != "GracefulRestart" {
		return m.switchOnLocked()
	}
	if m.power != on {
		return resetRefused
	}
	if m.computer != nil && kind == "GracefulRestart" {
		m.pressLocked(true)
		return resetAccepted
	}
	if m.listensLocked() || kind != "GracefulRestart" {
		l := m.fleet.config.Latency
		m.acceptLocked(poweringOn, l.PowerOff+l.PowerOn, on)
	}
	return resetAccepted
}

// interruptLocked halts what runs.
func (m *Machine) interruptLocked() resetAnswer {
	if m.power != on {
		return resetRefused
	}
	if m.computer != nil {
		m.interruptGuestLocked()
		return resetAccepted
	}
	m.running = ""
	m.osSide.cut()
	return resetAccepted
}
