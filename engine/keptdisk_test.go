package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Where the design keeps a disk, an approval for what the BMC lists has the agent started. What the agent then sees waits for
// an approval of its own, which names the erased disk alone, and nothing is erased before that.
func TestKeptDiskIsApprovedByWhatTheAgentSees(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.listens = true
		d := w.rooted("a")
		d.Nodes["a"].Storage.Disks["data"] = site.Disk{Match: &site.DiskMatch{Kind: "hdd"}, Keep: true}
		w.commit(d)
		w.up()
		w.until("the installation waits for approval", 5*time.Minute, func() bool { return w.engine.Report().Status.Approve != "" })
		waits := func() site.Loss { return w.engine.Report().Status.Waiting[0] }
		if l := waits(); !strings.Contains(l.Disks, "DATA-SERIAL-a") || !strings.Contains(l.Lost, "kept: data") {
			t.Fatalf("what the BMC lists is %+v", l)
		}
		w.approve()
		w.until("it waits once more", time.Hour, func() bool {
			all := w.engine.Report().Status.Waiting
			return len(all) == 1 && !strings.Contains(all[0].Disks, "DATA-SERIAL-a")
		})
		w.after(2 * time.Hour)
		if l := waits(); l.Disks != "NVME-SERIAL-a" || slices.Contains(w.steps("a"), site.ActionInstall) {
			t.Fatalf("it waits for %+v, after the steps %v", l, w.steps("a"))
		}
		w.approve()
		w.until("it is in-sync", 2*time.Hour, w.is(site.InSync, "a"))
		if got := w.agents.Erased(); slices.Contains(got, "DATA-SERIAL-a") {
			t.Errorf("erased were %q", got)
		}
	}, "a")
}
