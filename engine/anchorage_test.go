package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sitekey"
)

// shore is a status branch in memory. Each of its methods fails when it is told to.
type shore struct {
	term   site.TermClaim
	sealed []site.Sealed
	// termErr and the others are what the methods fail with, and claimErrs what the
	// next calls of Claim do.
	termErr, sealedErr, sealErr error
	claimErrs                   []error
	lists                       []string
	listsErr                    error
	asked, claims, reads        int
	over                        site.TermClaim // in whose place the last claim came
	claimed                     func()         // after a claim was published
}

func (s *shore) Term(context.Context) (site.TermClaim, error) {
	s.asked++
	return s.term, s.termErr
}

func (s *shore) Claim(_ context.Context, c, before site.TermClaim) error {
	s.claims++
	s.over = before
	if len(s.claimErrs) > 0 {
		err := s.claimErrs[0]
		if s.claimErrs = s.claimErrs[1:]; err != nil {
			return err
		}
	}
	s.term = c
	if s.claimed != nil {
		s.claimed()
	}
	return nil
}

func (s *shore) Sealed(context.Context) ([]site.Sealed, error) {
	s.reads++
	return s.sealed, s.sealedErr
}

func (s *shore) RevocationLists(context.Context) ([]string, error) { return s.lists, s.listsErr }

func (s *shore) Seal(context.Context, site.NodeStatus) error { return s.sealErr }

// ashore is an engine of one node with a status branch and a site key.
func ashore(t *testing.T) (*Engine, *worker, *shore) {
	t.Helper()
	e, w := gated(t)
	s := &shore{}
	e.Anchor = s
	key, err := sitekey.Create(t.TempDir() + "/key")
	if err != nil {
		t.Fatal(err)
	}
	e.Key = key
	return e, w, s
}

// another is the claim of a daemon on other records, signed with the site's key.
func another(t *testing.T, e *Engine, number uint64) site.TermClaim {
	t.Helper()
	c := site.TermClaim{Site: "lab", Term: number, Instance: "another", Holder: "other host", Since: time.Now()}
	signature, err := e.Key.Sign(sitekey.ForStatus, c)
	if err != nil {
		t.Fatal(err)
	}
	c.Signature = signature
	return c
}

// published is a node's sealed part as the branch has it, of n1 of this site where
// it says nothing else.
func published(t *testing.T, e *Engine, s site.Sealed) site.Sealed {
	t.Helper()
	s.Site, s.Node = cmp.Or(s.Site, "lab"), cmp.Or(s.Node, "n1")
	signature, err := e.Key.Sign(sitekey.ForStatus, s)
	if err != nil {
		t.Fatal(err)
	}
	s.Signature = signature
	return s
}

var errGit = errors.New("git does not answer")

// eventsThat counts what was noted of the site and contains a text.
func (e *Engine) eventsThat(contain string) (n int) {
	for _, x := range e.journal.since(0) {
		if strings.Contains(x.Text, contain) {
			n++
		}
	}
	return n
}

func woken(w *worker) bool {
	select {
	case <-w.wake:
		return true
	default:
		return false
	}
}

