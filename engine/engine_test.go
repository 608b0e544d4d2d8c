package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
)

func TestMachinesAreBroughtUpAndKeptSo(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.commit(w.design("a", "b", "c"))
		w.up()
		w.after(time.Minute)
		for _, name := range []string{"a", "b", "c"} {
			w.want(name, site.InSync)
			if got := w.fleet.Machine(name).Counts().Resets; got != 1 {
				t.Errorf("%s was reset %d times, want once", name, got)
			}
		}
		w.fleet.Machine("b").SetPower("off")
		w.after(3 * time.Minute)
		w.want("b", site.InSync)
		if got := w.fleet.Machine("b").Power(); got != "on" {
			t.Errorf("drifted machine is %s, want on", got)
		}
	}, "a", "b", "c")
}

func TestBlankMachineIsInstalledOnceItIsApproved(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		d := w.design("a", "b")
		d.Nodes["a"].Image, d.Nodes["a"].Generation = "debian", 1
		w.commit(d)
		w.up()
		w.after(2 * time.Minute)
		w.want("a", site.Blocked)
		w.want("b", site.InSync)
		if r := w.node("a").Reason; !strings.Contains(r, "waits for approval") {
			t.Errorf("reason is %q", r)
		}
		if got := w.fleet.Machine("a").Counts().Writes; got != 0 {
			t.Errorf("%d writes before the approval", got)
		}
		w.approve()
		w.after(4 * time.Minute)
		w.want("a", site.Progressing)
		w.after(6 * time.Minute)
		w.want("a", site.InSync)
		disk := w.fleet.Machine("a").Disk()
		if disk == nil || disk.Generation != 1 || disk.Image != "d1" {
			t.Errorf("disk is %+v", disk)
		}
		if got := w.fleet.Machine("a").Counts().Installs; got != 1 {
			t.Errorf("installed %d times", got)
		}
		if media := w.fleet.Machine("a").Media(); media != nil {
			t.Errorf("medium is still inserted: %+v", media)
		}
	}, "a", "b")
}

func TestApprovalInTheDesignIsTheSame(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.waitsForApproval("a")
		next := w.design("a")
		next.Nodes["a"].Image, next.Nodes["a"].Generation = "debian", 1
		next.Approvals = map[string]site.Approval{w.engine.Report().Status.Approve: {By: "ops"}}
		w.commit(next)
		w.after(15 * time.Minute)
		w.want("a", site.InSync)
		if got := w.node("a").Generation; got != 1 {
			t.Errorf("generation is %d, want 1", got)
		}
	}, "a")
}

// Whoever asks for the status while a daemon starts is told of nothing yet,
// and the daemon does not go by that.
func TestAskedAtItsStartADaemonKnowsWhatWaits(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.waitsForApproval("a")
		w.down()
		w.early = true
		w.up()
		w.after(time.Minute)
		w.approve()
		w.after(15 * time.Minute)
		w.want("a", site.InSync)
	}, "a")
}

func TestAdoptedMachineIsNotInstalled(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.fleet.Machine("a").SetDisk(&site.Marker{})
		w.fleet.Machine("a").SetPower("on")
		d := w.design("a")
		d.Nodes["a"].Image = "debian"
		w.commit(d)
		w.up()
		w.after(10 * time.Minute)
		w.want("a", site.InSync)
		if c := w.fleet.Machine("a").Counts(); c.Writes != 0 || c.Installs != 0 {
			t.Errorf("adopting wrote to the machine: %+v", c)
		}
	}, "a")
}

func TestSignedMarkerWinsOverALostRecord(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.fleet.Machine("a").SetDisk(w.signed(site.Marker{Node: "a", Generation: 3, Image: "d1"}))
		w.fleet.Machine("a").SetPower("on")
		w.after(time.Minute)
		d := w.design("a")
		d.Nodes["a"].Image, d.Nodes["a"].Generation = "debian", 3
		w.commit(d)
		w.up()
		w.after(5 * time.Minute)
		w.want("a", site.InSync)
		if c := w.fleet.Machine("a").Counts(); c.Writes != 0 {
			t.Errorf("a marked machine was written to: %+v", c)
		}
		if got := w.node("a").Generation; got != 3 {
			t.Errorf("generation is %d, want the marker's 3", got)
		}
	}, "a")
}

