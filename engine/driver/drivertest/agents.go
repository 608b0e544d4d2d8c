package drivertest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Unkind is how the agent on a machine misbehaves; the zero value does not.
type Unkind struct {
	// Late is how much longer the agent takes to call; Silent ones never do.
	Late   time.Duration
	Silent bool
	// Vanishes has the connection be lost so long after an installation began, so often, and
	// the agent stay away unless the machine is started again. Returns has it call again with
	// the same key after a minute.
	Vanishes time.Duration
	Times    int
	Returns  bool
	// Works has an agent whose connection was lost go on installing for so long; it calls again
	// when it has ended, and not before.
	Works time.Duration
	// Tells has it tell the host keys of the new system before its connection is lost. Leaves has
	// it never call again: when it has ended, and could not call for long, it boots the machine
	// from its disk.
	Tells, Leaves bool
	// Other is the machine that the agent says it is on.
	Other site.Identity
	// Denied is why the daemon refuses the agent each time that it calls.
	Denied string
	// Lies has the agent say that it has installed, and install nothing.
	Lies bool
	// Refuses is why it refuses to install before it has written anything, Fails why it
	// fails after it has erased the disks.
	Refuses, Fails string
	// NotErased are disks that it does not manage to erase, by serial number, with the reason.
	// Without the wish of the design it erases none.
	NotErased map[string]string
	// Forgets has it erase the disks and tell nobody.
	Forgets bool
	// BootUnknown is why it does not know the entries of the firmware's boot manager.
	BootUnknown string
}

// Agents are the agents of a fleet's machines, as one daemon listens to them: another daemon
// knows of a boot only what it is told.
type Agents struct {
	fleet *Fleet
	// Calls is how long an agent takes to call once its machine has booted, Installs how
	// long an installation takes.
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
	words      *FakeWords // nil in a daemon that knows the digest alone
	agent      *fakeAgent
}

// FakeWords are what the medium of one boot says.
type FakeWords struct{ Token string }

// On implements driver.Words.
func (w *FakeWords) On(io.ReaderAt, int64) (io.ReadSeeker, error) {
	return nil, errors.New("this medium is in memory alone")
}

// NewAgents are the agents of a fleet. They take a time to call and to install; with none for
// that each takes the InstallTime of its machine.
func NewAgents(f *Fleet, calls, installs time.Duration) *Agents {
	return &Agents{fleet: f, calls: calls, installs: installs, changes: make(chan struct{}, 1), boots: map[string]*fakeBoot{}}
}

// SetOff says why no agent can call; nil for that they can.
func (a *Agents) SetOff(why error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.off = why
}

// Asked are the installations that agents were asked for so far.
func (a *Agents) Asked() []Ordered {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.asked)
}

// Erased are the disks that agents erased as the design asks, in order.
func (a *Agents) Erased() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.erased)
}

// Expected says which nodes' agents are expected.
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

// Say has the agent of a node say something.
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
	b, m := a.boots[node], a.fleet.Machine(node)
	if b == nil {
		return ""
	}
	defer m.look()()
	u := m.unkind
	switch calls := m.on && m.memory && time.Since(m.booted) >= m.config.PostTime+a.calls+u.Late; {
	case !calls:
	case u.Denied != "":
		return "an agent at 192.0.2.77 was refused: " + u.Denied
	case u.Other.Known() && !b.Machine.Matches(u.Other):
		return fmt.Sprintf("an agent at 192.0.2.77 was refused: The token is for %s, and this is another machine: its UUID is %s.", node, u.Other.UUID)
	}
	return ""
}

// Forget implements driver.Agents.
func (a *Agents) Forget(node string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.boots, node)
}

// Agent implements driver.Agents: the one that has the token of the boot, the key that used it,
// and an identity that fits.
func (a *Agents) Agent(node string) driver.Agent {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.boots[node]
	if b == nil || a.off != nil {
		return nil
	}
	m := a.fleet.Machine(node)
	unlock := m.look()
	defer unlock()
	u := m.unkind
	key := fmt.Sprintf("key-%d", m.boots)
	is := m.identity
	if u.Other.Known() {
		is = u.Other
	}
	switch {
	case !m.on || !m.memory || m.token == "" || site.TokenDigest(m.token) != b.token && (m.token != OverNetwork+m.name || len(b.From) == 0),
		time.Since(m.booted) < m.config.PostTime+a.calls+u.Late, u.Silent, u.Denied != "",
		!b.Machine.Matches(is), b.key != "" && b.key != key,
		!m.lost.IsZero() && (!u.Returns || time.Since(m.lost) < time.Minute):
		return nil
	}
	if b.key == "" && !b.Until.IsZero() && time.Now().After(b.Until) {
		return nil
	}
	b.key = key
	if b.agent == nil {
		b.agent = &fakeAgent{of: a, m: m, node: node, key: key}
	}
	return b.agent
}

// Announce tells the daemon of agents that have called since it was told last.
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

// Misbehave says how the agent on the machine behaves from now on.
func (m *FakeMachine) Misbehave(u Unkind) {
	defer m.look()()
	m.unkind, m.lost = u, time.Time{}
}

