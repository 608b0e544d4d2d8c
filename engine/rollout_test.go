package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
)

// patched is a fleet on which packages take two minutes.
var patched = drivertest.Config{Latency: 200 * time.Millisecond, PowerTime: 5 * time.Second, PostTime: time.Minute,
	OSTime: 20 * time.Second, InstallTime: 5 * time.Minute, StepTime: map[site.Action]time.Duration{site.ActionPackages: 2 * time.Minute}}

// service is a design of machines that run a system already, all of one role.
func (w *world) service(names ...string) *site.Site {
	d := w.design(names...)
	d.Roles = map[string]*site.Role{"web": {Enabled: true, Phases: []string{"base", "network", "install", "configure"}}}
	for _, name := range names {
		d.Nodes[name].Role = "web"
	}
	if !w.met {
		d.Rollout.FirstContact = "repair" // most tests are of what comes after it
	}
	return d
}

// serving brings a service up, in-sync.
func (w *world) serving(names ...string) *site.Site {
	w.t.Helper()
	for _, name := range names {
		w.fleet.Machine(name).SetDisk(&site.Marker{})
		w.fleet.Machine(name).SetPower("on")
	}
	d := w.service(names...)
	w.commit(d)
	w.up()
	w.after(3 * time.Minute)
	for _, name := range names {
		w.want(name, site.InSync)
	}
	return d
}

// patch commits the design with another package on every node, as changed by
// the caller.
func (w *world) patch(was *site.Site, version string, change func(*site.Site)) *site.Site {
	d := w.service(was.NodeNames()...)
	d.Rollout = was.Rollout
	for _, n := range d.Nodes {
		n.System.Packages = map[string]site.Package{"nginx": {Version: version}}
	}
	if change != nil {
		change(d)
	}
	w.commit(d)
	return d
}

// patchedNow are the nodes whose packages are set at this moment.
func (w *world) patchedNow(names ...string) []string {
	var those []string
	for _, name := range names {
		if w.fleet.Machine(name).Have(site.FacetPackages) != nil {
			those = append(those, name)
		}
	}
	return those
}

func (w *world) rollout() site.RolloutStatus {
	w.t.Helper()
	r := w.engine.Report().Status.Rollout
	if r == nil {
		w.t.Fatal("no rollout")
	}
	return *r
}

func (w *world) reason(name, part string) {
	w.t.Helper()
	if n := w.node(name); !strings.Contains(n.Reason+": "+n.Detail, part) {
		w.t.Errorf("%s is %s: %s: %s; want a reason with %q", name, n.State, n.Reason, n.Detail, part)
	}
}

func names(n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("n%d", i+1))
	}
	return all
}

func TestCanariesGoFirstAndSoak(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving(names(4)...)
		w.patch(d, "2", func(d *site.Site) {
			d.Rollout.MaxUnavailable = "4"
			d.Rollout.Canaries = &site.Canaries{Count: 1, Soak: site.Duration(10 * time.Minute)}
		})
		w.after(2 * time.Minute)
		w.want("n1", site.Progressing)
		w.reason("n2", "waits for the canaries (n1)")
		w.after(5 * time.Minute)
		w.want("n1", site.InSync)
		if got := w.patchedNow(names(4)...); !slices.Equal(got, []string{"n1"}) {
			t.Errorf("patched while the canary soaks: %v", got)
		}
		w.reason("n2", "have to stay so until")
		w.after(14 * time.Minute)
		if got := w.patchedNow(names(4)...); len(got) != 4 {
			t.Errorf("patched after the soak: %v", got)
		}
		if r := w.rollout(); r.Ended.IsZero() || r.Done != 4 {
			t.Errorf("rollout is %+v", r)
		}
	}, names(4)...)
}