func TestBrokenCommitTouchesNothing(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.commit(w.design("a"))
		w.up()
		w.after(2 * time.Minute)
		before := w.fleet.Machine("a").Counts().Writes
		w.source.add(nil, []site.Finding{{Code: "x", Severity: site.SeverityError, File: "nodes.cue", Line: 7, Col: 3, Message: "power is neither on nor off"}})
		w.after(5 * time.Minute)
		st := w.engine.Report().Status
		if st.Applied.ID != "commit-1" || st.Attempted.ID != "commit-2" {
			t.Errorf("applied %s, attempted %s", st.Applied.ID, st.Attempted.ID)
		}
		if len(st.Problems) != 1 || !strings.Contains(st.Problems[0].What, "nodes.cue:7:3: power is neither") {
			t.Errorf("problems are %+v", st.Problems)
		}
		w.fleet.Machine("a").SetPower("off") // the last good design stays in force
		w.after(3 * time.Minute)
		w.want("a", site.InSync)
		if got := w.fleet.Machine("a").Counts().Writes; got != before+1 {
			t.Errorf("%d writes after the broken commit, want the one repair", got-before)
		}
	}, "a")
}

// A site that the repository has no more may have its machines in another one by the same commit: nothing is done to
// them until the site is back, whatever is broken besides.
func TestASiteThatLeftTheRepositoryIsOnlyObserved(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.commit(w.design("a"))
		w.up()
		w.after(2 * time.Minute)
		w.source.add(nil, []site.Finding{{Code: "unknown-site", Severity: site.SeverityError, Message: `there is no site "test" in the repository`}})
		w.after(2 * time.Minute)
		before := w.fleet.Machine("a").Counts().Writes
		w.fleet.Machine("a").SetPower("off")
		w.after(5 * time.Minute)
		w.source.add(nil, []site.Finding{{Code: "x", Severity: site.SeverityError, Message: "power is neither on nor off"}})
		w.after(5 * time.Minute)
		n := w.node("a")
		if got := w.fleet.Machine("a").Counts().Writes; got != before || n.State != site.Blocked || !strings.Contains(n.Reason, "is not in the repository since revision commit-2, and its machines may be in another site now") {
			t.Errorf("%d writes, and a is %s: %s", got-before, n.State, n.Reason)
		}
		if n.Release != "a revision that comes into force" || w.engine.Report().Status.ObserveOnly == "" {
			t.Errorf("released by %q; acts for %q", n.Release, w.engine.Report().Status.ObserveOnly)
		}
		w.commit(w.design("a"))
		w.after(5 * time.Minute)
		w.want("a", site.InSync)
		if w.fleet.Machine("a").Power() != "on" {
			t.Error("it is off although the site is back")
		}
	}, "a")
}

func TestSixHourOutageOfABMC(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.commit(w.design("dead", "b"))
		w.up()
		w.after(2 * time.Minute)
		w.fleet.Machine("dead").SetFault(drivertest.Unreachable)
		w.after(6 * time.Hour)
		w.want("dead", site.Retrying)
		w.want("b", site.InSync)
		if since := time.Since(w.node("dead").Since); since < 5*time.Hour+50*time.Minute {
			t.Errorf("since is %s ago: each try begins the wait anew", since)
		}
		w.fleet.Machine("dead").SetFault(drivertest.Healthy)
		w.after(4 * time.Minute)
		w.want("dead", site.InSync)
	}, "dead", "b")
}

