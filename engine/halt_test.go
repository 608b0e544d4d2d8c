package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/site"
)

// canary has a rollout tried on one node first, which has to stay in-sync for
// ten minutes.
func canary(d *site.Site) {
	d.Rollout.MaxUnavailable = "100%"
	d.Rollout.Canaries = &site.Canaries{Count: 1, Soak: site.Duration(10 * time.Minute)}
}

// at is a window that opens every day at an hour and minute, for an hour.
func at(cron string) map[string]*site.Window {
	return map[string]*site.Window{"night": {Cron: cron, Length: site.Duration(time.Hour)}}
}

// carry are the nodes that have the packages which a design wants of them.
func (w *world) carry(d *site.Site) []string {
	var those []string
	for _, name := range d.NodeNames() {
		have := w.fleet.Machine(name).Have(site.FacetPackages)
		missing := 0
		for field, want := range d.Nodes[name].Want(site.FacetPackages) {
			if have[field] != want {
				missing++
			}
		}
		if missing == 0 {
			those = append(those, name)
		}
	}
	return those
}

// reinstall is a design that wants the nodes installed anew, as changed by the
// caller.
func (w *world) reinstall(change func(*site.Site), names ...string) *site.Site {
	d := w.service(names...)
	d.Rollout.MaxUnavailable = "100%"
	for _, name := range names {
		d.Nodes[name].Image, d.Nodes[name].Generation = "debian", 1
	}
	if change != nil {
		change(d)
	}
	return d
}

func (w *world) installs(name string, want int) {
	w.t.Helper()
	if got := w.fleet.Machine(name).Counts().Installs; got != want {
		w.t.Errorf("%s was installed %d times, want %d", name, got, want)
	}
}

func TestCrashBetweenADesignAndItsRolloutKeepsTheCanaries(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving(names(3)...)
		w.down()
		d = w.patch(d, "2", canary)
		store, err := record.Open(w.t.Context(), w.dir, record.Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Site("test").Accept(w.t.Context(), site.Revision{ID: "commit-2"}, d); err != nil {
			t.Fatal(err)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		w.up()
		w.after(4 * time.Minute)
		if got := w.carry(d); !slices.Equal(got, []string{"n1"}) {
			t.Errorf("patched after the crash: %v", got)
		}
		if r := w.rollout(); r.Revision.ID != "commit-2" || len(r.Nodes) != 3 {
			t.Errorf("rollout is %+v", r)
		}
	}, names(3)...)
}

func TestRevisionWaitsForItsCanaryOnNodesThatAreInAStep(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving(names(3)...)
		w.patch(d, "2", func(d *site.Site) { d.Rollout.MaxUnavailable = "100%" })
		w.after(time.Minute)
		d = w.patch(d, "3", canary)
		w.after(6 * time.Minute)
		if got := w.carry(d); !slices.Equal(got, []string{"n1"}) {
			t.Errorf("%v have a revision whose canary has not soaked", got)
		}
		w.reason("n2", "have to stay so until")
	}, names(3)...)
}

func TestRevisionWaitsForItsWindowOnNodesThatAreInAStep(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving("n1")
		w.patch(d, "2", nil)
		w.after(time.Minute)
		d = w.patch(d, "3", func(d *site.Site) { d.Windows, d.Nodes["n1"].Window = at("0 2 * * *"), "night" })
		w.after(6 * time.Minute)
		if got := w.carry(d); got != nil {
			t.Errorf("patched outside of the window: %v", got)
		}
		w.reason("n1", "its window night opens at Sat 2000-01-01 02:00 UTC")
	}, "n1")
}

func TestNodeThatIsReleasedIntoAHaltedRolloutIsHeld(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving(names(3)...)
		w.do(site.Order{Verb: site.VerbQuarantine, Node: "n3", Reason: "drill"})
		w.after(time.Minute)
		w.fleet.Machine("n1").SetFault(drivertest.Lies)
		d = w.patch(d, "2", canary)
		w.after(5 * time.Minute)
		if r := w.rollout(); r.Halted != "canary n1 has failed" || slices.Contains(r.Nodes, "n3") {
			t.Errorf("rollout is %+v", r)
		}
		w.do(site.Order{Verb: site.VerbRelease, Node: "n3"})
		w.after(10 * time.Minute)
		w.reason("n3", "is halted: canary n1 has failed")
		if got := w.carry(d); got != nil {
			t.Errorf("patched in a halted rollout: %v", got)
		}
		if r := w.rollout(); !slices.Equal(r.Nodes, []string{"n1", "n2", "n3"}) || !r.Ended.IsZero() {
			t.Errorf("rollout is %+v", r)
		}
	}, names(3)...)
}

