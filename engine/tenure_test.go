package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// logged has the engine log into what is returned.
func logged(e *Engine) *bytes.Buffer {
	var b bytes.Buffer
	e.Log = slog.New(slog.NewTextHandler(&b, nil))
	return &b
}

var leftOnOne = map[string]record.Sessions{"n1": {site.Manager: {{Term: 1, Endpoint: "bmc-1", ID: "s1"}}}}

// After a term that was released nothing waits. After one that was not, its
// sessions are known, and what is destructive waits until none of its requests
// can take effect; then whoever waits looks again.
func TestTermBegins(t *testing.T) {
	for name, released := range map[string]bool{"released": true, "killed": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, w := gated(t)
				log := logged(e)
				w.status.State = site.Blocked
				if released {
					if err := e.term.Release(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				e.term, e.latest = tenure{}, time.Time{}
				if err := e.beginTerm(t.Context(), leftOnOne); err != nil {
					t.Fatal(err)
				}
				h, _ := os.Hostname()
				if want := fmt.Sprintf("%s, process %d", h, os.Getpid()); e.term.Number != 2 || e.term.Holder != want {
					t.Errorf("term %d of %s", e.term.Number, e.term.Holder)
				}
				settled := e.term.Began
				if !released {
					settled = settled.Add(45 * time.Second)
				}
				if !e.term.settled.Equal(settled) || reflect.DeepEqual(e.term.before, leftOnOne) == released {
					t.Errorf("settled %s after it began, %d nodes with sessions", e.term.settled.Sub(e.term.Began), len(e.term.before))
				}
				if e.latest.IsZero() || !strings.Contains(log.String(), fmt.Sprintf("msg=\"term begun\" term=2 clean=%t", released)) {
					t.Errorf("latest %s, logged %s", e.latest, log)
				}
				if time.Sleep(time.Until(settled.Add(-time.Second))); woken(w) {
					t.Error("woken before the term has settled")
				}
				time.Sleep(time.Until(settled.Add(time.Second)))
				if synctest.Wait(); woken(w) == released {
					t.Errorf("woken once the term has settled: %t", released)
				}
			})
		})
	}
}

// A clock that was set back does not set back what has ended.
func TestLatestTimeIsNotSetBack(t *testing.T) {
	e, _ := gated(t)
	later := time.Now().Add(time.Hour)
	e.latest = later
	if err := e.beginTerm(t.Context(), nil); err != nil || !e.latest.Equal(later) {
		t.Errorf("%v, latest %s", err, e.latest)
	}
}

// Without records no term begins, and the sessions of the one before are not
// forgotten.
func TestTermThatCannotBegin(t *testing.T) {
	e, _ := gated(t)
	log := logged(e)
	e.term, e.Records = tenure{}, closed(t)
	err := e.beginTerm(t.Context(), leftOnOne)
	if err == nil || e.term.Term != nil || e.term.trouble != err || !reflect.DeepEqual(e.term.before, leftOnOne) || log.Len() > 0 {
		t.Errorf("%v, now %+v, logged %s", err, e.term, log)
	}
	if again := e.renewTerm(t.Context()); again == nil || !reflect.DeepEqual(e.term.before, leftOnOne) {
		t.Errorf("the next time: %v, now %+v", again, e.term)
	}
	if err := e.releaseTerm(t.Context()); err != nil {
		t.Errorf("released: %v", err)
	}
	if n := e.termNumber(); n != 0 || e.heldTerm() != nil {
		t.Errorf("its number is %d", n)
	}
}

// A term that was released has left no session of its own. One that it has not ended of a term before is still
// known, and is ended before the first write.
func TestSessionsThatAReleasedTermHasNotEnded(t *testing.T) {
	e, _ := gated(t)
	if err := e.raiseTerm(t.Context(), 6); err != nil {
		t.Fatal(err)
	}
	if err := e.term.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.term = tenure{}
	of := func(terms ...uint64) (all []record.Session) {
		for _, term := range terms {
			all = append(all, record.Session{Term: term, Endpoint: "bmc-1", ID: fmt.Sprint(term)})
		}
		return all
	}
	left := map[string]record.Sessions{"n1": {site.Manager: of(5, 7)}, "n2": {site.Manager: of(7)}}
	if err := e.beginTerm(t.Context(), left); err != nil {
		t.Fatal(err)
	}
	if want := map[string]record.Sessions{"n1": {site.Manager: of(5)}}; e.term.Number != 8 || !e.term.Clean || !reflect.DeepEqual(e.term.before, want) {
		t.Errorf("term %d, clean %t, knows of %+v", e.term.Number, e.term.Clean, e.term.before)
	}
}

