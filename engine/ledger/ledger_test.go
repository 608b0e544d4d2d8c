package ledger_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/ledger"
	"github.com/slipway-gitops/slipway/engine/site"
)

var start = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// install is the loss of an installation as a plan has it before it is numbered.
var install = site.Loss{
	Node: "n1", Machine: site.Identity{UUID: "u1"}, Action: "install generation 2", Lost: "everything on its disks",
	Generation: 2, Image: "d1", Disks: "S1, S2",
}

func empty() site.Account { return site.Account{Records: "r1"} }

func by(kind site.ApprovalKind) ledger.Approval {
	return ledger.Approval{Set: "set", Source: site.ApprovalSource{Kind: kind, By: "ana"}, When: start}
}

// opened is an account in which the installation was approved.
func opened(t *testing.T, kind site.ApprovalKind) (site.Account, site.Loss) {
	t.Helper()
	l := empty().Numbered(install)
	a, err := ledger.Open(empty(), l, by(kind))
	if err != nil {
		t.Fatal(err)
	}
	return a, l
}

func stands(string) bool { return true }

func TestApprovalIsUsedOnce(t *testing.T) {
	a, l := opened(t, site.ByCommand)
	if a.Open(l) == nil {
		t.Fatal("no entry is open")
	}
	a, err := ledger.Consume(a, l, start.Add(time.Hour), 4)
	if err != nil {
		t.Fatal(err)
	}
	if e := a.Entries[0]; e.IsOpen() || e.Term != 4 || !e.Consumed.Equal(start.Add(time.Hour)) {
		t.Errorf("got %+v", e)
	}
	if _, err := ledger.Consume(a, l, start.Add(time.Hour), 4); !errors.Is(err, site.ErrRefused) {
		t.Errorf("used twice: got %v", err)
	}
	if _, err := ledger.Open(a, l, by(site.ByCommand)); !errors.Is(err, site.ErrRefused) {
		t.Errorf("opened again by what was shown before: got %v", err)
	}
	next := a.Numbered(install)
	if next.Attempt != 2 || (site.Losses{next}).Digest() == (site.Losses{l}).Digest() {
		t.Errorf("the same loss again is %+v, with the digest of the first", next)
	}
	if _, err := ledger.Consume(a, next, start.Add(time.Hour), 4); err == nil {
		t.Error("the second loss needs no second approval")
	}
}

func TestWhatEndsAnApproval(t *testing.T) {
	planned := func(change func(*site.Loss)) site.Losses {
		l := empty().Numbered(install)
		change(&l)
		return site.Losses{l}
	}
	for name, c := range map[string]struct {
		kind site.ApprovalKind
		in   ledger.Situation
		why  string
	}{
		"nothing":                             {site.ByCommand, ledger.Situation{Planned: planned(func(*site.Loss) {})}, ""},
		"almost":                              {site.ByCommand, ledger.Situation{Now: start.Add(ledger.Lasts - time.Second), Planned: planned(func(*site.Loss) {})}, ""},
		"time":                                {site.ByMerge, ledger.Situation{Now: start.Add(ledger.Lasts), Planned: planned(func(*site.Loss) {})}, "7 days"},
		"line":                                {site.ByDesign, ledger.Situation{Planned: planned(func(*site.Loss) {}), Line: func(string) bool { return false }}, "line"},
		"other's line":                        {site.ByCommand, ledger.Situation{Planned: planned(func(*site.Loss) {}), Line: func(string) bool { return false }}, ""},
		"revert":                              {site.ByMerge, ledger.Situation{}, "no longer plans it"},
		"gone":                                {site.ByMerge, ledger.Situation{Planned: planned(func(*site.Loss) {}), Gone: "the node left the design"}, "left"},
		"machine":                             {site.ByMerge, ledger.Situation{Planned: planned(func(l *site.Loss) { l.Machine.UUID = "u2" })}, "u2"},
		"hypervisor":                          {site.ByMerge, ledger.Situation{Planned: planned(func(l *site.Loss) { l.Hypervisor = "hv-2" })}, "is now on hv-2"},
		"image":                               {site.ByMerge, ledger.Situation{Planned: planned(func(l *site.Loss) { l.Image = "d2" })}, "another image"},
		"disks":                               {site.ByMerge, ledger.Situation{Planned: planned(func(l *site.Loss) { l.Disks = "S1, S3" })}, "S1, S3"},
		"disks not read":                      {site.ByMerge, ledger.Situation{Planned: planned(func(l *site.Loss) { l.Disks = "" })}, ""},
		"disks not read, and other words":     {site.ByMerge, ledger.Situation{Planned: planned(func(l *site.Loss) { l.Disks, l.Lost = "", "more" })}, "what would be lost is now more"},
		"disks not read, and the next number": {site.ByMerge, ledger.Situation{Planned: planned(func(l *site.Loss) { l.Disks, l.Attempt = "", 2 })}, ""},
		"line stands":                         {site.ByDesign, ledger.Situation{Planned: planned(func(*site.Loss) {}), Line: func(set string) bool { return set == "set" }}, ""},
		"otherwise":                           {site.ByMerge, ledger.Situation{Planned: planned(func(l *site.Loss) { l.Generation = 3 })}, "plans it otherwise"},
		"words":                               {site.ByMerge, ledger.Situation{Planned: planned(func(l *site.Loss) { l.Lost = "more" })}, "more"},
		"generation": {site.ByMerge, ledger.Situation{Planned: planned(func(l *site.Loss) {
			l.Generation, l.Action = 3, "install generation 3"
		})}, "no longer plans it"},
	} {
		t.Run(name, func(t *testing.T) {
			a, l := opened(t, c.kind)
			if c.in.Now.IsZero() {
				c.in.Now = start.Add(time.Minute)
			}
			if c.in.Line == nil {
				c.in.Line = stands
			}
			after, ended := ledger.End(a, c.in.Now, c.in.Ends)
			if c.why == "" {
				if len(ended) != 0 || after.Open(l) == nil {
					t.Errorf("it ended: %+v", ended)
				}
				return
			}
			if len(ended) != 1 || !strings.Contains(ended[0].Why, c.why) || after.Open(l) != nil {
				t.Fatalf("got %+v, want it ended because of %q", ended, c.why)
			}
			if a.Open(l) == nil {
				t.Error("the account before was changed")
			}
			if _, err := ledger.Consume(after, l, c.in.Now, 1); err == nil {
				t.Error("it can be used after its end")
			}
			if again, none := ledger.End(after, start, ledger.Situation{Now: start, Planned: site.Losses{l}, Line: stands}.Ends); len(none) != 0 || again.Open(l) != nil {
				t.Error("a clock that is set back opens it again")
			}
			if after.Numbered(install).Attempt != 2 {
				t.Error("the next approval has the same digest")
			}
		})
	}
}