// Whoever waits for a time that is known begins then, however seldom machines
// are looked at.
func TestWaitForAKnownTimeIsExact(t *testing.T) {
	all := names(6)
	seldom := func(d *site.Site) {
		d.Rollout.MaxUnavailable, d.Rollout.ObserveEvery = "100%", site.Duration(10*time.Minute)
	}
	for _, c := range []struct {
		what   string
		change func(*site.Site)
		begins func(site.RolloutStatus) time.Time
	}{
		{"the end of a soak", func(d *site.Site) {
			d.Rollout.Canaries = &site.Canaries{Count: 1, Soak: site.Duration(8 * time.Minute)}
		}, func(r site.RolloutStatus) time.Time { return r.Proven.Add(8 * time.Minute) }},
		{"a window", func(d *site.Site) {
			d.Windows = at("13 0 * * *")
			for _, n := range d.Nodes {
				n.Window = "night"
			}
		}, func(r site.RolloutStatus) time.Time { return r.Since.Truncate(time.Hour).Add(13 * time.Minute) }},
	} {
		t.Run(c.what, func(t *testing.T) {
			inBubble(t, patched, func(w *world) {
				d := w.serving(all...)
				w.patch(d, "2", func(d *site.Site) { seldom(d); c.change(d) })
				w.after(25 * time.Minute)
				r := w.rollout()
				from := c.begins(r)
				for _, name := range all {
					if slices.Contains(r.Canaries, name) {
						continue
					}
					if at := w.begun(name, site.ActionPackages, r.Since); at.Before(from) || at.Sub(from) > 2*time.Second {
						t.Errorf("%s was begun at %s, want %s", name, at.Format(time.TimeOnly), from.Format(time.TimeOnly))
					}
				}
			}, all...)
		})
	}
}

func TestCanaryThatFailsHaltsTheRollout(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving(names(3)...)
		w.fleet.Machine("n1").SetFault(drivertest.Lies)
		w.patch(d, "2", func(d *site.Site) {
			d.Rollout.MaxUnavailable = "3"
			d.Rollout.Canaries = &site.Canaries{Count: 1, Soak: site.Duration(time.Minute)}
		})
		w.after(40 * time.Minute)
		if r := w.rollout(); r.Halted != "canary n1 has failed" || r.Failed["n1"] == "" {
			t.Errorf("rollout is %+v", r)
		}
		w.want("n2", site.Blocked)
		w.reason("n2", "is halted: canary n1 has failed")
		if got := w.patchedNow("n2", "n3"); got != nil {
			t.Errorf("patched in a halted rollout: %v", got)
		}
		// A restart does not forget that it is halted.
		w.down()
		w.up()
		w.after(5 * time.Minute)
		w.reason("n2", "is halted")
		w.fleet.Machine("n1").SetFault(drivertest.Healthy)
		w.do(site.Order{Verb: site.VerbRetry})
		w.after(20 * time.Minute)
		if got := w.patchedNow(names(3)...); len(got) != 3 {
			t.Errorf("patched after the order to go on: %v", got)
		}
		if r := w.rollout(); r.Outcome() != "3 of 3 nodes in-sync, 0 failed (1 failure before it was fixed)" {
			t.Errorf("its outcome is %q", r.Outcome())
		}
	}, names(3)...)
}

// What has failed, and is mended when the rollout has ended, is failed no more.
func TestOutcomeOfARolloutWhoseFailureIsMendedLater(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving(names(3)...)
		w.fleet.Machine("n1").SetFault(drivertest.Lies)
		w.patch(d, "2", func(d *site.Site) { d.Rollout.MaxUnavailable, d.Rollout.MaxFailures = "3", "1" })
		w.after(40 * time.Minute)
		if r := w.rollout(); r.Ended.IsZero() || r.Outcome() != "2 of 3 nodes in-sync, 1 failed" {
			t.Errorf("with one failed: %+v, %q", r, r.Outcome())
		}
		w.fleet.Machine("n1").SetFault(drivertest.Healthy)
		w.do(site.Order{Verb: site.VerbRetry, Node: "n1"})
		w.after(20 * time.Minute)
		if r := w.rollout(); r.Outcome() != "3 of 3 nodes in-sync, 0 failed (1 failure before it was fixed)" {
			t.Errorf("with it mended: %+v, %q", r, r.Outcome())
		}
	}, names(3)...)
}