// Nodes that could not be planned while a revision was rolled out, because another
// machine answered, have it later as carefully as the others had.
func TestWhoMissesARolloutHasOneOfItsOwn(t *testing.T) {
	all, late := names(5), []string{"n1", "n2", "n3", "n4"}
	missed := func(w *world) *site.Site {
		w.t.Helper()
		d := w.serving(all...)
		for _, name := range late {
			w.fleet.Machine(name).SetFault(drivertest.WrongMachine)
		}
		w.after(3 * time.Minute)
		d = w.patch(d, "2", func(d *site.Site) { canary(d); d.Rollout.Canaries.Soak = site.Duration(5 * time.Minute) })
		w.after(5 * time.Minute)
		if r := w.rollout(); r.Ended.IsZero() || !slices.Equal(r.Nodes, []string{"n5"}) {
			w.t.Fatalf("rollout without them is %+v", r)
		}
		return d
	}
	t.Run("in order", func(t *testing.T) {
		inBubble(t, patched, func(w *world) {
			d := missed(w)
			for _, name := range late {
				w.fleet.Machine(name).SetFault(drivertest.Healthy)
			}
			w.after(4 * time.Minute)
			r := w.rollout()
			if len(r.Canaries) != 1 || len(r.Nodes) != 4 {
				w.t.Fatalf("rollout of those is %+v", r)
			}
			if got := w.carry(d); len(got) != 2 || !slices.Contains(got, r.Canaries[0]) {
				t.Errorf("%v have the revision before the canary %v has soaked", got, r.Canaries)
			}
			w.after(12 * time.Minute)
			if got := w.carry(d); len(got) != 5 {
				t.Errorf("%v have the revision in the end", got)
			}
			if r := w.rollout(); r.Done != 4 || r.Ended.IsZero() {
				t.Errorf("rollout in the end is %+v", r)
			}
			if got := len(w.eventsOf("", site.EventRollout)); got != 6 {
				t.Errorf("told of rollouts: %v", w.eventsOf("", site.EventRollout))
			}
		}, all...)
	})
	t.Run("failing", func(t *testing.T) {
		inBubble(t, patched, func(w *world) {
			d := missed(w)
			for _, name := range late {
				w.fleet.Machine(name).SetFault(drivertest.Lies)
			}
			w.after(20 * time.Minute)
			r := w.rollout()
			if r.Halted == "" || len(r.Failed) > 2 {
				t.Errorf("rollout of those is %+v", r)
			}
			for range 2 {
				held := slices.DeleteFunc(slices.Clone(late), func(name string) bool { return w.rollout().Failed[name] != "" })
				for _, name := range held {
					w.reason(name, "is halted: ")
				}
				w.down()
				w.up()
				w.after(5 * time.Minute)
			}
			if got := w.carry(d); !slices.Equal(got, []string{"n5"}) {
				t.Errorf("%v have the revision", got)
			}
		}, all...)
	})
}

// What has failed begins no rollout by itself, also after a restart.
func TestWhatHasFailedBeginsNoRollout(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving("n1", "n2")
		r, notNow := &refusing{Driver: w.fleet.OSDriver(), class: driver.ErrBusy}, "not now"
		w.down()
		w.systems = r
		w.up()
		w.after(time.Minute)
		r.why.Store(&notNow)
		w.patch(d, "2", func(d *site.Site) { d.Nodes["n2"].System.Packages = nil })
		w.after(time.Hour)
		for range 2 {
			if r := w.rollout(); r.Ended.IsZero() || r.Failed["n1"] == "" || r.Since.Before(time.Now().Add(-3*time.Hour)) {
				t.Errorf("rollout is %+v", r)
			}
			w.down()
			w.up()
			w.after(time.Hour)
		}
		if got := w.eventsOf("", site.EventRollout); len(got) != 0 {
			t.Errorf("told of rollouts since the restart: %v", got)
		}
	}, "n1", "n2")
}

