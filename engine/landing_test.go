package engine_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/review"
	"github.com/slipway-gitops/slipway/engine/site"
)

// verdicts are the first lines of what was told of a proposal, one after the
// other.
func (f *forge) verdicts(number int) (all []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.told {
		if r.Proposal.Number == number {
			all = append(all, r.Verdict)
		}
	}
	return all
}

// calls are the keys of what people were called for, in order.
func (f *forge) calls(number int) (keys []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.told {
		if r.Proposal.Number == number && r.Call != nil && !slices.Contains(keys, r.Call.Key) {
			keys = append(keys, r.Call.Key)
		}
	}
	return keys
}

// keep has reviews made every ten seconds until a condition holds.
func (f *forge) keep(r *review.Reviews, what string, most time.Duration, so func() bool) {
	f.w.t.Helper()
	for began := time.Now(); !so(); {
		if time.Since(began) > most {
			f.w.t.Fatalf("not within %s: %s; told is %q", most, what, f.verdicts(7))
		}
		f.w.after(10 * time.Second)
		f.round(r)
	}
}

func (f *forge) says(number int, verdict string) func() bool {
	return func() bool {
		all := f.verdicts(number)
		return len(all) > 0 && strings.HasPrefix(all[len(all)-1], verdict)
	}
}

// patching is a design with another package on every node.
func (w *world) patching(version string, change func(*site.Site), names ...string) *site.Site {
	d := w.service(names...)
	for _, n := range d.Nodes {
		n.System.Packages = map[string]site.Package{"nginx": {Version: version}}
	}
	if change != nil {
		change(d)
	}
	return d
}

// A merged proposal is followed from the merge until its rollout has ended,
// also by a daemon that was started anew, and then forgotten.
func TestMergedProposalIsFollowed(t *testing.T) {
	all := names(4)
	inBubble(t, patched, func(w *world) {
		w.serving(all...)
		f := w.forge()
		r := f.reviews()
		f.propose(7, w.patching("2", nil, all...))
		f.round(r)
		f.change(7, func(p *site.Proposal) {
			p.State, p.Merge, p.MergedBy, p.MergedAt = site.ProposalMerged, "commit-2", "ann", time.Now()
		})
		f.round(r)
		f.round(r)
		if got := f.verdicts(7)[1:]; !slices.Equal(got, []string{"merged, not in force yet"}) {
			t.Errorf("before the branch has it, told is %q", got)
		}
		f.merge(7)
		f.keep(r, "it is in force", time.Minute, f.says(7, "0 of 4 machines done"))
		f.keep(r, "one is done", 10*time.Minute, f.says(7, "1 of 4 machines done"))
		before := f.tellings()
		w.down()
		w.up()
		r = f.reviews()
		f.keep(r, "it is done", time.Hour, f.says(7, "done, 4 of 4 machines are as designed"))
		v := f.last(7)
		for _, part := range []string{"UTC merged by ann as <code>commit-2</code>\n", "UTC in force with <code>commit-2</code>\n",
			"UTC rollout of <code>commit-2</code> to 4 machines\n", "UTC ended after "} {
			if !strings.Contains(v.Comment, part) {
				t.Errorf("the comment lacks %q\n%s", part, v.Comment)
			}
		}
		if v.Proposal.State != site.ProposalMerged || v.Set != "" || f.calls(7) != nil {
			t.Errorf("told is %+v, called for %v", v.Proposal, f.calls(7))
		}
		told := f.tellings()
		if told-before > 6 {
			t.Errorf("told %d times since the restart: %q", told-before, f.verdicts(7))
		}
		for range 10 {
			w.after(time.Minute)
			f.round(r)
		}
		if f.tellings() != told {
			t.Errorf("told of it again: %q", f.verdicts(7)[told:])
		}
		w.down()
		w.up()
		r = f.reviews()
		w.after(time.Minute)
		f.round(r)
		if f.tellings() != told {
			t.Errorf("told of it again after another start: %q", f.verdicts(7)[told:])
		}
	}, all...)
}

// How far a rollout is is told at a pace at which many can be told of.
func TestProgressIsToldAtAPace(t *testing.T) {
	all := names(4)
	inBubble(t, patched, func(w *world) {
		w.serving(all...)
		f := w.forge()
		r := f.reviews()
		for i := range 20 {
			f.propose(7+i, w.patching("2", func(d *site.Site) { d.Rollout.MaxUnavailable = "1" }, all...))
		}
		f.round(r)
		for i := range 20 {
			f.merge(7 + i)
		}
		f.keep(r, "it is in force", time.Minute, f.says(7, "0 of 4 machines done"))
		w.after(30 * time.Second)
		f.round(r)
		before := f.tellings()
		f.keep(r, "it is done", time.Hour, f.says(7, "done, "))
		f.round(r)
		if n := f.tellings() - before; n > 2*20+2 {
			t.Errorf("told %d times of 20 proposals in one rollout", n)
		}
	}, all...)
}