// A daemon publishes its term over none, or over one that its records have
// published. It keeps on record whose claims those are, before and after.
func TestTermIsPublished(t *testing.T) {
	earlier := site.TermClaim{Site: "lab", Term: 1, Instance: "earlier"}
	for name, c := range map[string]struct {
		before  func(*Engine, *shore)
		wants   string // what it fails with, empty for nothing
		claims  int    // how often it tries to publish
		claimed bool
		holds   []string // whose claims the records have as their own
	}{
		"nothing is published":  {func(*Engine, *shore) {}, "", 1, true, []string{"own"}},
		"an earlier one of its": {func(e *Engine, s *shore) { s.term = earlier; e.book.Claims = []string{"earlier"} }, "", 1, true, []string{"own"}},
		"it is published": {func(e *Engine, s *shore) {
			s.term = site.TermClaim{Site: "lab", Term: 1, Instance: e.instance}
			e.anchor.claimed = true
			e.book.Claims = []string{e.instance}
		}, "", 0, true, []string{"own"}},
		"published, and nobody heard": {func(e *Engine, s *shore) { s.term = site.TermClaim{Site: "lab", Term: 1, Instance: e.instance} }, "", 1, true, []string{"own"}},
		"the branch was set back": {func(e *Engine, s *shore) {
			s.term = earlier
			e.anchor.claimed = true
			e.book.Claims = []string{"earlier"}
		}, "", 1, true, []string{"own"}},
		"the term cannot be read":  {func(_ *Engine, s *shore) { s.termErr = errGit }, "read who acts for the site: git", 0, false, nil},
		"the nodes cannot be read": {func(_ *Engine, s *shore) { s.sealedErr = errGit }, "read what was published of the nodes: git", 0, false, nil},
		"the lists cannot be read": {func(_ *Engine, s *shore) { s.listsErr = errGit }, "read the published lists of revoked certificates: git", 0, false, nil},
		"it cannot be written":     {func(_ *Engine, s *shore) { s.claimErrs = []error{errGit} }, "publish that this daemon acts for the site: git", 1, false, []string{"own"}},
		"over an earlier one, not written": {func(e *Engine, s *shore) {
			s.term = earlier
			e.book.Claims = []string{"earlier"}
			s.claimErrs = []error{errGit}
		}, "publish that", 1, false, []string{"earlier", "own"}},
		"somebody was first, of these records": {func(_ *Engine, s *shore) { s.claimErrs = []error{site.ErrClaimed} }, "", 2, true, []string{"own"}},
		"somebody is always first":             {func(_ *Engine, s *shore) { s.claimErrs = []error{site.ErrClaimed, site.ErrClaimed, nil} }, "publish that", 2, false, []string{"own"}},
	} {
		t.Run(name, func(t *testing.T) {
			e, w, s := ashore(t)
			c.before(e, s)
			was := s.term
			w.status.State = site.Blocked
			err := e.moor(t.Context())
			if (err == nil) != (c.wants == "") || err != nil && !strings.HasPrefix(err.Error(), c.wants) {
				t.Errorf("got %v, want %q", err, c.wants)
			}
			for i, x := range c.holds {
				if x == "own" {
					c.holds[i] = e.instance
				}
			}
			if s.claims != c.claims || e.anchor.claimed != c.claimed || !slices.Equal(e.book.Claims, c.holds) {
				t.Errorf("%d claims, claimed %t, on record %q; want %d, %t, %q", s.claims, e.anchor.claimed, e.book.Claims, c.claims, c.claimed, c.holds)
			}
			if s.claims > 0 && s.over != was {
				t.Errorf("it came in the place of %+v, and %+v was there", s.over, was)
			}
			if !e.anchor.tried || !woken(w) {
				t.Error("who waits for the branch was not woken")
			}
			if c.claimed && c.claims > 0 {
				if s.term.Instance != e.instance || s.term.Holder != "here" || s.term.Term != e.term.Number || s.term.Records != "r1" || !s.term.Since.Equal(e.term.Began) ||
					sitekey.Verify([]string{e.Key.Public()}, sitekey.ForStatus, s.term.Unsigned(), s.term.Signature) != nil {
					t.Errorf("published %+v", s.term)
				}
			}
			snap, err := e.Records.Load(t.Context())
			if err != nil || c.claims > 0 && !slices.Equal(snap.Book.Claims, c.holds) {
				t.Errorf("the records have %q (%v), want %q", snap.Book.Claims, err, c.holds)
			}
		})
	}
}

// Whoever waits is woken once by the first look, and again once the term is
// published; not with every look.
func TestLookAtTheBranchWakesOnce(t *testing.T) {
	e, w, s := ashore(t)
	w.status.State = site.Blocked
	s.termErr = errGit
	for i, want := range []bool{true, false} {
		if _ = e.moor(t.Context()); woken(w) != want {
			t.Errorf("look %d: woken is not %t", i, want)
		}
	}
	s.termErr = nil
	for i, want := range []bool{true, false} {
		if _ = e.moor(t.Context()); woken(w) != want {
			t.Errorf("look %d after Git answered: woken is not %t", i, want)
		}
	}
}

