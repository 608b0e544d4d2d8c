// Package drivertest holds every driver to the contract of package driver: Run
// is the suite that each driver's tests call, and Fleet is a fleet in memory
// with a driver that passes it, for tests that need machines and no protocol.
package drivertest

import (
	"fmt"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Config is how the machines of a fleet behave. The zero value answers at
// once; inside a testing/synctest bubble the durations are virtual.
type Config struct {
	// Latency is what every request takes.
	Latency time.Duration
	// PowerTime is the time from a power request to its effect.
	PowerTime time.Duration
	// InstallTime is the time from booting a medium to the installer
	// powering the machine off.
	InstallTime time.Duration
	// OSTime is the time from power-on to the installed system answering.
	OSTime time.Duration
	// Secret is the credential that machines accept; the zero value accepts
	// any.
	Secret secret.Value
}

// Fault is something that is wrong with a machine.
type Fault string

// The faults.
const (
	Healthy      Fault = ""
	Unreachable  Fault = "unreachable"
	Busy         Fault = "busy"          // with a Retry-After of BusySeconds
	Denied       Fault = "denied"        // whatever the credential
	Lies         Fault = "lies"          // Apply succeeds and does nothing
	WrongMachine Fault = "wrong machine" // another UUID and serial answer
	Hangs        Fault = "hangs"         // until the context ends
	Garbled      Fault = "garbled"       // an answer that makes no sense
)

// BusySeconds is the Retry-After of a busy machine.
const BusySeconds = 20

// Fleet is machines in memory. An endpoint's host is the name of a machine.
type Fleet struct {
	config Config

	mu       sync.Mutex
	machines map[string]*FakeMachine
}

// NewFleet makes a fleet of new machines.
func NewFleet(c Config, names ...string) *Fleet {
	f := &Fleet{config: c, machines: map[string]*FakeMachine{}}
	for _, name := range names {
		f.Add(name)
	}
	return f
}

// Add makes a machine that is off, blank and healthy.
func (f *Fleet) Add(name string) *FakeMachine {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := &FakeMachine{
		name: name, config: f.config, order: "Hdd,Pxe",
		identity: site.Identity{UUID: fmt.Sprintf("00000000-0000-4000-8000-%012d", len(f.machines)+1), Serial: "FAKE-" + name},
	}
	f.machines[name] = m
	return m
}

// Machine is the machine of that name, nil if there is none.
func (f *Fleet) Machine(name string) *FakeMachine {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.machines[name]
}

// Driver speaks to the machines' BMCs, whatever the endpoint's scheme.
func (f *Fleet) Driver() driver.Driver { return bmcDriver{f} }

// OSDriver speaks to the installed systems.
func (f *Fleet) OSDriver() driver.Driver { return osDriver{f} }

// Counts is what was asked of a machine.
type Counts struct {
	Reads  int
	Writes int // requests that ask for a change, also if it is already so
	Resets int // power changes that were begun
	// Installs counts the boots of an installer, each of which loses what is
	// on the disk.
	Installs int
}

// FakeMachine is one machine. What happens by itself with time is worked out
// whenever the machine is looked at, so it needs no goroutine.
type FakeMachine struct {
	name   string
	config Config

	mu        sync.Mutex
	identity  site.Identity
	fault     Fault
	counts    Counts
	on        bool
	changes   time.Time // when a power change takes effect; zero for none
	order     string
	media     *site.Marker // the inserted image, and what it installs
	once      bool         // the next boot is from the medium
	installer *site.Marker // the running installer's image
	ends      time.Time    // when the installer powers the machine off
	disk      *site.Marker // the installed system; its Node is empty without a marker
	booted    time.Time
	boots     int
}

// Node is the machine as a node of a design: named, bound by identity, with a
// bmc and an os endpoint.
func (m *FakeMachine) Node() *site.Node {
	return &site.Node{Name: m.name, Identity: m.Identity(), Endpoints: map[site.EndpointKind]site.Endpoint{
		site.BMC: {URL: "redfish+https://" + m.name + "/redfish/v1/Systems/1", Credential: "bmc"},
		site.OS:  {URL: "ssh://" + m.name, Credential: "os"},
	}}
}

// Identity is what the machine truly is.
func (m *FakeMachine) Identity() site.Identity {
	defer m.look()()
	return m.identity
}

// SetFault makes the machine faulty, or healthy again.
func (m *FakeMachine) SetFault(f Fault) {
	defer m.look()()
	m.fault = f
}

// Counts is what was asked of the machine so far.
func (m *FakeMachine) Counts() Counts {
	defer m.look()()
	return m.counts
}

// Power is "on" or "off", as a person beside the machine sees it.
func (m *FakeMachine) Power() string {
	defer m.look()()
	return state(m.on)
}

// SetPower switches the machine at once and behind everybody's back.
func (m *FakeMachine) SetPower(power string) {
	defer m.look()()
	m.switchTo(power == "on", time.Now())
}

// BootOrder is the persistent boot order.
func (m *FakeMachine) BootOrder() string {
	defer m.look()()
	return m.order
}

// SetBootOrder changes the boot order behind everybody's back.
func (m *FakeMachine) SetBootOrder(order string) {
	defer m.look()()
	m.order = order
}

// Disk is the marker of the system on the disk, nil for a blank disk; its
// Node is empty for a system without a marker.
func (m *FakeMachine) Disk() *site.Marker {
	defer m.look()()
	return m.disk
}

// SetDisk puts a system onto the disk, as if it had been installed long ago.
func (m *FakeMachine) SetDisk(marker *site.Marker) {
	defer m.look()()
	m.disk = marker
}

// Media is the image in the virtual drive, nil for none.
func (m *FakeMachine) Media() *site.Marker {
	defer m.look()()
	return m.media
}

// look locks the machine and brings it up to date; call what it returns to
// unlock.
func (m *FakeMachine) look() func() {
	m.mu.Lock()
	now := time.Now()
	if !m.changes.IsZero() && !now.Before(m.changes) {
		m.switchTo(!m.on, m.changes)
	}
	if m.installer != nil && !now.Before(m.ends) {
		m.disk = m.installer
		m.switchTo(false, m.ends)
	}
	return m.mu.Unlock
}

// switchTo is the moment at which the power changes.
func (m *FakeMachine) switchTo(on bool, at time.Time) {
	m.changes = time.Time{}
	if m.on == on {
		return
	}
	m.on, m.installer = on, nil
	if !on {
		return
	}
	m.booted = at
	m.boots++
	if m.once && m.media != nil {
		m.counts.Installs++
		m.disk, m.installer, m.ends = nil, m.media, at.Add(m.config.InstallTime)
	}
	m.once = false
}

// reset asks for power; the effect comes with time.
func (m *FakeMachine) reset(on bool) {
	defer m.look()()
	if heading := m.on == m.changes.IsZero(); heading == on {
		return
	}
	m.counts.Resets++
	if m.on == on {
		m.changes = time.Time{}
		return
	}
	m.changes = time.Now().Add(m.config.PowerTime)
}

// state is how often the machine was booted, and whether it is on.
func (m *FakeMachine) state() (boots int, on bool) {
	defer m.look()()
	return m.boots, m.on
}

// answers says whether the installed system can be reached.
func (m *FakeMachine) answers() bool {
	return m.on && m.disk != nil && m.installer == nil && !time.Now().Before(m.booted.Add(m.config.OSTime))
}

func state(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
