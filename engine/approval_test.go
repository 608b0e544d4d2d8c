package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/ledger"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/review"
	"github.com/slipway-gitops/slipway/engine/site"
)

// asking is an engine of one node whose installation waits for a person.
func asking(t *testing.T) (*Engine, *worker) {
	t.Helper()
	e, w := gated(t)
	e.accounts["n1"] = site.Account{Records: "r1"}
	w.memory.Account = e.accounts["n1"]
	w.memory.Observed.Disks = &site.Disks{Serials: []string{"S1"}}
	w.plan = site.NodePlan{Node: "n1", Steps: []site.Step{withLoss(installOne, "everything")}}
	return e, w
}

func withLoss(s site.Step, loses string) site.Step {
	s.Loses = loses
	return s
}

// second adds another node, n2, whose installation waits as well.
func second(e *Engine) *worker {
	machine := site.Identity{UUID: "u2"}
	n := &site.Node{Name: "n2", Identity: machine, Image: "debian", Role: "plain", Generation: 1}
	e.design.Nodes["n2"] = n
	account := site.Account{Records: "r1"}
	e.accounts["n2"] = account
	w := newWorker(e, n, site.Memory{Account: account, Recorded: site.Recorded{Adopted: &site.Adoption{Machine: machine}}}, false, func() {})
	w.memory.Observed.Disks = &site.Disks{Serials: []string{"S2"}}
	s := withLoss(installOne, "everything")
	s.Node, s.Machine, s.Disks = "n2", machine, "S2"
	w.plan = site.NodePlan{Node: "n2", Steps: []site.Step{s}}
	e.workers["n2"] = w
	return w
}

func touched(e *Engine) bool {
	select {
	case <-e.changed:
		return true
	default:
		return false
	}
}

// The time by which approvals end does not go back with the clock.
func TestLedgerTimeOnlyGoesOn(t *testing.T) {
	e, _ := gated(t)
	before := time.Now().Add(-time.Minute)
	e.latest = before
	if now := e.ledgerNow(); !now.After(before) || !e.latest.Equal(now) {
		t.Errorf("got %s after %s", now, before)
	}
	later := time.Now().Add(time.Hour)
	e.latest = later
	if now := e.ledgerNow(); now.Before(later) || now.After(later.Add(time.Minute)) {
		t.Errorf("the clock was set back: got %s, want %s", now, later)
	}
}

// Why a destructive step waits is said with what lets it go on.
func TestWhatApprovalsAreWaitedFor(t *testing.T) {
	e, w := asking(t)
	step := w.plan.Steps[0]
	_, digest := e.waitingLocked()
	if digest == "" {
		t.Fatal("nothing waits")
	}
	unread := step
	unread.Disks = ""
	for name, c := range map[string]struct {
		change   func()
		step     site.Step
		sentence string
		release  string
		person   bool
	}{
		"nobody has approved": {func() {}, step, "install generation 1 of UUID u1 waits for approval: everything would be lost; see `slipway plan`", "slipway approve " + digest, true},
		"disks not read":      {func() {}, unread, "install generation 1 waits until Slipway has read the disks of the machine", "reporting the disks", false},
		"not met yet":         {func() { w.memory.Recorded.Adopted = nil }, step, "install generation 1 waits until the machine says that it is UUID u1", "reporting its UUID", false},
	} {
		was := w.memory.Recorded
		c.change()
		h := e.approvalGate(w, c.step)
		w.memory.Recorded = was
		if h == nil || h.state != site.Blocked || !strings.HasPrefix(h.sentence, c.sentence) || !strings.Contains(h.release, c.release) || h.person != c.person {
			t.Errorf("%s: got %+v", name, h)
		}
	}
	w.memory.Recorded.InFlight = &site.InFlight{Step: step, Consumed: true}
	if h := e.approvalGate(w, step); h != nil {
		t.Errorf("a step that has used its approval: %+v", h)
	}
	if h := e.approvalGate(w, powerOn); h != nil {
		t.Errorf("a step that destroys nothing: %+v", h)
	}
}

// sealing is a status branch of which a test says what happens while it is
// written.
type sealing struct {
	*shore
	seal func(context.Context, site.NodeStatus) error
}

func (s sealing) Seal(ctx context.Context, n site.NodeStatus) error { return s.seal(ctx, n) }

