package engine_test

import (
	"errors"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/switches"
)

// A port that was prepared for a start which nobody wants any more goes back, although no agent was
// started: the machine is in service.
func TestAStartThatIsTakenBackFreesThePort(t *testing.T) {
	for name, takesBack := range map[string]func(w *world){
		"the design":   func(w *world) { w.commit(w.onSwitch("a")) },
		"the approval": func(w *world) { w.do(site.Order{Verb: site.VerbDisapprove, Node: "a"}) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				w.plugged()
				w.approve()
				w.until("it is in-sync", time.Hour, w.is(site.InSync, "a"))
				d := w.onSwitch("a")
				d.Nodes["a"].Generation = 2
				w.commit(d)
				w.until("the next one waits for approval", 10*time.Minute, func() bool { return w.engine.Report().Status.Approve != "" })
				w.leaf.Behave(switches.Provisioning, switches.Unkind{Fails: errors.New("TLS handshake timeout"), Late: true})
				w.approve()
				w.until("the switch fails", 10*time.Minute, w.is(site.Retrying, "a"))
				takesBack(w)
				w.until("the port is back", time.Hour, func() bool { return w.leaf.State("a", "eno1") == switches.Production })
				w.after(2 * time.Hour)
				if n := w.segment.names(); len(n) > 0 || w.prepared() != nil || w.started("a") != 1 {
					t.Errorf("armed are %v, on record %+v, started %d times", n, w.prepared(), w.started("a"))
				}
			}, "a")
		})
	}
}

// A machine that was armed stays so no longer than somebody wants its start, also where its BMC does
// not answer.
func TestAStartThatIsTakenBackIsDisarmed(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.segment = newSegment()
		w.startsOverNetwork()
		m := w.fleet.Machine("a")
		m.Configure(func(c *drivertest.Config) { c.Writes = drivertest.Range{From: 10 * time.Second, To: 10 * time.Second} })
		w.approve()
		for len(w.segment.names()) == 0 {
			w.after(200 * time.Millisecond)
		}
		m.SetFault(drivertest.Unreachable)
		w.after(5 * time.Minute)
		if n := w.segment.names(); len(n) != 1 {
			t.Fatalf("armed are %v", n)
		}
		d := w.networked("a")
		d.Nodes["a"].Image, d.Nodes["a"].Generation = "", 0
		w.commit(d)
		w.until("nothing is armed", 10*time.Minute, func() bool { return len(w.segment.names()) == 0 })
	}, "a")
}

// An erase that goes on while nobody hears of it is not cut off, whatever the design says meanwhile.
func TestAnEraseIsNotCutOffByTheDesign(t *testing.T) {
	unheard := drivertest.Unkind{Vanishes: 2 * time.Minute, Times: 1, Works: 30 * time.Hour, Forgets: true}
	network := func(w *world, allowed bool) *site.Site {
		d := w.networked("a")
		if !allowed {
			d.Install = site.Install{}
			d.Nodes["a"].References.Start = ""
		}
		d.Nodes["a"].Decommission, d.Nodes["a"].DecommissionErase = true, item.EraseSecure
		return d
	}
	for name, c := range map[string]struct {
		begins func(w *world)
		then   func(w *world)
	}{
		"nothing changes":  {func(w *world) { w.awaitsErase("a") }, func(*world) {}},
		"it is taken back": {func(w *world) { w.awaitsErase("a") }, func(w *world) { w.commit(w.rooted("a")) }},
		"another disk is named": {func(w *world) { w.awaitsErase("a") }, func(w *world) {
			d := w.retiring("a")
			d.Nodes["a"].Storage.Disks["data"] = site.Disk{Match: &site.DiskMatch{Kind: "hdd"}}
			w.commit(d)
		}},
		"the trust is taken back": {func(w *world) {
			w.segment = newSegment()
			w.startsOverNetwork()
			w.approve()
			w.until("it is in-sync", time.Hour, w.is(site.InSync, "a"))
			w.commit(network(w, true))
			w.until("the erase waits for approval", 10*time.Minute, func() bool { return w.engine.Report().Status.Approve != "" })
		}, func(w *world) { w.commit(network(w, false)) }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				c.begins(w)
				m := w.fleet.Machine("a")
				m.Misbehave(unheard)
				starts, asked := w.started("a"), len(w.agents.Asked())
				w.approve()
				w.until("it erases", time.Hour, func() bool { return len(w.agents.Asked()) > asked })
				w.after(5 * time.Minute)
				before := m.Counts()
				c.then(w)
				w.after(3 * time.Hour)
				if now := m.Counts(); now.Resets != before.Resets || w.started("a") != starts+1 {
					t.Errorf("3 h into an erase of 30 h it was reset %d times, the agent started %d times: %s %s", now.Resets-before.Resets, w.started("a")-starts, w.node("a").State, w.node("a").Reason)
				}
			}, "a")
		})
	}
}