// givesUp is how long an agent without its daemon waits before it boots the machine from its
// disk, or switches it off where no system is there.
const givesUp = 15 * time.Minute

// alone is what the agent does on a machine while it cannot call.
func (m *body) alone(now time.Time) (ended bool) {
	since := m.lost
	if m.unkind.Silent || m.unkind.Denied != "" {
		since = m.booted
	}
	switch {
	case !m.on || !m.memory || m.unkind.Returns:
	case m.finishes != nil:
		return !now.Before(m.finishAt)
	case !since.IsZero() && !now.Before(since.Add(givesUp)):
		m.memory, m.lost = false, time.Time{}
		if m.booted, m.on = since.Add(givesUp), m.disk != nil; m.on {
			m.boots++
		}
	}
	return false
}

// Leave has the agent boot the machine from its disk by itself, as when it could not call for
// long.
func (m *FakeMachine) Leave() {
	defer m.look()()
	m.memory, m.lost, m.booted = false, time.Time{}, time.Now()
	m.boots++
}

// InMemory says whether the machine runs the agent's medium.
func (m *FakeMachine) InMemory() bool {
	defer m.look()()
	return m.on && m.memory
}

// HasDisks says which disks an agent on the machine tells.
func (m *FakeMachine) HasDisks(disks ...item.Disk) {
	defer m.look()()
	m.seen = disks
}

// HasNICs says which network adapters an agent on the machine tells.
func (m *FakeMachine) HasNICs(nics ...site.NIC) {
	defer m.look()()
	m.cabled = nics
}

// fakeAgent is the agent on one machine, over one connection.
type fakeAgent struct {
	of        *Agents
	m         *FakeMachine
	node, key string

	mu    sync.Mutex
	is    driver.Installation
	did   driver.Installed
	disks []item.Disk
	nics  []site.NIC
}

func (f *fakeAgent) Close() error { return nil }

// Host implements driver.Agent.
func (f *fakeAgent) Host() string { return "192.0.2.77" }

// Key implements driver.Agent.
func (f *fakeAgent) Key() string { return f.key }

// Disks implements driver.Agent.
func (f *fakeAgent) Disks() []item.Disk {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.disks
}

// Inventory implements driver.Agent.
func (f *fakeAgent) Inventory() *site.Inventory {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.disks == nil {
		return nil
	}
	i := &site.Inventory{Model: "fake", MemoryGiB: 15.5, Drives: []site.Drive{}, NICs: slices.Clone(f.nics)}
	for _, d := range f.disks {
		i.Drives = append(i.Drives, site.Drive{Part: site.Part{ID: d.Name, Serial: d.Serial, Model: d.Model}, Bytes: d.Bytes})
	}
	return i
}

// Prepare implements driver.Installer.
func (f *fakeAgent) Prepare(i driver.Installation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.is = i
}

// Installed implements driver.Installer.
func (f *fakeAgent) Installed() driver.Installed {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.did
}

// isHere says whether the agent is still connected.
func (f *fakeAgent) isHere() bool { return f.of.Agent(f.node) == driver.Agent(f) }

// Observe implements driver.Machine.
func (f *fakeAgent) Observe(ctx context.Context, _ *site.Node, _ []site.Facet) (site.Observed, error) {
	if !f.isHere() {
		return site.Observed{}, fmt.Errorf("%w: the agent has hung up", driver.ErrUnreachable)
	}
	unlock := f.m.look()
	is, disks, nics := f.m.identity, slices.Clone(f.m.seen), slices.Clone(f.m.cabled)
	unlock()
	f.mu.Lock()
	f.disks, f.nics = disks, nics
	f.mu.Unlock()
	return site.Observed{Identity: is, Facets: map[site.Facet]site.FacetState{}}, nil
}

