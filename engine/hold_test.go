package engine_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

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

func TestQuarantineCutsAnInstallationOff(t *testing.T) {
	for _, c := range []struct {
		when     string
		after    time.Duration
		hasOS    bool
		installs int // with what was approved before
		used     bool
	}{
		{"while its medium is being booted", 9 * time.Second, true, 1, true},
		{"while its installer runs", 2 * time.Minute, false, 1, true},
		{"before it is begun", time.Second, true, 1, false},
	} {
		t.Run(c.when, func(t *testing.T) {
			inBubble(t, patched, func(w *world) {
				design := func(generation int) *site.Site {
					d := w.design("n1")
					if !c.hasOS {
						delete(d.Nodes["n1"].Endpoints, site.OS)
					}
					d.Nodes["n1"].Image, d.Nodes["n1"].Generation = "debian", generation
					return d
				}
				w.fleet.Machine("n1").SetPower("on")
				w.commit(design(1))
				w.up()
				w.after(time.Minute)
				w.approve()
				w.after(c.after)
				w.do(site.Order{Verb: site.VerbQuarantine, Node: "n1", Reason: "drill"})
				w.after(time.Minute)
				if got := w.fleet.Machine("n1").Power(); got != "off" {
					t.Errorf("n1 is %s in quarantine", got)
				}
				w.want("n1", site.Paused)
				if r := w.rollout(); len(r.Failed) != 0 || !r.Ended.IsZero() {
					t.Errorf("rollout with n1 in quarantine is %+v", r)
				}
				w.do(site.Order{Verb: site.VerbRelease, Node: "n1"})
				w.after(10 * time.Minute)
				w.installs("n1", c.installs)
				if !c.used { // what was approved is done after it
					w.want("n1", site.InSync)
					return
				}
				w.want("n1", site.Stalled)
				w.reason("n1", "the installation of generation 1 was cut off (by a quarantine)")
				if n := w.node("n1"); n.Generation != 0 {
					t.Errorf("n1 has generation %d, with the disk %v", n.Generation, w.fleet.Machine("n1").Disk())
				}
				w.commit(design(2))
				w.after(time.Minute)
				w.approve()
				w.after(10 * time.Minute)
				w.want("n1", site.InSync)
				w.installs("n1", c.installs+1)
			}, "n1")
		})
	}
}

func TestQuarantineAfterTheInstallerLosesNothing(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.waitsForApproval("n1")
		w.approve()
		ended := func() bool {
			i := w.engine.Known().Nodes["n1"].Recorded.Installing
			return i != nil && !i.Ended.IsZero()
		}
		for i := 0; i < 1200 && !ended(); i++ {
			w.after(time.Second)
		}
		for range 2 { // the second one finds nothing in flight
			w.do(site.Order{Verb: site.VerbQuarantine, Node: "n1", Reason: "drill"})
			w.after(2 * time.Minute)
			w.want("n1", site.Paused)
			if got := w.fleet.Machine("n1").Power(); got != "off" {
				t.Errorf("n1 is %s in quarantine", got)
			}
			w.do(site.Order{Verb: site.VerbRelease, Node: "n1"})
		}
		w.after(10 * time.Minute)
		w.want("n1", site.InSync)
		w.installs("n1", 1)
	}, "n1")
}

func TestQuarantineIsTriedAgain(t *testing.T) {
	for _, fault := range []drivertest.Fault{drivertest.Lies, drivertest.Unreachable} {
		t.Run(string(fault), func(t *testing.T) {
			inBubble(t, patched, func(w *world) {
				w.serving("n1")
				w.fleet.Machine("n1").SetFault(fault)
				w.do(site.Order{Verb: site.VerbQuarantine, Node: "n1", Reason: "drill"})
				w.after(time.Minute)
				if n := w.node("n1"); n.State == site.Paused {
					t.Errorf("n1 is %s (%s) and its machine %s", n.State, n.Reason, w.fleet.Machine("n1").Power())
				}
				w.fleet.Machine("n1").SetFault(drivertest.Healthy)
				w.after(2 * time.Minute)
				w.want("n1", site.Paused)
				if got := w.fleet.Machine("n1").Power(); got != "off" {
					t.Errorf("n1 is %s in quarantine", got)
				}
			}, "n1")
		})
	}
}

// refusing is a driver whose machines refuse every step while it has a reason to.
type refusing struct {
	driver.Driver
	why   atomic.Pointer[string]
	again atomic.Bool // of the last step
	class error       // driver.ErrRefused where there is none
}

