package lab

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
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
	kind   *personality
	// computer is the hardware of a real machine, nil for a simulated one.
	computer *computer

	bmcSide lines // connections to the BMC
	osSide  lines // connections to the system

	turn chan struct{} // held by the change that has its turn
	// head is the machine whose BMC this one is behind: mostly itself. That one
	// has the others as its blades.
	head   *Machine
	blades []*Machine
	// there is whose BMC answers at the address, nil for its own.
	there atomic.Pointer[Machine]

	mu          sync.Mutex
	power       string
	timer       *time.Timer        // what comes next by itself
	unfetch     context.CancelFunc // ends the fetching of an image
	epoch       int                // counts power changes, so that what began before one is dropped
	draws       int                // counts durations drawn
	order       []string           // boot option references
	nextOrder   []string           // of the next boot, nil for the same
	override    override
	httpURI     string   // to boot from, where the override is UefiHttp
	media       []loaded // what is inserted, by slot
	disk        disk
	in          inside // what is set in the installed system
	insideFault InsideFault
	links       *item.LinksSeen // what the system sees of its links; nil where all is well
	unwell      string          // what the first probe of the system's health says; empty where all pass
	bios        biosState
	log         []logged
	health      map[string]string // of parts that are not well, or not there
	tasks       []*task
	running     string // what runs: "", "installer", "system"; of a real machine that is on, "guest"
	progress    string // BootProgress.LastState
	upAt        time.Time
	bootID      string
	reset       time.Time // LastResetTime
	fault       Fault
	bad         int                // logins in a row that were not accepted
	lockedUntil time.Time          // the account, after too many
	accounts    []account          // once somebody has changed them
	backAt      time.Time          // when the BMC has restarted
	offAt       time.Time          // when the power went last
	ghost       string             // a medium that was ejected and is still shown
	sessions    map[string]session // by token
	moved       string             // the BMC's address, where that is not the configured one
	tls         *tls.Config        // with the certificate; nil until it is asked for
	given       *tls.Certificate   // that somebody put in the place of its own
	ntp         ntp

	subscriptions []subscription
	counts        Counts
}

// override is the boot source for once or for all; without a mode it is the
// BMC's usual.
type override struct{ enabled, target, mode string }

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
	// Installers is how often a medium was booted, whatever came of it.
	Installers int `json:"installers"`
	Sessions   int `json:"sessions"`           // sessions that were opened
	Denied     int `json:"denied"`             // logins that were not accepted
	Tasks      int `json:"tasks,omitempty"`    // tasks and jobs that were begun
	Lockouts   int `json:"lockouts,omitempty"` // times that an account was locked
	Requests   int `json:"requests"`           // requests of any kind to the BMC
	// Subscriptions is how many were made to the BMC's events, of which there
	// were Events.
	Subscriptions int `json:"subscriptions,omitempty"`
	Events        int `json:"events,omitempty"`
	// FirstWrite and LastWrite are when requests that asked for a change came.
	FirstWrite time.Time `json:"firstWrite,omitzero"`
	LastWrite  time.Time `json:"lastWrite,omitzero"`
}

// State is a machine as a person beside it sees it.
type State struct {
	Name        string       `json:"name"`
	Personality string       `json:"personality"`
	Power       string       `json:"power"`
	BootOrder   []string     `json:"bootOrder"`
	Media       string       `json:"media,omitempty"`
	BootURL     string       `json:"bootURL,omitempty"` // that a boot by HTTP is from
	DiskDigest  string       `json:"diskDigest,omitempty"`
	Marker      *site.Marker `json:"marker,omitempty"`
	Runs        string       `json:"runs,omitempty"`
	Fault       Fault        `json:"fault,omitzero"`
	BootID      string       `json:"bootID,omitempty"` // of what runs
	Folder      string       `json:"folder,omitempty"` // of the files of a real machine
	Sessions    int          `json:"sessions"`
	Counts      Counts       `json:"counts"`
}

