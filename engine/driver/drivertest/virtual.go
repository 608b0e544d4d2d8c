package drivertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// AddVirtual adds the place of a virtual machine, which is not defined yet.
func (f *Fleet) AddVirtual(site, name string) *FakeMachine {
	m := f.Add(name)
	m.virtual = &domain{site: site}
	m.order = "Hdd"
	return m
}

// domain is what a hypervisor knows of a virtual machine.
type domain struct {
	site       string
	defined    bool
	home       string // the hypervisor that has it
	disks      site.Values
	generation int  // generation on its image disk
	attached   bool // the seed is attached
	hostKey    string
	booting    *site.Marker // the marker of the first boot under way
	broken     bool         // its first boots always fail
}

// VirtualNode returns the machine as a node of a design: placed, with one disk
// for its image and one for data.
func (m *FakeMachine) VirtualNode() *site.Node {
	n := &site.Node{
		Name: m.name, Style: site.StyleVirtual,
		Virtual: site.Virtual{
			CPUs: 1, Memory: 1 << 30, Host: site.Host{Hypervisor: "hv-1", Accelerator: "kvm"},
			Disks: map[string]site.VirtualDisk{"root": {Size: 20 << 30, Image: "overlay"}, "data": {Size: 1 << 30}},
		},
		Endpoints: map[site.EndpointKind]site.Endpoint{
			site.Manager: {URL: "libvirt+tls://" + m.name + "/system?" + url.Values{"domain": {m.name}, "site": {m.virtual.site}}.Encode(), Credential: "bmc"},
			site.OS:      {URL: "ssh://" + m.name, Credential: "os"},
		},
	}
	n.Derive(m.virtual.site)
	defer m.look()()
	m.identity = n.Identity
	return n
}

// MakeOn puts the machine on a hypervisor, with nothing on its disks.
func (m *FakeMachine) MakeOn(hypervisor string, n *site.Node) {
	defer m.look()()
	m.virtual.defined, m.virtual.home = true, hypervisor
	m.set(site.FacetDefinition, n.Want(site.FacetDefinition), time.Now())
}

// Defined reports whether the virtual machine exists.
func (m *FakeMachine) Defined() bool {
	defer m.look()()
	return m.virtual.defined
}

// Seeded reports whether the seed of a first boot is attached.
func (m *FakeMachine) Seeded() bool {
	defer m.look()()
	return m.virtual.attached
}

// HostKey returns the host key that the installed system presents.
func (m *FakeMachine) HostKey() string {
	defer m.look()()
	return m.virtual.hostKey
}

// SetHostKey makes the installed system present another key.
func (m *FakeMachine) SetHostKey(key string) {
	defer m.look()()
	m.virtual.hostKey = key
}

// BreakFirstBoots makes all first boots fail from now on.
func (m *FakeMachine) BreakFirstBoots() {
	defer m.look()()
	m.virtual.broken = true
}

// HypervisorDriver returns the driver for the machines' hypervisors.
func (f *Fleet) HypervisorDriver() driver.Driver { return hypervisorDriver{f} }

type hypervisorDriver struct{ fleet *Fleet }

func (hypervisorDriver) Facets() []site.Facet {
	return []site.Facet{site.FacetPower, site.FacetBoot, site.FacetDefinition, site.FacetDisks, site.FacetSeed}
}

func (d hypervisorDriver) Open(_ context.Context, e site.Endpoint, s secret.Value) (driver.Machine, error) {
	m, err := d.fleet.find(e)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(e.URL)
	if err != nil {
		return nil, err
	}
	return &virtual{bmc: &bmc{m: m, login: &login{m: m, value: s}}, host: u.Hostname()}, nil
}

// virtual is an open handle on a virtual machine.
type virtual struct {
	*bmc
	host string       // the host name of the hypervisor
	seed *driver.Seed // for the next installation
}

// here reports whether the machine is on the hypervisor.
func (v *virtual) here() bool { return v.m.virtual.defined && v.m.virtual.home == v.host }

// Seed implements driver.Seeder.
func (v *virtual) Seed(s driver.Seed) { v.seed = &s }

