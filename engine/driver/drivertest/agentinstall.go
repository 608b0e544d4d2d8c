package drivertest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

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

// Observe implements driver.Machine.
func (f *fakeAgent) Observe(ctx context.Context, _ *site.Node, _ []site.Facet) (site.Observed, error) {
	if !f.isHere() {
		return site.Observed{}, fmt.Errorf("%w: the agent has hung up", driver.ErrUnreachable)
	}
	is, disks, nics := f.m.parted()
	f.setParts(disks, nics)
	return site.Observed{Identity: is, Facets: map[site.Facet]site.FacetState{}}, nil
}

// parted returns the machine's identity, and the disks and network adapters that its agent reports.
func (m *FakeMachine) parted() (site.Identity, []item.Disk, []site.NIC) {
	defer m.look()()
	return m.identity, slices.Clone(m.seen), slices.Clone(m.cabled)
}

func (f *fakeAgent) setParts(disks []item.Disk, nics []site.NIC) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.disks, f.nics = disks, nics
}

// Apply implements driver.Machine. It erases right after it was permitted.
func (f *fakeAgent) Apply(ctx context.Context, step site.Step, n *site.Node, may driver.Permit) error {
	is := f.prepared()
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
	f.of.noteAsked(Ordered{f.node, step, is})
	if step.Retires() {
		return f.retire(ctx, step, is)
	}
	return f.putSystem(ctx, step, is)
}

// prepared returns the installation that the agent was last told of.
func (f *fakeAgent) prepared() driver.Installation {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.is
}

// putSystem installs a system on a machine that does not have it yet.
func (f *fakeAgent) putSystem(ctx context.Context, step site.Step, is driver.Installation) error {
	var marker site.Marker
	if err := json.Unmarshal([]byte(is.Marker), &marker); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrRefused, err)
	}
	u, disk := f.m.foundByAgent()
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
	boots := f.m.erasedFor(Installed, marker)
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
	return f.complete(marker, u, boots, vanishes)
}

// foundByAgent returns how the agent on the machine behaves, and what it finds on the disk.
func (m *FakeMachine) foundByAgent() (Unkind, *site.Marker) {
	defer m.look()()
	return m.unkind, m.disk
}

// erasedFor makes an agent begin to erase the disks for a new system, or for none. It returns how
// often the machine was booted by then.
func (m *FakeMachine) erasedFor(kind EventKind, marker site.Marker) (boots int) {
	defer m.look()()
	m.counts.Writes++
	if kind == Installed {
		m.counts.Installs++
	}
	m.tell(Asked, time.Now(), site.Marker{})
	m.tell(kind, time.Now(), marker)
	m.format(nil, time.Now())
	return m.boots
}

// complete ends an installation: the machine has the new system, unless the agent was lost or failed.
func (f *fakeAgent) complete(marker site.Marker, u Unkind, boots int, vanishes bool) error {
	defer f.m.look()()
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

// isHere reports whether the agent is still connected.
func (f *fakeAgent) isHere() bool { return f.of.Agent(f.node) == driver.Agent(f) }

// retire erases the disks of a machine, and installs nothing.
func (f *fakeAgent) retire(ctx context.Context, step site.Step, is driver.Installation) error {
	u, _ := f.m.foundByAgent()
	if u.Refuses != "" {
		return fmt.Errorf("%w: %s", driver.ErrRefused, u.Refuses)
	}
	boots := f.m.erasedFor(Erased, site.Marker{})
	f.of.fleet.called(Call{When: time.Now(), Machine: f.m.name, Identity: f.m.Identity(), Step: step, First: true})
	if err := f.erase(ctx, is, u); err != nil {
		return err
	}
	defer f.m.look()()
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

// hostKeys returns those of a system that an agent has installed on a machine.
func hostKeys(name string) []string { return []string{"ssh-ed25519 AAAA-" + name} }

// install puts an agent's system onto the disk. The system proves itself by its host key.
func (m *FakeMachine) install(marker *site.Marker, at time.Time) {
	m.format(marker, at)
	m.hostKey = hostKeys(m.name)[0]
}

// erase erases the disks as the design asks, except those that were erased before.
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
		f.of.noteErased(e.ID())
	}
	return nil
}

func (f *fakeAgent) done(already bool, bootUnknown string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.did = driver.Installed{HostKeys: hostKeys(f.node), Already: already, BootUnknown: bootUnknown}
}