func TestDriverThatLiesIsFoundOut(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.fleet.Machine("a").SetFault(drivertest.Lies)
		w.commit(w.design("a"))
		w.up()
		w.after(time.Hour)
		w.want("a", site.Stalled)
		if got := w.fleet.Machine("a").Counts().Writes; got != 1 {
			t.Errorf("the same step was tried %d times", got)
		}
		if r := w.node("a").Reason; !strings.Contains(r, "had no effect") {
			t.Errorf("reason is %q", r)
		}
		w.down()
		w.up() // a restart does not try again either
		w.after(10 * time.Minute)
		w.want("a", site.Stalled)
		if got := w.fleet.Machine("a").Counts().Writes; got != 1 {
			t.Errorf("after a restart the step was tried %d times", got)
		}
		w.fleet.Machine("a").SetFault(drivertest.Healthy)
		w.do(site.Order{Verb: site.VerbRetry, Node: "a"})
		w.after(2 * time.Minute)
		w.want("a", site.InSync)
	}, "a")
}

func TestVanishedRepositoryLeavesTheDesignInForce(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.commit(w.design("a"))
		w.up()
		w.after(2 * time.Minute)
		w.source.vanish(errors.New("no route to git.example"))
		w.down()
		evaluated := w.source.evaluations()
		w.up() // also after a restart
		w.fleet.Machine("a").SetPower("off")
		w.after(3 * time.Minute)
		w.want("a", site.InSync)
		if got := w.fleet.Machine("a").Power(); got != "on" {
			t.Errorf("drift was not repaired: %s", got)
		}
		if p := w.engine.Report().Status.Problems; len(p) != 1 || !strings.Contains(p[0].What, "no route to git.example") {
			t.Errorf("problems are %+v", p)
		}
		w.source.vanish(nil)
		w.after(time.Minute)
		if p := w.engine.Report().Status.Problems; len(p) != 0 {
			t.Errorf("problems are still %+v", p)
		}
		if got := w.source.evaluations(); got != evaluated {
			t.Errorf("a restart evaluated an unchanged revision")
		}
	}, "a")
}

func TestShutdownInTheMiddleOfAStep(t *testing.T) {
	for _, at := range []time.Duration{100 * time.Millisecond, time.Second, 20 * time.Second, 90 * time.Second, 4 * time.Minute, 6 * time.Minute} {
		t.Run(at.String(), func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				d := w.design("a")
				d.Nodes["a"].Image, d.Nodes["a"].Generation = "debian", 1
				w.commit(d)
				w.up()
				w.after(time.Minute)
				w.approve()
				w.after(at)
				w.down()
				w.after(time.Minute)
				w.up()
				w.after(15 * time.Minute)
				w.want("a", site.InSync)
				if c := w.fleet.Machine("a").Counts(); c.Installs != 1 || c.Resets != 2 {
					t.Errorf("%d installs and %d resets, want 1 and 2", c.Installs, c.Resets)
				}
			}, "a")
		})
	}
}

// A daemon that is told to end while it reads its records ends as one does that has read
// them.
func TestShutdownBeforeItHasBegun(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.commit(w.design("a"))
		w.up()
		w.after(2 * time.Minute)
		w.down()
		for range 5 {
			w.up()
			w.down()
		}
	}, "a")
}

func TestRemovalIsHeldWithoutDecommission(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.commit(w.design("a", "b", "c", "d"))
		w.up()
		w.after(2 * time.Minute)
		next := w.design("a", "b")
		next.Nodes["a"].Power = "off"
		w.commit(next)
		w.after(5 * time.Minute)
		w.want("a", site.InSync) // the rest of the commit goes on
		w.want("c", site.Blocked)
		w.want("d", site.Blocked)
		if got := w.fleet.Machine("a").Power(); got != "off" {
			t.Errorf("a is %s, want off", got)
		}
		w.down()
		w.up()
		w.after(time.Minute)
		w.want("c", site.Blocked) // held after a restart too
		w.commit(w.design("a", "b", "c"))
		w.after(2 * time.Minute)
		w.want("c", site.InSync)
		w.do(site.Order{Verb: site.VerbApprove, Node: "d"})
		w.after(time.Minute)
		if nodes := w.engine.Report().Status.Nodes; len(nodes) != 3 {
			t.Errorf("%d nodes after the approved removal, want 3", len(nodes))
		}
	}, "a", "b", "c", "d")
}