// What has failed and left the design is neither failed nor fixed.
func TestOutcomeOfARolloutWhoseFailureLeavesTheDesign(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving(names(3)...)
		w.fleet.Machine("n1").SetFault(drivertest.Lies)
		d = w.patch(d, "2", func(d *site.Site) { d.Rollout.MaxUnavailable, d.Rollout.MaxFailures = "3", "1" })
		w.after(40 * time.Minute)
		if r := w.rollout(); r.Ended.IsZero() || r.Outcome() != "2 of 3 nodes in-sync, 1 failed" {
			t.Errorf("with one failed: %+v, %q", r, r.Outcome())
		}
		left := *d
		left.Nodes = maps.Clone(d.Nodes)
		delete(left.Nodes, "n1")
		w.commit(&left)
		w.until("the removal of n1 waits", 10*time.Minute, func() bool { return w.node("n1").Approval != "" })
		w.do(site.Order{Verb: site.VerbApprove, Node: "n1", Shown: w.node("n1").Approval})
		w.until("n1 has left", 10*time.Minute, func() bool { return len(w.engine.Report().Status.Nodes) == 2 })
		if r := w.rollout(); len(r.Failed) > 0 || r.Outcome() != "2 of 3 nodes in-sync, 0 failed, 1 failed and has left the design" {
			t.Errorf("with it gone: %+v, %q", r, r.Outcome())
		}
	}, names(3)...)
}

// A machine that was never seen is not said to change.
func TestRolloutOfUnseenMachinesSaysSo(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.on(w.design("n1", "n2"), "n1", "n2")
		d := w.design("n1", "n2", "n3")
		d.Nodes["n1"].Power = "off"
		w.commit(d)
		w.until("n3 is known", time.Minute, func() bool { return len(w.engine.Report().Status.Nodes) == 3 })
		w.until("all are in-sync", 10*time.Minute, w.is(site.InSync, "n1", "n2", "n3"))
		var said []string
		for _, text := range w.eventsOf("", site.EventRollout) {
			if _, how, begins := strings.Cut(text, " begins: "); begins {
				said = append(said, how)
			}
		}
		if want := []string{"2 nodes not seen yet", "1 node changes, 1 node not seen yet"}; !slices.Equal(said, want) {
			t.Errorf("the rollouts are said to begin with %q, want %q", said, want)
		}
	}, "n1", "n2", "n3")
}

func TestTooManyFailuresHalt(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving(names(6)...)
		for _, name := range []string{"n1", "n2"} {
			w.fleet.Machine(name).SetFault(drivertest.Lies)
		}
		w.patch(d, "2", func(d *site.Site) { d.Rollout.MaxUnavailable, d.Rollout.MaxFailures = "3", "1" })
		w.after(time.Hour)
		r := w.rollout()
		if len(r.Failed) != 2 || !strings.Contains(r.Halted, "2 of 6 nodes have failed and maxFailures allows 1") {
			t.Errorf("rollout is %+v", r)
		}
		// The remedy is a commit: another rollout, not halted.
		for _, name := range []string{"n1", "n2"} {
			w.fleet.Machine(name).SetFault(drivertest.Healthy)
		}
		w.patch(d, "3", func(d *site.Site) { d.Rollout.MaxUnavailable = "3" })
		w.after(time.Hour)
		if r := w.rollout(); r.Halted != "" || r.Done != 6 || r.Ended.IsZero() {
			t.Errorf("rollout after the remedy is %+v", r)
		}
	}, names(6)...)
}

func TestBoundsOfRackRoleAndMajority(t *testing.T) {
	all := names(6)
	inBubble(t, patched, func(w *world) {
		d := w.serving(all...)
		w.patch(d, "2", func(d *site.Site) {
			d.Rollout.MaxUnavailable = "6"
			d.Racks = map[string]*site.Rack{"a": {MaxUnavailable: "1"}, "b": {}}
			d.Roles["db"] = &site.Role{Enabled: true, Phases: d.Roles["web"].Phases, Majority: true}
			for i, name := range all {
				d.Nodes[name].Rack = []string{"a", "a", "a", "b", "b", "b"}[i]
				if i >= 3 {
					d.Nodes[name].Role = "db"
				}
			}
		})
		most := map[string]int{}
		for range 60 {
			w.after(20 * time.Second)
			for key, group := range map[string][]string{"rack a": all[:3], "majority": all[3:]} {
				busy := 0
				for _, name := range group {
					if w.node(name).State == site.Progressing && strings.Contains(w.node(name).Reason, "install-packages") {
						busy++
					}
				}
				most[key] = max(most[key], busy)
			}
		}
		if most["rack a"] != 1 || most["majority"] != 1 {
			t.Errorf("at once at most %v, want 1 in the rack and 1 of the role of three", most)
		}
		if got := w.patchedNow(all...); len(got) != 6 {
			t.Errorf("patched in the end: %v", got)
		}
	}, all...)
}