func TestExpiredEntryIsNotUsedBeforeItIsEnded(t *testing.T) {
	a, l := opened(t, site.ByCommand)
	if _, err := ledger.Consume(a, l, start.Add(ledger.Lasts), 1); !errors.Is(err, site.ErrRefused) {
		t.Errorf("got %v, want site.ErrRefused", err)
	}
}

func TestWhatCannotBeApproved(t *testing.T) {
	for name, change := range map[string]func(*site.Loss){
		"shown by lost records": func(l *site.Loss) { l.Records = "r0" },
		"attempt of before":     func(l *site.Loss) { l.Attempt = 0 },
		"disks not read":        func(l *site.Loss) { l.Disks = "" },
	} {
		l := empty().Numbered(install)
		change(&l)
		if a, err := ledger.Open(empty(), l, by(site.ByCommand)); !errors.Is(err, site.ErrRefused) || a.HasOpen() {
			t.Errorf("%s: got %+v, %v", name, a, err)
		}
	}
}

func TestTwoLossesOfOneNode(t *testing.T) {
	define := install
	define.Action = "define generation 2"
	a := empty()
	first, second := a.Numbered(define), a.Numbered(install)
	for _, l := range []site.Loss{first, second} {
		var err error
		if a, err = ledger.Open(a, l, by(site.ByCommand)); err != nil {
			t.Fatal(err)
		}
	}
	a, err := ledger.Consume(a, first, start, 1)
	if err != nil {
		t.Fatal(err)
	}
	if got := a.Numbered(install); got != second || a.Open(second) == nil {
		t.Errorf("got %+v, want the second still open as %+v", got, second)
	}
	if got := a.Numbered(define); got.Attempt != 2 {
		t.Errorf("got attempt %d of the first, want 2", got.Attempt)
	}
}