func (r *refusing) Open(ctx context.Context, e site.Endpoint, s secret.Value) (driver.Machine, error) {
	m, err := r.Driver.Open(ctx, e, s)
	return refuser{m, r}, err
}

type refuser struct {
	driver.Machine
	r *refusing
}

func (m refuser) Apply(ctx context.Context, s site.Step, n *site.Node, o driver.Permit) error {
	m.r.again.Store(s.Again)
	if why := m.r.why.Load(); why != nil {
		return fmt.Errorf("%w: %s", cmp.Or(m.r.class, driver.ErrRefused), *why)
	}
	return m.Machine.Apply(ctx, s, n, o)
}

// A quarantine that is refused is tried again and again, and told again only when it
// is refused for another reason.
func TestQuarantineThatIsRefusedIsTriedAgain(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		r, notNow, never := &refusing{Driver: w.fleet.Driver()}, "not now", "never"
		w.bmcs = r
		w.serving("n1")
		r.why.Store(&notNow)
		w.do(site.Order{Verb: site.VerbQuarantine, Node: "n1", Reason: "drill"})
		w.after(time.Minute)
		first := w.eventsOf("n1", site.EventState, site.EventBegun, site.EventFailed)
		w.after(10 * time.Minute)
		w.want("n1", site.Stalled)
		w.reason("n1", "quarantined by tester: drill; power-off: not now")
		if got := w.eventsOf("n1", site.EventState, site.EventBegun, site.EventFailed); len(got) != len(first) {
			t.Errorf("told again of the same refusal: %v, then %v", first, got[len(first):])
		}
		r.why.Store(&never)
		w.after(5 * time.Minute)
		if got := w.eventsOf("n1", site.EventFailed); len(got) != 2 || !strings.Contains(got[1], ": never") {
			t.Errorf("told of two refusals: %v", got)
		}
		r.why.Store(nil)
		w.after(2 * time.Minute)
		w.want("n1", site.Paused)
		if got := w.fleet.Machine("n1").Power(); got != "off" {
			t.Errorf("n1 is %s in quarantine", got)
		}
	}, "n1")
}

// A step that fails again and again for the same reason does not push what
// happened before out of the history; when it is due anew, it is told anew.
func TestTriesThatFailAlikeAreToldOnce(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving("n1")
		r, notNow := &refusing{Driver: w.fleet.Driver(), class: driver.ErrBusy}, "not now"
		w.down()
		w.bmcs = r
		w.up()
		for round := 1; round <= 2; round++ {
			r.why.Store(&notNow)
			w.fleet.Machine("n1").SetPower("off")
			w.after(30 * time.Minute)
			r.why.Store(nil)
			w.until("in-sync", 5*time.Minute, w.is(site.InSync, d.NodeNames()...))
			if begun, failed := w.eventsOf("n1", site.EventBegun), w.eventsOf("n1", site.EventFailed); len(begun) != round || len(failed) != round {
				t.Errorf("round %d: begun %v, failed %v", round, begun, failed)
			}
		}
	}, "n1")
}

// eventsOf are the texts of the node's latest events of some kinds.
func (w *world) eventsOf(node string, kinds ...site.EventKind) (texts []string) {
	for _, ev := range w.engine.Events(0) {
		if ev.Node == node && slices.Contains(kinds, ev.Kind) {
			texts = append(texts, ev.Text)
		}
	}
	return texts
}

// Others are not taken out of service in the place of who is kept off.
func TestQuarantineTakesAPlace(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving(names(3)...)
		w.do(site.Order{Verb: site.VerbQuarantine, Node: "n2", Reason: "drill"})
		w.after(time.Minute)
		w.down()
		w.up()
		off := w.patch(d, "2", func(d *site.Site) { d.Nodes["n2"].Power = "off" })
		w.after(10 * time.Minute)
		w.reason("n1", "the site allows 1 of 3 nodes out of service (maxUnavailable 1): 1 are: n2")
		if got := w.carry(off); got != nil {
			t.Errorf("patched while another is in quarantine: %v", got)
		}
		w.do(site.Order{Verb: site.VerbRelease, Node: "n2"})
		w.after(10 * time.Minute)
		if got := w.carry(off); !slices.Equal(got, []string{"n1", "n3"}) {
			t.Errorf("patched after the release: %v", got)
		}
	}, names(3)...)
}