// Before anything is destroyed the use of the approval is recorded, published, and
// looked at once more.
func TestPermit(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(*Engine, *worker) error // while Git is written
		wants     string
	}{
		"all is well":         {func(*Engine, *worker) error { return nil }, ""},
		"Git does not answer": {func(*Engine, *worker) error { return errGit }, ""},
		"quarantined while it was published": {func(_ *Engine, w *worker) error {
			w.memory.Recorded.Quarantined = &site.Hold{}
			return nil
		}, redesigned},
		"another daemon claims the site while it was published": {func(e *Engine, _ *worker) error {
			e.Anchor.(sealing).term = another(t, e, 2)
			return nil
		}, "other host"},
		"designed anew while it was published": {func(_ *Engine, w *worker) error {
			n := *w.node
			n.Decommission = true
			w.node = &n
			return nil
		}, redesigned},
	} {
		t.Run(name, func(t *testing.T) {
			e, w, s := ashore(t)
			log := logged(e)
			sealed := 0
			e.Anchor = sealing{s, func(ctx context.Context, n site.NodeStatus) error {
				sealed++
				if until, ok := ctx.Deadline(); !ok || time.Until(until) > anchorTimeout || n.Name != "n1" {
					t.Errorf("published of %s until %s", n.Name, until)
				}
				return c.meanwhile(e, w)
			}}
			e.anchor.tried, e.anchor.claimed = true, true
			w.status.Sealed = &site.Sealed{}
			w.memory.Recorded.InFlight = &site.InFlight{Step: installOne}
			touched(e)
			err := w.permit(jobOf(e, w), installOne)(t.Context())
			if (err == nil) != (c.wants == "") || err != nil && (!errors.Is(err, driver.ErrNotPermitted) || !strings.Contains(err.Error(), c.wants)) {
				t.Errorf("got %v, want %q", err, c.wants)
			}
			// What nobody began is not gone on with; the approval is used all the same.
			if sealed != 1 || w.memory.Recorded.InFlight.Sent != (c.wants == "") || e.accounts["n1"].HasOpen() || !touched(e) {
				t.Errorf("published %d times, in flight %+v", sealed, w.memory.Recorded.InFlight)
			}
			if told := strings.Contains(log.String(), "use of an approval not published"); told != (name == "Git does not answer") {
				t.Errorf("logged %s", log)
			}
			// A step that goes on uses nothing, and publishes nothing.
			if err := w.permit(jobOf(e, w), installOne)(t.Context()); (err == nil) != (c.wants == "") || sealed != 1 {
				t.Errorf("once more: %v, published %d times", err, sealed)
			}
		})
	}
}

// Where there is nothing to publish, or nowhere, nothing is.
func TestUseIsNotPublished(t *testing.T) {
	for name, change := range map[string]func(*Engine, *worker){
		"no branch":       func(e *Engine, _ *worker) { e.Anchor = nil },
		"observing":       func(e *Engine, _ *worker) { e.ObserveOnly = true },
		"nothing to seal": func(_ *Engine, w *worker) { w.status.Sealed = nil },
	} {
		e, w, s := ashore(t)
		e.Anchor = sealing{s, func(context.Context, site.NodeStatus) error { t.Errorf("%s: published", name); return nil }}
		w.status.Sealed = &site.Sealed{}
		change(e, w)
		if w.publishUse(t.Context()) {
			t.Errorf("%s: said to be published", name)
		}
	}
}

// Without records nothing is destroyed, and the approval stays as it is.
func TestUseThatCannotBeRecorded(t *testing.T) {
	e, w := gated(t)
	w.memory.Recorded.InFlight = &site.InFlight{Step: installOne}
	e.Records = closed(t)
	used, err := w.consume(t.Context(), jobOf(e, w), installOne)
	if err == nil || used || !strings.HasPrefix(err.Error(), "record that an approval is used: ") || w.memory.Recorded.InFlight.Consumed || !e.accounts["n1"].HasOpen() {
		t.Errorf("used %t, %v, in flight %+v", used, err, w.memory.Recorded.InFlight)
	}
	e, w = gated(t)
	w.memory.Recorded.InFlight = &site.InFlight{Step: site.Step{Action: site.ActionInstall, Resumed: true}}
	resumed := installOne
	resumed.Resumed = true
	w.memory.Recorded.InFlight.Step = resumed
	if used, err := w.consume(t.Context(), jobOf(e, w), resumed); err != nil || !used || w.memory.Recorded.InFlight.Step.Resumed {
		t.Errorf("a step that is taken up again: used %t, %v, in flight %+v", used, err, w.memory.Recorded.InFlight)
	}
	e.accounts["n1"] = site.Account{Records: "r1", Entries: []site.LedgerEntry{{Loss: lossOne, Expires: time.Now().Add(time.Hour)}}}
	other := installOne
	other.Disks = "S2"
	w.memory.Account = site.Account{Records: "r1", Entries: []site.LedgerEntry{{Loss: func() site.Loss { l := lossOne; l.Disks = "S2"; return l }(), Expires: time.Now().Add(time.Hour)}}}
	w.memory.Recorded.InFlight = &site.InFlight{Step: other}
	if used, err := w.consume(t.Context(), jobOf(e, w), other); err == nil || used || !strings.Contains(err.Error(), "nobody approved") {
		t.Errorf("what the ledger does not have: used %t, %v", used, err)
	}
}