// Whom a person has paused goes first only where nobody else can, and it is said.
func TestPausedNodeIsTheLastToBeACanary(t *testing.T) {
	for _, c := range []struct{ only, want string }{{"", "n2"}, {"n1", "n1"}} {
		inBubble(t, patched, func(w *world) {
			d := w.serving(names(3)...)
			w.do(site.Order{Verb: site.VerbPause, Node: "n1", Reason: "disks"})
			w.patch(d, "2", func(d *site.Site) {
				canary(d)
				if c.only != "" {
					d.Rollout.Canaries.Nodes = &site.Selector{Match: site.Match{Names: []string{c.only}}}
				}
			})
			w.after(time.Minute)
			if got := w.rollout().Canaries; !slices.Equal(got, []string{c.want}) {
				t.Errorf("the canaries of %q are %v, want %s", c.only, got, c.want)
			}
			if c.only == "n1" {
				w.reason("n2", "waits for the canaries (n1) to be in-sync for 10m: n1 is paused")
			}
		}, names(3)...)
	}
}

func TestRestartKeepsFailuresAndTheirPlaces(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving(names(3)...)
		w.fleet.Machine("n1").SetFault(drivertest.Lies)
		for _, name := range []string{"n2", "n3"} {
			w.do(site.Order{Verb: site.VerbPause, Node: name, Reason: "n1 first"})
		}
		d = w.patch(d, "2", func(d *site.Site) { d.Rollout.MaxFailures = "1" })
		w.after(2 * time.Minute)
		for _, name := range []string{"n2", "n3"} {
			w.do(site.Order{Verb: site.VerbResume, Node: name})
		}
		w.after(time.Minute)
		for range 2 {
			w.want("n1", site.Stalled)
			w.reason("n2", "the site allows 1 of 3 nodes out of service (maxUnavailable 1): 1 are: n1")
			if r := w.rollout(); len(r.Failed) != 1 || r.Failed["n1"] == "" || !r.Ended.IsZero() {
				t.Errorf("rollout is %+v", r)
			}
			w.down()
			w.up()
			w.after(3 * time.Minute)
		}
		if got := w.carry(d); got != nil {
			t.Errorf("patched in the place of one that failed: %v", got)
		}
	}, names(3)...)
}

func TestRestartInTheMiddleIsNoFailure(t *testing.T) {
	all := names(3)
	inBubble(t, patched, func(w *world) {
		w.commit(w.reinstall(canary, all...))
		w.up()
		w.after(time.Minute)
		w.approve()
		w.after(2 * time.Minute)
		w.want("n1", site.Progressing)
		w.down()
		w.up()
		for range 4 {
			w.after(time.Minute)
			if r := w.rollout(); len(r.Failed) != 0 || r.Halted != "" {
				w.t.Fatalf("rollout after a restart is %+v", r)
			}
		}
		w.after(5 * time.Minute)
		w.want("n1", site.InSync)
		w.installs("n1", 1)
	}, all...)
}

func TestWaitingForAWindowIsNoFailure(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving(names(2)...)
		d = w.patch(d, "2", func(d *site.Site) {
			d.Windows = at("30 0 * * *")
			for _, n := range d.Nodes {
				n.Window = "night"
				n.Boot.Order = []string{"Hdd"} // online, so it begins the node
			}
		})
		w.after(26 * time.Minute)
		for _, name := range names(2) {
			w.reason(name, "its window night opens at")
			if got := w.fleet.Machine(name).BootOrder(); got != "Hdd" {
				t.Errorf("the boot order of %s is %s", name, got)
			}
		}
		if r := w.rollout(); len(r.Failed) != 0 || r.Halted != "" || !r.Ended.IsZero() {
			t.Errorf("rollout before the window is %+v", r)
		}
		w.after(8 * time.Minute)
		if r := w.rollout(); len(w.carry(d)) != 2 || r.Done != 2 || r.Ended.IsZero() {
			t.Errorf("rollout in the window is %+v", r)
		}
	}, names(2)...)
}