// A rollout does not wait for whom a person keeps off; it takes the node in
// when it is released.
func TestRolloutThatBeginsDuringAQuarantine(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving(names(2)...)
		w.fleet.Machine("n2").SetFault(drivertest.Lies) // its power-off is under way
		w.do(site.Order{Verb: site.VerbQuarantine, Node: "n2", Reason: "drill"})
		w.after(10 * time.Second)
		d = w.patch(d, "2", func(d *site.Site) { d.Rollout.MaxUnavailable = "2" })
		w.after(10 * time.Minute)
		if r := w.rollout(); r.Revision.ID != "commit-2" || !slices.Equal(r.Nodes, []string{"n1"}) || r.Ended.IsZero() {
			t.Errorf("rollout is %+v", r)
		}
		w.fleet.Machine("n2").SetFault(drivertest.Healthy)
		w.after(time.Minute)
		w.do(site.Order{Verb: site.VerbRelease, Node: "n2"})
		w.after(10 * time.Minute)
		if got := w.carry(d); len(got) != 2 {
			t.Errorf("patched after the release: %v", got)
		}
	}, names(2)...)
}

// An installation that came into force during a quarantine can be approved once that has ended: what waits was asked for
// before, when there was nothing.
func TestReleaseIntoAnInstallationIsApproved(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving("n1")
		w.do(site.Order{Verb: site.VerbQuarantine, Node: "n1", Reason: "drill"})
		w.after(time.Minute)
		w.patch(d, "2", func(d *site.Site) { d.Nodes["n1"].Image, d.Nodes["n1"].Generation = "debian", 1 })
		w.after(time.Minute)
		if digest := w.engine.Report().Status.Approve; digest != "" {
			t.Fatalf("%s waits for approval during the quarantine", digest)
		}
		w.do(site.Order{Verb: site.VerbRelease, Node: "n1"})
		w.after(time.Minute)
		w.want("n1", site.Blocked)
		w.reason("n1", "waits for approval")
		w.approve()
		w.after(10 * time.Minute)
		w.want("n1", site.InSync)
	}, "n1")
}

// What came into force while all of them were kept off is rolled out by its
// rules when they are released.
func TestReleaseOfAllRollsOutWhatTheyMissed(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving(names(3)...)
		w.do(site.Order{Verb: site.VerbQuarantine, Reason: "drill"})
		w.after(time.Minute)
		d = w.patch(d, "2", canary)
		w.after(time.Minute)
		w.do(site.Order{Verb: site.VerbRelease})
		w.after(8 * time.Minute)
		if got, r := w.carry(d), w.rollout(); !slices.Equal(got, r.Canaries) || len(got) != 1 || r.Revision.ID != "commit-2" {
			t.Errorf("patched while the canary soaks: %v, rollout %+v", got, r)
		}
		w.after(15 * time.Minute)
		if r := w.rollout(); len(w.carry(d)) != 3 || r.Ended.IsZero() {
			t.Errorf("patched after the soak: %v, rollout %+v", w.carry(d), r)
		}
		since := w.rollout().Since
		w.do(site.Order{Verb: site.VerbQuarantine, Node: "n2", Reason: "drill"})
		w.after(time.Minute)
		w.do(site.Order{Verb: site.VerbRelease, Node: "n2"})
		w.after(5 * time.Minute)
		if w.want("n2", site.InSync); !w.rollout().Since.Equal(since) {
			t.Errorf("who has missed nothing is rolled out: %+v", w.rollout())
		}
	}, names(3)...)
}

func TestSecondQuarantineTriesADeniedCredentialAgain(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		w.serving("n1")
		w.fleet.Machine("n1").SetFault(drivertest.Denied)
		w.do(site.Order{Verb: site.VerbQuarantine, Node: "n1", Reason: "drill"})
		w.after(time.Minute)
		w.want("n1", site.Stalled)
		w.fleet.Machine("n1").SetFault(drivertest.Healthy)
		w.do(site.Order{Verb: site.VerbQuarantine, Node: "n1", Reason: "again"})
		w.after(30 * time.Second)
		w.want("n1", site.Paused)
		w.reason("n1", "quarantined by tester: again; the machine is off")
	}, "n1")
}

