package lab

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// The power states of Redfish (DSP0268, Resource.PowerState).
const (
	on          = "On"
	off         = "Off"
	poweringOn  = "PoweringOn"
	poweringOff = "PoweringOff"
)

// Machine is one simulated machine.
type Machine struct {
	fleet  *Fleet
	config MachineConfig

	mu       sync.Mutex
	power    string
	timer    *time.Timer // the power change under way
	epoch    int         // counts power changes, so that a late one is not taken
	order    []string    // boot option references
	override override
	media    string // URL of the inserted image
	disk     disk
	running  string // what runs: "", "installer", "system"
	progress string // BootProgress.LastState
	upAt     time.Time
	bootID   string
	reset    time.Time // LastResetTime
	fault    Fault
	sessions map[string]session // by token
	tls      *tls.Config        // with the certificate; nil until it is asked for
	counts   Counts
}

type override struct{ enabled, target string }

// disk is what is on the machine's disk.
type disk struct {
	digest string // of the installed image; empty for a blank disk
	marker *site.Marker
}

// Counts is what happened to a machine.
type Counts struct {
	Writes   int `json:"writes"`   // requests that asked for a change
	Resets   int `json:"resets"`   // power changes by request
	Boots    int `json:"boots"`    // times that PowerState came to On
	Installs int `json:"installs"` // images written to the disk
	Sessions int `json:"sessions"` // sessions that were opened
	Denied   int `json:"denied"`   // logins that were not accepted
}

// State is a machine as a person beside it sees it.
type State struct {
	Name       string       `json:"name"`
	Power      string       `json:"power"`
	BootOrder  []string     `json:"bootOrder"`
	Media      string       `json:"media,omitempty"`
	DiskDigest string       `json:"diskDigest,omitempty"`
	Marker     *site.Marker `json:"marker,omitempty"`
	Runs       string       `json:"runs,omitempty"`
	Fault      Fault        `json:"fault,omitempty"`
	Sessions   int          `json:"sessions"`
	Counts     Counts       `json:"counts"`
}

func newMachine(f *Fleet, c MachineConfig) *Machine {
	m := &Machine{fleet: f, config: c, power: off, override: override{"Disabled", "None"}, sessions: map[string]session{}}
	targets := c.BootOrder
	if len(targets) == 0 {
		targets = []string{"Hdd", "Pxe"}
	}
	for _, t := range targets {
		m.order = append(m.order, reference(t))
	}
	if !c.Blank {
		m.disk = disk{digest: "factory", marker: c.Marker}
	}
	return m
}

// begin starts a machine that is to be on, as if it had booted long ago.
func (m *Machine) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.config.Power != "on" {
		return
	}
	m.power = on
	m.bootLocked(time.Now().Add(-time.Hour))
}

func (m *Machine) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.timer != nil {
		m.timer.Stop()
	}
}

// laterLocked lets a power state come after a time of the model.
func (m *Machine) laterLocked(d time.Duration, to string) {
	m.epoch++
	epoch := m.epoch
	if m.timer != nil {
		m.timer.Stop()
	}
	m.timer = time.AfterFunc(m.fleet.scaled(d), func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.epoch == epoch && m.fleet.ctx.Err() == nil {
			m.arriveLocked(to)
		}
	})
}

// arriveLocked is the moment at which a power state is reached.
func (m *Machine) arriveLocked(state string) {
	m.power = state
	m.running, m.progress = "", ""
	if state == on {
		m.bootLocked(time.Now())
	}
}

// bootLocked boots from the override or the boot order; the override is then
// used up.
func (m *Machine) bootLocked(at time.Time) {
	m.counts.Boots++
	id := sha256.Sum256(fmt.Appendf(nil, "%s %s %d", m.fleet.config.Seed, m.config.Name, m.counts.Boots))
	m.bootID = fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16])
	targets := m.targetsLocked()
	if m.override.enabled != "Disabled" {
		targets = append([]string{m.override.target}, targets...)
	}
	if m.override.enabled == "Once" {
		m.override = override{"Disabled", "None"}
	}
	for _, t := range targets {
		if t == "Cd" && m.media != "" {
			m.installLocked(m.media)
			return
		}
		if t == "Hdd" && m.disk.digest != "" {
			m.running, m.progress, m.upAt = "system", "OSBootStarted", at.Add(m.fleet.scaled(m.fleet.config.Latency.Boot))
			return
		}
	}
	m.progress = "SystemHardwareInitializationComplete" // nothing to boot from
}

// installLocked runs an installer: it fetches its image, writes the disk and
// powers the machine off, unless the power goes before.
func (m *Machine) installLocked(url string) {
	m.running, m.progress = "installer", "OSBootStarted"
	epoch, f := m.epoch, m.fleet
	f.work.Go(func() {
		image, err := f.fetch(f.ctx, url)
		if err != nil {
			m.during(epoch, func() { m.running, m.progress = "", "None" })
			return
		}
		if !f.sleep(f.ctx, f.config.Latency.Install) {
			return
		}
		m.during(epoch, func() {
			m.disk = image
			m.counts.Installs++
			m.power = poweringOff
			m.laterLocked(f.config.Latency.PowerOff, off)
		})
	})
}

