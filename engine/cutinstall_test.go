package engine_test

import (
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Whether the agent has installed a system it says itself. While its connection is lost, what holds
// the plan back for a while makes nobody forget that it works, and a machine that is off afterwards is
// no sign that it has ended.
func TestAnInstallationIsNotProvenByThePower(t *testing.T) {
	for name, c := range map[string]struct {
		system      bool // that can be asked
		then, after func(w *world, m *drivertest.FakeMachine)
	}{
		"another machine answers for a while": {false, func(_ *world, m *drivertest.FakeMachine) { m.SetFault(drivertest.WrongMachine) }, func(_ *world, m *drivertest.FakeMachine) { m.SetFault(drivertest.Healthy) }},
		"the machine is away for a while": {true, func(w *world, _ *drivertest.FakeMachine) {
			d := w.rooted("a")
			d.Nodes["a"].Away = "in repair"
			w.commit(d)
		}, func(w *world, _ *drivertest.FakeMachine) { w.commit(w.rooted("a")) }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				d := w.rooted("a")
				if !c.system {
					delete(d.Nodes["a"].Endpoints, site.OS)
				}
				w.listens = true
				w.commit(d)
				w.up()
				w.until("the installation waits for approval", 5*time.Minute, func() bool { return w.engine.Report().Status.Approve != "" })
				m := w.fleet.Machine("a")
				m.Misbehave(drivertest.Unkind{Vanishes: 2 * time.Minute, Times: 1})
				w.approve()
				w.until("the agent installs", time.Hour, func() bool { return len(w.agents.Asked()) > 0 })
				w.after(2*time.Minute + 10*time.Second)
				c.then(w, m)
				w.after(10 * time.Minute)
				m.SetPower("off") // a person, or a power cut
				w.after(time.Minute)
				c.after(w, m)
				// The approved installation is done again from its beginning, or a person is asked.
				w.after(3 * time.Hour)
				r := w.engine.Known().Nodes["a"].Recorded
				if installs := m.Counts().Installs; r.Installed != nil && installs == 0 || w.node("a").State == site.InSync && installs == 0 {
					t.Errorf("a cut installation counts as %+v, the node is %s: %s", r.Installed, w.node("a").State, w.node("a").Reason)
				}
			}, "a")
		})
	}
}
