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

// isHere says whether the agent is still connected.
func (f *fakeAgent) isHere() bool { return f.of.Agent(f.node) == driver.Agent(f) }

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
