package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// A BMC that could read only some of the drives says so in its inventory. What a
// person approves must not name those as if they were all that is erased.
func TestApprovalSaysThatSomeDrivesCouldNotBeRead(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		inv := withDisks("S1")
		inv.DrivesUnread = true
		inv.Missing = []string{"drives: GET /redfish/v1/Systems/1/Storage/2: 503 Service Unavailable"}
		w.fleet.Machine("n1").Made(inv)
		w.commit(w.reinstall(nil, "n1"))
		w.up()
		w.after(2 * time.Minute)
		for _, l := range w.engine.Report().Status.Waiting { // that nothing can be approved is right, too
			if text := l.Disks + "; " + l.Lost; !strings.Contains(text, "read") {
				t.Errorf("what is to be approved says %q: that there are drives that could not be read is not said", text)
			}
		}
	}, "n1")
}

// Disks that were exchanged while the machine was off, by a BMC that knows of none
// then, were not read once more: what was read before the exchange is no reason to
// erase them.
func TestDisksExchangedWhileTheMachineIsOffAreNotTakenForThoseApproved(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		m := w.fleet.Machine("n1")
		m.Made(withDisks("S1"))
		m.SetPower("on")
		w.commit(w.reinstall(func(d *site.Site) {
			d.Windows, d.Nodes["n1"].Window = at("0 5 * * *"), "night"
			d.Nodes["n1"].Power = ""
		}, "n1"))
		w.up()
		w.after(2 * time.Minute)
		w.approve()
		m.SetPower("off")       // a person takes the machine down,
		m.Made(withDisks())     // whose BMC tells of no disk now,
		w.after(12 * time.Hour) // and puts other disks in; the window opens
		if n := m.Counts().Installs; n != 0 {
			t.Errorf("%d installations over disks that nobody has read since before the exchange; the approval was of %q", n, w.ledger("n1")[0].Loss.Disks)
		}
	}, "n1")
}