func TestQuarantineOfANodeThatLeftTheDesign(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving(names(3)...)
		d = clone(d)
		d.Nodes["n3"].Decommission = true
		w.commit(d)
		w.after(time.Minute)
		w.do(site.Order{Verb: site.VerbQuarantine, Node: "n3", Reason: "drill"})
		w.commit(w.service("n1"))
		w.after(time.Minute)
		w.do(site.Order{Verb: site.VerbQuarantine, Node: "n2", Reason: "drill"})
		w.after(2 * time.Minute)
		for _, name := range []string{"n2", "n3"} {
			w.want(name, site.Paused)
			w.reason(name, "quarantined by tester: drill; the machine is off")
			if got := w.fleet.Machine(name).Power(); got != "off" {
				t.Errorf("%s is %s in quarantine", name, got)
			}
		}
		w.do(site.Order{Verb: site.VerbRelease})
		w.after(2 * time.Minute)
		w.want("n2", site.Blocked) // it was not decommissioned
		if n := len(w.engine.Report().Status.Nodes); n != 2 {
			t.Errorf("%d nodes after the release, want n3 removed", n)
		}
	}, names(3)...)
}

// Nothing would be switched off, and nobody should believe that it was.
func TestQuarantineOfAllBeforeTheFirstDesignIsRefused(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		w.up()
		w.after(time.Second)
		_, err := w.engine.Do(w.t.Context(), site.Order{Verb: site.VerbQuarantine, By: "tester"})
		if !errors.Is(err, site.ErrRefused) || !strings.Contains(err.Error(), "Slipway knows no node of site test yet") {
			t.Errorf("quarantine of nothing: %v", err)
		}
	}, "n1")
}

// That a quarantine has switched a machine off does not make it one that was
// begun: it comes up, and what disrupts it waits for its window.
func TestWindowHoldsWhatIsReleasedFromQuarantine(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving("n1")
		w.do(site.Order{Verb: site.VerbQuarantine, Node: "n1", Reason: "drill"})
		w.after(time.Minute)
		w.patch(d, "2", func(d *site.Site) {
			d.Windows = map[string]*site.Window{"new year": {Cron: "0 0 1 1 *", Length: site.Duration(time.Hour)}}
			d.Nodes["n1"].Window = "new year"
		})
		w.after(2 * time.Hour)
		w.do(site.Order{Verb: site.VerbRelease, Node: "n1"})
		w.after(10 * time.Minute)
		if got := w.fleet.Machine("n1").Power(); got != "on" {
			t.Errorf("n1 is %s after its release", got)
		}
		w.want("n1", site.Blocked)
		w.reason("n1", "its window new year opens at")
		if at := w.begun("n1", site.ActionPackages, time.Time{}); !at.IsZero() {
			t.Errorf("n1 was patched at %s, outside its window", at)
		}
	}, "n1")
}

func TestHoldOnAnUnreachableNodeIsShown(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		w.serving(names(2)...)
		w.do(site.Order{Verb: site.VerbPause, Reason: "whole site"})
		for _, name := range names(2) {
			w.fleet.Machine(name).SetFault(drivertest.Unreachable)
		}
		w.do(site.Order{Verb: site.VerbQuarantine, Node: "n1", Reason: "drill"})
		w.do(site.Order{Verb: site.VerbPause, Node: "n2", Reason: "lunch"})
		w.after(2 * time.Minute)
		n := w.node("n1")
		if n.State != site.Retrying || n.Quarantined == nil || n.Quarantined.By != "tester" || n.Paused != nil {
			t.Errorf("n1 is %+v", n)
		}
		w.reason("n1", "quarantined by tester: drill; no route to n1")
		if n := w.node("n2"); n.State != site.Retrying || n.Paused == nil || n.Paused.Reason != "lunch" || n.Quarantined != nil {
			t.Errorf("n2 is %+v", n)
		}
		w.reason("n2", "paused by tester: lunch; no route to n2")
		w.do(site.Order{Verb: site.VerbRelease, Node: "n1"})
		w.do(site.Order{Verb: site.VerbResume, Node: "n2"})
		w.after(2 * time.Minute)
		for _, name := range names(2) {
			if n := w.node(name); n.Paused != nil || n.Quarantined != nil || strings.Contains(n.Reason, "tester") {
				t.Errorf("%s after its release is %+v", name, n)
			}
		}
	}, names(2)...)
}

