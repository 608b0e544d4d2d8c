package libvirt

import (
	"fmt"
	"testing"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/libvirt"
)

// real is a libvirtd of the tests, with a connection that looks from beside.
type real struct {
	*libvirt.Hypervisor
	path string // of the driver: /system or /test/default
	rpc  *golibvirt.Libvirt
}

func startReal(t *testing.T, path string) *real {
	r := &real{Hypervisor: libvirt.Start(t), path: path}
	r.dial(t)
	r.pool(t, "default")
	return r
}

func (r *real) dial(t *testing.T) {
	t.Helper()
	h := &hypervisor{opts: New(Options{}).opts, address: address{transport: "unix", socket: r.Socket, driver: drivers[r.path]}}
	h.dial = h.address.dialUnix
	c, err := h.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.drop)
	r.rpc = c.rpc
}

// pool makes a pool in a folder of the hypervisor's.
func (r *real) pool(t *testing.T, name string) {
	t.Helper()
	p, err := r.rpc.StoragePoolDefineXML(`<pool type='dir'><name>`+name+`</name><target><path>/var/lib/libvirt/`+name+`</path></target></pool>`, 0)
	if err == nil {
		err = r.rpc.StoragePoolBuild(p, 0)
	}
	if err == nil {
		err = r.rpc.StoragePoolCreate(p, 0)
	}
	if err == nil {
		err = r.rpc.StoragePoolSetAutostart(p, 1)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (r *real) endpoint(name string) site.Endpoint {
	return site.Endpoint{URL: "libvirt+unix://" + r.path + "?domain=" + name + "&site=lab&socket=" + r.Socket}
}

func (r *real) open(t *testing.T, d *Driver, name string) driver.Machine {
	t.Helper()
	m, err := d.Open(t.Context(), r.endpoint(name), secret.Value{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// designed is a small machine in a design.
func designed(name string) *site.Node {
	n := &site.Node{Name: name, Style: site.StyleVirtual, Virtual: site.Virtual{
		CPUs: 1, Memory: 128 << 20,
		Disks:      map[string]site.VirtualDisk{"data": {Size: 16 << 20}},
		Interfaces: map[string]site.VirtualInterface{"eth0": {Bridge: "br0"}},
		Host:       site.Host{Hypervisor: "hv-1", Accelerator: "emulation"},
	}}
	n.Derive("lab")
	return n
}

func stepOf(n *site.Node, f site.Facet, a site.Action) site.Step {
	s := site.Step{Node: n.Name, Machine: n.Identity, Facet: f, Action: a}
	if a == site.ActionDefine {
		s.Changes = []site.Change{{Field: "definition.state", Have: site.StateAbsent, Want: site.StateDefined}}
	}
	return s
}

// must takes a step.
func must(t *testing.T, m driver.Machine, n *site.Node, f site.Facet, a site.Action) {
	t.Helper()
	s := stepOf(n, f, a)
	if a == site.ActionZeroize {
		s = approved(t, m, n, s)
	}
	if err := m.Apply(t.Context(), s, n, drivertest.Permitted); err != nil {
		t.Fatalf("%v", err)
	}
}

// approved is a step that destroys what the machine has now, as a person has
// approved it after a look.
func approved(t *testing.T, m driver.Machine, n *site.Node, s site.Step) site.Step {
	t.Helper()
	s.Impact = site.ImpactDestructive
	p := plan.Renumbered(site.NodePlan{Steps: []site.Step{s}}, n, site.Memory{Observed: look(t, m, n)})
	return p.Steps[0]
}

func look(t *testing.T, m driver.Machine, n *site.Node) site.Observed {
	t.Helper()
	seen, err := m.Observe(t.Context(), n, (*Driver)(nil).Facets())
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

// settled fails for what is not as designed.
func settled(t *testing.T, m driver.Machine, n *site.Node, facets ...site.Facet) {
	t.Helper()
	seen := look(t, m, n)
	for _, f := range facets {
		s := seen.Facets[f]
		if len(s.Unresolved) > 0 || len(s.Pending) > 0 {
			t.Errorf("%s: unresolved %v, pending %v", f, s.Unresolved, s.Pending)
		}
		for field, want := range s.Resolve(n, f).Want {
			if s.Have[field] != want {
				t.Errorf("%s: %s is %q, want %q", f, field, s.Have[field], want)
			}
		}
	}
}

var quick = Options{Grace: 2 * time.Second, Poll: 50 * time.Millisecond, Share: time.Millisecond}

func TestDefinition(t *testing.T) {
	for _, path := range []string{"/test/default", "/system"} {
		t.Run(path, func(t *testing.T) {
			r := startReal(t, path)
			m := r.open(t, New(quick), "vm-1")
			n := designed("vm-1")
			if seen := look(t, m, n); seen.Facets[site.FacetDefinition].Have["state"] != site.StateAbsent || seen.Facets[site.FacetPower].Have["state"] != "off" || seen.Identity.Known() {
				t.Errorf("an absent machine is seen as %+v", seen)
			}
			must(t, m, n, site.FacetDefinition, site.ActionDefine)
			settled(t, m, n, site.FacetDefinition)
			if seen := look(t, m, n); seen.Identity != n.Identity {
				t.Errorf("the machine is %v, want %v", seen.Identity, n.Identity)
			}
			must(t, m, n, site.FacetDisks, site.ActionDisks)
			settled(t, m, n, site.FacetDefinition, site.FacetDisks)
			must(t, m, n, site.FacetPower, site.ActionPowerOn)
			settled(t, m, n, site.FacetDefinition, site.FacetDisks)
			if got := look(t, m, n).Facets[site.FacetPower].Have["state"]; got != "on" {
				t.Errorf("the power is %s", got)
			}
			if path == "/system" { // the test driver changes nothing that runs
				changeLive(t, m, n)
			}
			n.Virtual.Memory, n.Virtual.CPUs = 192<<20, 2
			must(t, m, n, site.FacetDefinition, site.ActionDefine)
			if got := look(t, m, n).Facets[site.FacetDefinition]; got.Pending["memory"] != "192MiB" || got.Have["memory"] != "128MiB" || len(got.Pending) != 2 {
				t.Errorf("after a change that needs a restart: %+v", got)
			}
			must(t, m, n, site.FacetPower, site.ActionRestart)
			settled(t, m, n, site.FacetDefinition, site.FacetDisks)
			must(t, m, n, site.FacetPower, site.ActionPowerOff)
			settled(t, m, n, site.FacetDefinition, site.FacetDisks)
		})
	}
}

// changeLive has a disk grow, and another and an interface plugged in and out.
func changeLive(t *testing.T, m driver.Machine, n *site.Node) {
	t.Helper()
	n.Virtual.Disks["data"] = site.VirtualDisk{Size: 32 << 20}
	n.Virtual.Disks["more"] = site.VirtualDisk{Size: 16 << 20, Format: "raw"}
	n.Virtual.Interfaces["eth1.x"] = site.VirtualInterface{Bridge: "br0"}
	n.Derive("lab")
	must(t, m, n, site.FacetDefinition, site.ActionDefine)
	must(t, m, n, site.FacetDisks, site.ActionDisks)
	settled(t, m, n, site.FacetDefinition, site.FacetDisks)
}

func TestConformance(t *testing.T) {
	for _, path := range []string{"/test/default", "/system"} {
		t.Run(path, func(t *testing.T) {
			r, d := startReal(t, path), New(quick)
			made := 0
			drivertest.Run(t, drivertest.Suite{Driver: d, Fresh: func(t *testing.T) drivertest.Subject {
				made++
				n := designed(fmt.Sprintf("vm-%d", made))
				m := r.open(t, d, n.Name)
				must(t, m, n, site.FacetDefinition, site.ActionDefine)
				must(t, m, n, site.FacetDisks, site.ActionDisks)
				before := len(r.Writes())
				return drivertest.Subject{
					Endpoint: r.endpoint(n.Name), Node: n,
					Counts: func() drivertest.Counts { return countsOf(r.Writes()[before:]) },
					Power:  func() string { return r.power(t, n.Name) },
				}
			}})
		})
	}
}

func countsOf(writes []string) drivertest.Counts {
	c := drivertest.Counts{Writes: len(writes)}
	for _, w := range writes {
		if w == "DomainCreate" || w == "DomainDestroy" || w == "DomainShutdownFlags" {
			c.Resets++
		}
	}
	return c
}

func (r *real) power(t *testing.T, name string) string {
	t.Helper()
	d, err := r.rpc.DomainLookupByName(name)
	if err != nil {
		t.Fatal(err)
	}
	s, why, err := r.rpc.DomainGetState(d, 0)
	if err != nil {
		t.Fatal(err)
	}
	p, err := stateName(golibvirt.DomainState(s), golibvirt.DomainPausedReason(why))
	if err != nil {
		t.Fatal(err)
	}
	return p
}