// Without a term there is nothing to publish, and without records that can be
// written nothing is published.
func TestTermIsNotPublished(t *testing.T) {
	e, _, s := ashore(t)
	e.term = tenure{}
	if err := e.moor(t.Context()); err != nil || s.asked+s.claims > 0 || e.anchor.tried {
		t.Errorf("without a term: %v, asked %d, claims %d", err, s.asked, s.claims)
	}
	e, _, s = ashore(t)
	e.Records = closed(t)
	if err := e.moor(t.Context()); err == nil || !strings.Contains(err.Error(), "record whose term is published") || s.claims > 0 || e.book.Claims != nil {
		t.Errorf("without records: %v, claims %d, on record %q", err, s.claims, e.book.Claims)
	}
	e, _, s = ashore(t)
	s.term, e.book.Claims = site.TermClaim{Site: "lab", Term: 1, Instance: "earlier"}, []string{"earlier"}
	s.claimed = func() { e.Records = closed(t) }
	if err := e.moor(t.Context()); err == nil || !e.anchor.claimed || len(e.book.Claims) != 2 {
		t.Errorf("records lost meanwhile: %v, claimed %t, on record %q", err, e.anchor.claimed, e.book.Claims)
	}
}

// closed are records that can no more be written.
func closed(t *testing.T) *record.Site {
	t.Helper()
	store, err := record.Open(t.Context(), t.TempDir(), record.Options{NoSync: true, Tick: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	store.Close()
	return store.Site("lab")
}

// The claim of a site without a key is not signed.
func TestTermWithoutAKey(t *testing.T) {
	e, _, s := ashore(t)
	e.Key = nil
	if err := e.moor(t.Context()); err != nil || s.term.Instance != e.instance || s.term.Signature != "" {
		t.Errorf("got %v, published %+v", err, s.term)
	}
}

// A daemon that only observes, and one without a branch, look for nobody.
func TestObserverLooksForNobody(t *testing.T) {
	e, _, s := ashore(t)
	e.ObserveOnly = true
	e.keepAnchor(t.Context())
	e.Anchor = nil
	e.ObserveOnly = false
	e.keepAnchor(t.Context())
	e.checkAnchor(t.Context())
	if s.asked+s.claims > 0 || e.anchor.tried {
		t.Errorf("asked %d, claims %d", s.asked, s.claims)
	}
}

// Another one's claim bars this daemon, until it is gone.
func TestWhoActsForTheSite(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Engine, *site.TermClaim)
		want   string
	}{
		"nobody":                      {func(_ *Engine, c *site.TermClaim) { *c = site.TermClaim{} }, ""},
		"this one":                    {func(e *Engine, c *site.TermClaim) { c.Instance = e.instance }, ""},
		"one of these records":        {func(e *Engine, _ *site.TermClaim) { e.book.Claims = []string{"x", "another"} }, ""},
		"another":                     {func(*Engine, *site.TermClaim) {}, `another daemon acts for this site: "other host" began term 7`},
		"another, without keys":       {func(e *Engine, c *site.TermClaim) { e.Key = nil; c.Signature = "" }, "another daemon acts for this site"},
		"of another site":             {func(e *Engine, c *site.TermClaim) { e.Key = nil; c.Site = "else" }, "its signature is not from a key of this site"},
		"without a signature":         {func(_ *Engine, c *site.TermClaim) { c.Signature = "" }, "its signature is not from a key of this site"},
		"changed since it was signed": {func(_ *Engine, c *site.TermClaim) { c.Term++ }, "its signature is not from a key of this site"},
	} {
		t.Run(name, func(t *testing.T) {
			e, w, s := ashore(t)
			s.term = another(t, e, 7)
			c.change(e, &s.term)
			var why error
			w.cut = func(err error) { why = err }
			is, err := e.lookForOthers(t.Context())
			if got := e.whyBarred(); err != nil || is != s.term || (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Fatalf("got %q (%v), want %q", got, err, c.want)
			}
			if c.want == "" {
				if why != nil || e.isBarred() {
					t.Errorf("what it does has ended: %v", why)
				}
				return
			}
			if !errors.Is(why, errHeld) || e.eventsThat(c.want) != 1 || !e.isBarred() {
				t.Errorf("what it does has ended with %v, and %d events tell why", why, e.eventsThat(c.want))
			}
			select {
			case <-e.changed:
			default:
				t.Error("the status is not told")
			}
			if _, err := e.lookForOthers(t.Context()); err != nil || e.eventsThat(c.want) != 1 {
				t.Errorf("the same is told twice (%v)", err)
			}
			if err := e.moor(t.Context()); err == nil || err.Error() != e.whyBarred() || s.claims > 0 {
				t.Errorf("it is no problem of the site: %v; %d claims", err, s.claims)
			}
			s.termErr = errGit
			if err := e.moor(t.Context()); !errors.Is(err, errGit) {
				t.Errorf("without Git: %v", err)
			}
			s.termErr, s.term = nil, site.TermClaim{}
			if err := e.moor(t.Context()); err != nil || e.isBarred() || !e.anchor.claimed || e.anchor.other.Term != 0 {
				t.Errorf("once the other is gone: %v, %q", err, e.whyBarred())
			}
		})
	}
}

