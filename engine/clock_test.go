package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
)

// clockSetBack runs a daemon until some hours have passed, and another one on the
// same records and machines with a clock that was set back by as much.
func clockSetBack(t *testing.T, before, after func(*world), names ...string) {
	t.Helper()
	fleet, source, dir := drivertest.NewFleet(usual, names...), &commits{}, t.TempDir()
	var was time.Time
	for i, f := range []func(*world){before, after} {
		synctest.Test(t, func(t *testing.T) {
			w := &world{t: t, fleet: fleet, source: source, dir: dir, told: &teller{}}
			if i == 0 {
				time.Sleep(10 * time.Hour)
			} else {
				fleet.Step(time.Since(was))
			}
			f(w)
			w.down()
			time.Sleep(time.Minute)
			was = time.Now()
		})
	}
}

// A rollout that began at a time that is still to come keeps no commit out.
func TestClockSetBackKeepsNoCommitOut(t *testing.T) {
	var d *site.Site
	clockSetBack(t, func(w *world) {
		d = w.design("a", "b")
		d.Rollout.OnChange, d.Rollout.FirstContact = "queue", "repair"
		d.Roles = map[string]*site.Role{"r": {Enabled: true, LeaderFirst: true}}
		for _, n := range d.Nodes {
			n.Role, n.Boot.Order = "r", []string{"Usb"}
		}
		d.Nodes["a"].Paused = &site.Hold{By: "design", Reason: "test"}
		w.commit(clone(d))
		w.up()
		w.after(2 * time.Minute)
		w.want("b", site.Blocked)
	}, func(w *world) {
		w.up()
		w.after(10 * time.Minute)
		d.Nodes["a"].Paused = nil
		w.commit(clone(d))
		w.after(5 * time.Minute)
		if is := w.engine.Report().Status.Applied.ID; is != "commit-2" {
			t.Errorf("%s is in force", is)
		}
	}, "a", "b")
}

// Disks that were read at a time that is still to come are read once more before
// they are erased.
func TestClockSetBackMakesNoDisksFresh(t *testing.T) {
	clockSetBack(t, func(w *world) {
		w.fleet.Machine("a").Made(withDisks("S1"))
		w.commit(w.installed(1))
		w.up()
		w.after(3 * time.Minute)
	}, func(w *world) {
		w.up()
		w.after(5 * time.Hour)
		w.fleet.Machine("a").Made(withDisks("S1", "S2"))
		w.approve()
		w.after(20 * time.Minute)
		w.installs("a", 0)
		w.reason("a", "waits for approval")
	}, "a")
}

// A host whose clock was years ahead for one start of the daemon, and is right
// since, ends approvals after seven days like any other.
func TestApprovalEndsAlthoughTheClockWasAheadOnce(t *testing.T) {
	dir := t.TempDir()
	bubble := func(later time.Duration, f func(*world)) {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(later)
			w := &world{t: t, fleet: drivertest.NewFleet(patched, "n1"), source: &commits{}, dir: dir, told: &teller{}}
			w.commit(w.reinstall(func(d *site.Site) { d.Windows, d.Nodes["n1"].Window = at("0 5 1 3 *"), "night" }, "n1"))
			w.up()
			f(w)
			w.down()
		})
	}
	bubble(10*365*24*time.Hour, func(w *world) { w.after(time.Minute) }) // ten years ahead
	bubble(0, func(w *world) {
		w.after(10 * time.Minute)
		w.approve()
		given := time.Now()
		w.down()
		w.after(59*24*time.Hour + 4*time.Hour) // the window opens on the first of March
		w.up()
		w.after(10 * time.Minute)
		for _, e := range w.ledger("n1") {
			if e.IsOpen() {
				t.Errorf("the approval was given %s ago and is open; it says that it was opened at %s and expires at %s, and it is %s",
					time.Since(given), e.Opened.Format(time.DateOnly), e.Expires.Format(time.DateOnly), time.Now().Format(time.DateOnly))
			}
		}
		w.after(2 * time.Hour)
		w.installs("n1", 0)
	})
}