func TestWaitingForAPlaceIsNoFailure(t *testing.T) {
	slow := patched
	slow.StepTime = map[site.Action]time.Duration{site.ActionPackages: 8 * time.Minute}
	inBubble(t, slow, func(w *world) {
		d := w.serving(names(4)...)
		w.patch(d, "2", func(d *site.Site) {
			for _, n := range d.Nodes {
				n.Boot.Order = []string{"Hdd"}
			}
		})
		w.after(22 * time.Minute)
		if r := w.rollout(); r.Done != 2 || len(r.Failed) != 0 || r.Halted != "" {
			t.Errorf("rollout is %+v", r)
		}
		w.after(14 * time.Minute)
		if r := w.rollout(); r.Done != 4 || r.Ended.IsZero() {
			t.Errorf("rollout is %+v", r)
		}
	}, names(4)...)
}

func TestNodeThatIsTriedForTooLongHasFailed(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving(names(2)...)
		w.patch(d, "2", func(d *site.Site) { d.Rollout.MaxFailures = "0" })
		w.after(time.Minute) // it is begun
		w.fleet.Machine("n1").SetFault(drivertest.Unreachable)
		w.fleet.Machine("n2").SetFault(drivertest.Unreachable)
		w.after(10 * time.Minute)
		if r := w.rollout(); r.Halted != "" {
			t.Errorf("halted before its patience is over: %+v", r)
		}
		w.after(15 * time.Minute)
		if r := w.rollout(); len(r.Failed) != 1 || !strings.Contains(r.Halted, "1 of 2 nodes have failed") {
			t.Errorf("rollout is %+v", r)
		}
	}, names(2)...)
}

func TestRoleThatIsEnabledIsRolledOut(t *testing.T) {
	all := names(3)
	inBubble(t, patched, func(w *world) {
		d := w.serving(all...)
		d = w.patch(d, "2", func(d *site.Site) { canary(d); d.Roles["web"].Enabled = false })
		w.after(2 * time.Minute)
		if r := w.engine.Report().Status.Rollout; r.Revision.ID == "commit-2" && len(r.Nodes) > 0 || w.carry(d) != nil {
			t.Errorf("rollout of a disabled role is %+v", r)
		}
		d = w.patch(d, "2", canary)
		w.after(6 * time.Minute)
		if r := w.rollout(); r.Revision.ID != "commit-3" || !slices.Equal(r.Nodes, all) || !slices.Equal(r.Canaries, []string{"n1"}) {
			t.Errorf("rollout of an enabled role is %+v", r)
		}
		if got := w.carry(d); !slices.Equal(got, []string{"n1"}) {
			t.Errorf("patched while the canary soaks: %v", got)
		}
	}, all...)
}

func TestPersonIsToldWhoStandsInAnothersWay(t *testing.T) {
	all := names(3)
	inBubble(t, patched, func(w *world) {
		d := w.serving(all...)
		w.patch(d, "2", func(d *site.Site) { d.Nodes["n1"].System.Packages, d.Nodes["n2"].System.Packages = nil, nil })
		w.until("n3 begun", time.Minute, w.is(site.Progressing, "n3"))
		w.fleet.Machine("n3").SetDisk(nil) // its system does not come back
		w.after(20 * time.Minute)
		w.patch(d, "3", func(d *site.Site) {
			d.Rollout.Canaries = &site.Canaries{Nodes: &site.Selector{Match: site.Match{Names: []string{"n1"}}}, Count: 1, Soak: site.Duration(time.Minute)}
			d.Nodes["n3"].Image, d.Nodes["n3"].Generation = "debian", 1
		})
		w.after(2 * time.Minute)
		w.approve()
		w.after(5 * time.Minute)
		w.reason("n1", "the site allows 1 of 3 nodes out of service (maxUnavailable 1): 1 are: n3")
		w.reason("n3", "it waits for the canaries (n1) to be in-sync for 1m: n1 waits for the place of this machine, which is out of service")
		if n := w.node("n3"); !n.Person || n.Release != "a larger maxUnavailable, or `away` on this node" {
			t.Errorf("n3 is %+v", n)
		}
	}, all...)
}