// A branch that does not answer changes nothing of what was read last.
func TestLastAnswerCounts(t *testing.T) {
	e, _, s := ashore(t)
	s.term = another(t, e, 7)
	var log strings.Builder
	e.Log = slog.New(slog.NewTextHandler(&log, nil))
	e.checkAnchor(t.Context())
	was := e.whyBarred()
	if strings.Contains(log.String(), "not read") {
		t.Errorf("logged: %s", &log)
	}
	s.term, s.termErr = site.TermClaim{}, errGit
	if e.checkAnchor(t.Context()); was == "" || e.whyBarred() != was {
		t.Errorf("barred %q, and before %q", e.whyBarred(), was)
	}
	if !strings.Contains(log.String(), "published term not read") {
		t.Errorf("logged: %s", &log)
	}
}

// That the records are older than what was done is not forgotten for another
// reason, nor when another daemon goes.
func TestOlderRecordsStayOlder(t *testing.T) {
	e, _, s := ashore(t)
	e.mu.Lock()
	e.barLocked(site.TermClaim{}, "the records are older")
	e.mu.Unlock()
	s.term = another(t, e, 7)
	e.checkAnchor(t.Context())
	s.term = site.TermClaim{}
	e.checkAnchor(t.Context())
	if e.whyBarred() != "the records are older" {
		t.Errorf("barred: %q", e.whyBarred())
	}
	e, _, s = ashore(t)
	s.term = another(t, e, 1)
	e.checkAnchor(t.Context())
	e.mu.Lock()
	e.barLocked(site.TermClaim{}, "the records are older")
	e.mu.Unlock()
	s.term = site.TermClaim{}
	e.checkAnchor(t.Context())
	if e.whyBarred() != "the records are older" {
		t.Errorf("barred by both: %q", e.whyBarred())
	}
	e, _, s = ashore(t)
	s.term = another(t, e, 1)
	e.checkAnchor(t.Context())
	was := e.whyBarred()
	s.term = site.TermClaim{}
	if e.checkAnchor(t.Context()); was == "" || e.isBarred() {
		t.Errorf("barred by term 1: %q, and once it is gone: %q", was, e.whyBarred())
	}
}