func TestMachineThatIsAwayIsNotCounted(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving(names(3)...)
		w.fleet.Machine("n3").SetFault(drivertest.Unreachable)
		w.after(5 * time.Minute)
		w.patch(d, "2", nil)
		w.after(20 * time.Minute)
		w.reason("n1", "the site allows 1 of 3 nodes out of service (maxUnavailable 1): 1 are: n3")
		w.patch(d, "2", func(d *site.Site) { d.Nodes["n3"].Away = "at the vendor" })
		w.after(20 * time.Minute)
		w.want("n1", site.InSync)
		w.want("n2", site.InSync)
		if r := w.rollout(); r.Ended.IsZero() {
			t.Errorf("rollout is %+v", r)
		}
	}, names(3)...)
}

func TestMachineThatIsAwayHasNoVote(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving(names(3)...)
		w.patch(d, "2", func(d *site.Site) {
			d.Rollout.MaxUnavailable = "3"
			d.Roles["web"].Majority = true
			d.Nodes["n3"].Away = "at the vendor"
		})
		w.after(20 * time.Minute)
		w.reason("n1", "role web allows 1 of 3 nodes out of service (it decides by majority): 1 are: n3")
		if got := w.patchedNow(names(3)...); got != nil {
			t.Errorf("patched at the cost of the majority: %v", got)
		}
	}, names(3)...)
}

func TestQueuedRevisionWaitsForTheRollout(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving(names(3)...)
		d = w.patch(d, "2", func(d *site.Site) { d.Rollout.OnChange = "queue" })
		w.after(time.Minute)
		w.patch(d, "3", nil)
		w.after(2 * time.Minute)
		st := w.engine.Report().Status
		if st.Applied.ID != "commit-2" || st.Rollout.Queued == nil || st.Rollout.Queued.ID != "commit-3" {
			t.Errorf("in force %s, rollout %+v", st.Applied.ID, st.Rollout)
		}
		w.after(10 * time.Minute)
		if st := w.engine.Report().Status; st.Applied.ID != "commit-3" {
			t.Errorf("in force after the rollout: %s", st.Applied.ID)
		}
		w.after(20 * time.Minute)
		if r := w.rollout(); r.Revision.ID != "commit-3" || r.Ended.IsZero() || r.Queued != nil {
			t.Errorf("rollout is %+v", r)
		}
	}, names(3)...)
}

func TestNeedsWithQuorumAndADeadNode(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.service("c1", "c2", "c3", "x1", "y1")
		d.Roles["ctl"] = &site.Role{Enabled: true, Phases: d.Roles["web"].Phases}
		d.Roles["two"] = &site.Role{Enabled: true, Phases: d.Roles["web"].Phases,
			Needs: map[string]map[string]site.Need{"base": {"ctl": {Phase: "configure", Quorum: "2"}}}}
		d.Roles["all"] = &site.Role{Enabled: true, Phases: d.Roles["web"].Phases,
			Needs: map[string]map[string]site.Need{"base": {"ctl": {Phase: "configure", Quorum: "all"}}}}
		for _, name := range []string{"c1", "c2", "c3"} {
			d.Nodes[name].Role = "ctl"
			w.fleet.Machine(name).SetDisk(&site.Marker{})
		}
		d.Nodes["x1"].Role, d.Nodes["y1"].Role = "two", "all"
		w.fleet.Machine("c3").SetFault(drivertest.Hangs)
		w.commit(d)
		w.up()
		w.after(10 * time.Minute)
		w.want("x1", site.InSync)
		w.want("y1", site.Blocked)
		w.reason("y1", "its phase base needs 3 of 3 nodes of role ctl to have gone through configure: 2 have, not c3")
		if got := w.fleet.Machine("y1").Counts().Writes; got != 0 {
			t.Errorf("%d writes to a node whose need does not hold", got)
		}
		w.fleet.Machine("c3").SetDisk(&site.Marker{})
		w.fleet.Machine("c3").SetFault(drivertest.Healthy)
		w.after(10 * time.Minute)
		w.want("y1", site.InSync)
	}, "c1", "c2", "c3", "x1", "y1")
}