func TestQueueOpensWhenOnlyADeadNodeIsLeft(t *testing.T) {
	all := names(3)
	inBubble(t, patched, func(w *world) {
		d := w.serving(all...)
		w.fleet.Machine("n3").SetFault(drivertest.Unreachable)
		w.after(5 * time.Minute)
		d = w.patch(d, "2", func(d *site.Site) { d.Rollout.OnChange, d.Rollout.MaxUnavailable = "queue", "2" })
		w.after(2 * time.Minute)
		w.patch(d, "3", nil)
		w.after(2 * time.Minute)
		if st := w.engine.Report().Status; st.Applied.ID != "commit-2" || st.Rollout.Queued == nil {
			t.Errorf("in force while nodes are patched: %s, rollout %+v", st.Applied.ID, st.Rollout)
		}
		w.after(12 * time.Minute)
		w.want("n3", site.Retrying)
		if st := w.engine.Report().Status; st.Applied.ID != "commit-3" {
			t.Errorf("in force with a dead node left: %s, rollout %+v", st.Applied.ID, st.Rollout)
		}
	}, all...)
}

// A queue waits for a while before it takes a rollout for stuck: what others
// wait for may come back.
func TestQueueStaysShutForAWhile(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving("c1", "x1")
		change := func(d *site.Site) {
			d.Rollout.OnChange, d.Rollout.MaxUnavailable = "queue", "2"
			d.Roles["ctl"] = &site.Role{Enabled: true, Phases: d.Roles["web"].Phases}
			d.Roles["web"].Needs = map[string]map[string]site.Need{"install": {"ctl": {Phase: "base", Quorum: "1"}}}
			d.Nodes["c1"].Role, d.Nodes["c1"].System.Packages = "ctl", nil
		}
		w.fleet.Machine("c1").SetFault(drivertest.Unreachable)
		w.after(2 * time.Minute)
		w.patch(d, "2", change)
		w.after(time.Minute)
		w.reason("x1", "its phase install needs 1 of 1 nodes of role ctl")
		w.patch(d, "3", change)
		w.after(2 * time.Minute)
		if st := w.engine.Report().Status; st.Applied.ID != "commit-2" || st.Rollout.Queued == nil {
			t.Errorf("in force %s, rollout %+v", st.Applied.ID, st.Rollout)
		}
		w.after(4 * time.Minute)
		if st := w.engine.Report().Status; st.Applied.ID != "commit-3" {
			t.Errorf("in force after six minutes in which nothing happened: %s, rollout %+v", st.Applied.ID, st.Rollout)
		}
	}, "c1", "x1")
}

func TestNodeThatFailedCountsInTheNextRolloutUnlessItIsChanged(t *testing.T) {
	all := names(3)
	inBubble(t, patched, func(w *world) {
		d := w.serving(all...)
		w.fleet.Machine("n1").SetFault(drivertest.Lies)
		change := func(d *site.Site) { d.Rollout.MaxUnavailable, d.Rollout.MaxFailures = "3", "1" }
		d = w.patch(d, "2", change)
		w.after(5 * time.Minute)
		w.patch(d, "2", func(d *site.Site) { change(d); d.Nodes["n3"].Boot.Order = []string{"Hdd"} })
		w.after(3 * time.Minute)
		if r := w.rollout(); r.Revision.ID != "commit-3" || r.Failed["n1"] == "" || len(r.Failed) != 1 {
			t.Errorf("rollout with the same design of n1 is %+v", r)
		}
		w.fleet.Machine("n1").SetFault(drivertest.Healthy)
		w.patch(d, "3", change)
		w.after(time.Minute)
		if r := w.rollout(); len(r.Failed) != 0 {
			t.Errorf("rollout with another design of n1 is %+v", r)
		}
	}, all...)
}

