package drivertest

import (
	"context"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

func step(sub Subject, f site.Facet, a site.Action) site.Step {
	return site.Step{Node: sub.Node.Name, Machine: sub.Node.Identity, Facet: f, Action: a}
}

func (s Suite) open(t *testing.T, sub Subject) driver.Machine {
	t.Helper()
	m, err := s.Driver.Open(t.Context(), sub.Endpoint, sub.Secret)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// await polls a probe until it returns true.
func (s Suite) await(t *testing.T, what string, probe func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(s.Patience); !probe(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("waited %s for %s", s.Patience, what)
		}
	}
}

// cut cancels a running call as soon as the probe returns true, and returns how the call ended.
func (s Suite) cut(t *testing.T, done <-chan error, cancel context.CancelFunc, probe func() bool) error {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	patience := time.After(s.Patience)
	for {
		select {
		case err := <-done:
			return err
		case <-patience:
			t.Fatal("apply does not end")
		case <-tick.C:
			if probe() {
				cancel()
			}
		}
	}
}

// follow brings a machine to its design: it looks, plans, takes the first step
// and looks again, until nothing is left to do.
func (s Suite) follow(t *testing.T, m driver.Machine, n *site.Node, image *site.Image, memory *site.Memory) {
	t.Helper()
	design := &site.Site{Nodes: map[string]*site.Node{n.Name: n}, Images: map[string]*site.Image{"image": image}}
	s.await(t, "the machine to be as designed", func() bool {
		seen, err := m.Observe(t.Context(), n, s.Driver.Facets())
		if err != nil {
			t.Fatal(err)
		}
		memory.Observed = memory.Observed.Merge(seen)
		known := site.Known{Nodes: map[string]site.Memory{n.Name: *memory}}
		p := plan.Node(design, n, known)
		if len(p.Blocked) > 0 {
			t.Fatal(p.Blocked)
		}
		if len(p.Steps) == 0 {
			return p.Waiting == ""
		}
		if err := m.Apply(t.Context(), p.Steps[0], n, Permitted); err != nil {
			t.Fatalf("%s: %v", p.Steps[0].Summary(), err)
		}
		record(&memory.Recorded, p.Steps[0])
		return false
	})
}

// record notes what cannot be seen from outside.
func record(r *site.Recorded, s site.Step) {
	switch s.Action {
	case site.ActionInstall:
		r.Installing = &site.Installation{Generation: s.Generation, Image: s.Image.SHA256, Since: time.Now()}
	case site.ActionFinishInstall:
		installed := *r.Installing
		installed.Proven = true
		r.Installing, r.Installed = nil, &installed
	}
}
