package engine_test

import (
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A machine that is as designed is not said to be in service while its system does
// not answer.
func TestSystemThatDoesNotAnswerIsSaid(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		m := w.fleet.Machine("n1")
		m.SetPower("on")
		m.SetDisk(&site.Marker{})
		w.commit(w.design("n1", "n2"))
		w.fleet.Machine("n2").SetPower("on") // and has no disk with a system
		w.up()
		service := func(after time.Duration, want site.Service, state site.State) {
			t.Helper()
			w.after(after)
			if n := w.node("n1"); n.Service != want || n.State != state {
				t.Errorf("n1 is %s (%s), and its system %s; want %s and %s", n.State, n.Reason, n.Service, state, want)
			}
		}
		service(10*time.Minute, site.ServiceAnswers, site.InSync)
		if n := w.node("n2"); n.Service != site.ServiceSilent {
			t.Errorf("the system of n2, which has none, is %s", n.Service)
		}
		m.SetDisk(nil)
		service(10*time.Minute, site.ServiceSilent, site.InSync)
		if got := w.engine.Report().Status; len(got.Silent()) != 2 || got.Caveat() != ", 2 whose systems do not answer" {
			t.Errorf("the site says %q", got.Caveat())
		}
		m.SetDisk(&site.Marker{})
		service(10*time.Minute, site.ServiceAnswers, site.InSync)
		m.SetFault(drivertest.Unreachable)
		service(10*time.Minute, site.ServiceUnknown, site.Retrying)
	}, "n1", "n2")
}
