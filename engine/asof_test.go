package engine_test

import (
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
)

// What a BMC said of the power is not claimed of a time when it did not answer.
func TestPowerOfASilentBMCIsOfThePast(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.on(w.design("n1"), "n1")
		if n := w.node("n1"); n.Power != "on" || !n.AsOf.IsZero() {
			t.Errorf("with a BMC that answers: power %s as of %s", n.Power, n.AsOf)
		}
		w.fleet.Machine("n1").SetFault(drivertest.Unreachable)
		w.until("n1 is retried", 10*time.Minute, w.is(site.Retrying, "n1"))
		n := w.node("n1")
		if n.Power != "on" || n.AsOf.IsZero() || !n.AsOf.Equal(n.Seen) {
			t.Errorf("with a silent BMC, seen at %s: power %s as of %s", n.Seen, n.Power, n.AsOf)
		}
		w.after(time.Hour)
		if later := w.node("n1"); !later.AsOf.Equal(n.AsOf) {
			t.Errorf("an hour later it is as of %s, and was last seen at %s", later.AsOf, n.AsOf)
		}
		w.fleet.Machine("n1").SetFault(drivertest.Healthy)
		w.until("n1 is in-sync", time.Hour, w.is(site.InSync, "n1"))
		if n := w.node("n1"); n.Power != "on" || !n.AsOf.IsZero() {
			t.Errorf("with a BMC that answers again: power %s as of %s", n.Power, n.AsOf)
		}
	}, "n1")
}
