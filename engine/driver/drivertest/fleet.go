// Package drivertest holds every driver to the contract of package driver: Run
// is the suite that each driver's tests call, and Fleet is a fleet in memory
// with a driver that passes it, for tests that need machines and no protocol.
package drivertest

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Config is how the machines of a fleet behave. The zero value answers at
// once; inside a testing/synctest bubble the durations are virtual.
type Config struct {
	// Latency is what every request takes; Reads and Writes are what those
	// that ask and those that change take instead, if they are set, and Inside
	// what those to the installed system do.
	Latency               time.Duration
	Reads, Writes, Inside Range
	// PowerTime is the time from a power request to its effect.
	PowerTime time.Duration
	// PostTime is the time from power-on to booting from a medium or the disk,
	// and to staged firmware and settings being in effect.
	PostTime time.Duration
	// InstallTime is the time from booting a medium to the installer
	// powering the machine off.
	InstallTime time.Duration
	// OSTime is the time from booting to the installed system answering.
	OSTime time.Duration
	// StepTime is what the steps take that stage something or work inside the
	// system, beside their requests.
	StepTime map[site.Action]time.Duration
	// NeedsBoot are the facets inside of which a step has its effect at the next
	// boot, as upgrades of a kernel have.
	NeedsBoot []site.Facet
	// GraceTime is how long a system may take to shut down before its power is
	// cut.
	GraceTime time.Duration
	// Flaky is the share of requests that fail: refused as busy, timed out, or
	// carried out and not answered.
	Flaky float64
	// Seed is what latencies and failures are drawn from.
	Seed uint64
	// Manufacturer and Model are what the machine says it is; "Fake" and
	// "Memory" if empty.
	Manufacturer, Model string
	// Secret is the credential that machines accept; the zero value accepts
	// any.
	Secret secret.Value
}

// Range is what a duration is drawn from, each time anew.
type Range struct{ From, To time.Duration }

// flakeTime is after how long a request without an answer is given up.
const flakeTime = 10 * time.Second

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
	Hangs        Fault = "hangs"         // until the context or the fault ends
	Garbled      Fault = "garbled"       // an answer that makes no sense
	Rebellious   Fault = "rebellious"    // the system does not shut down when asked to
	// Forgetful machines take changes of their firmware and settings, boot for
	// them, and are as before.
	Forgetful Fault = "forgetful"
	// Failing ones do the same, and then say that it failed.
	Failing Fault = "failing"
)

// BusySeconds is the Retry-After of a busy machine.
const BusySeconds = 20

// Fleet is machines in memory. An endpoint's host is the name of a machine.
type Fleet struct {
	config Config

	mu       sync.Mutex
	machines map[string]*FakeMachine
	calls    []Call
	watch    func(Call)
	reads    func(url string) (token string, served bool)
	witness  func(Event)
}

// Call is one request for a change that a machine accepted.
type Call struct {
	When    time.Time
	Machine string
	// Identity is what the machine truly was.
	Identity site.Identity
	// Step is the step that the request was a part of.
	Step site.Step
	// First is set for the first request of a step.
	First bool
}