func TestRemovalInTwoStepsWithinTheBudget(t *testing.T) {
	lastsLong(t)
	inBubble(t, usual, func(w *world) {
		all := []string{"a", "b", "c"}
		w.commit(w.design(all...))
		w.up()
		w.after(2 * time.Minute)
		d := w.design(all...)
		d.Nodes["b"].Decommission, d.Nodes["c"].Decommission = true, true
		w.commit(d)
		w.after(2 * time.Minute)
		w.want("b", site.InSync)
		w.commit(w.design("a"))
		w.after(2 * time.Minute)
		st := w.engine.Report().Status
		if len(st.Nodes) != 2 {
			t.Fatalf("%d nodes, want one removed and one held by the budget", len(st.Nodes))
		}
		w.after(25 * time.Hour)
		if n := len(w.engine.Report().Status.Nodes); n != 1 {
			t.Errorf("%d nodes a day later, want 1", n)
		}
		for _, name := range all {
			if got := w.fleet.Machine(name).Power(); got != "on" {
				t.Errorf("machine %s was switched %s", name, got)
			}
		}
	}, "a", "b", "c")
}

func TestNoMoreThanMaxUnavailableAreOutAtOnce(t *testing.T) {
	var names []string
	for i := range 6 {
		names = append(names, fmt.Sprintf("n%d", i))
	}
	inBubble(t, usual, func(w *world) {
		d := w.design(names...)
		d.Rollout.MaxUnavailable = "34%" // 2 of 6
		w.commit(d)
		w.up()
		w.after(2 * time.Minute)
		next := w.design(names...)
		next.Rollout.MaxUnavailable = "34%"
		for _, n := range next.Nodes {
			n.Image, n.Generation = "debian", 1
		}
		w.commit(next)
		w.after(30 * time.Second)
		w.approve()
		worst := 0
		for range 100 {
			w.after(30 * time.Second)
			out := 0
			for _, name := range names {
				if disk := w.fleet.Machine(name).Disk(); w.fleet.Machine(name).Power() == "off" || disk == nil || disk.Generation == 0 && w.fleet.Machine(name).Media() != nil {
					if w.fleet.Machine(name).Counts().Resets > 1 && (disk == nil || disk.Generation == 0 || w.fleet.Machine(name).Power() == "off") {
						out++
					}
				}
			}
			worst = max(worst, out)
		}
		if worst > 2 || worst == 0 {
			t.Errorf("at worst %d machines were out at once, want 1 to 2", worst)
		}
		for _, name := range names {
			w.want(name, site.InSync)
		}
	}, names...)
}

func TestFirstContactAsksBeforeDisrupting(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.fleet.Machine("a").SetPower("on")
		d := w.design("a")
		d.Nodes["a"].Power = "off"
		w.commit(d)
		w.up()
		w.after(5 * time.Minute)
		w.want("a", site.Blocked)
		if got := w.fleet.Machine("a").Counts().Writes; got != 0 {
			t.Errorf("%d writes at first contact", got)
		}
		// Who was shown something else approves nothing.
		for _, shown := range []string{"", strings.Repeat("0", site.DigestDigits)} {
			if _, err := w.engine.Do(w.t.Context(), site.Order{Verb: site.VerbApprove, Node: "a", Shown: shown}); !errors.Is(err, site.ErrRefused) || !strings.Contains(err.Error(), "is not what you were shown; read it again: power-off may disrupt") {
				t.Errorf("approved what was not shown: %v", err)
			}
		}
		if rack, role, known := w.engine.Where("a"); !known || role != w.engine.Design().Nodes["a"].Role || rack != w.engine.Design().Nodes["a"].Rack {
			t.Errorf("a is in %q as %q, known %v", rack, role, known)
		}
		if _, _, known := w.engine.Where("z"); known {
			t.Error("z is known")
		}
		w.do(site.Order{Verb: site.VerbApprove, Node: "a", Shown: w.node("a").Approval})
		w.after(2 * time.Minute)
		w.want("a", site.InSync)
	}, "a")
}

