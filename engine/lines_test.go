package engine_test

import (
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A digest can be computed by whoever can read the status branch. A commit that
// asks for an installation and has the line that approves it, too, approves a set
// that nobody was shown.
func TestLineThatForetellsTheDigestOfItsOwnCommitApprovesNothing(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.fleet.Machine("a").Made(withDisks("S1"))
		w.fleet.Machine("a").SetPower("on")
		w.fleet.Machine("a").SetDisk(&site.Marker{})
		w.commit(w.design("a"))
		w.up()
		w.after(30 * time.Minute)
		if n := len(w.engine.Report().Status.Waiting); n != 0 {
			t.Fatalf("%d losses wait", n)
		}
		next, known := w.installed(1), w.engine.Known()
		p := plan.Site(next, "proposed", known)
		losses := p.Destroys()
		next.Approvals = map[string]site.Approval{losses.Digest(): {By: "ann"}}
		w.commit(next)
		w.after(time.Hour)
		w.installs("a", 0)
		for _, e := range w.ledger("a") {
			t.Logf("%s approved by %q in the commit that asks for it", e.Loss.Action, e.Source)
		}
	}, "a")
}
