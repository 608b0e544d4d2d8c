package engine

import (
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine/ledger"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A destructive step in flight goes on over the disks that were approved, for as
// long as an approval lasts.
func TestWhatIsNotGoneOnWith(t *testing.T) {
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		change func(*site.InFlight, *job)
		want   string
	}{
		"sent a moment ago": {func(*site.InFlight, *job) {}, ""},
		"not used":          {func(f *site.InFlight, _ *job) { f.Consumed, f.Sent = false, false }, ""},
		"not sent":          {func(f *site.InFlight, _ *job) { f.Sent = false }, "before it sent anything"},
		"almost a week ago": {func(f *site.InFlight, _ *job) { f.Since = time.Now().Add(time.Minute - ledger.Lasts) }, ""},
		"a week ago":        {func(f *site.InFlight, _ *job) { f.Since = time.Now().Add(-ledger.Lasts) }, "has not finished within 7 days"},
		"in a day":          {func(f *site.InFlight, _ *job) { f.Since = time.Now().Add(day) }, ""},
		"in a fortnight":    {func(f *site.InFlight, _ *job) { f.Since = time.Now().Add(14 * day) }, "within 7 days"},
		"other disks":       {func(_ *site.InFlight, j *job) { j.memory.Observed.Disks = &site.Disks{Serials: []string{"S2"}} }, "are now S2, and S1 were approved"},
		"the same disks":    {func(_ *site.InFlight, j *job) { j.memory.Observed.Disks = &site.Disks{Serials: []string{"S1"}} }, ""},
		"disks not read":    {func(_ *site.InFlight, j *job) { j.memory.Observed.Disks = nil }, ""},
		"a virtual machine": {func(_ *site.InFlight, j *job) { j.node.Style = site.StyleVirtual }, ""},
	} {
		e, w := gated(t)
		j := jobOf(e, w)
		f := site.InFlight{Step: installOne, Consumed: true, Sent: true, Since: time.Now().Add(-time.Minute)}
		j.memory.Observed.Disks = &site.Disks{Serials: []string{"S1"}}
		c.change(&f, &j)
		j.memory.Recorded.InFlight = &f
		if got := e.overBecause(j); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	e, w := gated(t)
	if got := e.overBecause(jobOf(e, w)); got != "" {
		t.Errorf("nothing in flight: %q", got)
	}
}

// What is let go of is recorded and told; an installation that may have erased
// something is cut off, and any other step is as if it had never been begun.
func TestLettingGo(t *testing.T) {
	install := installOne
	install.Image = &site.Image{SHA256: "d1"}
	zeroize := installOne
	zeroize.Action = site.ActionZeroize
	since := time.Now().Add(-2 * ledger.Lasts)
	for name, c := range map[string]struct {
		flight site.InFlight
		cut    bool
		events int
	}{
		"not sent":   {site.InFlight{Step: install, Since: since, Consumed: true}, false, 1},
		"sent":       {site.InFlight{Step: install, Since: since, Consumed: true, Sent: true}, true, 1},
		"no install": {site.InFlight{Step: zeroize, Since: since, Consumed: true, Sent: true}, false, 1},
	} {
		e, w := gated(t)
		flight := c.flight
		w.memory.Recorded.InFlight = &flight
		if err := w.letGo(t.Context(), jobOf(e, w)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r := w.memory.Recorded
		if r.InFlight != nil || (r.Installing != nil) != c.cut || e.eventsThat("does not continue") != c.events {
			t.Errorf("%s: recorded %+v, told %d times", name, r, e.eventsThat("does not continue"))
		}
		if c.cut && (r.Installing.Generation != 1 || !strings.Contains(r.Installing.CutOff, "within 7 days")) {
			t.Errorf("%s: %+v", name, r.Installing)
		}
		kept := r
		if err := w.letGo(t.Context(), jobOf(e, w)); err != nil || !reflect.DeepEqual(w.memory.Recorded, kept) || e.eventsThat("does not continue") != c.events {
			t.Errorf("%s: let go of once more: %v", name, err)
		}
		w.memory.Recorded.InFlight, e.Records = &flight, closed(t)
		if err := w.letGo(t.Context(), jobOf(e, w)); err == nil || w.memory.Recorded.InFlight == nil || e.eventsThat("does not continue") != c.events {
			t.Errorf("%s: without records: %v", name, err)
		}
	}
	e, w := gated(t)
	w.memory.Recorded.InFlight = &site.InFlight{Step: powerOn}
	j := jobOf(e, w)
	j.memory.Recorded.InFlight = &site.InFlight{Step: install, Since: since, Consumed: true}
	if err := w.letGo(t.Context(), j); err != nil || w.memory.Recorded.InFlight == nil {
		t.Errorf("another step has taken its place: %v, %+v", err, w.memory.Recorded.InFlight)
	}
}

// A destructive step that the design in force does not plan any more is forgotten,
// and with it what was approved.
func TestUnplannedStepIsLetGo(t *testing.T) {
	zeroize := installOne
	zeroize.Action = site.ActionZeroize
	planned := site.NodePlan{Steps: []site.Step{powerOn, zeroize}}
	for name, c := range map[string]struct {
		flight *site.InFlight
		plan   site.NodePlan
		stays  bool
	}{
		"nothing":            {nil, site.NodePlan{}, false},
		"planned":            {&site.InFlight{Step: zeroize, Consumed: true, Sent: true}, planned, true},
		"not planned":        {&site.InFlight{Step: zeroize, Consumed: true, Sent: true}, site.NodePlan{Steps: []site.Step{powerOn}}, false},
		"nothing is planned": {&site.InFlight{Step: zeroize, Consumed: true, Sent: true}, site.NodePlan{}, false},
		"destroys nothing":   {&site.InFlight{Step: powerOn}, site.NodePlan{}, true},
	} {
		e, w := gated(t)
		w.memory.Recorded.InFlight = c.flight
		if err := w.letGoOfUnplanned(t.Context(), jobOf(e, w), c.plan); err != nil || (w.memory.Recorded.InFlight != nil) != c.stays || w.memory.Recorded.Installing != nil {
			t.Errorf("%s: %v, recorded %+v", name, err, w.memory.Recorded)
		}
	}
	e, w := gated(t)
	w.memory.Recorded.InFlight, e.Records = &site.InFlight{Step: zeroize, Consumed: true}, closed(t)
	if err := w.letGoOfUnplanned(t.Context(), jobOf(e, w), site.NodePlan{}); err == nil {
		t.Error("without records it is let go of")
	}
}

// A step that has used its approval is noted as sent before it sends anything, and
// by nobody who was stopped meanwhile.
func TestCommitOfAStep(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Engine, *worker)
		want   string
	}{
		"goes on":      {func(*Engine, *worker) {}, ""},
		"quarantined":  {func(_ *Engine, w *worker) { w.memory.Recorded.Quarantined = &site.Hold{} }, errHeld.Error()},
		"another step": {func(_ *Engine, w *worker) { w.memory.Recorded.InFlight = &site.InFlight{Step: powerOn} }, errHeld.Error()},
		"nothing":      {func(_ *Engine, w *worker) { w.memory.Recorded.InFlight = nil }, errHeld.Error()},
		"no records":   {func(e *Engine, _ *worker) { e.Records = closed(t) }, "record n1"},
	} {
		e, w := gated(t)
		before := &site.InFlight{Step: installOne, Consumed: true}
		w.memory.Recorded.InFlight = before
		j := jobOf(e, w)
		c.change(e, w)
		err := w.commit(t.Context(), j, installOne)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if f := w.memory.Recorded.InFlight; before.Sent || f != nil && f.Sent != (c.want == "") {
			t.Errorf("%s: in flight %+v", name, f)
		}
	}
}