// What was approved is shown while it is open, and for a week after.
func TestApprovalsThatAreShown(t *testing.T) {
	e, _ := gated(t)
	now := time.Now()
	entry := func(node, action string, opened, consumed, ended time.Duration) site.LedgerEntry {
		x := site.LedgerEntry{Loss: site.Loss{Node: node, Action: action}, Opened: now.Add(-opened)}
		if consumed > 0 {
			x.Consumed = now.Add(-consumed)
		}
		if ended > 0 {
			x.Ended = now.Add(-ended)
		}
		return x
	}
	const day = 24 * time.Hour
	e.accounts = map[string]site.Account{
		"b": {Entries: []site.LedgerEntry{entry("b", "install", 9*day, 0, 0), entry("b", "wipe", 3*day, 2*day, 0), entry("b", "old", 20*day, 8*day, 0)}},
		"a": {Entries: []site.LedgerEntry{entry("a", "wipe", 3*day, 0, 2*day), entry("a", "install", 3*day, 0, 6*day), entry("a", "gone", 30*day, 0, 8*day), entry("a", "late", 10*day, 9*day, 2*day)}},
	}
	var got []string
	for _, x := range e.ledgerLocked() {
		got = append(got, x.Loss.Node+" "+x.Loss.Action)
	}
	if want := []string{"a late", "b install", "a install", "a wipe", "b wipe"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What ended a week ago to the moment is not shown any more.
func TestApprovalThatEndedAWeekAgo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := gated(t)
		entry := func(ended time.Duration) site.LedgerEntry {
			return site.LedgerEntry{Loss: lossOne, Opened: time.Now().Add(-9 * 24 * time.Hour), Ended: time.Now().Add(-ended)}
		}
		e.accounts = map[string]site.Account{"n1": {Entries: []site.LedgerEntry{entry(latestEntries), entry(latestEntries - 1)}}}
		if got := e.ledgerLocked(); len(got) != 1 || time.Since(got[0].Ended) != latestEntries-1 {
			t.Errorf("got %+v", got)
		}
	})
}

// The set that waits is found once, and found anew when something changes it. A
// person may approve what was shown, as far as it still waits.
func TestSetsThatAreShown(t *testing.T) {
	e, w := asking(t)
	set, digest := e.waitingLocked()
	if len(set) != 1 || digest != set.Digest() || len(e.shown) != 1 {
		t.Fatalf("waiting %+v, digest %s, shown %d", set, digest, len(e.shown))
	}
	second(e)
	if again, same := e.waitingLocked(); len(again) != 1 || same != digest {
		t.Errorf("it was looked for anew: %+v", again)
	}
	e.undecided.known = false
	both, other := e.waitingLocked()
	if len(both) != 2 || other == digest || len(e.shown) != 2 || !slices.Equal(e.shownOrder, []string{digest, other}) {
		t.Errorf("waiting %+v, digest %s, shown %q", both, other, e.shownOrder)
	}
	e.undecided.known = false
	if e.waitingLocked(); len(e.shownOrder) != 2 {
		t.Errorf("one set is remembered twice: %q", e.shownOrder)
	}
	w.leaving, e.workers["n2"].plan, e.undecided.known = true, site.NodePlan{}, false
	if none, nothing := e.waitingLocked(); len(none) != 0 || nothing != "" || len(e.shown) != 2 {
		t.Errorf("of a node that leaves, %+v waits as %q", none, nothing)
	}
	for i := range maxSets {
		e.shownLocked(set, string(rune('a'+i%26))+strings.Repeat("x", i))
	}
	if _, old := e.shown[digest]; old || len(e.shown) != maxSets || len(e.shownOrder) != maxSets || e.shownOrder[0] == digest {
		t.Errorf("%d sets are remembered, the oldest is %t", len(e.shown), old)
	}
}