func TestObserveOnlyWritesNothing(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.observe = true
		w.commit(w.design("a"))
		w.up()
		w.after(10 * time.Minute)
		w.want("a", site.Blocked)
		if r := w.node("a").Reason; !strings.Contains(r, "would power-on") {
			t.Errorf("reason is %q", r)
		}
		if got := w.fleet.Machine("a").Counts().Writes; got != 0 {
			t.Errorf("%d writes while observing only", got)
		}
	}, "a")
}

func TestDesignOfAnotherSchemaIsOnlyObserved(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		old := w.design("a")
		old.SchemaVersion = "v0"
		w.commit(old)
		w.up()
		w.after(2 * time.Minute)
		w.down()
		w.source.add(nil, []site.Finding{{Severity: site.SeverityError, Message: "the schema no longer has this"}})
		w.fleet.Machine("a").SetPower("off")
		w.up()
		w.after(5 * time.Minute)
		w.want("a", site.Blocked)
		if st := w.engine.Report().Status; !strings.Contains(st.ObserveOnly, "schema v0") || len(st.Problems) != 1 {
			t.Errorf("status is %q, %+v", st.ObserveOnly, st.Problems)
		}
		w.commit(w.design("a"))
		w.after(2 * time.Minute)
		w.want("a", site.InSync)
	}, "a")
}

func TestPausedMachinesAreLeftAlone(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.commit(w.design("a", "b"))
		w.up()
		w.after(2 * time.Minute)
		w.do(site.Order{Verb: site.VerbPause, Node: "a", Reason: "hands in the rack"})
		w.fleet.Machine("a").SetPower("off")
		w.down()
		w.up() // a pause survives a restart
		w.after(5 * time.Minute)
		w.want("a", site.Paused)
		w.want("b", site.InSync)
		w.do(site.Order{Verb: site.VerbPause, Reason: "storm"})
		w.fleet.Machine("b").SetPower("off")
		w.do(site.Order{Verb: site.VerbResume, Node: "a"})
		w.after(5 * time.Minute)
		w.want("a", site.Paused)
		w.want("b", site.Paused)
		w.do(site.Order{Verb: site.VerbResume})
		w.after(2 * time.Minute)
		w.want("a", site.InSync)
		w.want("b", site.InSync)
	}, "a", "b")
}

func TestAnotherMachineIsNeverWritten(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.fleet.Machine("a").SetFault(drivertest.WrongMachine)
		w.commit(w.design("a"))
		w.up()
		w.after(10 * time.Minute)
		w.want("a", site.Stalled)
		if got := w.fleet.Machine("a").Counts().Writes; got != 0 {
			t.Errorf("%d writes to another machine", got)
		}
	}, "a")
}

func TestMachineWithoutDesignedIdentityIsOnlyObserved(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		d := w.design("a")
		d.Nodes["a"].Identity = site.Identity{}
		w.commit(d)
		w.up()
		w.after(5 * time.Minute)
		w.want("a", site.Stalled)
		if r := w.node("a").Reason; !strings.Contains(r, w.fleet.Machine("a").Identity().UUID) {
			t.Errorf("reason does not propose the identity: %q", r)
		}
		if got := w.fleet.Machine("a").Counts().Writes; got != 0 {
			t.Errorf("%d writes", got)
		}
	}, "a")
}

