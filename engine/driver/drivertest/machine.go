package drivertest

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// SetHealth makes the first health probe report unwell, or makes all probes unread
// for a reason. With empty texts all probes pass.
func (m *FakeMachine) SetHealth(unwell, unread string) {
	defer m.look()()
	m.unwell, m.unread = unwell, unread
}

// Serves reports whether the machine's system runs and its service is well.
func (m *FakeMachine) Serves() bool {
	defer m.look()()
	return m.answers() && m.unwell == ""
}

// SetLinks sets the ports that the system sees, the neighbours that it hears when it
// listens, and the addresses that do not answer.
func (m *FakeMachine) SetLinks(ports []item.Port, heard map[string]item.Neighbour, silent ...string) {
	defer m.look()()
	m.links.ports, m.links.heard, m.links.silent = ports, heard, silent
}

// Tried returns the targets that the last look at links tried.
func (m *FakeMachine) Tried() []item.Target {
	defer m.look()()
	return m.links.tried
}

// Listens returns how often the ports were listened to.
func (m *FakeMachine) Listens() int {
	defer m.look()()
	return m.links.listens
}

// Counts is what was asked of a machine.
type Counts struct {
	Reads  int
	Writes int // requests for a change, even if it is already so
	Resets int // power changes that began
	// Installs counts the boots of an installer. Each of them loses what is on
	// the disk.
	Installs int
	// Inspections counts inspections that began.
	Inspections int
	// Strays are the changes that another machine in place of this one was
	// asked for, and carried out.
	Strays int
	// Logins counts the logins that reached the machine, Denied those that it
	// rejected.
	Logins, Denied int
}

// FakeMachine is one machine. Its changes over time are computed whenever
// somebody looks at it, so it needs no goroutine.
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

// body is the machine itself, which may move to another address.
type body struct {
	identity  site.Identity
	on        bool
	changes   time.Time // when a power change takes effect; zero for none
	order     string
	mode      string       // "uefi" or "bios"
	media     *site.Marker // the inserted image, and what it installs
	once      bool         // the next boot is from the medium
	ramdisk   string       // the URL of the agent's medium, if that is inserted
	memory    bool         // the machine runs the agent's medium, or hangs in it
	token     string       // the token that the agent found on the medium
	unkind    Unkind
	lost      time.Time    // when the agent was last lost; zero since the machine was started
	finishes  *site.Marker // what an agent that cannot call installs until finishAt
	finishAt  time.Time
	seen      []item.Disk  // the disks that an agent reports
	cabled    []site.NIC   // the network adapters that an agent reports
	installer *site.Marker // the running installer's image
	ends      time.Time    // when the installer powers the machine off
	disk      *site.Marker // the installed system; its Node is empty without a marker
	hostKey   string       // of a system that an agent installed; empty if none is expected
	forged    *site.Marker // the claim of the installed system; nil for the truth
	booted    time.Time
	boots     int
	restart   bool                       // the power change is off and on again
	inside    map[site.Facet]site.Values // the settings of the installed system
	pending   map[site.Facet]site.Values // staged until the next boot
	posting   map[site.Facet]site.Values // taken over by the boot under way
	runs      map[site.Facet]run         // steps that go on inside
	owned     map[site.Facet][]string    // items that were made inside, by facet
	waits     map[site.Facet]bool        // facets whose changes take effect at the next boot
	actions   map[string]action          // what was done once in the installation, by name
	began     map[string]int             // how often actions began, in all installations
	// failActions makes boot actions fail.
	failActions bool
	virtual     *domain         // nil for a physical machine
	parts       *site.Inventory // what an inspection reports; nil for none
	log         []site.Entry
	unwell      string // what the first health probe reports as wrong
	unread      string // why its health cannot be looked at
	links       links
}

// Made sets what an inspection reports of the machine from now on.
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

// run is a step that goes on inside the system, whether or not somebody waits for it.
type run struct {
	want site.Values
	ends time.Time
	// owned are the items that are ours when it has ended.
	owned []string
}

// Node returns the machine as a node of a design: named, bound by identity,
// with a manager and an os endpoint.
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

// Identity returns the machine's true identity.
func (m *FakeMachine) Identity() site.Identity {
	defer m.look()()
	return m.identity
}

// SetFault makes the machine faulty, or healthy again.
func (m *FakeMachine) SetFault(f Fault) {
	defer m.look()()
	m.fault = f
}

// Counts returns what was asked of the machine so far.
func (m *FakeMachine) Counts() Counts {
	defer m.look()()
	return m.counts
}

// Requests returns how many requests of any kind reached the machine so far, also those that failed.
func (m *FakeMachine) Requests() int {
	defer m.look()()
	return m.requests
}

// Power returns "on" or "off", as a person beside the machine sees it.
func (m *FakeMachine) Power() string {
	defer m.look()()
	return state(m.on)
}

// SetPower switches the machine at once and unnoticed.
func (m *FakeMachine) SetPower(power string) {
	defer m.look()()
	m.switchTo(power == "on", time.Now())
}

// BootOrder returns the persistent boot order.
func (m *FakeMachine) BootOrder() string {
	defer m.look()()
	return m.order
}

// SetBootOrder changes the boot order unnoticed.
func (m *FakeMachine) SetBootOrder(order string) {
	defer m.look()()
	m.setOrder(order)
}

// setBoot applies the designed boot settings that are set.
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

// Disk returns the marker of the system on the disk, nil for a blank disk. Its
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

// Have returns the state of a facet, as a person beside the machine sees it.
func (m *FakeMachine) Have(f site.Facet) site.Values {
	defer m.look()()
	return maps.Clone(m.have(f))
}

// SetHave changes a facet of the installed system, or firmware and its
// settings, unnoticed.
func (m *FakeMachine) SetHave(f site.Facet, v site.Values) {
	defer m.look()()
	m.set(f, v, time.Now())
}

// Facts returns the machine's history so far: its power, boot order and image,
// its firmware and settings, and what is set inside.
func (m *FakeMachine) Facts() []Fact {
	defer m.look()()
	return slices.Clone(m.facts)
}

// Media returns the image in the virtual drive, nil for none.
func (m *FakeMachine) Media() *site.Marker {
	defer m.look()()
	return m.media
}

// TakenOver makes another machine, alike and in the same state, answer in place
// of this one from the nth request on, the next being 1. Requests to that machine
// count as Strays.
func (m *FakeMachine) TakenOver(n int) {
	defer m.look()()
	m.replaced = m.requests + n
}

// Replace puts another machine in place of this one, blank and off.
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

// Forge makes the installed system claim to be another installation until it is
// replaced; nil ends that.
func (m *FakeMachine) Forge(marker *site.Marker) {
	defer m.look()()
	m.forged = marker
}