// A line of the design counts when its set was shown before the commit that first
// has it, and goes on counting for as long as it stands.
func TestLinesThatCount(t *testing.T) {
	design := func(lines ...string) *site.Site {
		s := &site.Site{Approvals: map[string]site.Approval{}}
		for _, l := range lines {
			s.Approvals[l] = site.Approval{By: "ann"}
		}
		return s
	}
	for name, c := range map[string]struct {
		before *site.Site
		counts []string
		shown  []string
		next   *site.Site
		want   []string
	}{
		"shown":                 {design(), nil, []string{"a", "b"}, design("b", "a"), []string{"a", "b"}},
		"not shown":             {design(), nil, []string{"a"}, design("b"), nil},
		"it counts":             {design("a"), []string{"a"}, nil, design("a"), []string{"a"}},
		"shown when it stood":   {design("a"), nil, []string{"a"}, design("a"), nil},
		"it went":               {design("a"), []string{"a"}, []string{"a"}, design(), nil},
		"it went and came back": {design(), nil, []string{"a"}, design("a"), []string{"a"}},
		"another one comes":     {design("a"), []string{"a"}, []string{"b"}, design("a", "b"), []string{"a", "b"}},
		"the first design":      {nil, nil, nil, design("a"), nil},
	} {
		e, _ := gated(t)
		e.design, e.book.Lines, e.undecided.known = c.before, c.counts, true
		for _, digest := range c.shown {
			e.shownLocked(site.Losses{lossOne}, digest)
		}
		if err := e.Records.PutBook(t.Context(), e.book); err != nil {
			t.Fatal(err)
		}
		if err := e.noteLines(t.Context(), c.next); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		recorded, err := e.Records.Book(t.Context())
		if !reflect.DeepEqual(e.book.Lines, c.want) || err != nil || !reflect.DeepEqual(recorded.Lines, c.want) {
			t.Errorf("%s: got %q, recorded %q, %v; want %q", name, e.book.Lines, recorded.Lines, err, c.want)
		}
	}
	e, _ := gated(t)
	e.shownLocked(site.Losses{lossOne}, "a")
	e.Records = closed(t)
	if err := e.noteLines(t.Context(), design()); err != nil {
		t.Errorf("nothing to record: %v", err)
	}
	if err := e.noteLines(t.Context(), design("a")); err == nil || e.book.Lines != nil {
		t.Errorf("without records: %v, %q", err, e.book.Lines)
	}
	e, w := gated(t) // what waits is shown at the latest when the next commit comes
	e.accounts["n1"], w.memory.Account = site.Account{Records: "r1"}, site.Account{Records: "r1"}
	w.plan = site.NodePlan{Node: "n1", Steps: []site.Step{installOne}}
	if err := e.noteLines(t.Context(), design(site.Losses{lossOne}.Digest())); err != nil || len(e.book.Lines) != 1 {
		t.Errorf("%v, %q", err, e.book.Lines)
	}
}