// A later term that sessions on two machines are named for bars the daemon; one
// machine alone could lie.
func TestSessionsOfALaterTerm(t *testing.T) {
	e, _, _ := ashore(t)
	later := &driver.LaterTermError{Term: 9}
	e.noteLaterTerm("n2", later)
	e.noteLaterTerm("n2", later)
	if e.isBarred() {
		t.Fatalf("one machine bars: %q", e.whyBarred())
	}
	e.noteLaterTerm("n1", later)
	if want := "sessions of a later term are open on the machines of n1 and n2"; !strings.Contains(e.whyBarred(), want) {
		t.Errorf("got %q, want %q", e.whyBarred(), want)
	}
	if !strings.Contains(e.whyBarred(), "this daemon has term 1.") || !maps.Equal(e.anchor.later, map[string]uint64{"n1": 9, "n2": 9}) {
		t.Errorf("got %q, %v", e.whyBarred(), e.anchor.later)
	}
}

// Records that lack what was published of them were set back.
func TestRecordsAreComparedWithTheBranch(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Engine, *worker, *site.Sealed)
		want   string
	}{
		"the same": {nil, ""},
		"an approval was used": {func(e *Engine, _ *worker, s *site.Sealed) { s.Closed = 3 },
			"the status branch says that the approvals of n1 ended, up to and including attempt 3"},
		"of other records":           {func(_ *Engine, _ *worker, s *site.Sealed) { s.Closed, s.Records = 3, "r0" }, ""},
		"installed since":            {func(_ *Engine, _ *worker, s *site.Sealed) { s.Generation = 2 }, "has generation 2 of n1 as installed, and the records know of generation 1"},
		"installed the same":         {func(_ *Engine, _ *worker, s *site.Sealed) { s.Generation = 1 }, ""},
		"installed by other records": {func(_ *Engine, _ *worker, s *site.Sealed) { s.Generation, s.Records = 2, "r0" }, ""},
		"used, of another site":      {func(_ *Engine, _ *worker, s *site.Sealed) { s.Closed, s.Site = 3, "else" }, ""},
		"installed, of another site": {func(_ *Engine, _ *worker, s *site.Sealed) { s.Generation, s.Site = 2, "else" }, ""},
		"used, and not here": {func(_ *Engine, _ *worker, s *site.Sealed) {
			s.Entries = []site.LedgerEntry{{Loss: lossOne, Consumed: time.Now()}}
		},
			"the status branch says that the approvals of n1 ended"},
		"of a node that is gone": {func(e *Engine, _ *worker, s *site.Sealed) { s.Generation = 2; delete(e.workers, "n1") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, forged := range []func(*site.Sealed){nil, func(s *site.Sealed) { s.Signature = "" }, func(s *site.Sealed) { s.Site = "else" }} {
				e, w, s := ashore(t)
				w.memory.Recorded.Installed = &site.Installation{Generation: 1}
				sealed := site.Sealed{Records: "r1"}
				if c.change != nil {
					c.change(e, w, &sealed)
				}
				s.sealed = []site.Sealed{{Node: "x"}, published(t, e, sealed)}
				want := c.want
				if forged != nil {
					forged(&s.sealed[1])
					want = ""
				}
				if err := e.compareWithPublished(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := e.whyBarred(); (got == "") != (want == "") || !strings.Contains(got, want) {
					t.Errorf("forged %t: got %q, want %q", forged != nil, got, want)
				}
				if got := e.published["n1"]; got.Signature != s.sealed[1].Signature || got.Records != s.sealed[1].Records {
					t.Errorf("what was published is not kept: %+v", got)
				}
				// They are compared once, and again when the records begin anew.
				if err := e.compareWithPublished(t.Context()); err != nil || s.reads != 1 {
					t.Errorf("%d reads (%v), want 1", s.reads, err)
				}
				e.book.Records = "r2"
				if err := e.compareWithPublished(t.Context()); err != nil || s.reads != 2 {
					t.Errorf("%d reads (%v) of other records, want 2", s.reads, err)
				}
			}
		})
	}
}

