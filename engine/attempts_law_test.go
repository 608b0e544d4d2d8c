package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Law: for one design no machine is interrupted more than plan.MostAttempts times
// without an order of a person, whatever the machines, the commits that change
// something else, and the restarts of the daemon do. The machines' own calls are
// the witness.
func TestNoMachineIsInterruptedWithoutEndForOneDesign(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			c := usual
			c.Flaky = 0.02
			inBubble(t, c, func(w *world) { attemptsOf(w, rand.New(rand.NewPCG(seed, 15))) }, names(3)...)
		})
	}
}

func attemptsOf(w *world, dice *rand.Rand) {
	d := w.withoutSMT(names(3)...)
	d.Rollout.MaxUnavailable, d.Rollout.MaxFailures = "100%", "100%"
	before := map[string]int{} // interruptions before the design asked for what it asks for now
	faults := []drivertest.Fault{drivertest.Healthy, drivertest.Forgetful, drivertest.Failing, drivertest.Lies, drivertest.Busy, drivertest.Unreachable}
	w.commit(d)
	w.up()
	w.after(time.Minute)
	for i := range 100 {
		name := names(3)[dice.IntN(3)]
		m := w.fleet.Machine(name)
		switch dice.IntN(8) {
		case 0, 1:
			m.SetFault(faults[dice.IntN(len(faults))])
		case 2:
			m.SetHave(site.FacetBIOS, site.Values{"smt": "true"}) // somebody changes it on the machine
		case 3:
			d = clone(d)
			d.Nodes[name].Labels = map[string]string{"commit": fmt.Sprint(i)}
			w.commit(d)
		case 4:
			w.down()
			w.up()
		case 5:
			if dice.IntN(4) > 0 {
				break
			}
			d = clone(d)
			other := !*d.Nodes[name].BIOS.SMT
			d.Nodes[name].BIOS.SMT = &other
			w.commit(d)
			w.after(time.Minute) // a step that is under way goes on
			before[name] = w.interrupted(name)
		}
		w.after(time.Minute + time.Duration(dice.IntN(7))*time.Minute)
		for _, name := range names(3) {
			if n := w.interrupted(name) - before[name]; n > plan.MostAttempts {
				w.t.Fatalf("event %d: %s was interrupted %d times for one design", i, name, n)
			}
		}
	}
}
