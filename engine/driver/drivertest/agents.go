package drivertest

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Agents are the agents of a fleet's machines, as one daemon listens to them. Another daemon knows
// only the boots that it is told of.
type Agents struct {
	fleet *Fleet
	// calls is how long an agent takes to call once its machine has booted, installs how long an
	// installation takes.
	calls, installs time.Duration
	changes         chan struct{}

	mu     sync.Mutex
	off    error
	boots  map[string]*fakeBoot
	tokens int
	hear   func(node, text string)
	// asked are the installations that agents were asked for, in order.
	asked []Ordered
	// erased are the disks that agents erased, in order.
	erased []string
}

// Ordered is an installation that an agent was asked for.
type Ordered struct {
	Node string
	Step site.Step
	driver.Installation
}

type fakeBoot struct {
	driver.Boot
	token, key string
	words      *FakeWords // nil in a daemon that knows only the digest
	agent      *fakeAgent
}

// FakeWords are what the medium of one boot says.
type FakeWords struct{ Token string }

// On implements driver.Words.
func (w *FakeWords) On(io.ReaderAt, int64) (io.ReadSeeker, error) {
	return nil, errors.New("this medium is in memory alone")
}

// NewAgents returns the agents of a fleet. The arguments are the times that they take to call and
// to install. If installs is 0, each takes the InstallTime of its machine.
func NewAgents(f *Fleet, calls, installs time.Duration) *Agents {
	return &Agents{fleet: f, calls: calls, installs: installs, changes: make(chan struct{}, 1), boots: map[string]*fakeBoot{}}
}

// SetOff sets why no agent can call; nil means that they can.
func (a *Agents) SetOff(why error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.off = why
}

// Asked returns the installations that agents were asked for so far.
func (a *Agents) Asked() []Ordered {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.asked)
}

func (a *Agents) noteAsked(o Ordered) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, o)
}

// Erased returns the disks that agents erased as the design asks, in order.
func (a *Agents) Erased() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.erased)
}

func (a *Agents) noteErased(disk string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.erased = append(a.erased, disk)
}

// Expected returns the nodes whose agents are expected.
func (a *Agents) Expected() (names []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name := range a.boots {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Serving implements driver.Agents.
func (a *Agents) Serving() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.off
}

// Medium implements driver.Agents.
func (a *Agents) Medium() string { return "ramdisk" }

// Changes implements driver.Agents.
func (a *Agents) Changes() <-chan struct{} { return a.changes }

// Expect implements driver.Agents.
func (a *Agents) Expect(b driver.Boot) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tokens++
	token := fmt.Sprintf("token-%d-%s-%d", a.tokens, b.Node, time.Now().UnixNano())
	a.boots[b.Node] = &fakeBoot{Boot: b, token: site.TokenDigest(token), words: &FakeWords{token}}
	return site.TokenDigest(token), nil
}

// Recall implements driver.Agents.
func (a *Agents) Recall(b driver.Boot, token, key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if is := a.boots[b.Node]; is == nil || is.token != token {
		a.boots[b.Node] = &fakeBoot{Boot: b, token: token, key: key}
	}
}

// Hear implements driver.Agents.
func (a *Agents) Hear(hear func(node, text string)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hear = hear
}

// Say makes the agent of a node say something.
func (a *Agents) Say(node, text string) {
	a.mu.Lock()
	hear := a.hear
	a.mu.Unlock()
	if hear != nil {
		hear(node, text)
	}
}

// Words implements driver.Agents.
func (a *Agents) Words(node string) driver.Words {
	a.mu.Lock()
	defer a.mu.Unlock()
	if b := a.boots[node]; b != nil && b.words != nil {
		return b.words
	}
	return nil
}

// Directions implements driver.Agents.
func (a *Agents) Directions(b driver.Boot) (string, error) {
	return "slipway.daemon=" + b.Daemon + ":9481", nil
}

// Refused implements driver.Agents.
func (a *Agents) Refused(node string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.boots[node]
	if b == nil {
		return ""
	}
	return b.refusedOn(a.fleet.Machine(node), a.calls)
}

// refusedOn says why the agent on a machine, which takes some time to call, is refused.
func (b *fakeBoot) refusedOn(m *FakeMachine, takes time.Duration) string {
	defer m.look()()
	u := m.unkind
	switch calls := m.on && m.memory && time.Since(m.booted) >= m.config.PostTime+takes+u.Late; {
	case !calls:
	case u.Denied != "":
		return "an agent at 192.0.2.77 was refused: " + u.Denied
	case u.Other.Known() && !b.Machine.Matches(u.Other):
		return fmt.Sprintf("an agent at 192.0.2.77 was refused: The token is for %s, and this is another machine: its UUID is %s.", b.Node, u.Other.UUID)
	}
	return ""
}

// Forget implements driver.Agents.
func (a *Agents) Forget(node string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.boots, node)
}

// Agent implements driver.Agents. It returns the agent with the token of the boot, the key that
// used it, and a matching identity.
func (a *Agents) Agent(node string) driver.Agent {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.boots[node]
	if b == nil || a.off != nil {
		return nil
	}
	m := a.fleet.Machine(node)
	key, calls := b.calledFrom(m, a.calls)
	if !calls {
		return nil
	}
	b.key = key
	if b.agent == nil {
		b.agent = &fakeAgent{of: a, m: m, node: node, key: key}
	}
	return b.agent
}

// calledFrom reports whether the agent on a machine, which takes some time to call, is accepted, and its key.
func (b *fakeBoot) calledFrom(m *FakeMachine, takes time.Duration) (key string, calls bool) {
	defer m.look()()
	u := m.unkind
	key = fmt.Sprintf("key-%d", m.boots)
	is := m.identity
	if u.Other.Known() {
		is = u.Other
	}
	switch {
	case !m.on || !m.memory || m.token == "" || site.TokenDigest(m.token) != b.token && (m.token != OverNetwork+m.name || len(b.From) == 0),
		time.Since(m.booted) < m.config.PostTime+takes+u.Late, u.Silent, u.Denied != "",
		!b.Machine.Matches(is), b.key != "" && b.key != key,
		!m.lost.IsZero() && (!u.Returns || time.Since(m.lost) < time.Minute):
		return "", false
	}
	return key, b.key != "" || b.Until.IsZero() || !time.Now().After(b.Until)
}

// Announce tells the daemon of agents that have called since it was last told.
func (a *Agents) Announce() {
	a.mu.Lock()
	var awaited []string
	for name, b := range a.boots {
		if b.agent == nil {
			awaited = append(awaited, name)
		}
	}
	a.mu.Unlock()
	if slices.ContainsFunc(awaited, func(name string) bool { return a.Agent(name) != nil }) {
		select {
		case a.changes <- struct{}{}:
		default:
		}
	}
}
