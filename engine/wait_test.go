package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// The wait for a system that shuts down is shown as it passes, to whoever asks, and
// brings no report of its own.
func TestWaitForShutdownIsShownAsItPasses(t *testing.T) {
	slow := usual
	slow.PowerTime = 100 * time.Second
	inBubble(t, slow, func(w *world) {
		w.fleet.Machine("a").SetPower("on")
		w.commit(w.design("a"))
		w.up()
		w.after(2 * time.Minute)
		w.want("a", site.InSync)
		off := w.design("a")
		off.Nodes["a"].Power = "off"
		w.commit(off)
		waits := func() bool { return strings.HasPrefix(w.node("a").Detail, "waits for its system to shut down, ") }
		w.until("the wait is shown", time.Minute, waits)
		w.after(10 * time.Second) // what the step's beginning is worth is reported
		reports, first := w.told.reports(), w.node("a")
		w.after(20 * time.Second)
		second := w.node("a")
		if first.Detail == second.Detail || !waits() || !strings.HasSuffix(second.Detail, " of at most 3m20s") {
			t.Errorf("it shows %q, 20 s later %q", first.Detail, second.Detail)
		}
		if first.Reason != second.Reason || second.State != site.Progressing || w.told.reports() != reports {
			t.Errorf("%d reports more, %+v", w.told.reports()-reports, second)
		}
		w.until("off", 5*time.Minute, w.is(site.InSync, "a"))
		if d := w.node("a").Detail; d != "" {
			t.Errorf("after the wait it shows %q", d)
		}
	}, "a")
}