// A person approves a set by its digest, as far as it still waits.
func TestSetIsApproved(t *testing.T) {
	e, w := asking(t)
	log := logged(e)
	_, alone := e.waitingLocked()
	order := site.Order{Verb: site.VerbApprove, Digest: alone, By: "bob", Reason: "spring cleaning"}
	if _, err := e.approveSet(t.Context(), site.Order{Digest: "0123"}); !errors.Is(err, site.ErrRefused) || !strings.Contains(err.Error(), "nothing of a set 0123 waits for approval; what waits now is "+alone) {
		t.Errorf("a set that nobody has seen: %v", err)
	}
	second(e)
	e.undecided.known = false
	good := e.Records
	e.Records = closed(t)
	if _, err := e.approveSet(t.Context(), order); err == nil || !strings.HasPrefix(err.Error(), "record approval: ") || e.accounts["n1"].HasOpen() || e.eventsThat("approved by") > 0 {
		t.Errorf("without records: %v", err)
	}
	e.Records = good
	touched(e)
	said, err := e.approveSet(t.Context(), order)
	if err != nil || !strings.HasPrefix(said, "Approved: data will be erased on n1 (install generation 1). 1 more wait for approval, as set ") {
		t.Fatal(said, err)
	}
	x := e.accounts["n1"].Entries
	if len(x) != 1 || x[0].Source.By != "bob" || x[0].Source.Kind != site.ByCommand || x[0].Set != alone || x[0].Note != "spring cleaning" ||
		time.Since(x[0].Opened) > time.Minute || time.Since(x[0].Source.When) > time.Minute || x[0].Expires.Sub(x[0].Opened) != ledger.Lasts {
		t.Errorf("entry %+v", x)
	}
	if e.accounts["n2"].HasOpen() || !w.memory.Account.HasOpen() || !woken(w) || !touched(e) {
		t.Error("the account was not taken over, or another was")
	}
	if e.eventsThat("install generation 1 approved by") != 1 || e.eventsThat("set "+alone+" approved by") != 1 || strings.Count(log.String(), "approved by") != 2 {
		t.Errorf("events or log: %s", log)
	}
	left, next := e.waitingLocked()
	if len(left) != 1 || left[0].Node != "n2" {
		t.Fatalf("still waiting: %+v", left)
	}
	pull := site.ApprovalSource{Kind: site.ByDesign, By: "ann"}
	if said, err = e.approveSet(t.Context(), site.Order{Digest: next, By: "bob", Source: &pull}); err != nil || strings.Contains(said, "more wait") || e.accounts["n2"].Entries[0].Source.By != "ann" {
		t.Errorf("the last: %q %v", said, err)
	}
	if _, err = e.approveSet(t.Context(), site.Order{Digest: next}); !errors.Is(err, site.ErrRefused) || !strings.Contains(err.Error(), "nothing waits for approval") {
		t.Errorf("once more: %v", err)
	}
	snap, err := good.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"n1", "n2"} {
		if a := snap.Accounts[name]; !a.HasOpen() {
			t.Errorf("on record: %+v", snap.Accounts)
		}
	}
}

// What cannot be approved takes nothing else of its set with it.
func TestSetWithWhatCannotBeApproved(t *testing.T) {
	e, _ := asking(t)
	set, digest := e.waitingLocked()
	stale := set[0]
	stale.Records = "r0"
	err := e.openEntries(t.Context(), site.Losses{set[0], stale}, digest, site.ApprovalSource{By: "bob"}, "")
	if !errors.Is(err, site.ErrRefused) || e.accounts["n1"].HasOpen() {
		t.Errorf("got %v, open %t", err, e.accounts["n1"].HasOpen())
	}
	wipe := set[0]
	wipe.Action = "wipe"
	if !e.mu.TryLock() {
		t.Fatal("the engine stays locked")
	}
	e.mu.Unlock()
	if err := e.openEntries(t.Context(), site.Losses{set[0], wipe}, digest, site.ApprovalSource{By: "bob"}, ""); err != nil || len(e.accounts["n1"].Entries) != 2 {
		t.Errorf("two losses of one node: %v, %+v", err, e.accounts["n1"])
	}
	if got := erased(site.Losses{set[0], set[0], wipe}); got != "data will be erased on n1 (install generation 1), n1 (wipe)" {
		t.Errorf("got %q", got)
	}
	touched(e)
	if err := e.putAccounts(t.Context(), nil); err != nil || touched(e) {
		t.Errorf("nothing changed: %v", err)
	}
}