// What a later proposal changes is no part of one whose rollout has ended, also
// when nobody looked at it in between.
func TestLaterRolloutIsNotItsOwn(t *testing.T) {
	all := names(4)
	for _, restarts := range []bool{false, true} {
		inBubble(t, patched, func(w *world) {
			w.serving(all...)
			f := w.forge()
			r := f.reviews()
			f.propose(7, w.patching("2", nil, all...))
			f.propose(8, w.patching("3", nil, all...))
			f.round(r)
			f.merge(7)
			f.keep(r, "it is in force", time.Minute, f.says(7, "0 of 4 machines done"))
			w.after(2 * time.Hour)
			if restarts {
				f.round(r)
				w.down()
				w.up()
				r = f.reviews()
			}
			f.merge(8)
			w.after(time.Minute)
			f.keep(r, "the later one is in force", time.Minute, f.says(8, "0 of 4 machines done"))
			if !f.says(7, "done, 4 of 4 machines are as designed")() {
				t.Errorf("told is %q", f.verdicts(7))
			}
		}, all...)
	}
}

// Nothing is told to be done before the design with it was looked at, nor is
// anything to be done for one that changes no machine.
func TestMergedProposalThatChangesNothing(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		f := w.inSync("n1")
		r := f.reviews()
		f.propose(7, w.wiping([]string{"n1"}))
		f.round(r)
		f.merge(7)
		f.round(r) // before the daemon has looked
		f.keep(r, "it is done", 2*time.Minute, f.says(7, "done, no machine had to change"))
		if got := f.verdicts(7)[1]; got != "merged, not in force yet" {
			t.Errorf("told is %q", f.verdicts(7))
		}
	}, "n1")
}

// A rollout that is halted calls for a person, once; when it is halted again
// after an order, once more.
func TestHaltedRolloutCallsForAPerson(t *testing.T) {
	all := names(4)
	inBubble(t, patched, func(w *world) {
		w.serving(all...)
		f := w.forge()
		r := f.reviews()
		f.propose(7, w.patching("2", canary, all...))
		f.round(r)
		w.fleet.Machine("n1").SetFault(drivertest.Lies)
		f.merge(7)
		f.keep(r, "it is halted", time.Hour, f.says(7, "stopped, 1 of 4 machines failed"))
		v := f.last(7)
		if v.Call == nil || !strings.Contains(v.Call.Text, "canary n1 has failed") || !strings.Contains(v.Comment, " UTC stopped: canary n1 has failed\n") {
			t.Errorf("called is %+v\n%s", v.Call, v.Comment)
		}
		w.down()
		w.up()
		r = f.reviews()
		for range 10 {
			w.after(time.Minute)
			f.round(r)
		}
		if keys := f.calls(7); len(keys) != 1 {
			t.Errorf("called for %v", keys)
		}
		w.do(site.Order{Verb: site.VerbRetry})
		f.keep(r, "it is halted again", time.Hour, func() bool { return len(f.calls(7)) == 2 })
	}, all...)
}

// A design that is broken once it is merged calls for a person; one that was
// broken before does not, as this may be what mends it.
func TestMergeIntoABrokenBranch(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		f := w.inSync("n1")
		r := f.reviews()
		f.propose(7, w.wiping([]string{"n1"}))
		f.propose(8, w.wiping([]string{"n1"}))
		f.round(r)
		f.merge(7)
		w.source.mu.Lock()
		w.source.broken[w.source.current.ID] = []site.Finding{{Code: "x", Severity: site.SeverityError, Message: "both took the address"}}
		w.source.mu.Unlock()
		f.keep(r, "it is refused", time.Minute, f.says(7, "merged, not in force, because the design on the branch is broken"))
		if c := f.last(7).Call; c == nil || c.Key != "refused" || !strings.Contains(c.Text, "both took the address") {
			t.Errorf("called is %+v", c)
		}
		f.merge(8)
		f.round(r)
		f.keep(r, "both are in force", time.Minute, func() bool {
			return f.says(7, "done, ")() && f.says(8, "done, ")()
		})
		if keys := f.calls(8); keys != nil {
			t.Errorf("what mends it calls for %v", keys)
		}
	}, "n1")
}