// What is installed is compared only as of the same approvals, and not where the
// daemon is barred already.
func TestInstalledIsComparedOfTheSameApprovals(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Engine, *worker)
		want   string
	}{
		"the same":                     {func(*Engine, *worker) {}, "this daemon's records are out of date"},
		"barred":                       {func(e *Engine, _ *worker) { e.anchor.barred = "the records lack something" }, "the records lack something"},
		"barred by another daemon":     {func(e *Engine, _ *worker) { e.anchor.barred, e.anchor.other.Term = "another", 7 }, "this daemon's records are out of date"},
		"something was approved since": {func(e *Engine, _ *worker) { a := e.accounts["n1"]; a.Closed = 1; e.accounts["n1"] = a }, ""},
	} {
		e, w, _ := ashore(t)
		c.change(e, w)
		e.published["n1"] = published(t, e, site.Sealed{Records: "r1", Generation: 2})
		for i := range 40 { // of nodes that are no more
			name := fmt.Sprint("x", i)
			e.published[name] = published(t, e, site.Sealed{Node: name, Records: "r1", Generation: 2})
		}
		e.mu.Lock()
		e.compareInstalledLocked()
		e.mu.Unlock()
		if got := e.whyBarred(); (got == "") != (c.want == "") || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// A marker with a signature that is above what is known shows that others acted,
// unless the records are new and may lack what was done.
func TestMarkerAboveTheRecords(t *testing.T) {
	for name, c := range map[string]struct {
		recorded site.Recorded
		blank    bool
		marker   int
		barred   bool
	}{
		"as recorded":      {site.Recorded{Installed: &site.Installation{Generation: 2}}, false, 2, false},
		"below":            {site.Recorded{Installed: &site.Installation{Generation: 2}}, false, 1, false},
		"above":            {site.Recorded{Installed: &site.Installation{Generation: 2}}, false, 3, true},
		"new records":      {site.Recorded{Installed: &site.Installation{Generation: 2}}, true, 3, false},
		"being installed":  {site.Recorded{Installing: &site.Installation{Generation: 3}}, false, 3, false},
		"above what is":    {site.Recorded{Installing: &site.Installation{Generation: 3}}, false, 4, true},
		"nothing is known": {site.Recorded{}, false, 1, true},
	} {
		e, _, _ := ashore(t)
		e.book.Blank = c.blank
		e.compareWithMarker(c.recorded, site.Marker{Node: "n1", Generation: c.marker, Term: 5})
		if e.isBarred() != c.barred || c.barred && !strings.Contains(e.whyBarred(), "the system on n1 proves that this site installed generation") {
			t.Errorf("%s: got %q", name, e.whyBarred())
		}
	}
}

// A person has the daemon go on: what was approved ends, its term is above all
// others, and it is published.
func TestTakingOver(t *testing.T) {
	e, w, s := ashore(t)
	order := site.Order{Verb: site.VerbTakeOver, By: "bob"}
	if _, err := e.takeOver(t.Context(), order); !errors.Is(err, site.ErrRefused) || !strings.Contains(err.Error(), "acts for site lab already") {
		t.Errorf("without need: %v", err)
	}
	s.term = another(t, e, 7)
	e.checkAnchor(t.Context())
	said, err := e.takeOver(t.Context(), order)
	if err != nil || said != "this daemon acts for site lab from now on, with term 8; all earlier approvals have ended" {
		t.Fatal(said, err)
	}
	if e.isBarred() || e.anchor.other.Term != 0 || !e.anchor.claimed || e.term.Number != 8 || s.term.Term != 8 || s.term.Instance != e.instance || s.over.Instance != "another" {
		t.Errorf("barred %q, term %d, published %+v over %+v", e.whyBarred(), e.term.Number, s.term, s.over)
	}
	if e.accounts["n1"].HasOpen() || e.book.Records == "r1" || !e.book.Blank || !w.fresh || !woken(w) {
		t.Errorf("account %+v, book %+v, fresh %t", e.accounts["n1"], e.book, w.fresh)
	}
}

// Sessions of later terms are taken over too, with a term above them.
func TestTakingOverFromSessions(t *testing.T) {
	for name, c := range map[string]struct {
		later map[string]uint64
		other uint64
		want  uint64
	}{
		"one machine":    {map[string]uint64{"n1": 12}, 0, 13},
		"several":        {map[string]uint64{"n1": 12, "n2": 20, "n3": 3}, 0, 21},
		"and the branch": {map[string]uint64{"n1": 12}, 30, 31},
	} {
		e, _, s := ashore(t)
		if c.other > 0 {
			s.term = another(t, e, c.other)
		}
		e.anchor.later = c.later
		if said, err := e.takeOver(t.Context(), site.Order{By: "bob"}); err != nil || e.term.Number != c.want || e.anchor.later != nil {
			t.Errorf("%s: %q %v, term %d, want %d; later %v", name, said, err, e.term.Number, c.want, e.anchor.later)
		}
	}
}

// A take-over that does not succeed leaves the daemon barred.
func TestTakingOverThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Engine, *shore)
		want   string
		barred bool
	}{
		"the branch cannot be read":    {func(_ *Engine, s *shore) { s.termErr = errGit }, "read who acts for the site: git", true},
		"the records cannot be kept":   {func(e *Engine, _ *shore) { e.Records = closed(t) }, "record the end of approvals", true},
		"and nothing is open":          {func(e *Engine, _ *shore) { e.accounts["n1"] = site.Account{}; e.Records = closed(t) }, "start the ledger again", true},
		"the term does not end":        {func(e *Engine, _ *shore) { e.term.Term = lostTerm(t) }, "", true},
		"the branch cannot be written": {func(_ *Engine, s *shore) { s.claimErrs = []error{errGit} }, "publish that this daemon acts", false},
	} {
		t.Run(name, func(t *testing.T) {
			e, _, s := ashore(t)
			s.term = another(t, e, 7)
			e.checkAnchor(t.Context())
			c.change(e, s)
			if said, err := e.takeOver(t.Context(), site.Order{By: "bob"}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %q %v, want %q", said, err, c.want)
			}
			if e.isBarred() != c.barred || e.anchor.claimed {
				t.Errorf("barred: %q, claimed %t", e.whyBarred(), e.anchor.claimed)
			}
		})
	}
}