// The term is renewed while the engine runs; trouble with it is told, and whoever
// waits looks again once it is held.
func TestTermIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, w := gated(t)
		w.status.State = site.Blocked
		e.term = tenure{}
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() { e.keepTerm(ctx); close(over) }()
		pass := func() { time.Sleep(record.RenewEvery + time.Second/2); synctest.Wait() }
		pass()
		first := e.heldTerm()
		if first == nil || !woken(w) || len(e.problems) > 0 {
			t.Fatalf("held: %t, problems %+v", first != nil, e.problems)
		}
		until := first.Deadline()
		pass()
		if e.heldTerm() != first || !first.Deadline().After(until) || woken(w) {
			t.Errorf("held %t, until %s and then %s", e.heldTerm() == first, until, first.Deadline())
		}
		good := e.Records
		another, err := good.Acquire(t.Context(), "other host", 0)
		if err != nil {
			t.Fatal(err)
		}
		pass()
		if p, ok := e.problems["term"]; !ok || !strings.Contains(p.What, "other host has begun term") || e.heldTerm() != nil || woken(w) {
			t.Errorf("problems %+v, held %t", e.problems, e.heldTerm() != nil)
		}
		_ = another.Release(t.Context())
		stop()
		<-over
		if !errors.Is(e.term.trouble, record.ErrLost) {
			t.Errorf("trouble: %v", e.term.trouble)
		}
	})
}

// A term that cannot begin wakes nobody; once it has begun, those that are blocked
// look again, and nobody else.
func TestWhoIsWokenByTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, w := gated(t)
		good := e.Records
		idle := newWorker(e, w.node, w.memory, false, func() {})
		e.workers["n2"] = idle
		w.status.State, idle.status.State = site.Blocked, site.InSync
		e.term, e.Records = tenure{}, closed(t)
		once := func() {
			ctx, stop := context.WithCancel(t.Context())
			over := make(chan struct{})
			go func() { e.keepTerm(ctx); close(over) }()
			time.Sleep(record.RenewEvery + time.Second)
			stop()
			<-over
		}
		once()
		if _, told := e.problems["term"]; woken(w) || !told {
			t.Errorf("without a term somebody was woken, or nothing was told: %+v", e.problems)
		}
		e.Records = good
		once()
		if _, told := e.problems["term"]; !woken(w) || woken(idle) || told {
			t.Errorf("with a term: problems %+v", e.problems)
		}
	})
}

// ends ends a context with the first line of a log.
type ends struct {
	slog.Handler
	stop func()
}

func (h ends) Handle(ctx context.Context, r slog.Record) error {
	h.stop()
	return h.Handler.Handle(ctx, r)
}

// A daemon that is ended while its term begins has nobody look again.
func TestEndOfTheDaemonWakesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, w := gated(t)
		w.status.State = site.Blocked
		e.term = tenure{}
		ctx, stop := context.WithCancel(t.Context())
		e.Log = slog.New(ends{slog.NewTextHandler(io.Discard, nil), stop})
		if e.keepTerm(ctx); e.term.Term == nil || woken(w) {
			t.Errorf("term %+v", e.term)
		}
	})
}