// Who approves something while the clock is behind the latest time that was seen
// has the ledger go by the clock, and ends what was approved by that time.
func TestClockIsSetBackByAnApproval(t *testing.T) {
	for name, c := range map[string]struct {
		ahead time.Duration
		back  bool
	}{
		"right":     {0, false},
		"an hour":   {clockSlack - time.Minute, false},
		"two hours": {2 * time.Hour, true},
		"ten years": {10 * 365 * 24 * time.Hour, true},
	} {
		e, w := gated(t)
		x := &w.memory.Account.Entries[0]
		x.Expires = time.Now().Add(c.ahead + 24*time.Hour)
		e.accounts["n1"] = w.memory.Account
		e.latest = time.Now().Add(c.ahead).Round(0)
		e.term.Latest = e.latest
		if err := e.setClockBack(t.Context()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		off := time.Until(e.ledgerNow())
		if ended := !e.accounts["n1"].HasOpen(); ended != c.back || (off < time.Minute) != (c.back || c.ahead == 0) {
			t.Errorf("%s: ended %t, and the ledger is %s ahead", name, ended, off)
		}
		if c.back && (!strings.Contains(e.accounts["n1"].Entries[0].Why, "clock was set back") || e.term.Latest.After(time.Now())) {
			t.Errorf("%s: %+v, the term has seen %s", name, e.accounts["n1"].Entries[0], e.term.Latest)
		}
	}
	e, _ := gated(t)
	e.term.Term = nil
	e.latest = time.Now().Add(2 * time.Hour).Round(0)
	if err := e.setClockBack(t.Context()); err != nil || time.Until(e.ledgerNow()) > time.Minute {
		t.Errorf("without a term: %v", err)
	}
	e.accounts["n1"] = site.Account{Records: "r1", Entries: []site.LedgerEntry{{Loss: lossOne, Expires: time.Now().Add(24 * time.Hour)}}}
	e.latest, e.Records = time.Now().Add(2*time.Hour).Round(0), closed(t)
	if err := e.openEntries(t.Context(), site.Losses{lossOne}, "a", site.ApprovalSource{}, ""); err == nil || !strings.HasPrefix(err.Error(), "record the end of approvals") || e.ledgerNow().Before(time.Now().Add(time.Hour)) {
		t.Errorf("without records: %v", err)
	}
}

// A clock that stands, or is set back, does not lengthen approvals: the time since
// the last look at it is added to what was the latest.
func TestLedgerTimeGoesOnBehindTheClock(t *testing.T) {
	e, _ := gated(t)
	latest := time.Now().Add(time.Hour).Round(0)
	e.latest, e.reckoned = latest, time.Now().Add(-10*time.Minute)
	for range 2 {
		if on := e.ledgerNow().Sub(latest); on < 10*time.Minute || on > 11*time.Minute {
			t.Errorf("after ten minutes it has gone on by %s", on)
		}
	}
}

// A clock that is an hour behind to the moment counts as right.
func TestClockThatIsAnHourBehind(t *testing.T) {
	for behind, back := range map[time.Duration]bool{clockSlack: false, clockSlack + 1: true} {
		synctest.Test(t, func(t *testing.T) {
			e, _ := gated(t)
			e.latest = time.Now().Add(behind).Round(0)
			if _, _, ahead := e.aheadOfClock(); ahead != back {
				t.Errorf("behind by %s: set back %t", behind, ahead)
			}
		})
	}
}

// A step that has lasted as long as an approval does not continue, to the moment.
func TestStepThatLastedAsLongAsItsApproval(t *testing.T) {
	for age, over := range map[time.Duration]bool{ledger.Lasts - 1: false, ledger.Lasts: true} {
		synctest.Test(t, func(t *testing.T) {
			e, w := gated(t)
			j := jobOf(e, w)
			j.memory.Recorded.InFlight = &site.InFlight{Step: installOne, Consumed: true, Sent: true, Since: time.Now().Add(-age)}
			if got := e.overBecause(j); (got != "") != over {
				t.Errorf("begun %s ago: %q", age, got)
			}
		})
	}
}

// An approved step waits a minute at most until the disks may be read again, although an inspection failed, or gave way, when nobody
// waited for it. A clock that is set back makes disks old that were read just before.
func TestDisksAreReadSoonForAnApprovedStep(t *testing.T) {
	machine := site.Identity{UUID: "5e1d0000-0000-4000-8000-000000000001", Serial: "S"}
	n := &site.Node{Name: "n1", Identity: machine, Endpoints: map[site.EndpointKind]site.Endpoint{site.Manager: {}}}
	j := job{node: n, memory: site.Memory{Observed: site.Observed{Identity: machine}}}
	for _, after := range []time.Duration{inspectLater, inspectFailed} {
		now := time.Now()
		w := &worker{e: &Engine{}, node: n, uninspected: now.Add(after), waitsForDisks: true}
		if w.inspects(j, now) || !w.inspects(j, now.Add(inspectNeeded+1)) {
			t.Errorf("inspections may begin after %s: not after %s", after, inspectNeeded)
		}
		w = &worker{e: &Engine{}, node: n, uninspected: now.Add(after), reinspect: true}
		if w.inspects(j, now.Add(after-1)) || !w.inspects(j, now.Add(after+1)) {
			t.Errorf("nobody waits, and inspections do not begin after %s", after)
		}
	}
}

// What a BMC does not tell of any more says nothing of what is in the machine.
func TestDisksThatAreNotTold(t *testing.T) {
	all, part, none := &site.Disks{Serials: []string{"S1", "S2"}}, &site.Disks{Serials: []string{"S1"}, Partly: true}, &site.Disks{}
	drives := func(unread bool, serials ...string) *site.Inventory {
		inv := &site.Inventory{DrivesUnread: unread}
		for _, s := range serials {
			inv.Drives = append(inv.Drives, site.Drive{Part: site.Part{Serial: s}})
		}
		return inv
	}
	for name, c := range map[string]struct {
		before *site.Disks
		inv    *site.Inventory
		untold int
		want   *site.Disks
		told   bool
	}{
		"first":                          {nil, drives(false, "S1", "S2"), 0, all, true},
		"first, a part":                  {nil, drives(true, "S1"), 0, part, true},
		"first, none":                    {nil, drives(false), 0, none, true},
		"all again":                      {all, drives(false, "S1", "S2"), 2, all, true},
		"none any more":                  {all, drives(false), 0, all, false},
		"none any more, for long":        {all, drives(true), 100, all, false},
		"a part of all":                  {all, drives(true, "S1"), 0, all, false},
		"a part of all, again":           {all, drives(true, "S1"), mostUntold - 1, all, false},
		"a part of all, again and again": {all, drives(true, "S1"), mostUntold, part, true},
		"a part once more":               {part, drives(true, "S1"), 0, part, true},
		"all after a part":               {part, drives(false, "S1", "S2"), 0, all, true},
		"some after none":                {none, drives(true, "S1"), 0, part, true},
	} {
		if got, told := disksOf(c.before, c.inv, c.untold); !reflect.DeepEqual(got, c.want) || told != c.told {
			t.Errorf("%s: got %+v, told %t", name, got, told)
		}
	}
}

// A step waits until the disks were read a short time ago, and says who can help
// where the BMC does not tell them.
func TestWaitForFreshDisks(t *testing.T) {
	off := site.Observed{Disks: &site.Disks{Serials: []string{"S1"}}, Facets: map[site.Facet]site.FacetState{site.FacetPower: {Have: site.Values{"state": "off"}}}}
	on := off
	on.Facets = map[site.Facet]site.FacetState{site.FacetPower: {Have: site.Values{"state": "on"}}}
	for name, c := range map[string]struct {
		seen     site.Observed
		read     time.Time
		untold   int
		step     site.Step
		begun    bool
		sentence string // empty where it may go on
		person   bool
	}{
		"read now":          {on, time.Now(), 0, installOne, false, "", false},
		"read long ago":     {on, time.Now().Add(-freshDisks), 0, installOne, false, "reads the disks of the machine again", false},
		"never read":        {on, time.Time{}, 0, installOne, false, "reads the disks of the machine again", false},
		"goes on":           {on, time.Time{}, 0, installOne, true, "reads the disks of the machine again", false},
		"none to be told":   {site.Observed{Disks: &site.Disks{}}, time.Time{}, 0, installOne, false, "", false},
		"never told":        {site.Observed{}, time.Time{}, 0, installOne, false, "", false},
		"destroys nothing":  {on, time.Time{}, 0, powerOn, false, "", false},
		"on, and not told":  {on, time.Time{}, 1, installOne, false, "again: its BMC does not report all", true},
		"off, and not told": {off, time.Time{}, 1, installOne, false, "again: the machine is off", true},
	} {
		_, w := gated(t)
		w.memory.Observed, w.disksRead, w.disksUntold = c.seen, c.read, c.untold
		if c.begun {
			w.memory.Recorded.InFlight = &site.InFlight{Step: installOne, Consumed: true, Sent: true}
		}
		h := freshDisksGate(w, c.step)
		if (h == nil) != (c.sentence == "") || h != nil && (!strings.Contains(h.sentence, c.sentence) || h.person != c.person || !h.disks || h.release == "" || h.state != site.Blocked) {
			t.Errorf("%s: got %+v", name, h)
		}
	}
	_, w := gated(t)
	w.memory.Observed, w.node = on, &site.Node{Name: "n1", Style: site.StyleVirtual}
	if h := freshDisksGate(w, installOne); h != nil {
		t.Errorf("a virtual machine: %+v", h)
	}
}