// A line of the design approves what it names, as far as that waits.
func TestLineOfTheDesignApproves(t *testing.T) {
	e, _ := asking(t)
	_, alone := e.waitingLocked()
	second(e)
	e.undecided.known = false
	_, both := e.waitingLocked()
	e.applied.ID = "c1"
	lines := map[string]site.Approval{"0000": {By: "eve"}, alone: {By: "bob", Note: "as agreed"}, both: {By: "ann"}}
	for name, c := range map[string]struct {
		lines []string
		want  map[string]bool // who is approved
	}{
		"none":              {nil, nil},
		"one that is stale": {[]string{"0000"}, nil},
		"one of a part":     {[]string{"0000", alone}, map[string]bool{"n1": true}},
		"one of all":        {[]string{both}, map[string]bool{"n1": true, "n2": true}},
		"one after another": {[]string{alone, both}, map[string]bool{"n1": true, "n2": true}},
	} {
		for _, node := range []string{"n1", "n2"} {
			e.setAccountLocked(node, site.Account{Records: "r1"})
		}
		e.design.Approvals = map[string]site.Approval{}
		for _, l := range c.lines {
			e.design.Approvals[l] = lines[l]
		}
		e.book.Lines = slices.Sorted(slices.Values(c.lines))
		if err := e.approveFromDesign(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, node := range []string{"n1", "n2"} {
			if e.accounts[node].HasOpen() != c.want[node] {
				t.Errorf("%s: %s is approved: %t", name, node, !c.want[node])
			}
		}
	}
	e.setAccountLocked("n1", site.Account{Records: "r1"})
	e.design.Approvals, e.book.Lines = map[string]site.Approval{alone: lines[alone]}, nil
	if err := e.approveFromDesign(t.Context()); err != nil || e.accounts["n1"].HasOpen() {
		t.Fatalf("a line that does not count: %v, account %+v", err, e.accounts["n1"])
	}
	e.design.Approvals, e.book.Lines = map[string]site.Approval{"0000": {}}, []string{alone}
	if err := e.approveFromDesign(t.Context()); err != nil || e.accounts["n1"].HasOpen() {
		t.Fatalf("a line that is not there any more: %v, account %+v", err, e.accounts["n1"])
	}
	e.design.Approvals = map[string]site.Approval{alone: lines[alone]}
	if err := e.approveFromDesign(t.Context()); err != nil || !e.accounts["n1"].HasOpen() {
		t.Fatalf("%v, account %+v", err, e.accounts["n1"])
	}
	if note := e.accounts["n1"].Entries[0].Note; note != "as agreed" {
		t.Errorf("noted %q", note)
	}
	x := e.accounts["n1"].Entries[0].Source
	if x.Kind != site.ByDesign || x.By != "bob" || x.Commit != "c1" || time.Since(x.When) > time.Minute {
		t.Errorf("source %+v", x)
	}
	e.setAccountLocked("n1", site.Account{Records: "r1"})
	e.design.Approvals = map[string]site.Approval{alone: lines[alone]}
	e.Records = closed(t)
	if err := e.approveFromDesign(t.Context()); err == nil || e.accounts["n1"].HasOpen() {
		t.Errorf("without records: %v", err)
	}
	e.design = nil
	if err := e.approveFromDesign(t.Context()); err != nil {
		t.Errorf("without a design: %v", err)
	}
}

// An approval ends when what it is of is planned no more, its node leaves, its line
// is taken out, or its time has passed. A quarantine ends none.
func TestWhatIsNotPlannedIsNotApproved(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Engine, *worker)
		ends   string
	}{
		"it is planned": {func(*Engine, *worker) {}, ""},
		"not planned":   {func(_ *Engine, w *worker) { w.plan.Steps = nil }, "the design in force no longer plans it"},
		"it leaves":     {func(_ *Engine, w *worker) { w.leaving = true }, "the node left the design"},
		"it is gone":    {func(e *Engine, _ *worker) { delete(e.workers, "n1") }, "the node left the design"},
		"too old":       {func(e *Engine, _ *worker) { e.latest = time.Now().Add(ledger.Lasts) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e, w := asking(t)
			_, digest := e.waitingLocked()
			if _, err := e.approveSet(t.Context(), site.Order{Digest: digest, By: "bob"}); err != nil {
				t.Fatal(err)
			}
			c.change(e, w)
			ends := c.ends != "" || name == "too old"
			if err := e.tendAll(t.Context()); err != nil || e.accounts["n1"].HasOpen() == ends {
				t.Errorf("%v, open %t", err, e.accounts["n1"].HasOpen())
			}
			if e.eventsThat("the approval of install generation 1 by") != map[bool]int{true: 1}[ends] || c.ends != "" && !strings.Contains(e.accounts["n1"].Entries[0].Why, c.ends) {
				t.Errorf("entries %+v", e.accounts["n1"].Entries)
			}
		})
	}
	e, _ := asking(t)
	e.Records = closed(t)
	if err := e.tend(t.Context(), "n1"); err != nil {
		t.Errorf("nothing is open: %v", err)
	}
}

// That an approval cannot be ended is a problem of the site, told within a minute.
func TestEndThatCannotBeRecordedIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, w := gated(t)
		w.plan = site.NodePlan{}
		e.Records = closed(t)
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() { e.keepLedger(ctx); close(over) }()
		time.Sleep(tendEvery + time.Second)
		synctest.Wait()
		if p := e.problems["records"]; !strings.Contains(p.What, "record the end of approvals") || !e.accounts["n1"].HasOpen() {
			t.Errorf("problems %+v, open %t", e.problems, e.accounts["n1"].HasOpen())
		}
		stop()
		<-over
	})
}

// Whoever stops the daemon is not told that what it was recording then could not be recorded.
func TestEndOfTheDaemonIsNoTrouble(t *testing.T) {
	for range 8 { // the daemon may notice its end before it records
		synctest.Test(t, func(t *testing.T) {
			e, w := gated(t)
			w.plan = site.NodePlan{}
			e.Records = closed(t)
			ctx, stop := context.WithCancel(t.Context())
			over := make(chan struct{})
			e.booking.Lock()
			go func() { e.keepLedger(ctx); close(over) }()
			time.Sleep(tendEvery)
			stop()
			e.booking.Unlock()
			<-over
			if p := e.problems["records"]; p.What != "" {
				t.Errorf("problem %+v", p)
			}
		})
	}
}