// What a machine gives to others may be another when it is back.
func TestDependantsAreLookedAtWhenWhatTheyNeedIsBack(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving("c1", "x1")
		change := func(d *site.Site) {
			d.Rollout.MaxUnavailable = "2" // so that both are looked into together
			d.Roles["ctl"] = &site.Role{Enabled: true, Phases: d.Roles["web"].Phases}
			d.Roles["web"].Needs = map[string]map[string]site.Need{"install": {"ctl": {Phase: "base", Quorum: "1"}}}
			d.Nodes["c1"].Role = "ctl"
		}
		w.patch(d, "2", change)
		w.after(time.Minute)
		w.until("both patched", 10*time.Minute, w.is(site.InSync, "c1", "x1"))
		w.patch(d, "2", func(d *site.Site) {
			change(d)
			d.Nodes["c1"].System.Packages["nginx"] = site.Package{Version: "3"}
		})
		w.until("c1 begun", 20*time.Second, w.is(site.Progressing, "c1"))
		w.after(10 * time.Second)
		w.fleet.Machine("x1").SetHave(site.FacetPackages, site.Values{"design": "another"})
		w.until("c1 back", 4*time.Minute, func() bool {
			back := w.is(site.InSync, "c1")()
			if !back {
				w.want("x1", site.InSync)
			}
			return back
		})
		w.until("x1 found to differ", 2*time.Second, w.is(site.Progressing, "x1"))
	}, "c1", "x1")
}

// A wait has one reason for as long as it lasts; who is waited for is a detail.
func TestReasonOfAWaitIsStable(t *testing.T) {
	all := names(8)
	inBubble(t, patched, func(w *world) {
		d := w.serving(append(all, "z1")...)
		w.patch(d, "2", func(d *site.Site) {
			d.Roles["last"] = &site.Role{Enabled: true, Phases: d.Roles["web"].Phases,
				Needs: map[string]map[string]site.Need{"install": {"web": {Phase: "configure", Quorum: "all"}}}}
			d.Nodes["z1"].Role = "last"
		})
		w.after(time.Minute)
		before := w.engine.Report().Status.Nodes
		w.after(8 * time.Minute)
		waiting := 0
		for _, was := range before {
			n := w.node(was.Name)
			if n.State != site.Blocked {
				continue // it had its turn
			}
			waiting++
			if n.Reason != was.Reason || !n.Since.Equal(was.Since) || n.Detail == was.Detail {
				t.Errorf("%s was %s (%s) since %s and is %s (%s) since %s", n.Name, was.Reason, was.Detail, was.Since, n.Reason, n.Detail, n.Since)
			}
		}
		if w.want("z1", site.Blocked); waiting < 3 {
			t.Errorf("%d nodes wait", waiting)
		}
		events, err := w.engine.History(w.t.Context(), "z1")
		blocked := 0
		for _, e := range events {
			if strings.HasPrefix(e.Text, "blocked") {
				blocked++
			}
		}
		if err != nil || blocked != 1 {
			t.Errorf("history of z1: %+v, %v", events, err)
		}
	}, append(all, "z1")...)
}

func TestLeaderGoesFirst(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving(names(3)...)
		w.patch(d, "2", func(d *site.Site) {
			d.Rollout.MaxUnavailable = "3"
			d.Roles["web"].LeaderFirst, d.Roles["web"].Leader = true, "n2"
		})
		w.after(90 * time.Second)
		w.reason("n1", "the leader of role web goes first: it waits for n2: n2 is in install")
		w.after(10 * time.Minute)
		if got := w.patchedNow(names(3)...); len(got) != 3 {
			t.Errorf("patched: %v", got)
		}
	}, names(3)...)
}

