package engine_test

import (
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// The system that a virtual machine runs is not replaced without approval, also when the design calls the disk of the image by
// another name from then on.
func TestRenamedImageDisk(t *testing.T) {
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
		virtual(func(*site.Node) {})
		w.up()
		w.after(15 * time.Second)
		w.until("installed", 20*time.Minute, w.is(site.InSync, "web-1"))
		since := time.Now()
		virtual(func(n *site.Node) {
			n.Generation = 2
			n.Virtual.Disks = map[string]site.VirtualDisk{"os": {Size: 20 << 30, Image: "overlay"}, "data": {Size: 1 << 30}}
		})
		w.after(30 * time.Minute)
		if got := vm.Counts().Installs; got != 1 || !w.begun("web-1", site.ActionInstall, since).IsZero() {
			t.Errorf("nobody approved anything, and the running system was replaced: installed %d times, status %s %s", got, w.node("web-1").State, w.node("web-1").Reason)
		}
		w.approve()
		w.until("installed once it is approved", 20*time.Minute, func() bool { return vm.Counts().Installs == 2 && w.node("web-1").State == site.InSync })
	})
}
