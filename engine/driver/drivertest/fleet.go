// Package drivertest holds every driver to the contract of package driver: Run
// is the suite that each driver's tests call, and Fleet is a fleet in memory
// with a driver that passes it, for tests that need machines and no protocol.
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

// Swap has two machines exchange their addresses. Each keeps the state that it is
// in, and faults stay with the address.
func (f *Fleet) Swap(one, other string) {
	if one == other {
		return
	}
	a, b := f.Machine(min(one, other)), f.Machine(max(one, other))
	defer a.look()()
	a.swapWith(b)
}

// swapWith has a machine that is locked exchange its address with another one.
func (m *FakeMachine) swapWith(other *FakeMachine) {
	defer other.look()()
	m.body, other.body = other.body, m.body
	for _, one := range []*FakeMachine{m, other} {
		one.exchanged(time.Now())
	}
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