// during does something if the power has not changed since the epoch.
func (m *Machine) during(epoch int, do func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.epoch == epoch {
		do()
	}
}

// resetLocked carries out a ComputerSystem.Reset. It says false when the
// machine cannot at this moment.
func (m *Machine) resetLocked(kind string) bool {
	l := m.fleet.config.Latency
	switch {
	case kind == "On" && (m.power == on || m.power == poweringOn):
		return true
	case (kind == "ForceOff" || kind == "GracefulShutdown") && m.power == off:
		return true
	case kind == "On" && m.power == poweringOff, kind != "On" && kind != "ForceOff" && m.power != on:
		return false
	case kind == "GracefulShutdown" && !m.systemUpLocked(), kind == "GracefulShutdown" && m.fault.Kind == FaultNoShutdown:
		return true // nothing runs that would listen
	}
	m.counts.Resets++
	m.reset = time.Now()
	switch kind {
	case "On":
		m.power = poweringOn
		m.laterLocked(l.PowerOn, on)
	case "ForceOff":
		m.power = poweringOff
		m.laterLocked(min(l.PowerOff, time.Second), off)
	case "GracefulShutdown":
		m.power = poweringOff
		m.laterLocked(l.PowerOff, off)
	default: // restarts come back by themselves
		m.power, m.running = poweringOn, ""
		m.laterLocked(l.PowerOff+l.PowerOn, on)
	}
	return true
}

func (m *Machine) systemUpLocked() bool {
	up := m.power == on && m.running == "system" && !time.Now().Before(m.upAt)
	if up {
		m.progress = "OSRunning"
	}
	return up
}

func (m *Machine) targetsLocked() []string {
	targets := make([]string, len(m.order))
	for i, ref := range m.order {
		targets[i] = bootOptions[ref].alias
	}
	return targets
}

// locked runs f with the machine locked and gives its result.
func locked[T any](m *Machine, f func() T) T {
	m.mu.Lock()
	defer m.mu.Unlock()
	return f()
}

// State is the machine as it is.
func (m *Machine) State() State {
	return locked(m, func() State {
		m.systemUpLocked()
		return State{Name: m.config.Name, Power: m.power, BootOrder: m.targetsLocked(), Media: m.media, DiskDigest: m.disk.digest,
			Marker: m.disk.marker, Runs: m.running, Fault: m.fault, Sessions: len(m.sessions), Counts: m.counts}
	})
}

// Power is the Redfish power state.
func (m *Machine) Power() string { return m.State().Power }

// BootOrder is the persistent boot order.
func (m *Machine) BootOrder() []string { return m.State().BootOrder }

// DiskDigest is the sha256 of the image on the disk; "factory" for a system
// that was there before, empty for a blank disk.
func (m *Machine) DiskDigest() string { return m.State().DiskDigest }

// Counts is what happened to the machine.
func (m *Machine) Counts() Counts { return m.State().Counts }

// Writes, Resets, Installs and BootCount are the counts by themselves.
func (m *Machine) Writes() int    { return m.Counts().Writes }
func (m *Machine) Resets() int    { return m.Counts().Resets }
func (m *Machine) Installs() int  { return m.Counts().Installs }
func (m *Machine) BootCount() int { return m.Counts().Boots }

// SetPower switches the machine at once, behind everybody's back.
func (m *Machine) SetPower(state string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.epoch++
	if want := map[string]string{"on": on, "off": off}[state]; want != "" && want != m.power {
		m.arriveLocked(want)
	}
}

// SetBootOrder changes the boot order behind everybody's back.
func (m *Machine) SetBootOrder(targets ...string) error {
	var refs []string
	for _, t := range targets {
		if bootOptions[reference(t)].alias == "" {
			return fmt.Errorf("there is no boot target %q", t)
		}
		refs = append(refs, reference(t))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.order = refs
	return nil
}

// SetFault makes something wrong with the machine; the zero Fault heals it.
func (m *Machine) SetFault(f Fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault, m.tls = f, nil
}

// ClearFault heals the machine.
func (m *Machine) ClearFault() { m.SetFault(Fault{}) }

// option is a boot option (DSP0268, BootOption).
type option struct{ alias, name string }

// bootOptions are those of every machine, by reference.
var bootOptions = map[string]option{
	"Boot0001": {"Hdd", "Disk 0"},
	"Boot0002": {"Pxe", "NIC 0 PXE IPv4"},
	"Boot0003": {"Cd", "Virtual CD"},
	"Boot0004": {"UefiHttp", "NIC 0 HTTP IPv4"},
	"Boot0005": {"Usb", "Virtual USB"},
}

// reference is the boot option reference of a target, empty for none.
func reference(target string) string {
	for ref, o := range bootOptions {
		if o.alias == target {
			return ref
		}
	}
	return ""
}

func references() []string {
	var refs []string
	for ref := range bootOptions {
		refs = append(refs, ref)
	}
	slices.Sort(refs)
	return refs
}

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