func TestAnotherGoesFirstForALeaderThatIsAway(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving(names(3)...)
		w.patch(d, "2", func(d *site.Site) {
			d.Rollout.MaxUnavailable = "3"
			d.Roles["web"].LeaderFirst, d.Roles["web"].Leader = true, "n2"
			d.Nodes["n2"].Away = "sent in for repair"
		})
		w.after(90 * time.Second)
		w.reason("n3", "the leader of role web goes first: it waits for n1: n1 is in install")
		w.after(10 * time.Minute)
		if got := w.patchedNow(names(3)...); len(got) != 2 {
			t.Errorf("patched: %v", got)
		}
	}, names(3)...)
}

func TestWindows(t *testing.T) {
	lastsLong(t)
	inBubble(t, patched, func(w *world) {
		d := w.serving(names(2)...)
		// A bubble begins at midnight UTC, 2000-01-01.
		w.patch(d, "2", func(d *site.Site) {
			d.Rollout.MaxUnavailable = "1"
			d.Rollout.PollEvery, d.Rollout.ObserveEvery = site.Duration(5*time.Minute), site.Duration(5*time.Minute)
			d.Windows = map[string]*site.Window{"night": {Cron: "0 2 * * *", Length: site.Duration(3 * time.Minute)}}
			for _, n := range d.Nodes {
				n.Window = "night"
				n.Boot.Order = []string{"Hdd"} // online, so at any time
			}
		})
		w.after(10 * time.Minute)
		for _, name := range names(2) {
			w.want(name, site.Blocked)
			w.reason(name, "its window night opens at Sat 2000-01-01 02:00 UTC")
			if got := w.fleet.Machine(name).BootOrder(); got != "Hdd" {
				t.Errorf("the online step of %s waited: %s", name, got)
			}
		}
		w.after(110 * time.Minute) // until five past two
		if got := w.patchedNow(names(2)...); len(got) != 1 {
			t.Errorf("patched in the window: %v, want one, since a second does not fit", got)
		}
		w.after(24 * time.Hour)
		if got := w.patchedNow(names(2)...); len(got) != 2 {
			t.Errorf("patched in two nights: %v", got)
		}
	}, names(2)...)
}

// What has a window of its own is not counted into another.
func TestStepWhoseOwnWindowIsShort(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving("n1")
		w.patch(d, "2", func(d *site.Site) {
			d.Windows = at("40 0 * * *")
			d.Windows["blink"] = &site.Window{Cron: "10 * * * *", Length: site.Duration(time.Minute)}
			d.Nodes["n1"].Boot.Order = []string{"Hdd"}
			d.Nodes["n1"].Windows = site.Windows{Online: "blink", Reboot: "night"}
		})
		w.after(9 * time.Minute)
		if got := w.fleet.Machine("n1").BootOrder(); got != "Hdd" || w.patchedNow("n1") != nil {
			t.Errorf("after the short window the boot order is %s, packages %v", got, w.patchedNow("n1"))
		}
		w.reason("n1", "its window night opens at")
		w.after(35 * time.Minute)
		w.want("n1", site.InSync)
	}, "n1")
}

// All that needs one window has to fit into it, not the first step alone.
func TestStepsThatShareAWindowFitTogether(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving("n1")
		w.patch(d, "2", func(d *site.Site) {
			d.Windows = map[string]*site.Window{"blink": {Cron: "10 * * * *", Length: site.Duration(time.Minute)}}
			d.Nodes["n1"].Boot.Order, d.Nodes["n1"].Window = []string{"Hdd"}, "blink"
			d.Nodes["n1"].Windows = site.Windows{Online: "blink"}
		})
		w.after(12 * time.Minute)
		if got := w.fleet.Machine("n1").BootOrder(); got == "Hdd" || !w.node("n1").Person {
			t.Errorf("the boot order is %s, n1 is %+v", got, w.node("n1"))
		}
		w.reason("n1", "of work do not fit into its window blink")
	}, "n1")
}

