package libvirt

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	driverlibvirt "github.com/slipway-gitops/slipway/sinks/libvirt"
	"github.com/slipway-gitops/slipway/tests/libvirt"
)

// How many machines a hypervisor is given, and the most calls that looking at
// all of them may take once they are as designed.
const (
	machines  = 200
	mostCalls = 5
)

type handle struct {
	driver.Machine
	node *site.Node
}

// each does something with every machine, all at once.
func each(b *testing.B, all []handle, do func(handle) error) {
	var wait sync.WaitGroup
	for _, h := range all {
		wait.Go(func() {
			if err := do(h); err != nil {
				b.Errorf("%s: %v", h.node.Name, err)
			}
		})
	}
	wait.Wait()
	if b.Failed() {
		b.FailNow()
	}
}

// handles are open to machines that are not there yet.
func handles(b *testing.B, d *driverlibvirt.Driver, socket string) (all []handle) {
	for i := range machines {
		n := &site.Node{Name: fmt.Sprintf("vm-%03d", i), Style: site.StyleVirtual, Virtual: site.Virtual{
			CPUs: 1, Memory: 128 << 20, Host: site.Host{Accelerator: "emulation"},
			Interfaces: map[string]site.VirtualInterface{"eth0": {Bridge: "br0"}},
		}}
		n.Derive("bench")
		m, err := d.Open(b.Context(), site.Endpoint{URL: "libvirt+unix:///test/default?site=bench&domain=" + n.Name + "&socket=" + socket}, secret.Value{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { m.Close() })
		all = append(all, handle{m, n})
	}
	return all
}

// asDesigned looks at a machine and says what is not as designed.
func (h handle) asDesigned(b *testing.B, facets []site.Facet) error {
	seen, err := h.Observe(b.Context(), h.node, facets)
	if err != nil {
		return err
	}
	have := seen.Facets[site.FacetDefinition].Have
	for field, want := range h.node.Want(site.FacetDefinition) {
		if have[field] != want {
			return fmt.Errorf("%s is %q, and %q is designed", field, have[field], want)
		}
	}
	return nil
}

// anew looks until what is seen is new, and no more what earlier looks share.
func anew(b *testing.B, h handle) {
	began := time.Now()
	for range time.Tick(20 * time.Millisecond) {
		seen, err := h.Observe(b.Context(), h.node, []site.Facet{site.FacetPower})
		if err != nil {
			b.Fatal(err)
		}
		if seen.Seen().After(began) {
			return
		}
	}
}

// Benchmark200 defines 200 machines, and looks at them.
func Benchmark200(b *testing.B) {
	hypervisor := libvirt.Start(b)
	d := driverlibvirt.New(driverlibvirt.Options{})
	all := handles(b, d, hypervisor.Socket)
	began := time.Now()
	each(b, all, func(h handle) error {
		step := site.Step{Machine: h.node.Identity, Facet: site.FacetDefinition, Action: site.ActionDefine,
			Changes: []site.Change{{Field: "definition.state", Have: site.StateAbsent, Want: site.StateDefined}}}
		return h.Apply(b.Context(), step, h.node, drivertest.Permitted)
	})
	took := time.Since(began)
	each(b, all, func(h handle) error { return h.asDesigned(b, d.Facets()) })
	before := len(hypervisor.Calls())
	anew(b, all[0])
	began = time.Now()
	each(b, all, func(h handle) error { return h.asDesigned(b, d.Facets()) })
	look := time.Since(began)
	calls := hypervisor.Calls()[before:]
	if len(calls) > mostCalls {
		b.Errorf("%d calls, and %d are the most: %v", len(calls), mostCalls, calls[:min(len(calls), 20)])
	}
	fmt.Printf("bench: libvirt/define-%d %.2f s\n", machines, took.Seconds())
	fmt.Printf("bench: libvirt/observe-%d %d calls (%.1f ms)\n", machines, len(calls), float64(look.Microseconds())/1000)
}
