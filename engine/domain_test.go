package engine_test

import (
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// A virtual machine is made without approval, changed, installed anew with
// approval, taken away with approval, made again under the same name, and leaves
// the design when it is gone.
func TestLifeOfVirtualMachine(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		vm := w.fleet.AddVirtual("test", "web-1")
		virtual := func(change func(*site.Node)) {
			d := w.guests()
			d.Rollout.MaxUnavailable = "100%"
			n := vm.VirtualNode()
			n.Power, n.Image, n.Generation = "on", "debian", 1
			change(n)
			d.Nodes["web-1"] = n
			w.commit(d)
		}
		inSync := func(what string) {
			t.Helper()
			w.after(15 * time.Second) // the design is in force
			w.until(what, 20*time.Minute, w.is(site.InSync, "web-1"))
		}

		virtual(func(*site.Node) {})
		w.up()
		inSync("made and installed")
		if got := vm.Counts().Installs; got != 1 || !vm.Defined() || vm.Seeded() {
			t.Errorf("installed %d times, defined %t, seeded %t", got, vm.Defined(), vm.Seeded())
		}

		virtual(func(n *site.Node) { n.Virtual.Memory = 2 << 30 })
		inSync("more memory")
		if w.begun("web-1", site.ActionRestart, time.Time{}).IsZero() {
			t.Error("it was not restarted for its memory")
		}

		virtual(func(n *site.Node) { n.Virtual.Memory, n.Generation = 2<<30, 2 })
		w.until("its disk is not erased unasked", time.Minute, w.is(site.Blocked, "web-1"))
		w.approve()
		inSync("installed anew")
		if got := vm.Counts().Installs; got != 2 {
			t.Errorf("installed %d times, want 2", got)
		}

		virtual(func(n *site.Node) { n.Virtual.Memory, n.Generation, n.Decommission = 2<<30, 2, true })
		w.until("it is not taken away unasked", time.Minute, w.is(site.Blocked, "web-1"))
		w.approve()
		inSync("decommissioned")
		if vm.Defined() {
			t.Error("it is still there")
		}

		virtual(func(*site.Node) {})
		inSync("made again")
		if got := vm.Counts().Installs; got != 3 {
			t.Errorf("installed %d times, want 3", got)
		}

		virtual(func(n *site.Node) { n.Decommission = true })
		w.until("it is not taken away unasked again", time.Minute, w.is(site.Blocked, "web-1"))
		w.approve()
		inSync("decommissioned again")
		w.commit(w.design())
		w.until("it has left", 10*time.Minute, func() bool { return len(w.engine.Report().Status.Nodes) == 0 })
	})
}
