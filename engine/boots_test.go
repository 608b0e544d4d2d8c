package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
)

// interrupted counts the steps in which a machine was taken out of service,
// other than for an installation.
func (w *world) interrupted(name string) int {
	n := 0
	for _, c := range w.fleet.Calls() {
		took := c.Step.Action == site.ActionRestart || c.Step.Action == site.ActionPowerOff || c.Step.Action == site.ActionPackages
		if took && c.First && c.Machine == name && !c.Step.Force {
			n++
		}
	}
	return n
}

func (w *world) interruptions(name string, want int, when string) {
	w.t.Helper()
	if got := w.interrupted(name); got != want {
		w.t.Errorf("%s: %s was interrupted %d times, want %d", when, name, got, want)
	}
}

// withoutSMT is a site of machines on which the design wants SMT off.
func (w *world) withoutSMT(names ...string) *site.Site {
	d := w.design(names...)
	d.Rollout.FirstContact = "repair"
	for _, name := range names {
		w.fleet.Machine(name).SetPower("on")
		w.fleet.Machine(name).SetHave(site.FacetBIOS, site.Values{"smt": "true"})
		no := false
		d.Nodes[name].BIOS.SMT = &no
	}
	return d
}

// A machine that does not take its settings over, or whose BIOS job fails, is
// interrupted three times. After that it needs a person without a break, whatever
// happens meanwhile, until a commit changes what the design wants there or a
// person has it tried again.
func TestSettingsThatNoBootBrings(t *testing.T) {
	for _, fault := range []drivertest.Fault{drivertest.Forgetful, drivertest.Failing} {
		t.Run(string(fault), func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				m := w.fleet.Machine("m1")
				d := w.withoutSMT("m1")
				m.SetFault(fault)
				w.commit(d)
				w.up()
				w.after(time.Minute)
				spent := func() bool { return strings.Contains(w.node("m1").Reason, "interrupted the machine 3 times") }
				w.until("it needs a person", 2*time.Hour, spent)
				w.interruptions("m1", 3, "once its attempts are used up")
				told := w.node("m1")
				if told.State != site.Stalled || !strings.Contains(told.Reason, "bios.smt is true and is designed as false") || !strings.Contains(told.Release, "slipway retry m1") {
					t.Errorf("it says: %s (%s); release: %s", told.State, told.Reason, told.Release)
				}
				steady := func(when string) {
					t.Helper()
					for range 120 {
						w.after(time.Minute)
						if n := w.node("m1"); n.State != site.Stalled || n.Reason != told.Reason || !n.Since.Equal(told.Since) {
							t.Fatalf("%s: the need for a person is not steady: %s since %s: %s", when, n.State, n.Since, n.Reason)
						}
					}
					w.interruptions("m1", 3, when)
				}
				steady("two hours later")

				d = clone(d)
				d.Nodes["m1"].Labels = map[string]string{"rack": "r2"}
				w.commit(d)
				w.after(2 * time.Minute)
				told = w.node("m1")
				steady("after a commit that changes something else of the node")

				w.down()
				w.up()
				w.after(time.Minute)
				w.until("it was looked at", time.Hour, spent)
				told = w.node("m1")
				steady("after a restart of the daemon")

				w.do(site.Order{Verb: site.VerbRetry, Node: "m1"})
				w.after(2 * time.Hour)
				w.want("m1", site.Stalled)
				w.interruptions("m1", 6, "after a person had it tried again")

				d = clone(d)
				yes := true
				d.Nodes["m1"].BIOS.SMT, d.Nodes["m1"].BIOS.Virtualization = nil, &yes
				m.SetHave(site.FacetBIOS, site.Values{"smt": "true", "virtualization": "false"})
				w.commit(d)
				w.after(2 * time.Hour)
				w.want("m1", site.Stalled)
				w.interruptions("m1", 9, "after a commit that wants something else")
				if !strings.Contains(w.node("m1").Reason, "bios.virtualization") {
					t.Errorf("it says: %s", w.node("m1").Reason)
				}
			}, "m1")
		})
	}
}