// Console implements driver.Consoler.
func (v *virtual) Console(ctx context.Context, most int) ([]byte, error) {
	if err := v.read(ctx); err != nil {
		return nil, err
	}
	boots, _ := v.m.state()
	text := []byte(strings.Repeat("booting\n", boots))
	return text[max(0, len(text)-most):], nil
}

func (v *virtual) Observe(ctx context.Context, n *site.Node, facets []site.Facet) (site.Observed, error) {
	if err := v.read(ctx); err != nil {
		return site.Observed{}, err
	}
	defer v.m.look()()
	seen := site.Observed{Facets: map[site.Facet]site.FacetState{}}
	if v.here() {
		seen.Identity = v.m.answered()
	}
	for _, f := range facets {
		if !slices.Contains(hypervisorDriver{}.Facets(), f) {
			continue
		}
		s := site.FacetState{Have: maps.Clone(v.have(f)), Seen: time.Now(), Driver: "fake"}
		if f == site.FacetPower && !v.m.changes.IsZero() && !v.m.restart {
			s.Pending = site.Values{"state": state(!v.m.on)}
		}
		if staged := v.m.pending[f]; staged != nil {
			s.Pending = maps.Clone(staged)
		}
		seen.Facets[f] = s
	}
	return seen, nil
}

func (v *virtual) have(f site.Facet) site.Values {
	m := v.m
	switch d := m.virtual; f {
	case site.FacetDefinition:
		if !v.here() {
			return site.Values{"state": "absent"}
		}
		return m.inside[f]
	case site.FacetDisks:
		return d.disks
	case site.FacetSeed:
		if d.attached {
			return site.Values{"state": "attached"}
		}
		return site.Values{"state": "none"}
	}
	return m.have(f)
}

func (v *virtual) Apply(ctx context.Context, step site.Step, n *site.Node, may driver.Permit) error {
	if err := v.read(ctx); err != nil {
		return err
	}
	if !step.Machine.Known() || !step.Machine.Matches(n.Identity) {
		return fmt.Errorf("%w: the step is for %s", driver.ErrRefused, step.Machine)
	}
	w := &writer{bmc: v.bmc, step: step, may: may}
	switch step.Action {
	case site.ActionDefine:
		return v.define(ctx, w, n)
	case site.ActionDisks:
		return w.write(ctx, func(m *FakeMachine) { m.makeDisks(n, false) })
	case site.ActionInstall:
		return v.install(ctx, w, n)
	case site.ActionRemoveSeed:
		return w.write(ctx, func(m *FakeMachine) { m.virtual.attached = false })
	case site.ActionZeroize:
		return v.zeroize(ctx, w)
	case site.ActionPowerOn:
		return w.power(ctx, true)
	case site.ActionPowerOff:
		return w.power(ctx, false)
	case site.ActionRestart:
		return w.restart(ctx)
	}
	return errors.ErrUnsupported
}

// define applies the definition at once to a machine that is off, and stages it
// for one that is on.
func (v *virtual) define(ctx context.Context, w *writer, n *site.Node) error {
	if v.m.Power() == "on" {
		return w.stage(ctx, n.Want(site.FacetDefinition))
	}
	return w.write(ctx, func(m *FakeMachine) {
		m.virtual.defined, m.virtual.home = true, v.host
		m.set(site.FacetDefinition, n.Want(site.FacetDefinition), time.Now())
	})
}

// makeDisks creates the disks of a design. Only an installation creates that of
// the image.
func (m *FakeMachine) makeDisks(n *site.Node, image bool) {
	if m.virtual.disks == nil {
		m.virtual.disks = site.Values{}
	}
	root := n.Virtual.ImageDisk() + "."
	for field, value := range n.Want(site.FacetDisks) {
		if image || !strings.HasPrefix(field, root) {
			m.virtual.disks[field] = value
		}
	}
}

// Errors that prevent silent loss of disks.
var (
	errNotOurs  = errors.New("there is something on its image disk, and the step says that nothing is lost")
	errNotNamed = errors.New("the approval does not name all disks that would be deleted")
)