func TestWorkThatNeverFitsSaysSo(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving("n1")
		w.patch(d, "2", func(d *site.Site) {
			d.Windows = map[string]*site.Window{"blink": {Cron: "0 2 * * *", Length: site.Duration(time.Minute)}}
			d.Nodes["n1"].Window = "blink"
		})
		w.after(5 * time.Minute)
		n := w.node("n1")
		if !n.Person || !strings.Contains(n.Reason, "of work do not fit into its window blink") {
			t.Errorf("n1 is %s: %s", n.State, n.Reason)
		}
	}, "n1")
}

func TestDriftPolicies(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		for _, name := range names(3) {
			w.fleet.Machine(name).SetDisk(&site.Marker{})
			w.fleet.Machine(name).SetPower("on")
		}
		d := w.service(names(3)...)
		d.Windows = map[string]*site.Window{"night": {Cron: "0 2 * * *", Length: site.Duration(time.Hour)}}
		for name, policy := range map[string]string{"n1": "report", "n2": "repair", "n3": "enforce"} {
			n := d.Nodes[name]
			n.Boot.Order, n.Window = []string{"Hdd"}, "night"
			n.Drift = map[site.Facet]string{site.FacetBoot: policy}
		}
		w.commit(d)
		w.up()
		w.after(5 * time.Minute)
		for _, name := range names(3) {
			w.want(name, site.InSync) // the design came first: that is no drift
			w.fleet.Machine(name).SetBootOrder("Pxe")
		}
		w.after(10 * time.Minute)
		w.want("n1", site.Blocked)
		w.reason("n1", "boot.order is Pxe and is designed as Hdd; the design asks only for a report")
		w.reason("n2", "its window night opens at")
		w.want("n3", site.InSync)
		w.after(2 * time.Hour)
		w.want("n2", site.InSync)
		if got := w.fleet.Machine("n1").BootOrder(); got != "Pxe" {
			t.Errorf("what is only reported was changed to %s", got)
		}
	}, names(3)...)
}

// That something was as designed is known over a restart of the daemon, so it
// drifts and is not rolled out: what is only reported is not staged, and what is
// enforced waits for no window, its restart neither.
func TestDriftOfWhatIsStagedOverARestart(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.service(names(2)...)
		d.Windows = at("0 2 * * *")
		for name, policy := range map[string]string{"n1": "report", "n2": "enforce"} {
			n := d.Nodes[name]
			n.Firmware, n.Window = map[string]site.Firmware{"bmc": {Version: "2"}}, "night"
			n.Drift = map[site.Facet]string{site.FacetFirmware: policy}
			w.fleet.Machine(name).SetDisk(&site.Marker{})
			w.fleet.Machine(name).SetPower("on")
			w.fleet.Machine(name).SetHave(site.FacetFirmware, site.Values{"bmc": "2"})
		}
		w.commit(d)
		w.up()
		w.after(5 * time.Minute)
		w.down()
		for _, name := range names(2) {
			w.fleet.Machine(name).SetHave(site.FacetFirmware, site.Values{"bmc": "1"})
		}
		w.up()
		w.after(95 * time.Minute) // firmware is read once an hour
		w.want("n1", site.Blocked)
		w.reason("n1", "firmware.bmc is 1 and is designed as 2; the design asks only for a report")
		w.want("n2", site.InSync)
		if n := w.fleet.Machine("n1").Counts().Writes; n != 0 {
			t.Errorf("%d writes for what is only reported", n)
		}
		if got := w.fleet.Machine("n2").Have(site.FacetFirmware)["bmc"]; got != "2" {
			t.Errorf("what is enforced is %s", got)
		}
	}, names(2)...)
}