func TestOldEntriesAreForgottenAndAttemptsAreNot(t *testing.T) {
	a := empty()
	for i := range 30 {
		l := a.Numbered(install)
		if l.Attempt != i+1 {
			t.Fatalf("got attempt %d, want %d", l.Attempt, i+1)
		}
		var err error
		if a, err = ledger.Open(a, l, by(site.ByCommand)); err == nil {
			a, err = ledger.Consume(a, l, start, 1)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(a.Entries) != 8 || a.Closed != 30 {
		t.Errorf("got %d entries and %d closed, want 8 and 30", len(a.Entries), a.Closed)
	}
}

func TestEntryHasWhatWasApproved(t *testing.T) {
	a, l := opened(t, site.ByCommand)
	source := site.ApprovalSource{Kind: site.ByCommand, By: "ana"}
	want := site.LedgerEntry{Loss: l, Set: "set", Source: source, Opened: start, Expires: start.Add(ledger.Lasts)}
	if len(a.Entries) != 1 || a.Entries[0] != want {
		t.Fatalf("got %+v, want %+v", a.Entries, want)
	}
	again, err := ledger.Open(a, l, ledger.Approval{Set: "other", Source: site.ApprovalSource{By: "bob"}, When: start.Add(time.Hour), Note: "again"})
	if err != nil || len(again.Entries) != 1 || again.Entries[0] != want {
		t.Errorf("approved again: got %+v, %v; want it as it was approved first", again.Entries, err)
	}
	noted, err := ledger.Open(empty(), l, ledger.Approval{Note: "broken disk"})
	if err != nil || noted.Entries[0].Note != "broken disk" {
		t.Errorf("got %+v, %v", noted.Entries, err)
	}
}

// Nothing changes but the entry that is meant, and no account that somebody else
// has.
func TestOneEntryChanges(t *testing.T) {
	a := empty()
	var losses []site.Loss
	for _, action := range []string{"one", "two", "three"} {
		l := install
		l.Action = action
		l = a.Numbered(l)
		var err error
		if a, err = ledger.Open(a, l, by(site.ByCommand)); err != nil {
			t.Fatal(err)
		}
		losses = append(losses, l)
	}
	used, err := ledger.Consume(a, losses[1], start, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range losses {
		if a.Open(l) == nil {
			t.Errorf("%s: the account before was changed", l.Action)
		}
		if (used.Open(l) != nil) != (i != 1) {
			t.Errorf("%s is open: %t", l.Action, used.Open(l) != nil)
		}
	}
	after, ended := ledger.End(used, start.Add(time.Hour), func(e site.LedgerEntry) string {
		if e.Loss == losses[0] {
			return ""
		}
		return "over"
	})
	if len(ended) != 1 || ended[0].Loss != losses[2] || after.Open(losses[0]) == nil || after.Open(losses[2]) != nil {
		t.Errorf("ended %+v, left %+v", ended, after.Entries)
	}
	if e := after.Entries[1]; !e.Ended.IsZero() || e.Why != "" {
		t.Errorf("what was used has ended too: %+v", e)
	}
	if same, none := ledger.End(after, start, func(site.LedgerEntry) string { return "" }); len(none) != 0 || len(same.Entries) != 3 {
		t.Errorf("got %+v, ended %+v", same, none)
	}
}

// The oldest entries are forgotten that are not open, and no other.
func TestWhichEntriesAreForgotten(t *testing.T) {
	open := install
	open.Action = "define generation 2"
	a := empty()
	l := a.Numbered(open)
	a, err := ledger.Open(a, l, by(site.ByCommand))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		n := a.Numbered(install)
		if a, err = ledger.Open(a, n, by(site.ByCommand)); err == nil {
			a, err = ledger.Consume(a, n, start.Add(time.Duration(i)*time.Minute), 1)
		}
		if err != nil {
			t.Fatal(err)
		}
		var have []int
		for _, e := range a.Entries[1:] {
			have = append(have, e.Loss.Attempt)
		}
		var want []int
		for attempt := max(1, i-6); attempt <= i+1; attempt++ {
			want = append(want, attempt)
		}
		if a.Open(l) == nil || !slices.Equal(have, want) {
			t.Fatalf("after %d: %v are left, want %v; the open one: %t", i+1, have, want, a.Open(l) != nil)
		}
	}
}

func TestRecordsAreBehindWhatWasPublished(t *testing.T) {
	open, l := opened(t, site.ByCommand)
	used, err := ledger.Consume(open, l, start.Add(time.Hour), 4)
	if err != nil {
		t.Fatal(err)
	}
	expired, _ := ledger.End(open, start.Add(ledger.Lasts), func(site.LedgerEntry) string { return "time" })
	ended, _ := ledger.End(open, start.Add(time.Hour), func(site.LedgerEntry) string { return "taken back" })
	again, _ := ledger.Consume(open, l, start.Add(2*time.Hour), 5)
	other := site.Account{Records: "r2"}
	counts := site.Account{Records: "r1", Closed: 3}
	kept := used // the last account that still has the first entry
	// Much later the account has forgotten the first entry.
	later := used
	for i := range 9 {
		if i == 7 {
			kept = later
		}
		n := later.Numbered(install)
		if later, err = ledger.Open(later, n, by(site.ByCommand)); err != nil {
			t.Fatal(err)
		}
		later, _ = ledger.End(later, start.Add(2*time.Hour), func(site.LedgerEntry) string { return "taken back" })
	}
	numbered := site.Account{Records: "r1", Closed: 1}
	for name, c := range map[string]struct {
		own, published site.Account
		want           bool
	}{
		"the same":                         {used, used, false},
		"nothing was published":            {used, empty(), false},
		"it was published as open":         {open, open, false},
		"used since":                       {used, open, false},
		"ended since":                      {ended, open, false},
		"open here, used there":            {open, used, true},
		"open here, ended there":           {open, ended, true},
		"nothing is known of it":           {empty(), used, true},
		"it has expired here, used there":  {expired, used, true},
		"used here, it has expired there":  {used, expired, true},
		"ended at another time":            {expired, ended, true},
		"counted, but the entry is absent": {numbered, used, true},
		"forgotten since":                  {later, used, false},
		"other records":                    {other, used, false},
		"used at another time":             {again, used, true},
		"more was counted there":           {open, counts, true},
		"forgotten just now":               {site.Account{Records: "r1", Closed: l.Attempt + 8}, used, false},
		"forgotten by the next":            {site.Account{Records: "r1", Closed: l.Attempt + 7}, used, true},
		"not forgotten yet":                {site.Account{Records: "r1", Closed: kept.Closed}, used, true},
	} {
		if got := ledger.IsBehind(c.own, c.published); got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