// Fact is what a facet of a machine was from a time on, as a person beside it
// would see.
type Fact struct {
	When  time.Time
	Facet site.Facet
	Have  site.Values
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
func (f *Fleet) Add(name string) *FakeMachine { return f.AddAs(name, f.config) }

// AddAs is Add for a machine that behaves in its own way.
func (f *Fleet) AddAs(name string, c Config) *FakeMachine {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := &FakeMachine{
		fleet: f, name: name, config: c, dice: dice(c.Seed, name),
		body: body{
			order: "Hdd,Pxe", mode: "uefi",
			inside: map[site.Facet]site.Values{}, pending: map[site.Facet]site.Values{}, runs: map[site.Facet]run{}, owned: map[site.Facet][]string{},
			waits: map[site.Facet]bool{}, actions: map[string]action{}, began: map[string]int{},
			identity: site.Identity{UUID: fmt.Sprintf("00000000-0000-4000-8000-%012d", len(f.machines)+1), Serial: "FAKE-" + name},
		},
	}
	f.machines[name] = m
	return m
}

// dice are those of one machine, whatever others there are.
func dice(seed uint64, name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
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

// Watch has every accepted request for a change told before it is carried out.
func (f *Fleet) Watch(told func(Call)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watch = told
}

// OverNetwork and the name of a machine are in the place of the URL where the machine starts over
// the network, and in that of the token where it is told to start the agent.
const OverNetwork = "over the network: "

// Serve says what machines find on a medium of Slipway's agent at a URL when they boot from
// it: the token of the boot, or nothing. One that starts over the network asks for OverNetwork
// and its name, and starts the agent where that is served.
func (f *Fleet) Serve(reads func(url string) (token string, served bool)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads = reads
}

func (f *Fleet) read(url string) (token string, served bool) {
	f.mu.Lock()
	reads := f.reads
	f.mu.Unlock()
	if reads == nil {
		return "", false
	}
	return reads(url)
}

// Calls are the accepted requests for changes so far, of all machines.
func (f *Fleet) Calls() []Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

func (f *Fleet) called(c Call) {
	f.mu.Lock()
	f.calls = append(f.calls, c)
	told := f.watch
	f.mu.Unlock()
	if told != nil {
		told(c)
	}
}

// SetHealth has the first probe of the system's health say what is wrong, or none be
// looked at for a reason; empty texts are that all pass.
func (m *FakeMachine) SetHealth(unwell, unread string) {
	defer m.look()()
	m.unwell, m.unread = unwell, unread
}

// Serves says whether the machine's system runs and its service is well.
func (m *FakeMachine) Serves() bool {
	defer m.look()()
	return m.answers() && m.unwell == ""
}

// SetLinks has the system see its ports so, hear so much of their neighbours where it
// listens, and none of some addresses answer.
func (m *FakeMachine) SetLinks(ports []item.Port, heard map[string]item.Neighbour, silent ...string) {
	defer m.look()()
	m.links.ports, m.links.heard, m.links.silent = ports, heard, silent
}

// Tried are the targets that the last look at links tried.
func (m *FakeMachine) Tried() []item.Target {
	defer m.look()()
	return m.links.tried
}

// Listens is how often the ports were listened to.
func (m *FakeMachine) Listens() int {
	defer m.look()()
	return m.links.listens
}

// Counts is what was asked of a machine.
type Counts struct {
	Reads  int
	Writes int // requests that ask for a change, also if it is already so
	Resets int // power changes that were begun
	// Installs counts the boots of an installer, each of which loses what is
	// on the disk.
	Installs int
	// Inspections counts those that were begun.
	Inspections int
	// Strays are the changes that another machine in the place of this one was
	// asked for, and took.
	Strays int
	// Logins counts the logins that reached the machine, and Denied those that
	// it did not accept.
	Logins, Denied int
}

// FakeMachine is one machine. What happens by itself with time is worked out
// whenever the machine is looked at, so it needs no goroutine.
type FakeMachine struct {
	fleet *Fleet
	name  string

	mu       sync.Mutex
	config   Config
	dice     *rand.Rand
	fault    Fault
	counts   Counts
	requests int // of any kind
	replaced int // the request from which another machine answers; 0 for none
	facts    []Fact
	body
}

// body is the machine itself, which may answer at another address.
type body struct {
	identity  site.Identity
	on        bool
	changes   time.Time // when a power change takes effect; zero for none
	order     string
	mode      string       // "uefi" or "bios"
	media     *site.Marker // the inserted image, and what it installs
	once      bool         // the next boot is from the medium
	ramdisk   string       // the URL of the agent's medium, where that is inserted
	memory    bool         // it runs the agent's medium, or hangs in it
	token     string       // that the agent found on the medium
	unkind    Unkind
	lost      time.Time    // when the agent was last lost; zero since the machine was started
	finishes  *site.Marker // what an agent that cannot call is installing, until finishAt
	finishAt  time.Time
	seen      []item.Disk  // those that an agent tells
	cabled    []site.NIC   // the same of network adapters
	installer *site.Marker // the running installer's image
	ends      time.Time    // when the installer powers the machine off
	disk      *site.Marker // the installed system; its Node is empty without a marker
	hostKey   string       // of a system that an agent has installed; empty where none is asked for
	forged    *site.Marker // what the installed system claims instead; nil for the truth
	booted    time.Time
	boots     int
	restart   bool                       // the power change is off and on again
	inside    map[site.Facet]site.Values // what the installed system is set to
	pending   map[site.Facet]site.Values // staged until the next boot
	posting   map[site.Facet]site.Values // taken over by the boot under way
	runs      map[site.Facet]run         // what goes on inside
	owned     map[site.Facet][]string    // the items that were made inside, by facet
	waits     map[site.Facet]bool        // what was made inside has its effect at the next boot
	actions   map[string]action          // what was done once in the installation, by name
	began     map[string]int             // and how often in all of them
	// failActions has boot actions fail.
	failActions bool
	virtual     *domain         // nil for a physical machine
	parts       *site.Inventory // what an inspection tells; nil for none
	log         []site.Entry
	unwell      string // what the first probe of the system's health says is wrong
	unread      string // why its health cannot be looked at
	links       links
}

// Made says what an inspection tells of the machine from now on.
func (m *FakeMachine) Made(parts *site.Inventory) {
	defer m.look()()
	m.parts = parts
	m.tell(Disks, time.Now(), site.Marker{})
}

// Logs adds an entry to the machine's own log.
func (m *FakeMachine) Logs(e site.Entry) {
	defer m.look()()
	m.log = append(m.log, e)
}

// run is a step that goes on inside the system, whoever waits for it.
type run struct {
	want site.Values
	ends time.Time
	// owned are the items that are ours when it has ended.
	owned []string
}

// Node is the machine as a node of a design: named, bound by identity, with a
// bmc and an os endpoint.
func (m *FakeMachine) Node() *site.Node {
	return &site.Node{Name: m.name, Identity: m.Identity(), Endpoints: map[site.EndpointKind]site.Endpoint{
		site.Manager: {URL: "redfish+https://" + m.name + "/redfish/v1/Systems/1", Credential: "bmc"},
		site.OS:      {URL: "ssh://" + m.name, Credential: "os"},
	}}
}

// Configure changes how the machine behaves.
func (m *FakeMachine) Configure(change func(*Config)) {
	defer m.look()()
	change(&m.config)
}

func (m *FakeMachine) settings() Config {
	defer m.look()()
	return m.config
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
	m.setOrder(order)
}

// setBoot makes the boot as designed, as far as it is.
func (m *FakeMachine) setBoot(b site.Boot) {
	if b.Mode != "" {
		m.mode = b.Mode
	}
	if len(b.Order) > 0 {
		m.setOrder(strings.Join(b.Order, ","))
	}
}

func (m *FakeMachine) setOrder(order string) {
	m.order = order
	m.facts = append(m.facts, Fact{When: time.Now(), Facet: site.FacetBoot, Have: site.Values{"order": order}})
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
	m.format(marker, time.Now())
}

// Have is what a facet is, as a person beside the machine sees it.
func (m *FakeMachine) Have(f site.Facet) site.Values {
	defer m.look()()
	return maps.Clone(m.have(f))
}

// SetHave changes a facet of the installed system, or firmware and its
// settings, behind everybody's back.
func (m *FakeMachine) SetHave(f site.Facet, v site.Values) {
	defer m.look()()
	m.set(f, v, time.Now())
}

// Facts are what the machine was so far: its power, boot order and image, its
// firmware and settings, and what is set inside.
func (m *FakeMachine) Facts() []Fact {
	defer m.look()()
	return slices.Clone(m.facts)
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
	m.endRuns(now)
	if at := m.changes; !at.IsZero() && !now.Before(at) {
		again := m.restart
		m.switchTo(!m.on, at)
		if again {
			m.switchTo(!m.on, at)
		}
	}
	if m.alone(now) {
		m.install(m.finishes, m.finishAt)
		if m.finishes, m.lost = nil, (time.Time{}); m.unkind.Leaves {
			m.lost = m.finishAt
			m.alone(now)
		}
	}
	if at := m.booted.Add(m.config.PostTime); m.on && !now.Before(at) {
		for f, v := range m.posting {
			if m.fault != Forgetful && m.fault != Failing {
				m.set(f, v, at)
			}
			if maps.Equal(m.pending[f], v) {
				delete(m.pending, f)
			}
		}
		m.posting = nil
	}
	m.firstBoot(now)
	if m.installer != nil && !now.Before(m.ends) {
		m.format(m.installer, m.ends)
		m.switchTo(false, m.ends)
	}
	return m.mu.Unlock
}

// endRuns brings to their end the steps inside that end by now, and before the
// power changes, which ends the others as they are.
func (m *FakeMachine) endRuns(now time.Time) {
	if !m.changes.IsZero() && m.changes.Before(now) {
		now = m.changes
	}
	for f, r := range m.runs {
		if !now.Before(r.ends) {
			m.set(f, r.want, r.ends)
			m.owned[f] = r.owned
			m.waits[f] = slices.Contains(m.config.NeedsBoot, f)
			delete(m.runs, f)
		}
	}
}

// set notes what a facet is from now on.
func (m *FakeMachine) set(f site.Facet, v site.Values, at time.Time) {
	m.inside[f] = v
	m.facts = append(m.facts, Fact{When: at, Facet: f, Have: v})
}

// format puts a new system, or none, onto the disk; what was set inside the
// one before is gone.
func (m *FakeMachine) format(marker *site.Marker, at time.Time) {
	m.disk, m.forged, m.hostKey = marker, nil, ""
	clear(m.owned)
	clear(m.actions)
	for f, kind := range site.Facets {
		if kind.Endpoint == site.OS && m.inside[f] != nil {
			m.set(f, nil, at)
		}
	}
	have := site.Values{}
	if marker != nil {
		have["generation"] = fmt.Sprint(marker.Generation)
	}
	m.facts = append(m.facts, Fact{When: at, Facet: site.FacetImage, Have: have})
}

// switchTo is the moment at which the power changes.
func (m *FakeMachine) switchTo(on bool, at time.Time) {
	m.changes, m.restart = time.Time{}, false
	if m.on == on {
		return
	}
	m.on, m.installer, m.memory, m.token, m.lost, m.finishes = on, nil, false, "", time.Time{}, nil
	clear(m.runs)
	clear(m.waits)
	m.facts = append(m.facts, Fact{When: at, Facet: site.FacetPower, Have: site.Values{"state": state(on)}})
	if !on {
		return
	}
	m.booted, m.posting = at, maps.Clone(m.pending)
	m.boots++
	if m.once && m.ramdisk != "" {
		m.memory = true
		m.token, _ = m.fleet.read(m.ramdisk)
		if strings.HasPrefix(m.ramdisk, OverNetwork) { // it goes on with its disk where it is told nothing
			m.memory, m.ramdisk = m.token != "", ""
		}
	}
	if m.once && m.media != nil {
		m.counts.Installs++
		m.tell(Installed, at, *m.media)
		m.format(nil, at)
		m.installer, m.ends = m.media, at.Add(m.config.PostTime+m.config.InstallTime)
	}
	m.once = false
}

// reset asks for power; the effect comes with time.
func (m *FakeMachine) reset(on bool, after time.Duration) {
	defer m.look()()
	if heading := m.on == m.changes.IsZero() || m.restart; heading == on {
		return
	}
	m.counts.Resets++
	m.restart = false
	if m.on == on {
		m.changes = time.Time{}
		return
	}
	m.changes = time.Now().Add(after)
}

// boot asks a machine that is on for a restart, one that is off for power.
func (m *FakeMachine) boot() {
	defer m.look()()
	if !m.changes.IsZero() {
		return
	}
	m.counts.Resets++
	m.restart, m.changes = m.on, time.Now().Add(m.config.PowerTime)
}

// staysOff says whether the machine is off and not about to go on.
func (m *FakeMachine) staysOff() bool {
	defer m.look()()
	return !m.on && m.changes.IsZero()
}

// state is how often the machine was booted, and whether it is on.
func (m *FakeMachine) state() (boots int, on bool) {
	defer m.look()()
	return m.boots, m.on
}

// answers says whether the installed system can be reached.
func (m *FakeMachine) answers() bool {
	return m.on && m.disk != nil && m.installer == nil && !m.memory && !time.Now().Before(m.booted.Add(m.config.PostTime+m.config.OSTime))
}

func state(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// TakenOver has another machine, alike and in the same state, answer in the place
// of this one from the nth request on, the next being 1. What that one is asked
// for is counted as Strays.
func (m *FakeMachine) TakenOver(n int) {
	defer m.look()()
	m.replaced = m.requests + n
}

// Replace puts another machine in the place of this one, blank and off.
func (m *FakeMachine) Replace(i site.Identity) {
	defer m.look()()
	now := time.Now()
	m.identity, m.media, m.ramdisk, m.once, m.installer = i, nil, "", false, nil
	m.switchTo(false, now)
	m.format(nil, now)
	for f := range m.inside {
		m.set(f, nil, now)
	}
	clear(m.pending)
	m.posting = nil
	m.setOrder("Hdd,Pxe")
}

// Forge has the installed system claim to be another installation until it is
// replaced; nil ends that.
func (m *FakeMachine) Forge(marker *site.Marker) {
	defer m.look()()
	m.forged = marker
}

// Swap has two machines exchange their addresses. Each keeps the state that it is
// in, and faults stay with the address.
func (f *Fleet) Swap(one, other string) {
	if one == other {
		return
	}
	a, b := f.Machine(min(one, other)), f.Machine(max(one, other))
	defer a.look()()
	defer b.look()()
	a.body, b.body = b.body, a.body
	for _, m := range []*FakeMachine{a, b} {
		m.exchanged(time.Now())
	}
}

// exchanged notes as facts what another machine at the address is.
func (m *FakeMachine) exchanged(now time.Time) {
	for f := range site.Facets {
		m.facts = append(m.facts, Fact{When: now, Facet: f, Have: m.inside[f]})
	}
	image := site.Values{}
	if m.disk != nil {
		image["generation"] = fmt.Sprint(m.disk.Generation)
	}
	m.facts = append(m.facts,
		Fact{When: now, Facet: site.FacetPower, Have: site.Values{"state": state(m.on)}},
		Fact{When: now, Facet: site.FacetBoot, Have: site.Values{"order": m.order}},
		Fact{When: now, Facet: site.FacetImage, Have: image})
}

// Step moves everything that has happened or will happen to machines in time, as
// when the clock that tests read is set.
func (f *Fleet) Step(by time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.calls {
		f.calls[i].When = f.calls[i].When.Add(by)
	}
	for _, m := range f.machines {
		m.step(by)
	}
}

func (m *FakeMachine) step(by time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, at := range []*time.Time{&m.changes, &m.ends, &m.booted} {
		if !at.IsZero() {
			*at = at.Add(by)
		}
	}
	for facet, r := range m.runs {
		r.ends = r.ends.Add(by)
		m.runs[facet] = r
	}
	for i := range m.facts {
		m.facts[i].When = m.facts[i].When.Add(by)
	}
}
