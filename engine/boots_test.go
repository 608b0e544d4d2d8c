package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// forgetful is a driver of machines whose settings go back to what they were,
// however often they are booted.
type forgetful struct {
	driver.Driver
	fleet *drivertest.Fleet
}

func (f forgetful) Open(ctx context.Context, e site.Endpoint, s secret.Value) (driver.Machine, error) {
	m, err := f.Driver.Open(ctx, e, s)
	return forgets{m, f.fleet}, err
}

type forgets struct {
	driver.Machine
	fleet *drivertest.Fleet
}

func (f forgets) Observe(ctx context.Context, n *site.Node, facets []site.Facet) (site.Observed, error) {
	f.fleet.Machine(n.Name).SetHave(site.FacetBIOS, site.Values{"smt": "true"})
	return f.Machine.Observe(ctx, n, facets)
}

// A machine that does not take its settings over is booted a few times and not
// for ever; neither a restart of the daemon nor time has it booted again, a
// person does.
func TestSettingsThatNoBootBrings(t *testing.T) {
	c := usual
	inBubble(t, c, func(w *world) {
		m := w.fleet.Machine("m1")
		w.bmcs = forgetful{w.fleet.Driver(), w.fleet}
		d := w.design("m1")
		d.Rollout.FirstContact = "repair"
		no := false
		d.Nodes["m1"].BIOS.SMT = &no
		m.SetPower("on")
		w.commit(d)
		w.up()
		w.after(time.Minute)
		boots := func() int {
			restarts := 0
			for _, c := range w.fleet.Calls() {
				if c.Step.Action == site.ActionRestart && c.First {
					restarts++
				}
			}
			return restarts
		}
		w.until("it stalls", 2*time.Hour, func() bool {
			return w.node("m1").State == site.Stalled
		})
		if n := w.node("m1"); boots() != 3 || !strings.Contains(n.Reason, "booted 3 times for its bios, and bios.smt is true and is designed as false") {
			t.Fatalf("%d boots, and it says: %s", boots(), n.Reason)
		}
		w.down()
		w.up()
		w.after(2 * time.Hour)
		if w.want("m1", site.Stalled); boots() != 3 {
			t.Errorf("%d boots after a restart of the daemon", boots())
		}
		w.do(site.Order{Verb: site.VerbRetry, Node: "m1"})
		w.after(2 * time.Hour)
		if w.want("m1", site.Stalled); boots() != 6 {
			t.Errorf("%d boots after another try, want 3 more", boots())
		}
	}, "m1")
}