func TestMachineThatIsSwitchedOnInQuarantineIsSwitchedOffEachTime(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		w.serving("n1")
		w.do(site.Order{Verb: site.VerbQuarantine, Node: "n1", Reason: "drill"})
		w.after(time.Minute)
		w.fleet.Machine("n1").SetFault(drivertest.Lies)
		w.fleet.Machine("n1").SetPower("on")
		w.until("n1 stalled", 2*time.Minute, w.is(site.Stalled, "n1"))
		since := w.node("n1").Since
		resets := w.fleet.Machine("n1").Counts().Writes
		for range 3 * 60 {
			w.after(time.Second)
			if n := w.node("n1"); n.State != site.Stalled || !n.Since.Equal(since) {
				w.t.Fatalf("n1 is on in quarantine since %s, and is %+v", since, n)
			}
		}
		if n := w.fleet.Machine("n1").Counts().Writes - resets; n < 10 {
			t.Errorf("its power was cut %d times in three minutes", n)
		}
		if events, err := w.engine.History(w.t.Context(), "n1"); err != nil || len(events) > 12 || events[0].When.After(since) {
			t.Errorf("history of n1: %+v, %v", events, err)
		}
		w.fleet.Machine("n1").SetFault(drivertest.Healthy)
		w.after(time.Minute)
		w.want("n1", site.Paused)
		if got := w.fleet.Machine("n1").Power(); got != "off" {
			t.Errorf("n1 is %s in quarantine", got)
		}
	}, "n1")
}

func TestHistoryTellsOfARevisionBeforeItsRollout(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		w.patch(w.serving("n1"), "2", nil)
		w.after(time.Hour)
		events, err := w.engine.History(w.t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		var told []string
		for _, e := range events {
			told = append(told, string(e.Kind)+" "+e.Revision)
		}
		if want := []string{"design commit-1", "rollout commit-1", "rollout commit-1", "design commit-2", "rollout commit-2", "rollout commit-2"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	}, "n1")
}

// done are the steps that are said to have had their effect, and learnt those
// of which it is known how long they take.
func (w *world) done(node string) (done, learnt []string) {
	w.t.Helper()
	events, err := w.engine.History(w.t.Context(), node)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range events {
		if e.Kind == site.EventDone {
			action, _, _ := strings.Cut(e.Text, ":")
			done = append(done, action)
		}
	}
	for like := range w.engine.Known().History {
		learnt = append(learnt, like)
	}
	return done, learnt
}

func TestWhatIsCutOffWasNotDone(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		w.waitsForApproval("n1")
		w.approve()
		w.after(2 * time.Minute) // the installer runs
		w.do(site.Order{Verb: site.VerbQuarantine, Node: "n1", Reason: "drill"})
		w.after(time.Minute)
		w.want("n1", site.Paused)
		done, learnt := w.done("n1")
		if slices.Contains(done, "install") || slices.ContainsFunc(learnt, func(like string) bool { return strings.HasSuffix(like, "/install") }) {
			t.Errorf("done %v, learnt %v", done, learnt)
		}
	}, "n1")
}

func TestWhatHadNoEffectWasNotDone(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving("n1")
		w.fleet.Machine("n1").SetFault(drivertest.Lies)
		w.patch(d, "2", nil)
		w.after(time.Hour)
		w.want("n1", site.Stalled)
		w.fleet.Machine("n1").SetFault(drivertest.Healthy)
		w.commit(d)
		w.after(time.Hour)
		w.want("n1", site.InSync)
		if done, learnt := w.done("n1"); slices.Contains(done, "install-packages") || slices.Contains(learnt, "Fake Memory/install-packages") {
			t.Errorf("done %v, learnt %v", done, learnt)
		}
	}, "n1")
}

func TestPauseThatHasEndedIsNotShown(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		w.serving(names(2)...)
		until := time.Now().Add(time.Hour)
		w.do(site.Order{Verb: site.VerbPause, Reason: "power works", Until: until})
		w.do(site.Order{Verb: site.VerbPause, Node: "n2", Reason: "lunch", Until: until})
		w.after(30 * time.Minute)
		if p := w.engine.Report().Status.Paused; p == nil || p.Reason != "power works" || w.node("n2").Paused == nil {
			t.Errorf("the site is paused: %+v, n2: %+v", p, w.node("n2").Paused)
		}
		w.after(31 * time.Minute)
		if s := w.engine.Report().Status; s.Paused != nil || w.node("n2").Paused != nil {
			t.Errorf("after its end the pause of the site is %+v, that of n2 %+v", s.Paused, w.node("n2").Paused)
		}
		w.want("n1", site.InSync)
		w.want("n2", site.InSync)
	}, names(2)...)
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