// What was approved and not used is taken back, by its set or for one node.
func TestApprovalIsTakenBack(t *testing.T) {
	both := func(t *testing.T) (*Engine, *worker, string) {
		e, w := asking(t)
		second(e)
		_, digest := e.waitingLocked()
		if _, err := e.approveSet(t.Context(), site.Order{Digest: digest, By: "bob"}); err != nil {
			t.Fatal(err)
		}
		return e, w, digest
	}
	for name, c := range map[string]struct {
		node   bool
		digest func(string) string
		reason string
		said   string
		open   [2]bool // n1, n2
		err    string
	}{
		"a set":              {false, func(d string) string { return d }, "", "taken back: the approval for n1, n2", [2]bool{false, false}, ""},
		"a node":             {true, func(string) string { return "" }, "wrong rack", "taken back: the approval for n1", [2]bool{false, true}, ""},
		"a set nobody knows": {false, func(string) string { return "0123" }, "", "", [2]bool{true, true}, "has the digest 0123"},
	} {
		t.Run(name, func(t *testing.T) {
			e, w, digest := both(t)
			o := site.Order{By: "ann", Digest: c.digest(digest), Reason: c.reason}
			if !c.node {
				w = nil
			}
			said, err := e.disapprove(t.Context(), w, o)
			if said != c.said || (err == nil) != (c.err == "") || err != nil && (!errors.Is(err, site.ErrRefused) || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("got %q, %v", said, err)
			}
			if open := [2]bool{e.accounts["n1"].HasOpen(), e.accounts["n2"].HasOpen()}; open != c.open {
				t.Errorf("open: %v", open)
			}
			want := "taken back by ann"
			if c.reason != "" {
				want += ": " + c.reason
			}
			if x := e.accounts["n1"].Entries[0]; !c.open[0] && x.Why != want {
				t.Errorf("ended because %q", x.Why)
			}
		})
	}
	e, w := asking(t)
	if _, err := e.disapprove(t.Context(), w, site.Order{By: "ann"}); !errors.Is(err, site.ErrRefused) || !strings.Contains(err.Error(), "nothing on n1 is approved and not used") {
		t.Errorf("nothing was approved: %v", err)
	}
	e, w, _ = both(t)
	e.Records = closed(t)
	if said, err := e.disapprove(t.Context(), w, site.Order{By: "ann"}); err == nil || said != "" || !e.accounts["n1"].HasOpen() {
		t.Errorf("without records: %q %v", said, err)
	}
}

// A node that is removed takes what was shown of it along: nothing of that can be
// approved any more.
func TestAccountIsClosed(t *testing.T) {
	e, _ := gated(t)
	if err := e.closeAccount(t.Context(), "n1", "the node was removed"); err != nil {
		t.Fatal(err)
	}
	a := e.accounts["n1"]
	if a.HasOpen() || a.Closed != lossOne.Attempt+1 || a.Entries[0].Why != "the node was removed" {
		t.Errorf("account %+v", a)
	}
	if _, err := ledger.Open(a, lossOne, ledger.Approval{}); !errors.Is(err, site.ErrRefused) {
		t.Errorf("what was shown before can be approved: %v", err)
	}
	if err := e.closeAccount(t.Context(), "n1", "once more"); err != nil {
		t.Fatal(err)
	}
	if again := e.accounts["n1"]; again.Closed != a.Closed+1 || len(again.Entries) != 1 || again.Entries[0].Why != "the node was removed" {
		t.Errorf("closed with nothing open: %+v", again)
	}
	e, _ = gated(t)
	e.Records = closed(t)
	if err := e.closeAccount(t.Context(), "n1", "x"); err == nil || e.accounts["n1"].Closed != 0 {
		t.Errorf("without records: %v", err)
	}
	e.accounts = map[string]site.Account{}
	if err := e.closeAccount(t.Context(), "n1", "x"); err == nil || e.accounts["n1"].Closed != 0 {
		t.Errorf("without records, nothing open: %v", err)
	}
}

// questioned has a person asked about a node, and is the order that approves it.
func questioned(w *worker, kind questionKind) site.Order {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	w.asks = question{kind: kind, text: "this happens"}
	w.status.Approve, w.status.Approval = w.asks.text, w.approvalLocked(w.asks)
	return site.Order{By: "bob", Shown: w.status.Approval}
}