// named refuses to delete disks that the step does not name.
func (d *domain) named(step site.Step, deletes func(disk string) bool) error {
	lost := slices.DeleteFunc(site.VolumesIn(d.disks), func(v site.Volume) bool { return !deletes(v.Disk) })
	if unnamed := lost.Unnamed(site.ParseVolumes(step.Disks)); len(unnamed) > 0 {
		return fmt.Errorf("%w: %w: %s", driver.ErrRefused, errNotNamed, unnamed)
	}
	return nil
}

// install attaches the image to the machine and boots it.
func (v *virtual) install(ctx context.Context, w *writer, n *site.Node) error {
	step := w.step
	if v.seed == nil {
		return fmt.Errorf("%w: no seed was given", driver.ErrRefused)
	}
	unlock := v.m.look()
	d := *v.m.virtual
	unlock()
	boots, on := v.m.state()
	switch {
	case step.Resumed && d.generation == step.Generation && (on || boots > 0):
		return nil // the machine has booted with the seed of an earlier try
	case d.disks[n.Virtual.ImageDisk()+".size"] != "" && step.Impact != site.ImpactDestructive && d.generation != step.Generation:
		return fmt.Errorf("%w: %w", driver.ErrRefused, errNotOurs)
	case d.generation != step.Generation: // otherwise it is made once more
		if err := d.named(step, func(disk string) bool { return disk == n.Virtual.ImageDisk() }); err != nil {
			return err
		}
	}
	if err := w.power(ctx, false); err != nil {
		return err
	}
	marker, key, err := readSeed(*v.seed)
	if err == nil {
		err = w.may.Ask(ctx, step)
	}
	if err != nil {
		return err
	}
	err = w.destroy(ctx, func(m *FakeMachine) {
		if m.virtual.disks[n.Virtual.ImageDisk()+".size"] != "" && m.virtual.generation != step.Generation {
			m.tell(Installed, time.Now(), marker)
		}
		m.makeDisks(n, true)
		m.format(nil, time.Now())
		if m.virtual.generation != step.Generation { // otherwise it is made once more, and nothing was on it
			m.counts.Installs++
		}
		m.virtual.generation, m.virtual.attached, m.virtual.hostKey, m.virtual.booting = step.Generation, true, key, &marker
	})
	if err != nil {
		return err
	}
	return w.power(ctx, true)
}

func (v *virtual) zeroize(ctx context.Context, w *writer) error {
	unlock := v.m.look()
	d := *v.m.virtual
	unlock()
	if err := d.named(w.step, func(string) bool { return true }); err != nil {
		return err
	}
	if err := w.power(ctx, false); err != nil {
		return err
	}
	if err := w.may.Ask(ctx, w.step); err != nil {
		return err
	}
	return w.destroy(ctx, func(m *FakeMachine) {
		m.tell(Erased, time.Now(), site.Marker{})
		m.format(nil, time.Now())
		*m.virtual = domain{site: m.virtual.site, broken: m.virtual.broken}
		m.set(site.FacetDefinition, nil, time.Now())
	})
}

// readSeed returns what a system takes from its seed: the marker by which it
// proves itself, and its public host key.
func readSeed(s driver.Seed) (site.Marker, string, error) {
	var user struct {
		Files []struct{ Content string } `json:"write_files"`
		Keys  map[string]string          `json:"ssh_keys"`
	}
	var m site.Marker
	err := json.Unmarshal([]byte(strings.TrimPrefix(s.UserData.Reveal(), "#cloud-config\n")), &user)
	if err == nil && len(user.Files) > 0 {
		err = json.Unmarshal([]byte(user.Files[0].Content), &m)
	}
	return m, user.Keys["ed25519_public"], err
}

// firstBoot ends the first boot once the system has had its time.
func (m *FakeMachine) firstBoot(now time.Time) {
	d := m.virtual
	if d == nil || d.booting == nil || !m.on {
		return
	}
	if at := m.booted.Add(m.config.PostTime + m.config.OSTime); !now.Before(at) {
		marker := *d.booting
		if d.broken {
			marker = site.Marker{}
		}
		d.booting = nil
		m.format(&marker, at)
	}
}