func TestRolloutThatBeginsWithTooManyFailuresIsHaltedAtOnce(t *testing.T) {
	all := names(4)
	inBubble(t, patched, func(w *world) {
		d := w.serving(all...)
		for _, name := range []string{"n1", "n2"} {
			w.fleet.Machine(name).SetFault(drivertest.Lies)
		}
		d = w.patch(d, "2", func(d *site.Site) { d.Rollout.MaxUnavailable, d.Rollout.MaxFailures = "4", "2" })
		w.after(5 * time.Minute)
		before := w.fleet.Machine("n3").Counts().Writes
		w.patch(d, "2", func(d *site.Site) {
			d.Rollout.MaxUnavailable, d.Rollout.MaxFailures = "4", "1"
			d.Nodes["n3"].Boot.Order = []string{"Hdd"}
		})
		w.until("commit-3 in force", 20*time.Second, func() bool { return w.rollout().Revision.ID == "commit-3" })
		why := "2 of 3 nodes have failed and maxFailures allows 1"
		if r := w.rollout(); r.Halted != why || len(r.Failed) != 2 || !w.hasTold(site.EventRollout, "rollout halted: "+why) {
			t.Errorf("rollout is %+v, events %+v", r, w.engine.Events(0))
		}
		w.after(5 * time.Minute)
		w.reason("n3", "is halted: "+why)
		if n := w.fleet.Machine("n3").Counts().Writes - before; n != 0 {
			t.Errorf("%d writes in a halted rollout", n)
		}
	}, all...)
}

func TestPausedNodesThatAreDoneStayDone(t *testing.T) {
	all := names(3)
	inBubble(t, patched, func(w *world) {
		d := w.serving(all...)
		w.patch(d, "2", nil)
		w.until("two done", 10*time.Minute, func() bool { return w.rollout().Done == 2 })
		w.do(site.Order{Verb: site.VerbPause, Reason: "look"})
		for range 3 {
			w.after(2 * time.Minute)
			if k := w.engine.Known(); k.Paused == nil || k.Paused.Reason != "look" || k.Rollout == nil || k.Rollout.Done != 2 {
				t.Errorf("a plan would know of the pause %+v and of the rollout %+v", k.Paused, k.Rollout)
			}
			if r := w.rollout(); r.Done != 2 || !r.Ended.IsZero() || !w.is(site.Paused, all...)() {
				t.Errorf("rollout while the site is paused is %+v", r)
			}
		}
		w.do(site.Order{Verb: site.VerbResume})
		w.after(5 * time.Minute)
		if r := w.rollout(); r.Done != 3 || r.Ended.IsZero() {
			t.Errorf("rollout after the pause is %+v", r)
		}
	}, all...)
}

// What has drifted is repaired during a rollout, which does not let the node in
// before its time.
func TestRepairOfDriftIsNoBeginning(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving(names(2)...)
		w.fleet.Machine("n2").SetPower("off")
		d = w.patch(d, "2", func(d *site.Site) {
			canary(d)
			d.Rollout.Canaries.Nodes = &site.Selector{Match: site.Match{Names: []string{"n1"}}}
		})
		w.after(9 * time.Minute)
		if got, power := w.carry(d), w.fleet.Machine("n2").Power(); !slices.Equal(got, []string{"n1"}) || power != "on" {
			t.Errorf("patched while the canary soaks: %v; n2 is %s", got, power)
		}
		w.reason("n2", "have to stay so until")
	}, names(2)...)
}

func TestCanaryThatFallsOutWhileItSoaksSoaksAnew(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving(names(2)...)
		d = w.patch(d, "2", canary)
		w.after(5 * time.Minute)
		w.reason("n2", "have to stay so until")
		w.fleet.Machine("n1").SetFault(drivertest.Unreachable)
		w.after(9 * time.Minute)
		w.reason("n2", "it waits for the canaries (n1) to be in-sync")
		w.fleet.Machine("n1").SetFault(drivertest.Healthy)
		w.after(9 * time.Minute)
		w.reason("n2", "have to stay so until")
		if got := w.carry(d); !slices.Equal(got, []string{"n1"}) {
			t.Errorf("patched while the canary soaks: %v", got)
		}
		w.after(9 * time.Minute)
		if got := w.carry(d); len(got) != 2 {
			t.Errorf("patched after the soak: %v", got)
		}
	}, names(2)...)
}
