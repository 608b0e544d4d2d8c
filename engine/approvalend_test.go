package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

func TestApprovalThatIsTakenOutOfTheDesignHoldsNoMore(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.reinstall(func(d *site.Site) { d.Windows, d.Nodes["n1"].Window = at("30 0 * * *"), "night" }, "n1")
		w.fleet.Machine("n1").SetPower("on")
		w.commit(d)
		w.up()
		w.after(2 * time.Minute)
		approved := w.inDesign(d)
		w.commit(approved)
		w.after(3 * time.Minute)
		w.reason("n1", "its window night opens at")
		w.commit(d)
		w.after(5 * time.Minute)
		w.reason("n1", "waits for approval")
		w.down()
		w.up()
		w.after(40 * time.Minute)
		w.reason("n1", "waits for approval")
		w.installs("n1", 0)
		w.commit(approved)
		w.after(15 * time.Minute)
		w.installs("n1", 0)
		w.commit(w.inDesign(d))
		w.after(15 * time.Minute)
		w.installs("n1", 1)
	}, "n1")
}

func TestApprovalByCommandEndsAfterAWeek(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		w.commit(w.reinstall(func(d *site.Site) { d.Windows, d.Nodes["n1"].Window = at("0 2 20 * *"), "night" }, "n1"))
		w.up()
		w.after(time.Minute)
		w.approve()
		w.down()
		w.after(7*24*time.Hour - 10*time.Minute)
		w.up()
		w.after(5 * time.Minute)
		w.reason("n1", "its window night opens at")
		w.after(10 * time.Minute)
		w.reason("n1", "waits for approval")
		w.installs("n1", 0)
		digest := w.engine.Report().Status.Approve
		if n := w.node("n1"); digest == "" || !n.Person || n.Release != "`slipway approve "+digest+"`, or that digest in the design's approvals" {
			t.Errorf("set %q waits, n1 is %+v", digest, n)
		}
		// Once more, and a restart does not forget that.
		w.approve()
		w.down()
		w.up()
		w.after(5 * time.Minute)
		w.reason("n1", "its window night opens at")
	}, "n1")
}

// inDesign is a design with a line that approves what waits.
func (w *world) inDesign(d *site.Site) *site.Site {
	d = clone(d)
	d.Approvals = map[string]site.Approval{w.engine.Report().Status.Approve: {By: "ann"}}
	return d
}

func TestDigestOfAnApprovalThatEndedApprovesNothing(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.reinstall(func(d *site.Site) { d.Windows, d.Nodes["n2"].Window = at("0 2 20 * *"), "night" }, "n1", "n2")
		w.commit(d)
		w.up()
		w.after(time.Minute)
		digest := w.engine.Report().Status.Approve
		w.approve()
		w.after(15 * time.Minute)
		w.installs("n1", 1)
		w.down()
		w.after(8 * 24 * time.Hour)
		w.up()
		w.after(2 * time.Minute)
		w.reason("n2", "waits for approval")
		old := clone(d)
		old.Approvals = map[string]site.Approval{digest: {By: "ann"}}
		w.commit(old)
		w.after(2 * time.Minute)
		w.reason("n2", "waits for approval")
		w.commit(w.inDesign(d))
		w.after(2 * time.Minute)
		w.reason("n2", "its window night opens at")
	}, "n1", "n2")
}

func TestApprovalOfAnOlderSetCoversNothingThatCameAfter(t *testing.T) {
	all := names(3)
	inBubble(t, patched, func(w *world) {
		w.commit(w.reinstall(nil, "n1", "n2"))
		w.up()
		w.after(time.Minute)
		older := w.engine.Report().Status.Approve
		w.commit(w.reinstall(func(d *site.Site) { d.Nodes["n2"].Generation = 2 }, all...))
		w.after(time.Minute)
		newer := w.engine.Report().Status.Approve
		answer, err := w.engine.Do(w.t.Context(), site.Order{Verb: site.VerbApprove, Digest: older, By: "ann"})
		if err != nil {
			t.Fatal(err)
		}
		left := w.engine.Report().Status.Approve
		if older == newer || left == newer || left == older || !strings.Contains(answer, "2 more wait for approval, as set "+left) {
			t.Errorf("older %s, newer %s, left %s: %s", older, newer, left, answer)
		}
		w.after(12 * time.Minute)
		w.installs("n1", 1)
		for _, name := range []string{"n2", "n3"} {
			w.installs(name, 0)
			w.reason(name, "waits for approval")
		}
	}, all...)
}