func TestMovedMachineTakesTheNameOver(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		w.fleet.Machine("n1").SetDisk(w.signed(site.Marker{Node: "n1", Generation: 2, Image: "d1"}))
		w.fleet.Machine("n1").SetPower("on")
		d := w.service("n1")
		d.Nodes["n1"].Image, d.Nodes["n1"].Generation = "debian", 2
		w.commit(d)
		w.up()
		w.after(5 * time.Minute)
		w.want("n1", site.InSync)
		// Another board: another UUID, the same disks.
		board := site.Identity{UUID: "00000000-0000-4000-8000-0000000000ff", Serial: "FAKE-n1"}
		w.fleet.Machine("n1").Replace(board)
		w.fleet.Machine("n1").SetDisk(&site.Marker{Node: "n1", Generation: 2, Image: "d1"})
		w.fleet.Machine("n1").SetPower("on")
		w.after(5 * time.Minute)
		w.want("n1", site.Stalled)
		moved := w.service("n1")
		moved.Nodes["n1"].Identity = d.Nodes["n1"].Identity
		moved.Nodes["n1"].Moved = board
		moved.Nodes["n1"].Image, moved.Nodes["n1"].Generation = "debian", 2
		w.commit(moved)
		w.after(10 * time.Minute)
		w.want("n1", site.InSync)
		if c := w.fleet.Machine("n1").Counts(); c.Installs != 0 || w.node("n1").Generation != 2 {
			t.Errorf("a moved name was installed: %+v, generation %d", c, w.node("n1").Generation)
		}
	}, "n1")
}

func TestTenBlankMachinesInstallFromOneChange(t *testing.T) {
	all := names(10)
	inBubble(t, patched, func(w *world) {
		d := w.service(all...)
		d.Rollout.MaxUnavailable = "10"
		for _, n := range d.Nodes {
			n.Image, n.Generation = "debian", 1
		}
		w.fleet.Machine("n7").SetFault(drivertest.Unreachable)
		w.commit(d)
		w.up()
		w.after(time.Minute)
		w.approve()
		w.after(20 * time.Minute)
		for _, name := range all {
			if name == "n7" {
				continue
			}
			w.want(name, site.InSync)
		}
		w.fleet.Machine("n7").SetFault(drivertest.Healthy)
		w.after(10 * time.Minute)
		w.reason("n7", "waits for approval") // nobody had seen its disks
		w.approve()
		w.after(30 * time.Minute)
		w.want("n7", site.InSync)
		for _, name := range all {
			if got := w.fleet.Machine(name).Counts().Installs; got != 1 {
				t.Errorf("%s was installed %d times", name, got)
			}
		}
	}, all...)
}

// A node that others need may be the last to be looked at after a start.
func TestFirstLookWakesThoseThatNeedIt(t *testing.T) {
	for seed := range uint64(8) {
		config := usual
		config.Seed = seed
		inBubble(t, config, func(w *world) {
			w.fleet.Machine("n1").SetPower("on")
			d := w.design("n1", "n2", "n3")
			for _, n := range d.Nodes {
				n.Power, n.Role = "on", "worker"
				delete(n.Endpoints, site.OS)
			}
			d.Nodes["n1"].Role = "base"
			d.Rollout.MaxUnavailable = "2"
			d.Roles = map[string]*site.Role{
				"base":   {Enabled: true, Phases: []string{"base"}},
				"worker": {Enabled: true, Phases: []string{"base"}, Needs: map[string]map[string]site.Need{"base": {"base": {Phase: "base", Quorum: "all"}}}},
			}
			w.commit(d)
			w.up()
			w.after(usual.PowerTime + 10*time.Second)
			for _, name := range []string{"n2", "n3"} {
				w.want(name, site.InSync)
			}
		}, names(3)...)
	}
}

// A look may have begun before a commit and end after it.
func TestNodeIsNotInSyncWithWhatItWasNotComparedWith(t *testing.T) {
	slow := patched
	slow.Latency = 4 * time.Second
	for at := time.Duration(0); at < time.Minute; at += 3 * time.Second {
		inBubble(t, slow, func(w *world) {
			d := w.serving("n1")
			w.after(at)
			w.patch(d, "2", nil)
			begun := w.engine.Report().Status.Applied.ID
			for range 150 {
				w.after(time.Second)
				if now := w.engine.Report().Status.Applied.ID; now != begun && w.is(site.InSync, "n1")() && len(w.patchedNow("n1")) == 0 {
					t.Errorf("n1 is in-sync with %s, which it is not as", now)
					return
				}
			}
			w.until("n1 patched", 10*time.Minute, w.is(site.InSync, "n1"))
		}, "n1")
	}
}