func newMachine(f *Fleet, c MachineConfig, kind *personality) *Machine {
	if c.Capture != "" {
		c.identify(kind)
	}
	c.Identity.UUID = strings.ToLower(c.Identity.UUID)
	m := &Machine{fleet: f, config: c, kind: kind, power: off, override: override{"Disabled", "None", ""}, sessions: map[string]session{}, turn: make(chan struct{}, 1)}
	m.head, m.bmcSide.machine, m.osSide.machine = m, m, m
	targets := c.BootOrder
	if len(targets) == 0 {
		targets = []string{"Hdd", "Pxe"}
	}
	for _, t := range targets {
		if ref := kind.boot.reference(t); ref != "" {
			m.order = append(m.order, ref)
		}
	}
	if len(c.BootOrder) == 0 && kind.boot.order != nil {
		m.order = slices.Clone(kind.boot.order)
	}
	for i, s := range kind.media.slots {
		if s.inserted != "" {
			m.insertLocked(i, insertion{image: s.inserted})
		}
	}
	m.bios.current = maps.Clone(c.BIOS)
	if c.Real.bios() {
		m.override.mode = "Legacy"
	}
	if !c.Blank && c.Real == nil {
		m.disk = disk{digest: "factory", marker: c.Marker}
		m.in = furnished(c.Inside)
	}
	if !c.Blank && c.Marker != nil {
		m.disk.digest = cmp.Or(c.Marker.Image, "factory")
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

// end stops the machine where it is.
func (m *Machine) end() {
	locked(m, func() any { m.breakLocked(); return nil })
	m.bmcSide.end()
	m.osSide.end()
}

// breakLocked drops everything that goes on by itself.
func (m *Machine) breakLocked() {
	m.epoch++
	if m.timer != nil {
		m.timer.Stop()
	}
	if m.unfetch != nil {
		m.unfetch()
	}
	m.cutLocked()
}

// afterLocked does something after a time of the model, unless the power
// changes before.
func (m *Machine) afterLocked(d time.Duration, do func()) {
	epoch := m.epoch
	m.timer = time.AfterFunc(m.fleet.scaled(m.variedLocked(d)), func() { m.during(epoch, do) })
}

// during does something if the power has not changed since the epoch.
func (m *Machine) during(epoch int, do func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.epoch == epoch && m.fleet.ctx.Err() == nil {
		do()
	}
}

// variedLocked is a duration with the model's jitter.
func (m *Machine) variedLocked(d time.Duration) time.Duration {
	j := m.fleet.config.Latency.Jitter
	if j == 0 || d == 0 {
		return d
	}
	m.draws++
	return time.Duration(float64(d) * (1 + j*(2*m.fleet.draw("jitter "+m.config.Name, m.draws)-1)))
}

// turnLocked begins a power change, which is complete after a time of the
// model. Whatever ran is gone.
func (m *Machine) turnLocked(via string, d time.Duration, to string) {
	m.breakLocked()
	m.stopBIOSLocked()
	m.power = via
	m.osSide.cut()
	m.afterLocked(d, func() { m.arriveLocked(to) })
}

// arriveLocked is the moment at which a power state is reached.
func (m *Machine) arriveLocked(state string) {
	m.power = state
	if state == off {
		m.offAt = time.Now()
	}
	m.running, m.progress, m.bootID = "", "", ""
	m.osSide.cut()
	if state == on {
		m.bootLocked(time.Now())
	}
}

// bootLocked boots from the override or the boot order; the override is then
// used up.
func (m *Machine) bootLocked(at time.Time) {
	m.counts.Boots++
	m.order, m.nextOrder = m.pendingOrderLocked(), nil
	m.bootBIOSLocked()
	targets := m.targetsLocked()
	overridden := m.override.enabled != "Disabled" && !m.suffersLocked(FaultOverrideIgnored)
	if overridden {
		targets = append([]string{m.override.target}, targets...)
	}
	if m.override.enabled == "Once" && !m.suffersLocked(FaultOverrideSticks) {
		m.override.enabled, m.override.target = "Disabled", "None"
	}
	if m.computer != nil {
		t := firmwareTries{targets: targets, medium: m.insertedLocked()}
		if t.medium != "" && m.suffersLocked(FaultNotMapped) {
			t.medium = ""
		}
		m.runLocked(t)
		return
	}
	for i, t := range targets {
		overridden = overridden && i == 0
		if url := m.insertedLocked(); (t == "Cd" || t == "UsbCd") && url != "" && !m.suffersLocked(FaultNotMapped) {
			m.installLocked(url, false)
			return
		}
		if t == "UefiHttp" && overridden && m.httpURI != "" && m.override.mode != "Legacy" {
			m.installLocked(m.httpURI, true)
			return
		}
		if t == "Hdd" && m.disk.digest != "" {
			m.bootID = bootID(m.fleet.config.Seed, m.config.Name, m.counts.Boots)
			m.in.boot()
			m.running, m.progress, m.upAt = "system", "OSBootStarted", at.Add(m.fleet.scaled(m.variedLocked(m.fleet.config.Latency.Boot)))
			return
		}
	}
	m.progress = "SystemHardwareInitializationComplete" // nothing to boot from
}

// bootID is the random id that a system has from its nth boot on.
func bootID(seed, name string, n int) string {
	id := sha256.Sum256(fmt.Appendf(nil, "%s %s %d", seed, name, n))
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16])
}