func TestDeniedCredentialIsNotHammered(t *testing.T) {
	lastsLong(t)
	inBubble(t, usual, func(w *world) {
		w.fleet.Machine("a").SetFault(drivertest.Denied)
		w.commit(w.design("a"))
		w.up()
		w.after(24 * time.Hour)
		w.want("a", site.Stalled)
		w.fleet.Machine("a").SetFault(drivertest.Healthy)
		w.after(time.Hour)
		w.want("a", site.Stalled) // still not tried
		w.do(site.Order{Verb: site.VerbRetry, Node: "a"})
		w.after(2 * time.Minute)
		w.want("a", site.InSync)
	}, "a")
}

func TestInstallerThatNeverEndsStalls(t *testing.T) {
	c := usual
	c.InstallTime = 100 * time.Hour
	inBubble(t, c, func(w *world) {
		w.waitsForApproval("a")
		w.approve()
		w.after(2 * time.Hour)
		w.want("a", site.Stalled)
		if r := w.node("a").Reason; !strings.Contains(r, "for longer than 30m0s") {
			t.Errorf("reason is %q", r)
		}
	}, "a")
}

func TestQuietSiteReportsNothing(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.commit(w.design("a", "b"))
		w.up()
		w.after(5 * time.Minute)
		before := w.told.reports()
		w.after(6 * time.Hour)
		if got := w.told.reports(); got != before {
			t.Errorf("%d reports of nothing", got-before)
		}
	}, "a", "b")
}

func TestWithoutARecordNothingIsWritten(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.commit(w.design("a"))
		w.up()
		w.after(2 * time.Minute)
		before := w.fleet.Machine("a").Counts().Writes
		if err := w.store.Close(); err != nil {
			t.Fatal(err)
		}
		w.fails = true
		w.fleet.Machine("a").SetPower("off")
		w.after(10 * time.Minute)
		w.want("a", site.Blocked)
		if got := w.fleet.Machine("a").Counts().Writes; got != before {
			t.Errorf("%d writes without a record", got-before)
		}
	}, "a")
}

func TestNodeIsDroppedAndPutBackWhileItIsLookedAt(t *testing.T) {
	slow := usual
	slow.Latency = 7 * time.Second // a look is nearly always under way
	inBubble(t, slow, func(w *world) {
		design := func(names ...string) *site.Site {
			s := w.design(names...)
			s.Rollout.ObserveEvery = site.Duration(time.Second)
			return s
		}
		w.commit(design("n1", "n2"))
		w.up()
		w.after(5 * time.Minute)
		for range 5 {
			w.commit(design("n1"))
			w.after(time.Minute)
			w.want("n2", site.Blocked)
			if r := w.node("n2").Reason; !strings.Contains(r, w.source.current.ID) {
				t.Errorf("held for another revision than %s: %s", w.source.current.ID, r)
			}
			w.commit(design("n1", "n2"))
			w.after(time.Minute)
			w.want("n2", site.InSync)
		}
	}, "n1", "n2")
}

// A harmless step says nothing about whether the design is right.
func TestHarmlessStepDoesNotEndFirstContact(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.fleet.Machine("a").SetPower("on")
		d := w.design("a")
		d.Nodes["a"].Power, d.Nodes["a"].Boot.Order = "off", []string{"Pxe", "Hdd"}
		w.commit(d)
		w.up()
		w.after(5 * time.Minute)
		w.want("a", site.Blocked)
		if got := w.fleet.Machine("a").BootOrder(); got != "Pxe,Hdd" {
			t.Errorf("boot order is %s, want the designed one", got)
		}
		if got := w.fleet.Machine("a").Counts().Resets; got != 0 {
			t.Errorf("%d resets at first contact", got)
		}
	}, "a")
}

