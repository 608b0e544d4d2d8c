package engine_test

import (
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
)

// burning is a fleet on which a boot action takes longer than anything else is waited for.
var burning = drivertest.Config{Latency: 200 * time.Millisecond, PowerTime: 30 * time.Second, OSTime: 20 * time.Second, InstallTime: 10 * time.Minute,
	StepTime: map[site.Action]time.Duration{site.ActionOnce: 50 * time.Minute, site.ActionConfig: 2 * time.Minute}}

// burns is a design of one node that is installed and has a boot action.
func (w *world) burns(generation int) *site.Site {
	d := w.service("n1")
	n := d.Nodes["n1"]
	n.Image, n.Generation = "debian", generation
	d.BootActions = map[string]*site.BootAction{"burn": {After: "install", Run: []string{"/usr/bin/stress"}, Timeout: site.Duration(time.Hour)}}
	n.System.Sysctl = site.Scalars{"a": int64(1)}
	n.References = d.ReferencesOf(n)
	return d
}

// burn installs the node and brings it to where its action runs.
func (w *world) burn() {
	w.t.Helper()
	w.commit(w.burns(1))
	w.up()
	w.after(time.Minute)
	w.approve()
	w.until("the action runs", 2*time.Hour, func() bool { return w.fleet.Machine("n1").Actions("burn") == 1 })
	w.after(time.Minute)
	w.want("n1", site.Progressing)
	w.reason("n1", "the boot action burn is running since ")
	if got := w.node("n1").Phase; got != "install" {
		w.t.Errorf("it is before %q", got)
	}
}

func (w *world) burnt(times int, when string) {
	w.t.Helper()
	if got := w.fleet.Machine("n1").Actions("burn"); got != times {
		w.t.Errorf("%s: it was begun %d times, want %d", when, got, times)
	}
}

// A boot action runs once in an installation, over restarts of the daemon, and again in the
// next. The phases after its own come after it.
func TestBootActionRunsOnce(t *testing.T) {
	inBubble(t, burning, func(w *world) {
		w.burn()
		if have := w.fleet.Machine("n1").Have(site.FacetConfig); have["sysctl.a"] != "" {
			t.Error("the next phase has begun")
		}
		for range 3 {
			w.down()
			w.up()
			w.after(5 * time.Minute)
			w.want("n1", site.Progressing)
		}
		w.until("in-sync", time.Hour, w.is(site.InSync, "n1"))
		w.burnt(1, "in the first installation")
		if done := w.recorded("n1").Actions["burn"]; done.Attempts != 1 || done.Done.IsZero() {
			t.Errorf("recorded is %+v", done)
		}
		w.fleet.Machine("n1").ForgetActions()
		w.down()
		w.up()
		w.after(20 * time.Minute)
		w.want("n1", site.InSync)
		w.burnt(1, "without the machine's journal")
		w.commit(w.burns(2))
		w.after(time.Minute)
		w.approve()
		w.until("in the next installation", 4*time.Hour, func() bool { return w.fleet.Machine("n1").Actions("burn") == 2 })
		w.until("in-sync", 2*time.Hour, w.is(site.InSync, "n1"))
		w.burnt(2, "at last")
	}, "n1")
}

// What failed, or was cut by a machine that went down, waits for a person, who has it done
// once more.
func TestBootActionWaitsForAPerson(t *testing.T) {
	for name, c := range map[string]struct {
		trouble func(w *world, m *drivertest.FakeMachine)
		says    string
	}{
		"it fails": {func(w *world, m *drivertest.FakeMachine) { w.after(50 * time.Minute) }, "the boot action burn failed: its exit code is 7"},
		"the power is cut": {func(w *world, m *drivertest.FakeMachine) {
			m.SetPower("off")
			w.after(5 * time.Minute)
		}, "the boot action burn was begun, and the machine went down meanwhile"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, burning, func(w *world) {
				m := w.fleet.Machine("n1")
				m.FailActions(true)
				w.burn()
				c.trouble(w, m)
				w.until("stalled", time.Hour, w.is(site.Stalled, "n1"))
				w.after(2 * time.Hour)
				w.want("n1", site.Stalled)
				w.reason("n1", c.says)
				w.down()
				w.up()
				w.do(site.Order{Verb: site.VerbRetry}) // every node is meant, and no action
				w.after(time.Hour)
				w.want("n1", site.Stalled)
				w.burnt(1, "by itself")
				m.FailActions(false)
				w.do(site.Order{Verb: site.VerbRetry, Node: "n1"})
				w.after(2 * time.Minute)
				w.burnt(2, "after a person asked for it")
				w.do(site.Order{Verb: site.VerbRetry, Node: "n1"}) // while it runs
				w.until("in-sync", 2*time.Hour, w.is(site.InSync, "n1"))
				w.burnt(2, "at last")
			}, "n1")
		})
	}
}

// A machine that was met is left alone.
func TestNoBootActionWithoutAnInstallation(t *testing.T) {
	inBubble(t, burning, func(w *world) {
		w.serving("n1")
		d := w.burns(0)
		d.Nodes["n1"].Image, d.Nodes["n1"].System.Sysctl = "", nil
		w.commit(d)
		w.after(20 * time.Minute)
		w.want("n1", site.InSync)
		w.burnt(0, "on a system that Slipway did not install")
	}, "n1")
}