// installLocked runs an installer: it fetches its image, writes the disk and
// powers the machine off. An image that cannot be fetched halts the machine
// and leaves the disk; power that goes while the disk is written leaves it
// blank.
func (m *Machine) installLocked(url string, byHTTP bool) {
	m.counts.Installers++
	m.running, m.progress = "installer", "OSBootStarted"
	epoch, f := m.epoch, m.fleet
	ctx, cancel := context.WithCancel(f.ctx)
	m.unfetch = cancel
	f.work.Go(func() {
		defer cancel()
		image, err := f.fetch(ctx, url, byHTTP)
		m.during(epoch, func() {
			if err != nil {
				m.running, m.progress = "", "None"
				return
			}
			m.disk, m.in = disk{}, inside{}
			m.afterLocked(f.config.Latency.Install, func() { m.installedLocked(image) })
		})
	})
}

// installedLocked is the end of an installer.
func (m *Machine) installedLocked(image disk) {
	m.disk, m.in = image, inside{}
	m.counts.Installs++
	m.turnLocked(poweringOff, m.fleet.config.Latency.PowerOff, off)
}

// acceptLocked begins a power change that was asked for.
func (m *Machine) acceptLocked(via string, d time.Duration, to string) {
	m.counts.Resets++
	m.logLocked("OK", "Power: "+via+" by request.")
	m.reset = time.Now()
	m.turnLocked(via, d, to)
}

// listensLocked says whether a system runs that does as it is told.
func (m *Machine) listensLocked() bool {
	return m.systemUpLocked() && m.fault.Kind != FaultNoShutdown
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
		targets[i] = m.kind.boot.alias(ref)
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
		return State{Name: m.config.Name, Personality: m.kind.name, Power: m.power, BootOrder: m.targetsLocked(), Media: m.insertedLocked(), BootURL: m.httpURI, DiskDigest: m.disk.digest,
			Marker: m.disk.marker, Runs: m.running, Fault: m.fault, BootID: m.bootID, Folder: m.Folder(), Sessions: len(m.sessions), Counts: m.counts}
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

// SetPower switches the machine "on" or "off" at once, behind everybody's
// back. A machine that is so already goes on with what it does. A real machine's power is cut:
// its process is gone when this returns.
func (m *Machine) SetPower(state string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	want := map[string]string{"on": on, "off": off}[state]
	if want == "" || want == m.power || m.fleet.ctx.Err() != nil {
		return
	}
	m.breakLocked()
	m.arriveLocked(want)
}

// SetBootOrder changes the boot order behind everybody's back.
func (m *Machine) SetBootOrder(targets ...string) error {
	var refs []string
	for _, t := range targets {
		ref := m.kind.boot.reference(t)
		if ref == "" {
			return noTarget(t)
		}
		refs = append(refs, ref)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.order = refs
	return nil
}

// SetFault makes something wrong with the machine; the zero Fault heals it.
// A fault that is met in connecting ends the connections that there are, as
// does its end.
func (m *Machine) SetFault(f Fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f.ofConnections() || m.fault.ofConnections() {
		m.bmcSide.cut()
	}
	m.fault, m.tls = f, nil
}

// ForgetSessions ends all sessions, as a restart of the BMC does.
func (m *Machine) ForgetSessions() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.sessions)
}

// ClearFault heals the machine.
func (m *Machine) ClearFault() { m.SetFault(Fault{}) }

// bootTargets are the targets of the boot options that every machine has.
var bootTargets = []string{"Hdd", "Pxe", "Cd", "UefiHttp", "Usb"}

func noTarget(t string) error {
	return fmt.Errorf("there is no boot target %q; there are: %s", t, strings.Join(bootTargets, ", "))
}

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
