package engine

import (
	"errors"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A driver looks around before it interrupts a machine. What the design says by then is asked before
// its first request, and not in the middle of what it has begun.
func TestAnInterruptionOfAnEarlierDesign(t *testing.T) {
	e, w := gated(t)
	sent := 0
	send := func() error { sent++; return nil }
	another := func() {
		n := *w.node
		n.Power, n.Rack = "off", n.Rack+"x"
		e.design.Nodes["n1"], w.node = &n, &n
	}
	i := &interruption{w: w, job: jobOf(e, w), step: powerOn}
	another()
	if err := i.Interrupt(t.Context(), send); !errors.Is(err, driver.ErrInterrupted) || !strings.Contains(err.Error(), redesigned) || sent > 0 {
		t.Errorf("before the first request: %v, sent %d", err, sent)
	}
	i = &interruption{w: w, job: jobOf(e, w), step: site.Step{Node: "n1", Facet: site.FacetConfig, Action: site.ActionConfig, Impact: site.ImpactOnline}}
	if err := i.Interrupt(t.Context(), func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	another()
	if err := i.Interrupt(t.Context(), send); !errors.Is(err, driver.ErrInterrupted) || sent > 0 {
		t.Errorf("inside, after a helper was brought: %v, sent %d", err, sent)
	}
	i = &interruption{w: w, job: jobOf(e, w), step: powerOn}
	if err := i.Interrupt(t.Context(), send); err != nil {
		t.Fatal(err)
	}
	w.node.Power = "on"
	if err := i.Interrupt(t.Context(), send); err != nil || sent != 2 {
		t.Errorf("in the middle: %v, sent %d", err, sent)
	}
}