// What a person can approve of one node: its removal, a system, its first
// disruption.
func TestNodeIsApproved(t *testing.T) {
	order := site.Order{By: "bob"}
	t.Run("nothing", func(t *testing.T) {
		e, w := gated(t)
		w.memory.Recorded.Adopted = &site.Adoption{Machine: machineOne, Settled: time.Now()}
		if _, err := e.approveNode(t.Context(), w, order); !errors.Is(err, site.ErrRefused) || !strings.Contains(err.Error(), "nothing to approve for n1") {
			t.Errorf("got %v", err)
		}
		w.memory.Recorded.Adopted = nil
		if _, err := e.approveNode(t.Context(), w, order); !errors.Is(err, site.ErrRefused) {
			t.Errorf("never met: %v", err)
		}
	})
	t.Run("first contact", func(t *testing.T) {
		e, w := gated(t)
		said, err := e.approveNode(t.Context(), w, questioned(w, asksContact))
		if err != nil || said != "n1 may be disrupted to be as designed" || w.memory.Recorded.Adopted.Settled.IsZero() || !woken(w) {
			t.Errorf("got %q %v, %+v", said, err, w.memory.Recorded.Adopted)
		}
		if !w.memory.Recorded.Adopted.Inside.IsZero() {
			t.Error("what no plan showed inside the system is approved with the machine")
		}
		w.plan.Steps = []site.Step{{Facet: site.FacetConfig, Action: site.ActionConfig}}
		if said, err := e.approveNode(t.Context(), w, questioned(w, asksContact)); err != nil || said != "the system of n1 may be changed to be as designed" || w.memory.Recorded.Adopted.Inside.IsZero() {
			t.Errorf("inside: got %q %v", said, err)
		}
		e, w = gated(t)
		w.plan.Steps = []site.Step{{Facet: site.FacetConfig, Action: site.ActionConfig}}
		if _, err := e.approveNode(t.Context(), w, questioned(w, asksContact)); err != nil || w.memory.Recorded.Adopted.Inside.IsZero() || !w.memory.Recorded.Adopted.Settled.IsZero() {
			t.Errorf("a change inside alone was approved, and the machine with it: %v, %+v", err, w.memory.Recorded.Adopted)
		}
		e, w = gated(t)
		e.Records = closed(t)
		if _, err := e.approveNode(t.Context(), w, questioned(w, asksContact)); err == nil || !w.memory.Recorded.Adopted.Settled.IsZero() {
			t.Errorf("without records: %v", err)
		}
	})
	t.Run("removal", func(t *testing.T) {
		e, w := gated(t)
		w.leaving = true
		w.memory.Recorded.Installing = &site.Installation{}
		if _, err := e.approveNode(t.Context(), w, questioned(w, asksRemoval)); !errors.Is(err, site.ErrRefused) || e.workers["n1"] == nil || len(e.removals) > 0 {
			t.Errorf("with a step under way: %v", err)
		}
		w.memory.Recorded.Installing = nil
		delete(e.design.Nodes, "n1")
		said, err := e.approveNode(t.Context(), w, questioned(w, asksRemoval))
		if err != nil || said != "removed n1 from the records; its machine was not changed" || e.workers["n1"] != nil || e.accounts["n1"].HasOpen() {
			t.Errorf("got %q %v", said, err)
		}
		if len(e.removals) != 1 || e.removals[0].Node != "n1" || time.Since(e.removals[0].When) > time.Minute {
			t.Errorf("counted: %+v", e.removals)
		}
		e, w = gated(t)
		w.leaving, e.Records = true, closed(t)
		if _, err := e.approveNode(t.Context(), w, questioned(w, asksRemoval)); err == nil {
			t.Error("removed without records")
		}
	})
	t.Run("a system", func(t *testing.T) {
		for name, c := range map[string]struct {
			change func(*worker)
			plan   site.NodePlan
			want   site.Installation
		}{
			"foreign, without a marker": {func(*worker) {}, site.NodePlan{Foreign: "other"},
				site.Installation{Generation: 1, Proven: true, Accepted: (*site.Marker)(nil).Digest()}},
			"unproven": {func(w *worker) { w.memory.Observed.Marker = &site.Marker{Node: "n1", Generation: 4, Image: "d9"} }, site.NodePlan{Unproven: "claims"},
				site.Installation{Generation: 4, Image: "d9", Proven: true, Reported: true, Accepted: (&site.Marker{Node: "n1", Generation: 4, Image: "d9"}).Digest()}},
			"in the place of another": {func(w *worker) {
				w.memory.Recorded.Installed = &site.Installation{Generation: 3, FirstBoot: site.FirstBoot{HostKeys: []string{"k"}}}
			}, site.NodePlan{Foreign: "other"},
				site.Installation{Generation: 3, Proven: true, Accepted: (*site.Marker)(nil).Digest(), FirstBoot: site.FirstBoot{HostKeys: []string{"k"}}}},
		} {
			e, w := gated(t)
			c.change(w)
			w.plan = c.plan
			said, err := e.approveNode(t.Context(), w, questioned(w, asksSystem))
			if err != nil || !strings.Contains(said, "the system on n1 is accepted and counts as generation ") || !woken(w) {
				t.Errorf("%s: %q %v", name, said, err)
				continue
			}
			got := *w.memory.Recorded.Installed
			if time.Since(got.Since) > time.Minute {
				t.Errorf("%s: since %s", name, got.Since)
			}
			if got.Generation != c.want.Generation || got.Image != c.want.Image || !got.Proven || got.Reported != c.want.Reported || got.Accepted != c.want.Accepted ||
				!slices.Equal(got.FirstBoot.HostKeys, c.want.FirstBoot.HostKeys) {
				t.Errorf("%s: got %+v, want %+v", name, got, c.want)
			}
			e.Records = closed(t)
			w.plan = c.plan
			if said, err := e.approveNode(t.Context(), w, questioned(w, asksSystem)); err == nil || said != "" {
				t.Errorf("%s, without records: %q %v", name, said, err)
			}
		}
	})
}

