package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
)

// An installation that was begun and broken off goes on over the disks that were
// approved, and for a week; after that, and over other disks, it is a person's turn.
func TestInstallationThatWasBrokenOff(t *testing.T) {
	for name, c := range map[string]struct {
		down     time.Duration
		disks    []string
		installs int
		reason   string
	}{
		"the same disks":             {10 * time.Minute, []string{"S1"}, 1, ""},
		"other disks":                {10 * time.Minute, []string{"CUSTOMER-1"}, 0, "the disks of the machine are now CUSTOMER-1, and S1 were approved"},
		"one disk more":              {10 * time.Minute, []string{"CUSTOMER-1", "S1"}, 0, "the disks of the machine are now CUSTOMER-1, S1, and S1 were approved"},
		"a month later":              {30 * 24 * time.Hour, []string{"S1"}, 0, "has not finished within 7 days"},
		"other disks, and later":     {30 * 24 * time.Hour, []string{"CUSTOMER-1", "CUSTOMER-2"}, 0, "within 7 days"},
		"none that the BMC tells of": {10 * time.Minute, nil, 0, "its BMC does not report all that it reported before"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				m := w.fleet.Machine("a")
				m.Made(withDisks("S1"))
				w.commit(w.installed(1))
				w.up()
				w.after(2 * time.Minute)
				if set := w.engine.Report().Status.Waiting; len(set) != 1 || set[0].Disks != "S1" {
					t.Fatalf("%+v waits", set)
				}
				w.approve()
				for !w.used("a") {
					w.after(10 * time.Millisecond)
				}
				w.crash()
				w.installs("a", 0)
				m.Made(withDisks(c.disks...))
				w.after(c.down)
				w.up()
				w.after(time.Hour)
				w.installs("a", c.installs)
				if is := w.node("a"); !strings.Contains(is.Reason, c.reason) {
					t.Errorf("a is %s (%s), want %q", is.State, is.Reason, c.reason)
				}
			}, "a")
		})
	}
}

// An approval that was used, and after which nothing was sent, approves nothing
// when the daemon comes back: what was published in between may have taken minutes.
func TestCrashBeforeAnythingWasSent(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		m := w.fleet.Machine("a")
		m.Made(withDisks("S1"))
		w.anchor = &board{onSeal: func() { time.Sleep(5 * time.Second) }} // as a push takes
		w.commit(w.installed(1))
		w.up()
		w.after(2 * time.Minute)
		w.approve()
		for !w.used("a") {
			w.after(10 * time.Millisecond)
		}
		if f := w.recorded("a").InFlight; f.Sent {
			t.Fatalf("the use is not published yet, and %+v was sent", f)
		}
		w.crash()
		w.after(time.Minute)
		w.up()
		w.after(time.Hour)
		w.installs("a", 0)
		set := w.engine.Report().Status.Waiting
		if f := w.recorded("a").InFlight; f != nil || len(set) != 1 || set[0].Attempt != 2 {
			t.Errorf("%+v waits, in flight %+v", set, f)
		}
	}, "a")
}

// An approval that was used, and nothing erased by it yet, does not outlive what a
// person has said since: that the node is to stay as it is.
func TestUsedApprovalErasesNothingAfterTheDesignWasTakenBack(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		m := w.fleet.Machine("a")
		m.Made(withDisks("S1"))
		m.SetPower("on")
		m.SetDisk(&site.Marker{})
		w.commit(w.design("a"))
		w.up()
		w.after(10 * time.Minute)
		w.commit(w.installed(1))
		w.after(2 * time.Minute)
		w.approve()
		for !w.used("a") {
			w.after(10 * time.Millisecond)
		}
		w.crash()
		w.installs("a", 0)
		m.SetPower("on") // somebody has the machine serve again, as it was
		w.commit(w.design("a"))
		w.after(30 * 24 * time.Hour)
		w.up()
		w.after(time.Hour)
		w.installs("a", 0)
	}, "a")
}

// An approval that was used to take a virtual machine away, of which nothing came
// before the design took that back, is over. To take the machine away some other
// day needs an approval of that day.
func TestGuestThatWasSparedIsNotTakenAwayByTheApprovalOfBefore(t *testing.T) {
	inBubble(t, hosted, func(w *world) {
		kept := w.withGuest("vm")
		m := w.fleet.Machine("vm")
		goes := clone(kept)
		goes.Nodes["vm"].Decommission = true
		w.commit(goes)
		w.after(time.Minute)
		w.approve()
		for !w.used("vm") {
			w.after(time.Millisecond)
		}
		m.SetFault(drivertest.Unreachable) // the hypervisor
		w.crash()
		if !m.Defined() {
			t.Fatal("the machine is gone already")
		}
		w.commit(kept)
		w.up()
		w.after(time.Hour) // the design that keeps it is in force
		again := clone(goes)
		again.Nodes["vm"].Labels = map[string]string{"why": "the whole rack goes"}
		w.after(24 * time.Hour)
		w.commit(again)
		w.after(time.Minute)
		m.SetFault(drivertest.Healthy)
		w.after(time.Hour)
		if !m.Defined() {
			t.Errorf("the machine was taken away by an approval that was given the day before, and of a design that was taken back since: %+v", w.ledger("vm"))
		}
	})
}
