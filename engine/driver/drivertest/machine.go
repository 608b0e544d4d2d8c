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