// Apply implements driver.Machine: it erases right after it was permitted.
func (f *fakeAgent) Apply(ctx context.Context, step site.Step, n *site.Node, may driver.Permit) error {
	f.mu.Lock()
	is := f.is
	f.mu.Unlock()
	if !step.ByAgent() {
		return errors.ErrUnsupported
	}
	if !f.isHere() {
		return fmt.Errorf("%w: the agent has hung up", driver.ErrUnreachable)
	}
	if !step.Machine.Matches(f.m.Identity()) {
		return fmt.Errorf("%w: another machine", driver.ErrRefused)
	}
	if err := may.Ask(ctx, step); err != nil {
		return err
	}
	f.of.mu.Lock()
	f.of.asked = append(f.of.asked, Ordered{f.node, step, is})
	f.of.mu.Unlock()
	if step.Retires() {
		return f.retire(ctx, step, is)
	}
	var marker site.Marker
	if err := json.Unmarshal([]byte(is.Marker), &marker); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrRefused, err)
	}
	unlock := f.m.look()
	u, disk := f.m.unkind, f.m.disk
	unlock()
	switch {
	case u.Refuses != "":
		return fmt.Errorf("%w: %s", driver.ErrRefused, u.Refuses)
	case u.Lies:
		f.done(false, u.BootUnknown)
		return nil
	case disk != nil && *disk == marker:
		f.done(true, u.BootUnknown)
		return nil
	}
	unlock = f.m.look()
	f.m.counts.Writes++
	f.m.counts.Installs++
	f.m.tell(Asked, time.Now(), site.Marker{})
	f.m.tell(Installed, time.Now(), marker)
	f.m.format(nil, time.Now())
	boots := f.m.boots
	unlock()
	f.of.fleet.called(Call{When: time.Now(), Machine: f.m.name, Identity: f.m.Identity(), Step: step, First: true})
	f.of.Say(f.node, "erasing, 0 of 1 disks done: 12 %")
	if err := f.erase(ctx, is, u); err != nil {
		return err
	}
	f.of.Say(f.node, "unpacking the image")
	takes := cmp.Or(f.of.installs, f.m.settings().InstallTime)
	vanishes := u.Vanishes > 0 && u.Times > 0
	if vanishes {
		takes = min(takes, u.Vanishes)
	}
	if err := sleep(ctx, takes); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
	}
	if !vanishes || u.Tells {
		driver.HostKeys(ctx, hostKeys(f.node))
	}
	unlock = f.m.look()
	defer unlock()
	switch {
	case !f.m.on || f.m.boots != boots:
		return fmt.Errorf("%w: the agent is gone", driver.ErrUnreachable)
	case vanishes:
		f.m.unkind.Times--
		f.m.lost = time.Now()
		if u.Works > 0 {
			f.m.finishes, f.m.finishAt = &marker, time.Now().Add(u.Works)
		}
		return fmt.Errorf("%w: the connection to the agent was lost", driver.ErrUnreachable)
	case u.Fails != "":
		return errors.New(u.Fails)
	}
	f.m.install(&marker, time.Now())
	f.done(false, u.BootUnknown)
	return nil
}

// retire erases the disks of a machine, and installs nothing.
func (f *fakeAgent) retire(ctx context.Context, step site.Step, is driver.Installation) error {
	unlock := f.m.look()
	u := f.m.unkind
	unlock()
	if u.Refuses != "" {
		return fmt.Errorf("%w: %s", driver.ErrRefused, u.Refuses)
	}
	unlock = f.m.look()
	f.m.counts.Writes++
	f.m.tell(Asked, time.Now(), site.Marker{})
	f.m.tell(Erased, time.Now(), site.Marker{})
	f.m.format(nil, time.Now())
	boots := f.m.boots
	unlock()
	f.of.fleet.called(Call{When: time.Now(), Machine: f.m.name, Identity: f.m.Identity(), Step: step, First: true})
	if err := f.erase(ctx, is, u); err != nil {
		return err
	}
	unlock = f.m.look()
	defer unlock()
	switch {
	case !f.m.on || f.m.boots != boots:
		return fmt.Errorf("%w: the agent is gone", driver.ErrUnreachable)
	case u.Vanishes > 0 && u.Times > 0:
		f.m.unkind.Times--
		f.m.lost = time.Now()
		if u.Works > 0 {
			f.m.finishes, f.m.finishAt = &site.Marker{}, time.Now().Add(u.Works)
		}
		return fmt.Errorf("%w: the connection to the agent was lost", driver.ErrUnreachable)
	}
	return nil
}

// hostKeys are those of a system that an agent has installed on a machine.
func hostKeys(name string) []string { return []string{"ssh-ed25519 AAAA-" + name} }

// install puts a system of an agent onto the disk, which proves itself by its host key.
func (m *FakeMachine) install(marker *site.Marker, at time.Time) {
	m.format(marker, at)
	m.hostKey = hostKeys(m.name)[0]
}

// erase erases the disks as the design asks for, but for those that were erased before.
func (f *fakeAgent) erase(ctx context.Context, is driver.Installation, u Unkind) error {
	if is.Layout.Erase == "" {
		return nil
	}
	for _, d := range is.Layout.Destroys {
		e := item.Erasure{Disk: d.Name, Serial: d.Serial, WWN: d.WWN, Bytes: d.Bytes}
		if slices.Contains(is.Erased, e.ID()) {
			continue
		}
		if err := sleep(ctx, time.Minute); err != nil {
			return fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
		}
		why := u.NotErased[d.Serial]
		if e.Done = why == ""; e.Done {
			e.Tries = []item.EraseTry{{Method: "overwrite", Took: 60, Verified: "all of it was read back"}}
		} else {
			e.Tries = []item.EraseTry{{Method: "overwrite", Took: 60, Why: why}}
		}
		if !u.Forgets {
			driver.Erased(ctx, e)
		}
		if !e.Done {
			return fmt.Errorf("1 of 1 disks could not be erased: %s", why)
		}
		f.of.mu.Lock()
		f.of.erased = append(f.of.erased, e.ID())
		f.of.mu.Unlock()
	}
	return nil
}

func (f *fakeAgent) done(already bool, bootUnknown string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.did = driver.Installed{HostKeys: hostKeys(f.node), Already: already, BootUnknown: bootUnknown}
}
