package engine_test

import (
	"errors"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// planned is the plan of a design whose machines were never seen.
func planned(d *site.Site) site.Plan { return plan.Site(d, "r", site.Known{}) }

func TestQuarantineIsPastEverything(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving(names(3)...)
		w.patch(d, "2", func(d *site.Site) {
			d.Rollout.OnChange = "queue"
			d.Windows = map[string]*site.Window{"never": {Cron: "0 0 1 1 *", Length: site.Duration(time.Minute)}}
			for _, n := range d.Nodes {
				n.Window = "never"
			}
		})
		w.after(2 * time.Minute)
		w.source.vanish(errors.New("no route to host"))
		for _, name := range names(3) {
			w.fleet.Machine(name).SetFault(drivertest.Rebellious)
		}
		w.do(site.Order{Verb: site.VerbPause, Reason: "night"})
		w.do(site.Order{Verb: site.VerbQuarantine, Reason: "a shell that nobody opened"})
		w.after(30 * time.Second)
		for _, name := range names(3) {
			if got := w.fleet.Machine(name).Power(); got != "off" {
				t.Errorf("%s is %s half a minute after the quarantine", name, got)
			}
			w.want(name, site.Paused)
			w.reason(name, "quarantined by tester: a shell that nobody opened; the machine is off")
		}
		// Somebody presses the button, and the daemon is restarted.
		w.fleet.Machine("n2").SetPower("on")
		w.down()
		w.up()
		w.after(2 * time.Minute)
		if got := w.fleet.Machine("n2").Power(); got != "off" {
			t.Errorf("n2 is %s in quarantine", got)
		}
		w.do(site.Order{Verb: site.VerbResume})
		w.do(site.Order{Verb: site.VerbRelease, Node: "n2"})
		w.after(5 * time.Minute)
		if got := w.fleet.Machine("n2").Power(); got != "on" {
			t.Errorf("n2 is %s after its release", got)
		}
		if got := w.fleet.Machine("n1").Power(); got != "off" {
			t.Errorf("n1 is %s, and was not released", got)
		}
	}, names(3)...)
}

func TestQuarantineKeepsTheNoteOfAnInstallation(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.design("n1")
		d.Nodes["n1"].Image, d.Nodes["n1"].Generation = "debian", 1
		w.commit(d)
		w.up()
		w.after(time.Minute)
		w.approve()
		w.after(20 * time.Second) // its medium is being booted
		w.do(site.Order{Verb: site.VerbQuarantine, Node: "n1", Reason: "drill"})
		w.after(2 * time.Minute)
		if got := w.fleet.Machine("n1").Power(); got != "off" {
			t.Errorf("n1 is %s in quarantine", got)
		}
		w.do(site.Order{Verb: site.VerbRelease, Node: "n1"})
		w.after(2 * time.Hour)
		if c := w.fleet.Machine("n1").Counts(); c.Installs != 1 {
			t.Errorf("installed %d times from one approval", c.Installs)
		}
	}, "n1")
}

func TestMachineThatIsSwitchedOnInQuarantineIsSwitchedOffEachTime(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		w.serving("n1")
		w.do(site.Order{Verb: site.VerbQuarantine, Node: "n1", Reason: "drill"})
		w.after(time.Minute)
		w.fleet.Machine("n1").SetFault(drivertest.Lies)
		w.fleet.Machine("n1").SetPower("on")
		w.after(3 * time.Minute)
		w.reason("n1", "quarantined by tester: drill; ")
		w.fleet.Machine("n1").SetFault(drivertest.Healthy)
		w.after(time.Minute)
		w.want("n1", site.Paused)
		if got := w.fleet.Machine("n1").Power(); got != "off" {
			t.Errorf("n1 is %s in quarantine", got)
		}
	}, "n1")
}

func TestPauseEndsWhatIsUnderWayBeforeItsNextRequest(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.design("n1")
		d.Nodes["n1"].Image, d.Nodes["n1"].Generation = "debian", 1
		w.fleet.Machine("n1").SetPower("on")
		w.commit(d)
		w.up()
		w.after(time.Minute)
		w.approve()
		w.after(2 * time.Second) // it is being powered off
		w.do(site.Order{Verb: site.VerbPause, Reason: "stop"})
		before := w.fleet.Machine("n1").Counts()
		w.after(30 * time.Minute)
		if now := w.fleet.Machine("n1").Counts(); now.Writes > before.Writes {
			t.Errorf("%d writes after the pause", now.Writes-before.Writes)
		}
		w.want("n1", site.Paused)
		w.do(site.Order{Verb: site.VerbResume})
		w.after(20 * time.Minute)
		w.want("n1", site.InSync)
		if c := w.fleet.Machine("n1").Counts(); c.Installs != 1 {
			t.Errorf("installed %d times", c.Installs)
		}
	}, "n1")
}

func TestHistoryTellsWhatHappenedOverARestart(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving("n1")
		w.patch(d, "2", nil)
		w.after(10 * time.Minute)
		w.do(site.Order{Verb: site.VerbPause, Node: "n1", Reason: "lunch"})
		w.down()
		w.up()
		w.after(time.Minute)
		events, err := w.engine.History(w.t.Context(), "n1")
		if err != nil {
			t.Fatal(err)
		}
		var begun, took, ordered bool
		for _, e := range events {
			begun = begun || e.Kind == site.EventBegun && e.Revision == "commit-2"
			took = took || e.Kind == site.EventDone && time.Duration(e.Took) > 2*time.Minute
			ordered = ordered || e.Kind == site.EventOrder && e.By == "tester" && e.Text == "paused n1: lunch"
		}
		if !begun || !took || !ordered {
			t.Errorf("history is %+v", events)
		}
		if _, err := w.engine.History(w.t.Context(), "nobody"); !errors.Is(err, site.ErrNotFound) {
			t.Errorf("history of nobody: %v", err)
		}
		if took := w.engine.Known().History["Fake Memory/install-packages"]; len(took) != 1 {
			t.Errorf("learnt %v", w.engine.Known().History)
		}
	}, "n1")
}