// A look may take long. A step that was planned for a design that is no longer
// in force is not taken.
func TestStepOfASupersededDesignIsNotTaken(t *testing.T) {
	slow := usual
	slow.Latency = 30 * time.Second
	inBubble(t, slow, func(w *world) {
		w.fleet.Machine("a").SetPower("on")
		d := w.design("a")
		d.Nodes["a"].Power, d.Rollout.FirstContact = "off", "repair"
		w.commit(d)
		w.up()
		w.after(5 * time.Second)
		w.commit(w.design("a")) // accepted while the first look goes on
		w.after(10 * time.Minute)
		w.want("a", site.InSync)
		if c := w.fleet.Machine("a").Counts(); c.Writes != 0 {
			t.Errorf("a superseded step was taken: %+v", c)
		}
	}, "a")
}

// Only a step that is planned again right after it succeeded is a lie.
// A look may take long. What the design has become meanwhile holds back what was
// planned before: the role of the node is no longer in use, or its image is
// another.
func TestStepPlannedBeforeTheDesignChangedIsNotTaken(t *testing.T) {
	slow := patched
	slow.Reads = drivertest.Range{From: 20 * time.Second, To: 20 * time.Second}
	for _, c := range []struct {
		what   string
		change func(*site.Site)
		holds  func(site.Step) bool
	}{
		{"role", func(d *site.Site) { d.Roles["web"].Enabled = false }, func(site.Step) bool { return false }},
		{"image", func(d *site.Site) { d.Images["debian"].SHA256 = "d2" },
			func(s site.Step) bool { return s.Action != site.ActionInstall || s.Image.SHA256 == "d2" }},
	} {
		t.Run(c.what, func(t *testing.T) {
			inBubble(t, slow, func(w *world) {
				d := w.reinstall(func(d *site.Site) { d.Rollout.PollEvery = site.Duration(time.Second) }, "n1")
				w.fleet.Machine("n1").SetPower("on")
				w.commit(d)
				w.up()
				w.after(5 * time.Minute)
				w.approve() // which begins a look
				w.after(time.Second)
				d = clone(d)
				c.change(d)
				w.commit(d)
				w.until("the change in force", 3*time.Second, func() bool { return w.engine.Report().Status.Applied.ID == "commit-2" })
				w.after(20 * time.Minute)
				for _, call := range w.fleet.Calls() {
					if !c.holds(call.Step) {
						t.Errorf("taken after the change: %+v", call.Step)
					}
				}
			}, "n1")
		})
	}
}

func TestMachineThatDoesNotSayWhoItIsIsNotInstalled(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.reinstall(nil, "n1")
		is := w.fleet.Machine("n1").Identity()
		w.fleet.Machine("n1").Replace(site.Identity{})
		w.commit(d)
		w.up()
		w.after(7 * time.Minute)
		w.want("n1", site.Blocked)
		w.reason("n1", "install generation 1 waits until the machine says that it is "+is.String())
		w.fleet.Machine("n1").Replace(is)
		w.after(2 * time.Minute)
		w.approve()
		w.after(15 * time.Minute)
		w.installs("n1", 1)
	}, "n1")
}

func TestLaterDriftIsNotALie(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		d := w.design("a")
		d.Nodes["a"].Boot.Order = []string{"Pxe", "Hdd"}
		d.Nodes["a"].Image, d.Nodes["a"].Generation = "debian", 1
		w.commit(d)
		w.up()
		w.after(time.Minute)
		w.approve()
		w.after(5*time.Minute + 5*time.Second) // the installer runs
		w.fleet.Machine("a").SetBootOrder("Hdd,Pxe")
		w.after(10 * time.Minute)
		w.want("a", site.InSync)
		w.do(site.Order{Verb: site.VerbPause, Node: "a", Reason: "test"})
		w.fleet.Machine("a").SetBootOrder("Hdd,Pxe")
		w.after(2 * time.Minute)
		w.do(site.Order{Verb: site.VerbResume, Node: "a"})
		w.after(2 * time.Minute)
		w.want("a", site.InSync)
	}, "a")
}

