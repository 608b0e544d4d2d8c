package libvirt

import (
	"fmt"
	"sync"
	"testing"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Looks at many machines that are as designed share their calls; a change of a
// machine costs the calls for it alone.
func TestLooksShareTheirCalls(t *testing.T) {
	r := startReal(t, "/test/default")
	d := New(Options{Share: time.Minute})
	const count = 20
	machines := map[*site.Node]driver.Machine{}
	for i := range count {
		n := designed(fmt.Sprintf("vm-%d", i))
		machines[n] = r.open(t, d, n.Name)
		must(t, machines[n], n, site.FacetDefinition, site.ActionDefine)
		must(t, machines[n], n, site.FacetDisks, site.ActionDisks)
	}
	all := func() (calls []string) {
		before := len(r.Calls())
		var wait sync.WaitGroup
		for n, m := range machines {
			wait.Go(func() {
				if _, err := m.Observe(t.Context(), n, d.Facets()); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		return r.Calls()[before:]
	}
	all()
	var h *hypervisor
	for n, m := range machines {
		h = m.(*machine).hypervisor
		settled(t, m, n, site.FacetDefinition, site.FacetDisks)
	}
	h.wrote(golibvirt.UUID{}) // so that there is a new list
	if calls := all(); len(calls) > 5 {
		t.Errorf("%d calls: %v", len(calls), calls)
	}
	if calls := all(); len(calls) > 0 {
		t.Errorf("right after: %v", calls)
	}
	// A person changes one, beside us.
	n := designed("vm-3")
	n.Virtual.Memory = 256 << 20
	other := r.open(t, New(quick), "vm-3")
	must(t, other, n, site.FacetDefinition, site.ActionDefine)
	for ours, m := range machines {
		if ours.Name != "vm-3" {
			continue
		}
		eventually(t, "the change of a person to be seen", func() bool {
			h.wrote(golibvirt.UUID{})
			return look(t, m, ours).Facets[site.FacetDefinition].Have["memory"] == "256MiB"
		})
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	end := time.Now().Add(20 * time.Second)
	for range time.Tick(10 * time.Millisecond) {
		if ok() {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("waited for %s", what)
		}
	}
}

// A list that does not show a machine, as a filtered one, is not believed; nor
// is one that shows a machine that has gone.
func TestListsAreNotBelievedOverTheMachine(t *testing.T) {
	r := startReal(t, "/test/default")
	m, n := r.open(t, New(Options{Share: time.Minute}), "vm-1").(*machine), designed("vm-1")
	uuid, err := uuidOf(n.Identity.UUID)
	if err != nil {
		t.Fatal(err)
	}
	definition := func() string { return look(t, m, n).Facets[site.FacetDefinition].Have[site.FieldState] }
	gone := golibvirt.Domain{Name: "vm-1", UUID: uuid, ID: -1}
	m.hypervisor.believe(&snapshot{byUUID: map[golibvirt.UUID]golibvirt.Domain{uuid: gone}})
	if got := definition(); got != site.StateAbsent {
		t.Errorf("a machine that has gone is %s", got)
	}
	must(t, m, n, site.FacetDefinition, site.ActionDefine)
	m.hypervisor.believe(&snapshot{})
	if got := definition(); got != site.StateDefined {
		t.Errorf("a machine that is not listed is %s", got)
	}
}

// believe has looks see a list for now.
func (h *hypervisor) believe(s *snapshot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.at = time.Now()
	h.last = &flight{writes: h.writes, done: make(chan struct{}), shot: s}
	close(h.last.done)
}