// A set that has grown between the review and the merge is named and held, and
// calls for a person until it is approved.
func TestGrownSetCallsForAPerson(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		f := w.inSync("n1", "n2")
		r := f.reviews()
		p := f.propose(7, w.wiping([]string{"n1", "n2"}, "n1"))
		f.round(r)
		f.show(r, 7)
		w.source.mu.Lock()
		w.source.designs["merged-"+p.Head] = w.wiping([]string{"n1", "n2"}, "n1", "n2")
		w.source.mu.Unlock()
		f.merge(7)
		f.keep(r, "n2 is held", 2*time.Minute, func() bool { return len(f.calls(7)) == 1 })
		v := f.last(7)
		if key := "held-" + v.Held.Digest(); v.Call.Key != key || !strings.Contains(v.Comment, "1 machine would be erased** (set `"+v.Held.Digest()+"`)") {
			t.Errorf("called is %+v, want %s\n%s", v.Call, key, v.Comment)
		}
		f.keep(r, "n1 is installed", 30*time.Minute, f.says(7, "1 of 2 machines done; erasing 1 more machine needs a decision"))
		if keys := f.calls(7); len(keys) != 1 {
			t.Errorf("called for %v", keys)
		}
		w.do(site.Order{Verb: site.VerbApprove, Digest: v.Held.Digest()}) // as the comment says it
		f.keep(r, "n2 is installed", 30*time.Minute, f.says(7, "done, 2 of 2 machines are as designed"))
		if v := f.last(7); v.Call != nil || len(v.Held) > 0 {
			t.Errorf("at the end held is %v, called %+v", v.Held, v.Call)
		}
	}, "n1", "n2")
}

// What is held is approved by the digest that the comment names it by, and
// nothing of what waits beside it is.
func TestHeldSetIsApprovedByItself(t *testing.T) {
	all := []string{"n1", "n2", "n3"}
	inBubble(t, usual, func(w *world) {
		f := w.inSync(all...)
		w.commit(w.wiping(all, "n3"))
		w.after(time.Minute)
		r := f.reviews()
		p := f.propose(7, w.wiping(all, "n1", "n3"))
		f.round(r)
		f.show(r, 7)
		w.source.mu.Lock()
		w.source.designs["merged-"+p.Head] = w.wiping(all, all...)
		w.source.mu.Unlock()
		f.merge(7)
		f.keep(r, "n2 is held", 2*time.Minute, func() bool { return len(f.calls(7)) == 1 })
		v := f.last(7)
		if len(v.Held) != 1 || v.Held[0].Node != "n2" || !strings.Contains(v.Call.Text, "/slipway approve "+v.Held.Digest()) {
			t.Fatalf("held is %v, called %+v", v.Held, v.Call)
		}
		w.do(site.Order{Verb: site.VerbApprove, Digest: v.Held.Digest()})
		w.until("n1 and n2 are installed", 30*time.Minute, w.is(site.InSync, "n1", "n2"))
		w.after(time.Hour)
		w.want("n3", site.Blocked)
		w.installs("n3", 0)
	}, all...)
}

// What is held is named with what is known of its disks.
func TestHeldDisksAreNamedAsKnown(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.fleet.Machine("n1").Made(withDisks("S1"))
		f := w.inSync("n1")
		r := f.reviews()
		f.propose(7, w.wiping([]string{"n1"}, "n1"))
		f.round(r)
		f.merge(7) // before it could be read
		f.keep(r, "it is held", 2*time.Minute, func() bool { return len(f.last(7).Held) == 1 })
		if v := f.last(7); !strings.Contains(v.Comment, "1 disk: <code>S1</code>") {
			t.Errorf("told is\n%s", v.Comment)
		}
	}, "n1")
}

// One that is merged before its set could be read approves nothing, and all of
// the set is held.
func TestMergeBeforeTheSetWasShown(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		f := w.inSync("n1")
		r := f.reviews()
		f.propose(7, w.wiping([]string{"n1"}, "n1"))
		f.round(r)
		f.merge(7)
		f.keep(r, "it is held", 2*time.Minute, f.says(7, "0 of 1 machine done; erasing 1 more machine needs a decision"))
		if v := f.last(7); v.Approved != nil || v.Call == nil {
			t.Errorf("approved is %v, called %+v", v.Approved, v.Call)
		}
		w.after(time.Hour)
		w.want("n1", site.Blocked)
	}, "n1")
}