// Why nothing is written is said in words, by who is to do something about it.
func TestWhyNothingIsWritten(t *testing.T) {
	trouble := errors.New("the disk is full")
	for name, c := range map[string]struct {
		change func(*Engine)
		want   string
	}{
		"held":                {func(*Engine) {}, ""},
		"barred":              {func(e *Engine) { e.anchor.barred = "another daemon acts"; e.term = tenure{} }, "another daemon acts"},
		"not begun":           {func(e *Engine) { e.term = tenure{} }, "the site's term has not begun yet"},
		"could not begin":     {func(e *Engine) { e.term = tenure{trouble: trouble} }, "the site's term could not begin, and without a record Slipway writes to no machine: the disk is full"},
		"lost":                {func(e *Engine) { e.term.trouble = fmt.Errorf("%w: x has begun term 3", record.ErrLost) }, "another controller acts for the site: the term is lost: x has begun term 3"},
		"run out":             {func(e *Engine) { _ = e.term.Release(t.Context()) }, "the site's lease has run out and is being renewed"},
		"run out for trouble": {func(e *Engine) { _ = e.term.Release(t.Context()); e.term.trouble = trouble }, "the site's lease has run out and could not be renewed, and without a record Slipway writes to no machine: the disk is full"},
		"trouble, still held": {func(e *Engine) { e.term.trouble = trouble }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e, w := gated(t)
			c.change(e)
			got := ""
			if h := e.termGate(w, powerOn); h != nil {
				got = h.sentence
				if h.state != site.Blocked || h.release == "" {
					t.Errorf("held as %+v", h)
				}
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	e, w := gated(t)
	e.term.settled = time.Date(2999, 1, 2, 3, 4, 5, 0, time.UTC)
	if h := e.termGate(w, installOne); h == nil || !strings.Contains(h.sentence, "may take effect until 2999-01-02T03:04:05Z; until then nothing is destroyed") {
		t.Errorf("not settled: %+v", h)
	}
	rotates := site.Step{Facet: site.FacetAccounts, Action: site.ActionAccounts, Impact: site.ImpactOnline, Rotates: []string{"slipway"}}
	if h := e.termGate(w, rotates); h == nil || !strings.Contains(h.sentence, "may take effect until 2999-01-02T03:04:05Z; until then no password is replaced") {
		t.Errorf("not settled, a password: %+v", h)
	}
	now := time.Now()
	e.term.settled = now
	if why := e.mayWriteLocked(now, true, false); why != "" {
		t.Errorf("in the moment it has settled: %s", why)
	}
}

// What is written is bounded by the term.
func TestWritesEndWithTheTerm(t *testing.T) {
	e, _ := gated(t)
	ctx, cancel := e.whileHeld(t.Context())
	if ctx.Err() != nil {
		t.Error("ended while the term is held")
	}
	if err := e.releaseTerm(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	cancel()
	ctx, cancel = e.whileHeld(t.Context())
	defer cancel()
	if ctx.Err() == nil {
		t.Error("goes on without a term")
	}
	e.term.Term = lostTerm(t)
	if err := e.releaseTerm(t.Context()); err == nil {
		t.Error("a term is released that no record says is over")
	}
}

// terminal is a machine with sessions.
type terminal struct {
	driver.Machine
	session   string
	named     uint64
	outranked error
	asked     int
	ends      map[string]error // what ending a session gives
	ended     []string
	ending    func()
	inherited []string
	bound     site.Binding
}

func (m *terminal) Session() string              { return m.session }
func (m *terminal) Name(_ string, number uint64) { m.named = number }
func (m *terminal) Outranked(context.Context) error {
	m.asked++
	return m.outranked
}
func (m *terminal) End(_ context.Context, id string) error {
	m.ended = append(m.ended, id)
	if m.ending != nil {
		m.ending()
	}
	return m.ends[id]
}
func (m *terminal) Inherit(ids []string)  { m.inherited = ids }
func (m *terminal) Binding() site.Binding { return m.bound }

// plainMachine has neither sessions nor names.
type plainMachine struct{ driver.Machine }

// seated is an engine whose node was looked at through a session of its own.
func seated(t *testing.T) (*Engine, *worker, *terminal) {
	t.Helper()
	e, w := gated(t)
	m := &terminal{session: "own", ends: map[string]error{}}
	w.connections[site.Manager] = &connection{endpoint: site.Endpoint{URL: "bmc-1"}, machine: m, looked: true, value: secret.New("root", "x")}
	return e, w, m
}

// The session is recorded before anything is written through it, and those of
// earlier terms are ended.
func TestSessionIsFenced(t *testing.T) {
	left := func(ids ...string) []record.Session {
		var all []record.Session
		for _, id := range ids {
			all = append(all, record.Session{Term: 7, Endpoint: "bmc-1", ID: id})
		}
		return all
	}
	own := record.Session{Term: 1, Endpoint: "bmc-1", ID: "own"}
	for name, c := range map[string]struct {
		change   func(*Engine, *worker, *terminal)
		left     []record.Session
		wants    string           // what it fails with
		fenced   bool             // no session of another term is left
		ended    []string         // which sessions it has ended
		recorded []record.Session // what is on record then
	}{
		"none was left":                  {nil, nil, "", true, nil, []record.Session{own}},
		"two were left":                  {nil, left("a", "b"), "", true, []string{"a", "b"}, []record.Session{own}},
		"its own is on record":           {nil, []record.Session{{Term: 1, Endpoint: "bmc-1", ID: "earlier"}}, "", true, nil, []record.Session{own}},
		"left elsewhere":                 {nil, []record.Session{{Term: 7, Endpoint: "bmc-2", ID: "a"}}, "", false, nil, []record.Session{own}},
		"may not be ended":               {func(_ *Engine, _ *worker, m *terminal) { m.ends["a"] = fmt.Errorf("no: %w", driver.ErrRefused) }, left("a", "b"), "", false, []string{"a", "b"}, []record.Session{own}},
		"the last may not":               {func(_ *Engine, _ *worker, m *terminal) { m.ends["b"] = errors.ErrUnsupported }, left("a", "b"), "", false, []string{"a", "b"}, []record.Session{own}},
		"not with this credential":       {func(_ *Engine, _ *worker, m *terminal) { m.ends["a"] = driver.ErrDenied }, left("a"), "", false, []string{"a"}, []record.Session{own}},
		"no answer":                      {func(_ *Engine, _ *worker, m *terminal) { m.ends["a"] = driver.ErrUnreachable }, left("a", "b"), "end the session that term 7 left on n1: ", false, []string{"a"}, append(left("a", "b"), own)},
		"opened anew since":              {func(_ *Engine, w *worker, _ *terminal) { w.connections[site.Manager].looked = false }, nil, "interrupted: the endpoint of n1 was opened again", false, nil, nil},
		"its own is gone meanwhile":      {func(_ *Engine, _ *worker, m *terminal) { m.ending = func() { m.session = "next" } }, left("a"), "interrupted: the session on n1 has ended", false, []string{"a"}, []record.Session{own}},
		"a later term acts":              {func(_ *Engine, _ *worker, m *terminal) { m.outranked = &driver.LaterTermError{Term: 9, Host: "bmc-1"} }, nil, "look for later terms on n1: a session of term 9", false, nil, nil},
		"nobody can tell of later terms": {func(_ *Engine, _ *worker, m *terminal) { m.outranked = driver.ErrUnreachable }, nil, "look for later terms on n1: ", false, nil, nil},
		"its session is over":            {func(_ *Engine, w *worker, m *terminal) { m.session = ""; w.connections[site.Manager].session = "gone" }, nil, "", false, nil, nil},
		"no session":                     {func(_ *Engine, _ *worker, m *terminal) { m.session = "" }, nil, "", false, nil, nil},
		"no term":                        {func(e *Engine, _ *worker, _ *terminal) { e.term = tenure{} }, nil, "interrupted: the site's lease is not held", false, nil, nil},
		"no term, and known already": {func(e *Engine, w *worker, _ *terminal) {
			e.term = tenure{}
			w.connections[site.Manager].session = "own"
		}, nil, "", false, nil, nil},
		"known already": {func(_ *Engine, w *worker, _ *terminal) { w.connections[site.Manager].session = "own" }, nil, "", false, nil, nil},
		"observing": {func(e *Engine, w *worker, _ *terminal) {
			e.ObserveOnly = true
			w.connections[site.Manager].looked = false
		}, nil, "", false, nil, nil},
		"a machine without sessions": {func(_ *Engine, w *worker, _ *terminal) {
			w.connections[site.Manager].machine, w.connections[site.Manager].looked = plainMachine{}, false
		}, nil, "", false, nil, nil},
		"records cannot be written": {func(e *Engine, w *worker, _ *terminal) { w.recordedSessions(); e.Records = closed(t) }, nil, "record the session on n1: ", false, nil, nil},
		"records lost meanwhile":    {func(e *Engine, _ *worker, m *terminal) { m.ending = func() { e.Records = closed(t) } }, left("a"), "record the session on n1: ", false, []string{"a"}, []record.Session{left("a")[0], own}},
	} {
		t.Run(name, func(t *testing.T) {
			e, w, m := seated(t)
			records := e.Records
			if c.left != nil {
				e.term.before = map[string]record.Sessions{"n1": {site.Manager: c.left}}
			}
			if c.change != nil {
				c.change(e, w, m)
			}
			err := w.fence(t.Context(), site.Manager)
			if (err == nil) != (c.wants == "") || err != nil && !strings.HasPrefix(err.Error(), c.wants) {
				t.Errorf("got %v, want %q", err, c.wants)
			}
			snap, err := records.Load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if w.fenced != c.fenced || !slices.Equal(m.ended, c.ended) || !slices.Equal(snap.Sessions["n1"][site.Manager], c.recorded) {
				t.Errorf("fenced %t, ended %q, on record %+v", w.fenced, m.ended, snap.Sessions["n1"])
			}
			if known := w.connections[site.Manager].session == "own"; known != (c.wants == "" && c.recorded != nil || strings.Contains(name, "known already")) {
				t.Errorf("its session counts as recorded: %t", known)
			}
		})
	}
}

// A session inside the installed system tells nothing of the BMC.
func TestSessionInsideFencesNothing(t *testing.T) {
	_, w, m := seated(t)
	w.connections[site.OS] = w.connections[site.Manager]
	delete(w.connections, site.Manager)
	if err := w.fence(t.Context(), site.OS); err != nil || w.fenced || w.connections[site.OS].session != "own" || m.asked != 1 || m.named != 1 {
		t.Errorf("%v, fenced %t, asked %d, named for term %d", err, w.fenced, m.asked, m.named)
	}
}

// What was ended is over: the next session has nothing to end but the one before
// it, which is this term's own.
func TestSessionsAreEndedOnce(t *testing.T) {
	e, w, m := seated(t)
	e.term.before = map[string]record.Sessions{"n1": {site.Manager: {{Term: 7, Endpoint: "bmc-1", ID: "a"}}}}
	for _, m.session = range []string{"first", "second"} {
		if err := w.fence(t.Context(), site.Manager); err != nil {
			t.Fatal(err)
		}
	}
	if on := w.recordedSessions()[site.Manager]; !slices.Equal(m.ended, []string{"a"}) || len(on) != 1 || on[0].ID != "second" {
		t.Errorf("ended %q, on record %+v", m.ended, on)
	}
}

// Two machines with sessions of a later term bar the daemon.
func TestLaterTermIsNoted(t *testing.T) {
	e, w, m := seated(t)
	m.outranked = &driver.LaterTermError{Term: 9, Host: "bmc-1"}
	if err := w.fence(t.Context(), site.Manager); !errors.Is(err, driver.ErrOutranked) {
		t.Errorf("got %v", err)
	}
	if !maps.Equal(e.anchor.later, map[string]uint64{"n1": 9}) {
		t.Errorf("noted %v", e.anchor.later)
	}
}

// A session that is not ended is told of in the log.
func TestSessionThatIsNotEndedIsLogged(t *testing.T) {
	e, w, m := seated(t)
	log := logged(e)
	m.ends["a"] = driver.ErrRefused
	if over, err := w.endSession(t.Context(), w.connections[site.Manager], record.Session{Term: 7, Endpoint: "bmc-1", ID: "a"}); over || err != nil {
		t.Errorf("over %t, %v", over, err)
	}
	if !strings.Contains(log.String(), "session of an earlier term not ended") || !strings.Contains(log.String(), "node=n1 term=7") {
		t.Errorf("logged %s", log)
	}
	m.ends["a"] = driver.ErrUnreachable
	if over, err := w.endSession(t.Context(), w.connections[site.Manager], record.Session{Term: 7, Endpoint: "bmc-1", ID: "a"}); over || err == nil {
		t.Errorf("no answer: over %t, %v", over, err)
	}
	if over, err := w.endSession(t.Context(), &connection{machine: plainMachine{}, endpoint: site.Endpoint{URL: "bmc-1"}}, record.Session{Endpoint: "bmc-1"}); over || err != nil {
		t.Errorf("a machine that ends none: over %t, %v", over, err)
	}
}

// A handle that has not logged in learns its term and what earlier terms left at
// its endpoint, for when there is no room.
func TestWhatAHandleInherits(t *testing.T) {
	all := []record.Session{{Term: 7, Endpoint: "bmc-1", ID: "a"}, {Term: 7, Endpoint: "bmc-2", ID: "b"}, {Term: 1, Endpoint: "bmc-1", ID: "own"}, {Term: 6, Endpoint: "bmc-1", ID: "c"}}
	for name, c := range map[string]struct {
		change func(*Engine, *connection)
		named  uint64
		want   []string
	}{
		"before its login": {func(*Engine, *connection) {}, 1, []string{"a", "c"}},
		"no term":          {func(e *Engine, _ *connection) { e.term.Term = nil }, 0, nil},
		"logged in":        {func(_ *Engine, d *connection) { d.session = "own" }, 0, nil},
		"observing":        {func(e *Engine, _ *connection) { e.ObserveOnly = true }, 0, nil},
	} {
		e, w, m := seated(t)
		e.term.before = map[string]record.Sessions{"n1": {site.Manager: all}}
		d := w.connections[site.Manager]
		c.change(e, d)
		if w.bequeath(d, site.Manager); m.named != c.named || !slices.Equal(m.inherited, c.want) {
			t.Errorf("%s: named for term %d, inherits %q", name, m.named, m.inherited)
		}
	}
	_, w, _ := seated(t)
	w.bequeath(&connection{machine: plainMachine{}}, site.Manager) // it has neither name nor heirs
}

// Who reads a plan learns what is missing on a machine without sessions.
func TestWhatIsMissingWithoutSessions(t *testing.T) {
	const late, unbound, accepted = "cannot tell a late request", "are refused until the design accepts this", "the design accepts this for destructive steps"
	for name, c := range map[string]struct {
		change func(*worker, *terminal)
		want   string
	}{
		"a session":    {func(_ *worker, m *terminal) { m.bound = site.BindingSession }, ""},
		"a connection": {func(_ *worker, m *terminal) { m.bound = site.BindingConnection }, late},
		"neither":      {func(_ *worker, m *terminal) { m.bound = site.BindingNone }, unbound},
		"neither, accepted": {func(w *worker, m *terminal) {
			m.bound = site.BindingNone
			w.connections[site.Manager].endpoint.Unbound = site.UnboundAccept
		}, accepted},
		"a session, none open":   {func(_ *worker, m *terminal) { m.bound, m.session = site.BindingSession, "" }, ""},
		"neither, nor a session": {func(_ *worker, m *terminal) { m.bound, m.session = site.BindingNone, "" }, unbound},
		"nobody knows":           {func(*worker, *terminal) {}, ""},
		"looked at without one":  {func(_ *worker, m *terminal) { m.session = "" }, late},
		"not looked at":          {func(w *worker, m *terminal) { m.session = ""; w.connections[site.Manager].looked = false }, ""},
		"no credential":          {func(w *worker, m *terminal) { m.session = ""; w.connections[site.Manager].value = secret.Value{} }, ""},
		"no endpoint":            {func(w *worker, _ *terminal) { delete(w.connections, site.Manager) }, ""},
		"no sessions at all":     {func(w *worker, _ *terminal) { w.connections[site.Manager].machine = plainMachine{} }, ""},
	} {
		_, w, m := seated(t)
		c.change(w, m)
		if got := w.weaker(); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// A term above that of somebody else is begun by a daemon that takes over.
func TestTermIsRaised(t *testing.T) {
	e, _ := gated(t)
	first := e.term.Term
	if err := e.raiseTerm(t.Context(), 41); err != nil || e.termNumber() != 42 || !e.term.Clean || first.Holds(time.Now()) {
		t.Errorf("%v, term %d, clean %t", err, e.termNumber(), e.term.Clean)
	}
	e.term.Term = lostTerm(t)
	if err := e.raiseTerm(t.Context(), 50); err == nil || e.termNumber() == 51 {
		t.Errorf("over one that is not released: %v, term %d", err, e.termNumber())
	}
	e.term, e.Records = tenure{}, closed(t)
	if err := e.raiseTerm(t.Context(), 50); err == nil {
		t.Error("a term was begun that is not on record")
	}
}

// A driver asks the term itself immediately before each write, and does not wait for the end of its
// context.
func TestDriversAskTheTerm(t *testing.T) {
	e, _ := gated(t)
	ctx, stop := e.whileHeld(t.Context())
	defer stop()
	within, end := context.WithTimeout(ctx, time.Hour)
	defer end()
	if err := driver.MayWrite(within); err != nil {
		t.Error(err)
	}
	if err := e.term.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := driver.MayWrite(within); !errors.Is(err, driver.ErrInterrupted) || !strings.Contains(err.Error(), "the request was not sent") {
		t.Errorf("after the end of the term: %v", err)
	}
	if err := driver.MayWrite(t.Context()); err != nil {
		t.Errorf("outside a step: %v", err)
	}
}

// A daemon that starts after a crash and is stopped before the last requests of the crashed one
// are over does not say that nothing is under way: the next one waits for them too. Later it does.
func TestStoppedBeforeTheTermBeforeHasSettled(t *testing.T) {
	for name, c := range map[string]struct {
		ran   time.Duration
		raise bool
		clean bool
	}{
		"at once":                 {0, false, false},
		"before it has settled":   {44 * time.Second, false, false},
		"after it has settled":    {46 * time.Second, false, true},
		"raised, and at once":     {time.Second, true, false},
		"raised, and has settled": {46 * time.Second, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, _ := gated(t)
				e.term = tenure{} // killed
				if err := e.beginTerm(t.Context(), leftOnOne); err != nil {
					t.Fatal(err)
				}
				if c.raise {
					if err := e.raiseTerm(t.Context(), 41); err != nil {
						t.Fatal(err)
					}
				}
				if time.Sleep(c.ran); e.termNumber() == 42 != c.raise {
					t.Errorf("term %d", e.termNumber())
				}
				if err := e.releaseTerm(t.Context()); err != nil {
					t.Fatal(err)
				}
				e.term = tenure{}
				if err := e.beginTerm(t.Context(), leftOnOne); err != nil {
					t.Fatal(err)
				}
				if why := e.mayWriteLocked(time.Now(), true, false); e.term.Clean != c.clean || (why == "") != c.clean {
					t.Errorf("the next term is clean: %t, and destroys nothing because: %s", e.term.Clean, why)
				}
				if !reflect.DeepEqual(e.term.before, leftOnOne) { // nobody has ended it
					t.Errorf("the next term knows of sessions on %d nodes", len(e.term.before))
				}
			})
		})
	}
}

// A term that takes over under a higher number still waits for what the term before it may have under way, and
// ends its sessions.
func TestRaisedTermWaitsAndKnowsSessions(t *testing.T) {
	e, _ := gated(t)
	e.term = tenure{} // killed
	if err := e.beginTerm(t.Context(), leftOnOne); err != nil {
		t.Fatal(err)
	}
	settled := e.term.settled
	if err := e.raiseTerm(t.Context(), 41); err != nil {
		t.Fatal(err)
	}
	if !e.term.settled.Equal(settled) || !reflect.DeepEqual(e.term.before, leftOnOne) {
		t.Errorf("settled %s later, %d nodes with sessions", e.term.settled.Sub(settled), len(e.term.before))
	}
	if why := e.mayWriteLocked(time.Now(), true, false); !strings.Contains(why, "did not shut down cleanly") {
		t.Errorf("it destroys: %q", why)
	}
}

// A term that could not be raised goes on.
func TestTermThatCannotBeRaised(t *testing.T) {
	e, _ := gated(t)
	first := e.term.Term
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.raiseTerm(ctx, 41); err == nil || e.term.Term != first || !first.Holds(time.Now()) {
		t.Errorf("%v, term %d, the first holds: %t", err, e.termNumber(), first.Holds(time.Now()))
	}
	if err := e.renewTerm(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := e.Records.Acquire(t.Context(), "other", 0); err != nil {
		t.Fatal(err)
	}
	if err := e.renewTerm(t.Context()); !errors.Is(err, record.ErrLost) {
		t.Fatalf("lost: %v", err)
	}
	if err := e.raiseTerm(t.Context(), 41); err != nil || e.termNumber() != 42 || e.term.Clean {
		t.Errorf("over one that is lost: %v, term %d, clean %t", err, e.termNumber(), e.term.Clean)
	}
}
