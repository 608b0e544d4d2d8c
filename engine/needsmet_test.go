package engine_test

import (
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Whoever is held by a person, is not seen, or whose system does not answer has
// not gone through anything.
func TestNeedIsNotMetByWhoIsNotSeenToMeetIt(t *testing.T) {
	for _, c := range []struct {
		why    string
		wait   time.Duration
		change func(*world, *site.Site)
		met    bool
	}{
		{"in-sync", time.Minute, func(*world, *site.Site) {}, true},
		{"paused by order", time.Minute, func(w *world, _ *site.Site) { w.do(site.Order{Verb: site.VerbPause, Node: "c1", Reason: "look"}) }, false},
		{"paused in the design", time.Minute, func(_ *world, d *site.Site) { d.Nodes["c1"].Paused = &site.Hold{By: "ann", Reason: "look"} }, false},
		{"quarantined", 2 * time.Minute, func(w *world, _ *site.Site) { w.do(site.Order{Verb: site.VerbQuarantine, Node: "c1", Reason: "drill"}) }, false},
		{"its system silent", 6 * time.Minute, func(w *world, _ *site.Site) { w.fleet.Machine("c1").SetDisk(nil) }, false},
		{"not seen for long", 10 * time.Minute, func(w *world, _ *site.Site) { w.fleet.Machine("c1").SetFault(drivertest.Hangs) }, false},
	} {
		t.Run(c.why, func(t *testing.T) {
			inBubble(t, patched, func(w *world) {
				d := w.serving("c1", "x1")
				d = clone(d)
				d.Rollout.MaxUnavailable = "2"
				d.Roles["ctl"] = &site.Role{Enabled: true, Phases: d.Roles["web"].Phases}
				d.Roles["web"].Needs = map[string]map[string]site.Need{"install": {"ctl": {Phase: "configure", Quorum: "1"}}}
				d.Nodes["c1"].Role = "ctl"
				c.change(w, d)
				w.commit(d)
				w.after(c.wait)
				d = clone(d)
				d.Nodes["x1"].System.Packages = map[string]site.Package{"nginx": {Version: "2"}}
				w.commit(d)
				w.after(4 * time.Minute)
				if got := w.patchedNow("x1") != nil; got != c.met {
					t.Errorf("patched: %t; x1: %s; c1: %s (%s)", got, w.node("x1").Reason, w.node("c1").State, w.node("c1").Reason)
				}
				if !c.met {
					w.reason("x1", "its phase install needs 1 of 1 nodes of role ctl to have gone through configure: 0 have, not c1")
				}
			}, "c1", "x1")
		})
	}
}

// A look that does not end is not waited for: what was seen before it is too
// old after a while.
func TestNeedIsNotMetByWhatWasSeenLongAgo(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving("c1", "x1")
		d = clone(d)
		d.Rollout.ObserveEvery = site.Duration(10 * time.Second)
		d.Roles["ctl"] = &site.Role{Enabled: true, Phases: d.Roles["web"].Phases}
		d.Roles["web"].Needs = map[string]map[string]site.Need{"install": {"ctl": {Phase: "configure", Quorum: "1"}}}
		d.Nodes["c1"].Role = "ctl"
		w.commit(d)
		w.after(2 * time.Minute)
		w.fleet.Machine("c1").SetFault(drivertest.Hangs)
		w.after(95 * time.Second) // its look goes on, and failed never
		w.want("c1", site.InSync)
		d = clone(d)
		d.Nodes["x1"].System.Packages = map[string]site.Package{"nginx": {Version: "2"}}
		w.commit(d)
		w.after(4 * time.Minute)
		w.reason("x1", "its phase install needs 1 of 1 nodes of role ctl to have gone through configure: 0 have, not c1")
		if w.patchedNow("x1") != nil {
			t.Error("patched, though what it needs was not seen for long")
		}
	}, "c1", "x1")
}

// Whoever was seen to wait for a node that a commit changed too goes on as soon as
// that one was looked at, and not when its own next look is due.
func TestNeedIsMetAsSoonAsItIsSeenAgain(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving("c1", "x1")
		d = clone(d)
		d.Rollout.ObserveEvery = site.Duration(time.Hour)
		d.Roles["ctl"] = &site.Role{Enabled: true, Phases: d.Roles["web"].Phases}
		d.Roles["web"].Needs = map[string]map[string]site.Need{"install": {"ctl": {Phase: "configure", Quorum: "1"}}}
		d.Nodes["c1"].Role = "ctl"
		w.commit(d)
		w.after(5 * time.Minute)
		w.fleet.Machine("c1").Configure(func(c *drivertest.Config) { c.Latency = 5 * time.Second })
		d = clone(d)
		d.Nodes["c1"].Tags = map[string]bool{"first": true}
		d.Nodes["x1"].System.Packages = map[string]site.Package{"nginx": {Version: "2"}}
		w.commit(d)
		w.until("x1 is patched", 4*time.Minute, func() bool { return w.patchedNow("x1") != nil })
	}, "c1", "x1")
}