// Whoever uses an approval looks first whether another daemon acts for the site.
func TestApprovalIsNotUsedBesideAnotherDaemon(t *testing.T) {
	e, w, s := ashore(t)
	w.memory.Recorded.InFlight = &site.InFlight{Step: installOne}
	e.anchor.tried, e.anchor.claimed = true, true
	e.book.Claims = []string{e.instance}
	s.term = another(t, e, 9)
	if used, err := w.consume(t.Context(), jobOf(e, w), installOne); used || !errors.Is(err, site.ErrRefused) || !e.accounts["n1"].HasOpen() {
		t.Errorf("used %t, %v", used, err)
	}
}

// What nobody was shown is not remembered as shown because the design was read.
func TestReadingTheDesignShowsNothing(t *testing.T) {
	e, _ := asking(t)
	if err := e.approveFromDesign(t.Context()); err != nil || len(e.shown) > 0 {
		t.Errorf("%v, shown %d", err, len(e.shown))
	}
}

// Of several nodes those are found that something is approved on, each once.
func TestWhoseApprovalIsTakenBack(t *testing.T) {
	e, w := asking(t)
	n2 := second(e)
	wipe := n2.plan.Steps[0]
	wipe.Action = site.ActionZeroize
	n2.plan.Steps = append(n2.plan.Steps, wipe)
	w.plan = site.NodePlan{}
	set, digest := e.waitingLocked()
	if len(set) != 2 {
		t.Fatalf("waiting %+v", set)
	}
	if _, err := e.approveSet(t.Context(), site.Order{Digest: digest, By: "bob"}); err != nil {
		t.Fatal(err)
	}
	if said, err := e.disapprove(t.Context(), nil, site.Order{Digest: digest, By: "bob"}); err != nil || said != "taken back: the approval for n2" || e.accounts["n2"].HasOpen() {
		t.Errorf("got %q %v", said, err)
	}
}

// What a merge is about to approve is taken back as well, and nothing is said to be
// where that cannot be recorded.
func TestWhatAMergeApprovesIsTakenBack(t *testing.T) {
	for name, c := range map[string]struct {
		node bool
		o    site.Order
		said string
	}{
		"by its set":  {false, site.Order{Digest: "d1", By: "ann"}, "taken back: the merge approves nothing"},
		"by its node": {true, site.Order{By: "ann"}, "taken back: the merge approves nothing on n1"},
	} {
		for _, recorded := range []bool{true, false} {
			e, w := gated(t)
			e.setAccountLocked("n1", site.Account{Records: "r1"})
			if !recorded {
				e.Records, c.said = closed(t), ""
			}
			e.proposals = review.NewRecorded(e.Records)
			e.proposals.Load([]record.Proposed{{Number: 7, Landed: &record.Landed{Set: "d1", Pending: site.Losses{lossOne}}}})
			if !c.node {
				w = nil
			}
			said, err := e.disapprove(t.Context(), w, c.o)
			if said != c.said || (err == nil) != recorded || errors.Is(err, site.ErrRefused) {
				t.Errorf("%s: got %q, %v", name, said, err)
			}
			if l := e.proposals.Of(7).Landed; recorded && (len(l.Pending) > 0 || l.Unapproved != "it was taken back by ann") {
				t.Errorf("%s: %+v", name, l)
			}
		}
	}
}

// A node that stays is approved for its first disruption whatever was begun on it,
// and a system that is accepted keeps the host keys that were published of it.
func TestWhatIsApprovedOfANodeThatStays(t *testing.T) {
	e, w, _ := ashore(t)
	w.memory.Recorded.Installing = &site.Installation{}
	if said, err := e.approveNode(t.Context(), w, questioned(w, asksContact)); err != nil || said != "n1 may be disrupted to be as designed" {
		t.Errorf("with a step under way: %q %v", said, err)
	}
	w.memory.Recorded.Installing = nil
	e.published = map[string]site.Sealed{"n1": published(t, e, site.Sealed{HostKeys: []string{"ssh-ed25519 AAAA"}})}
	w.plan = site.NodePlan{Foreign: "other"}
	if _, err := e.approveNode(t.Context(), w, questioned(w, asksSystem)); err != nil || !slices.Equal(w.memory.Recorded.Installed.FirstBoot.HostKeys, []string{"ssh-ed25519 AAAA"}) {
		t.Errorf("%v, installed %+v", err, w.memory.Recorded.Installed)
	}
}

// An end that is recorded says nothing of other trouble with the records.
func TestEndOfApprovalsHidesNoOtherTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, w := gated(t)
		w.plan = site.NodePlan{}
		e.setProblem("records", errors.New("the disk is nearly full"))
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() { e.keepLedger(ctx); close(over) }()
		time.Sleep(tendEvery + time.Second)
		synctest.Wait()
		if p := e.problems["records"]; p.What != "the disk is nearly full" || e.accounts["n1"].HasOpen() {
			t.Errorf("problems %+v, open %t", e.problems, e.accounts["n1"].HasOpen())
		}
		stop()
		<-over
	})
}