// What a node that left the design would destroy is nothing to approve.
func TestDepartedNodeWaitsForNoApproval(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		d := w.design("a", "b")
		d.Nodes["b"].Image, d.Nodes["b"].Generation = "debian", 1
		w.commit(d)
		w.up()
		w.after(time.Minute)
		if n := len(w.engine.Report().Status.Waiting); n != 1 {
			t.Fatalf("%d wait for approval, want 1", n)
		}
		w.commit(w.design("a"))
		w.after(2 * time.Minute)
		w.want("b", site.Blocked)
		if st := w.engine.Report().Status; len(st.Waiting) != 0 || st.Approve != "" {
			t.Errorf("still waiting: %+v", st.Waiting)
		}
	}, "a", "b")
}

func installing(w *world, names ...string) *site.Site {
	d := w.design(names...)
	d.Nodes["a"].Image, d.Nodes["a"].Generation = "debian", 1
	return d
}

func TestDecommissionInTheMiddleOfAnInstallation(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.commit(installing(w, "a"))
		w.up()
		w.after(time.Minute)
		w.approve()
		w.after(10 * time.Second) // the machine is powering on
		d := installing(w, "a")
		d.Nodes["a"].Decommission = true
		w.commit(d)
		w.after(time.Minute)
		w.down()
		w.up()
		w.after(2 * time.Minute)
		w.commit(installing(w, "a"))
		w.after(20 * time.Minute)
		w.want("a", site.InSync)
		if got := w.fleet.Machine("a").Counts().Installs; got != 1 {
			t.Errorf("installed %d times, want once", got)
		}
	}, "a")
}

// A begun installation whose marker the machine already shows is over.
func TestMarkerEndsAnInstallationThatWasBegun(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.commit(installing(w, "a"))
		w.up()
		w.after(time.Minute)
		w.approve()
		for !w.used("a") {
			w.after(50 * time.Millisecond)
		}
		w.down()
		w.fleet.Machine("a").SetDisk(&site.Marker{Node: "a", Generation: 1, Image: "d1"})
		w.fleet.Machine("a").SetPower("on")
		w.after(2 * time.Minute)
		w.up()
		w.after(20 * time.Minute)
		w.want("a", site.InSync)
		if got := w.fleet.Machine("a").Counts().Installs; got != 0 {
			t.Errorf("installed %d times over the marker of the same installation", got)
		}
	}, "a")
}

// An approval is for one life of a node in the design.
func TestNodeThatComesBackNeedsANewApproval(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.commit(installing(w, "a", "b"))
		w.up()
		w.after(time.Minute)
		w.approve()
		w.after(20 * time.Minute)
		d := installing(w, "a", "b")
		d.Nodes["a"].Decommission = true
		w.commit(d)
		w.after(2 * time.Minute)
		w.commit(w.design("b"))
		w.after(2 * time.Minute)
		if n := len(w.engine.Report().Status.Nodes); n != 1 {
			t.Fatalf("%d nodes, want a removed", n)
		}
		w.fleet.Machine("a").SetDisk(nil) // nothing inside tells of it
		w.commit(installing(w, "a", "b"))
		w.after(10 * time.Minute)
		w.want("a", site.Blocked)
		if got := w.fleet.Machine("a").Counts().Installs; got != 1 {
			t.Errorf("installed %d times, want the one that was approved", got)
		}
	}, "a", "b")
}

// A machine that cannot be seen can be decommissioned all the same.
func TestDeadMachineCanLeaveInTwoSteps(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.commit(w.design("a", "b"))
		w.up()
		w.after(2 * time.Minute)
		w.fleet.Machine("a").SetFault(drivertest.Unreachable)
		d := w.design("a", "b")
		d.Nodes["a"].Decommission = true
		w.commit(d)
		w.after(5 * time.Minute)
		w.commit(w.design("b"))
		w.after(10 * time.Minute)
		if n := len(w.engine.Report().Status.Nodes); n != 1 {
			t.Errorf("%d nodes, want the dead one removed: %s", n, w.node("a").Reason)
		}
	}, "a", "b")
}