// A push between what was read and the merge has the merge approve nothing, and
// the comment says why.
func TestPushBetweenShownAndMerge(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		f := w.inSync("n1")
		r := f.reviews()
		f.propose(7, w.wiping([]string{"n1"}, "n1"))
		f.round(r)
		f.show(r, 7)
		f.propose(7, w.wiping([]string{"n1"}, "n1"))
		f.merge(7)
		f.keep(r, "it is held", 2*time.Minute, f.says(7, "0 of 1 machine done; erasing 1 more machine needs a decision"))
		if v := f.last(7); v.Approved != nil || !strings.Contains(v.Comment, "The merge approved nothing: its comment was about head-7-") {
			t.Errorf("approved is %v\n%s", v.Approved, v.Comment)
		}
		w.after(time.Hour)
		w.want("n1", site.Blocked)
	}, "n1")
}

// death ends the records when it has come: at one of the calls to the forge, or
// once an approval is recorded.
type death struct {
	slog.Handler
	w    *world
	left int
}

func (d *death) step() {
	if d.left--; d.left == 0 {
		d.w.store.Close()
	}
}

func (d *death) Handle(_ context.Context, r slog.Record) error {
	if isApproval(r) {
		d.step()
	}
	return nil
}

func (d *death) Enabled(context.Context, slog.Level) bool { return true }
func (d *death) WithAttrs([]slog.Attr) slog.Handler       { return d }

// A daemon may die between any two writes: what was read is approved all the
// same and once, what was not is held, and people are told of both.
func TestDeathBetweenAnyTwoWrites(t *testing.T) {
	points := 0
	for point := 1; ; point++ {
		survived := false
		inBubble(t, usual, func(w *world) {
			d := &death{Handler: slog.DiscardHandler, w: w}
			w.log = slog.New(d)
			f := w.inSync("n1", "n2")
			r := f.reviews()
			p := f.propose(7, w.wiping([]string{"n1", "n2"}, "n1"))
			f.round(r)
			f.show(r, 7)
			w.source.mu.Lock()
			w.source.designs["merged-"+p.Head] = w.wiping([]string{"n1", "n2"}, "n1", "n2")
			w.source.mu.Unlock()
			f.merge(7)
			w.after(30 * time.Second)
			d.left, f.each = point, d.step
			r.Round(w.t.Context())
			survived = d.left > 0
			d.left = 0
			w.crash()
			w.up()
			r = f.reviews()
			f.keep(r, "n1 is installed", 30*time.Minute, f.says(7, "1 of 2 machines done; erasing 1 more machine needs a decision"))
			w.after(time.Hour)
			w.want("n2", site.Blocked)
			if n := w.fleet.Machine("n1").Counts().Installs; n != 1 {
				t.Errorf("died at %d: n1 was installed %d times", point, n)
			}
			if keys := f.calls(7); len(keys) != 1 || !strings.HasPrefix(keys[0], "held-") {
				t.Errorf("died at %d: called for %v", point, keys)
			}
		}, "n1", "n2")
		if survived {
			break
		}
		points++
	}
	if points < 6 {
		t.Errorf("it died at %d points", points)
	}
}

// isApproval says whether a line of the log tells that a set was approved.
func isApproval(r slog.Record) (is bool) {
	r.Attrs(func(a slog.Attr) bool {
		is = is || r.Message == "order" && a.Key == "what" && strings.HasPrefix(a.Value.String(), "set ")
		return true
	})
	return is
}

// atApproval calls a function when an approval was recorded.
type atApproval struct {
	slog.Handler
	do func()
}

func (a *atApproval) Handle(_ context.Context, r slog.Record) error {
	if isApproval(r) {
		a.do()
	}
	return nil
}

func (a *atApproval) Enabled(context.Context, slog.Level) bool { return true }
func (a *atApproval) WithAttrs([]slog.Attr) slog.Handler       { return a }

// What a merge approves is recorded before it is noted that nothing of it is
// pending, or a death in between would have it approve nothing.
func TestMergeIsApprovedBeforeNothingIsPending(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		asked := 0
		w.log = slog.New(&atApproval{Handler: slog.DiscardHandler, do: func() {
			asked++
			snap, err := w.store.Site("test").Load(w.t.Context())
			if err != nil || !snap.Accounts["n1"].HasOpen() || len(snap.Proposed) != 1 || snap.Proposed[0].Landed == nil || len(snap.Proposed[0].Landed.Pending) != 1 {
				t.Errorf("recorded are approvals %+v and proposals %+v, %v", snap.Accounts, snap.Proposed, err)
			}
		}})
		f := w.inSync("n1")
		r := f.reviews()
		f.propose(7, w.wiping([]string{"n1"}, "n1"))
		f.round(r)
		f.show(r, 7)
		f.merge(7)
		w.after(time.Minute)
		f.round(r)
		if asked != 1 {
			t.Errorf("approved %d times", asked)
		}
	}, "n1")
}
