package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/rollout"
	"github.com/slipway-gitops/slipway/engine/site"
)

// One of ten thousand nodes asks the gates for a place while others have theirs, in a
// rack and a role with bounds of their own.
func BenchmarkGateOfTenThousand(b *testing.B) {
	e := New(Config{Site: "lab", ObserveOnly: false})
	e.design = &site.Site{Name: "lab", Rollout: site.Rollout{MaxUnavailable: "100", FirstContact: "repair"}, Nodes: map[string]*site.Node{},
		Racks: map[string]*site.Rack{}, Roles: map[string]*site.Role{"web": {Enabled: true, MaxUnavailable: "100"}}}
	for i := range 10_000 {
		n := &site.Node{Name: fmt.Sprintf("n%04d", i), Rack: fmt.Sprintf("r%d", i/40), Role: "web", Power: "on"}
		e.design.Racks[n.Rack] = &site.Rack{MaxUnavailable: "2"}
		e.design.Nodes[n.Name] = n
		w := newWorker(e, n, site.Memory{Recorded: site.Recorded{Adopted: &site.Adoption{Settled: time.Now()}},
			Observed: site.Observed{Facets: map[site.Facet]site.FacetState{site.FacetPower: {Have: site.Values{"state": "on"}}}}}, false, func() {})
		w.turned = true
		e.workers[n.Name] = w
		e.enterRoleLocked(w)
	}
	w := e.workers["n5000"]
	b.ReportAllocs()
	for b.Loop() {
		if h := askForPlace(e, w); h != nil {
			b.Fatal(h.sentence)
		}
	}
}

func askForPlace(e *Engine, w *worker) *held {
	f := e.factsLocked()
	if r := f.Room(tryOf(w, f)); r != nil {
		return e.holdLocked(w, f, r)
	}
	return nil
}

func tryOf(w *worker, f *rollout.Facts) rollout.Try {
	return rollout.Try{Node: w.factsLocked(f.Now), Step: &site.Step{Impact: site.ImpactReboot}}
}