// lostTerm is a term whose records can no more be written.
func lostTerm(t *testing.T) *record.Term {
	t.Helper()
	store, err := record.Open(t.Context(), t.TempDir(), record.Options{NoSync: true, Tick: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	term, err := store.Site("lab").Acquire(t.Context(), "here", 0)
	if err != nil {
		t.Fatal(err)
	}
	store.Close()
	return term
}

// What cannot be written as JSON cannot be signed, and is not published.
func TestWhatCannotBeSignedIsNotPublished(t *testing.T) {
	e, w, s := ashore(t)
	e.term.Began = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
	if err := e.moor(t.Context()); err == nil || s.claims > 0 || e.anchor.claimed {
		t.Errorf("got %v, claims %d", err, s.claims)
	}
	a := e.accounts["n1"]
	a.Entries[0].Expires = e.term.Began
	e.accounts["n1"] = a
	e.mu.Lock()
	defer e.mu.Unlock()
	if sealed := w.sealLocked(); sealed != nil {
		t.Errorf("sealed %+v", sealed)
	}
}

// Whose claims count is written only when it changes.
func TestClaimsAreRecordedWhenTheyChange(t *testing.T) {
	e, _, _ := ashore(t)
	e.book.Claims, e.Records = []string{"own"}, closed(t)
	if err := e.putClaims(t.Context(), "", "own"); err != nil {
		t.Error(err)
	}
	if err := e.putClaims(t.Context(), "own", "other"); err == nil || !slices.Equal(e.book.Claims, []string{"own"}) {
		t.Errorf("got %v, claims %q", err, e.book.Claims)
	}
}

// Before the term is held, a claim has number 0 and nobody who holds it.
func TestClaimWithoutATerm(t *testing.T) {
	e, _, _ := ashore(t)
	e.term = tenure{}
	e.mu.Lock()
	defer e.mu.Unlock()
	if c := e.claimLocked(); c != (site.TermClaim{Site: "lab", Instance: e.instance, Records: "r1"}) {
		t.Errorf("got %+v", c)
	}
}

// Without a branch only the records and the sessions count.
func TestTakingOverWithoutABranch(t *testing.T) {
	e, _, _ := ashore(t)
	e.Anchor = nil
	e.anchor.barred = "the records are older"
	if said, err := e.takeOver(t.Context(), site.Order{By: "bob"}); err != nil || e.isBarred() || e.term.Number != 2 {
		t.Errorf("%q %v, barred %q, term %d", said, err, e.whyBarred(), e.term.Number)
	}
}

// A node's sealed part is signed, once for each change. Where nothing is recorded
// or nothing can be signed, it stays as it was published.
func TestSealedPart(t *testing.T) {
	e, w, _ := ashore(t)
	seal := func() *site.Sealed {
		e.mu.Lock()
		defer e.mu.Unlock()
		return w.sealLocked()
	}
	w.memory.Recorded.Installed = &site.Installation{Generation: 4, FirstBoot: site.FirstBoot{HostKeys: []string{"ssh-ed25519 A"}}}
	first := seal()
	if first == nil || first.Site != "lab" || first.Node != "n1" || first.Records != "r1" || len(first.Entries) != 1 || first.Generation != 4 || len(first.HostKeys) != 1 ||
		sitekey.Verify([]string{e.Key.Public()}, sitekey.ForStatus, first.Unsigned(), first.Signature) != nil {
		t.Fatalf("got %+v", first)
	}
	if seal() != first {
		t.Error("it is signed again although nothing has changed")
	}
	a := e.accounts["n1"]
	a.Closed = 1
	e.accounts["n1"] = a
	if next := seal(); next == first || next.Closed != 1 || next.Signature == first.Signature {
		t.Errorf("after a change: %+v", next)
	}
	e.accounts["n1"] = site.Account{}
	if keys := seal(); keys == nil || len(keys.HostKeys) != 1 || len(keys.Entries) != 0 {
		t.Errorf("with host keys alone: %+v", keys)
	}
	w.memory.Recorded.Installed = nil
	if nothing := seal(); nothing != nil {
		t.Errorf("with nothing to seal: %+v", nothing)
	}
	was := published(t, e, site.Sealed{Records: "r0", Generation: 2})
	e.published["n1"] = was
	if got := seal(); got == nil || got.Signature != was.Signature {
		t.Errorf("with nothing recorded: %+v", got)
	}
	e.Key, e.accounts["n1"] = nil, a
	if got := seal(); got == nil || got.Signature != was.Signature {
		t.Errorf("without a key: %+v", got)
	}
}

// Whoever can write to the status branch, with no key of the site, cannot have the terms of the site end: a term that is
// not higher than all before is refused by every machine.
func TestTakeOverFromAnUnsignedTerm(t *testing.T) {
	for _, claimed := range []uint64{math.MaxUint64, math.MaxUint64 - 1} {
		e, _, s := ashore(t)
		before := e.termNumber()
		s.term = site.TermClaim{Site: "lab", Term: claimed, Instance: "nobody's"} // pushed by hand, without a signature
		e.checkAnchor(t.Context())
		_, err := e.takeOver(t.Context(), site.Order{By: "bob"})
		after := e.termNumber()
		next, nerr := e.Records.Acquire(t.Context(), "the next start of the daemon", 0)
		if nerr != nil {
			t.Fatal(nerr)
		}
		if err != nil || after <= before || after > before+mostAhead || next.Number <= after {
			t.Errorf("%v; the term was %d, is %d after a take-over, and %d after the next start: machines refuse terms that are lower than one that they have seen", err, before, after, next.Number)
		}
	}
}

// A BMC that lies about the number of a session does not use up the numbers of terms either.
func TestTakeOverFromASessionWithoutEnd(t *testing.T) {
	e, _, s := ashore(t)
	s.term = another(t, e, 7)
	e.checkAnchor(t.Context())
	e.noteLaterTerm("n1", &driver.LaterTermError{Term: math.MaxUint64})
	if _, err := e.takeOver(t.Context(), site.Order{By: "bob"}); err != nil || e.termNumber() != 8 {
		t.Errorf("%v; term %d, want 8", err, e.termNumber())
	}
}
