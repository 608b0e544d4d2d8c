// Package drivertest checks drivers against the contract of package driver. Run is the suite that
// each driver's tests call. Fleet is a fleet in memory with a driver that passes it, for tests that
// need machines and no protocol.
package drivertest

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

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
	// Identity is the true identity of the machine.
	Identity site.Identity
	// Step is the step that the request was a part of.
	Step site.Step
	// First is set for the first request of a step.
	First bool
}

// Fact is the true state of a facet from a time on, as a person beside the machine would see it.
type Fact struct {
	When  time.Time
	Facet site.Facet
	Have  site.Values
}

// NewFleet returns a fleet of new machines.
func NewFleet(c Config, names ...string) *Fleet {
	f := &Fleet{config: c, machines: map[string]*FakeMachine{}}
	for _, name := range names {
		f.Add(name)
	}
	return f
}

// Add adds a machine that is off, blank and healthy.
func (f *Fleet) Add(name string) *FakeMachine { return f.AddAs(name, f.config) }

// AddAs is Add for a machine with its own Config.
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

// dice returns the random source of one machine, independent of other machines.
func dice(seed uint64, name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// Machine returns the machine of that name, nil if there is none.
func (f *Fleet) Machine(name string) *FakeMachine {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.machines[name]
}

// Driver returns the driver for the machines' BMCs, for any endpoint scheme.
func (f *Fleet) Driver() driver.Driver { return bmcDriver{f} }

// OSDriver returns the driver for the installed systems.
func (f *Fleet) OSDriver() driver.Driver { return osDriver{f} }

// Watch calls told with every accepted request for a change before it is carried out.
func (f *Fleet) Watch(told func(Call)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watch = told
}

// OverNetwork and the name of a machine replace the medium's URL for a network boot, and the token
// if the machine is told to start the agent.
const OverNetwork = "over the network: "

// Serve sets what machines find on a medium of Slipway's agent at a URL when they boot from it: the
// token of the boot, or nothing. A machine that boots over the network asks for OverNetwork and its
// name, and starts the agent if that is served.
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

// Calls returns the accepted requests for changes so far, of all machines.
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

// Swap exchanges the addresses of two machines. Each keeps its state, and faults stay with the
// address.
func (f *Fleet) Swap(one, other string) {
	if one == other {
		return
	}
	a, b := f.Machine(min(one, other)), f.Machine(max(one, other))
	defer a.look()()
	a.swapWith(b)
}

// swapWith exchanges the address of a locked machine with another machine's.
func (m *FakeMachine) swapWith(other *FakeMachine) {
	defer other.look()()
	m.body, other.body = other.body, m.body
	for _, one := range []*FakeMachine{m, other} {
		one.exchanged(time.Now())
	}
}

// Step moves all past and future events of the machines in time, as when the clock that tests read
// is set.
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
