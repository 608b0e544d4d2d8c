package engine_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// crash ends the daemon as a power cut would: nothing is recorded any more.
func (w *world) crash() {
	w.t.Helper()
	if err := w.store.Close(); err != nil {
		w.t.Error("close records:", err)
	}
	w.fails = true
	w.stop()
	w.fails, w.engine = false, nil
}

// installed is a design in which a is wanted installed.
func (w *world) installed(generation int) *site.Site {
	d := w.design("a")
	d.Nodes["a"].Image, d.Nodes["a"].Generation = "debian", generation
	return d
}

// TestAfterACrashNothingIsDestroyedAtOnce holds that what is destructive waits
// for what the daemon before may have sent last, that nothing else does, and
// that a daemon that was ended in order is not waited for.
func TestAfterACrashNothingIsDestroyedAtOnce(t *testing.T) {
	for name, end := range map[string]func(*world){"crash": (*world).crash, "stop": (*world).down} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				w.commit(w.design("a"))
				w.up()
				w.after(2 * time.Minute)
				end(w)
				w.fleet.Machine("a").SetPower("off")
				w.commit(w.installed(1))
				w.up()
				if term := w.engine.Report().Status.Term; term > 2 {
					t.Errorf("term %d, want the second", term)
				}
				w.after(20 * time.Second)
				w.approve()
				w.after(20 * time.Second)
				n := w.node("a")
				waits := strings.Contains(n.Reason, "did not shut down cleanly")
				if crashed := name == "crash"; waits != crashed || crashed && n.State != site.Blocked {
					t.Errorf("a is %s (%s)", n.State, n.Reason)
				}
				w.after(10 * time.Minute)
				w.want("a", site.InSync)
				if n := w.fleet.Machine("a").Counts().Installs; n != 1 {
					t.Errorf("%d installations", n)
				}
			}, "a")
		})
	}
}

// TestRecordsAreLost holds that a machine whose installer could not sign its
// marker is installed anew by nobody, and waits for a person to accept it.
func TestRecordsAreLost(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.commit(w.installed(1))
		w.up()
		w.after(time.Minute)
		w.approve()
		w.after(12 * time.Minute)
		w.want("a", site.InSync)
		w.down()
		if err := os.RemoveAll(w.dir); err != nil {
			t.Fatal(err)
		}
		w.up()
		w.after(20 * time.Minute)
		w.want("a", site.Blocked)
		w.reason("a", "says that it is generation 1")
		if set := w.engine.Report().Status.Waiting; len(set) != 0 {
			t.Errorf("%v waits for approval", set)
		}
		w.do(site.Order{Verb: site.VerbApprove, Node: "a"})
		w.after(5 * time.Minute)
		w.want("a", site.InSync)
		w.down()
		w.up()
		w.after(5 * time.Minute)
		w.want("a", site.InSync)
		if n := w.fleet.Machine("a").Counts().Installs; n != 1 {
			t.Errorf("%d installations", n)
		}
	}, "a")
}

// TestStateDirectoryIsRemoved holds that a daemon whose directory was taken
// away writes to no machine and says why, and that a restart mends it.
func TestStateDirectoryIsRemoved(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.commit(w.design("a"))
		w.up()
		w.after(2 * time.Minute)
		if err := os.RemoveAll(w.dir); err != nil {
			t.Fatal(err)
		}
		before := w.fleet.Machine("a").Counts().Writes
		w.fleet.Machine("a").SetPower("off")
		w.after(12 * time.Second)
		if why := w.engine.Unready(); len(why) != 1 || !strings.Contains(why[0], "removed or replaced") {
			t.Errorf("twelve seconds later the daemon is not ready for %q", why)
		}
		w.after(5 * time.Minute)
		w.want("a", site.Blocked)
		s := w.engine.Report().Status
		if said := fmt.Sprint(s.Problems, w.node("a").Reason); strings.Count(said, "removed or replaced") < 2 || !strings.Contains(said, w.dir) {
			t.Errorf("the status says %s", said)
		}
		if got := w.fleet.Machine("a").Counts().Writes; got != before {
			t.Errorf("%d writes without a record", got-before)
		}
		w.fails = true
		w.down()
		w.fails = false
		w.up()
		w.after(5 * time.Minute)
		w.want("a", site.InSync)
	}, "a")
}

// TestClockJumps starts the daemon on records that a clock left which was six
// hours ahead, and two days behind: nothing is installed anew, and what is
// wrong is still put right.
func TestClockJumps(t *testing.T) {
	dir := t.TempDir()
	bubble := func(later time.Duration, f func(*world)) {
		synctest.Test(t, func(t *testing.T) { // its time begins in the year 2000
			time.Sleep(later)
			w := &world{t: t, fleet: drivertest.NewFleet(usual, "a"), source: &commits{}, dir: dir, told: &teller{}}
			w.fleet.Machine("a").SetDisk(w.signed(site.Marker{Node: "a", Generation: 1, Image: "d1"}))
			w.fleet.Machine("a").SetPower("on")
			w.commit(w.installed(1))
			w.up()
			f(w)
			w.crash()
		})
	}
	bubble(6*time.Hour, func(w *world) {
		w.after(10 * time.Minute)
		w.want("a", site.InSync)
		w.do(site.Order{Verb: site.VerbPause, Node: "a", Reason: "lunch", Until: time.Now().Add(time.Hour)})
		w.do(site.Order{Verb: site.VerbResume, Node: "a"})
	})
	for _, later := range []time.Duration{0, 48 * time.Hour} {
		bubble(later, func(w *world) {
			w.after(10 * time.Minute)
			w.want("a", site.InSync)
			w.fleet.Machine("a").SetPower("off")
			w.after(5 * time.Minute)
			w.want("a", site.InSync)
			if c := w.fleet.Machine("a").Counts(); c.Installs != 0 || w.fleet.Machine("a").Power() != "on" {
				t.Errorf("%v later: %d installations, and it is %s", later, c.Installs, w.fleet.Machine("a").Power())
			}
		})
	}
}

// logins is a driver whose machines have sessions, few of them, around one
// that has none.
type logins struct {
	driver.Driver
	mu     sync.Mutex
	n      int
	open   map[string]bool // sessions, by name
	events []string        // what was done, in order
	refuse error           // why no session can be ended
	basic  bool            // there are no sessions
	room   int             // for so many of them; 0 for any number
}

func (l *logins) Open(ctx context.Context, e site.Endpoint, s secret.Value) (driver.Machine, error) {
	m, err := l.Driver.Open(ctx, e, s)
	return &login{Machine: m, l: l}, err
}

// login is a machine that logs in with the first look.
type login struct {
	driver.Machine
	l       *logins
	session string
	left    []string
}

func (m *login) Inherit(sessions []string) { m.left = sessions }

func (m *login) Observe(ctx context.Context, n *site.Node, f []site.Facet) (site.Observed, error) {
	o, err := m.Machine.Observe(ctx, n, f)
	m.l.mu.Lock()
	defer m.l.mu.Unlock()
	if err == nil && m.session == "" && !m.l.basic {
		if m.l.room > 0 && len(m.l.open) >= m.l.room {
			for _, s := range m.left {
				delete(m.l.open, s)
			}
		}
		if m.l.room > 0 && len(m.l.open) >= m.l.room {
			return site.Observed{}, fmt.Errorf("%w: all sessions are in use", driver.ErrBusy)
		}
		m.l.n++
		m.session = fmt.Sprintf("session %d", m.l.n)
		m.l.open[m.session] = true
	}
	return o, err
}

func (m *login) Apply(ctx context.Context, s site.Step, n *site.Node, o driver.Permit) error {
	m.l.mu.Lock()
	m.l.events = append(m.l.events, fmt.Sprintf("%s by %s", s.Action, m.session))
	m.l.mu.Unlock()
	return m.Machine.Apply(ctx, s, n, o)
}

func (m *login) Session() string { return m.session }

func (m *login) End(_ context.Context, session string) error {
	m.l.mu.Lock()
	defer m.l.mu.Unlock()
	if m.l.refuse != nil {
		return m.l.refuse
	}
	delete(m.l.open, session)
	m.l.events = append(m.l.events, "end of "+session)
	return nil
}

// TestSessionsOfEarlierTerms kills the daemon again and again: each life ends
// the session that the one before has left, before it writes anything, and what
// is destructive need not wait then.
func TestSessionsOfEarlierTerms(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		l := &logins{Driver: w.fleet.Driver(), open: map[string]bool{}}
		w.bmcs = l
		w.commit(w.design("a"))
		for range 5 {
			w.up()
			w.after(time.Minute)
			if len(l.open) != 1 {
				t.Fatalf("%d sessions are open", len(l.open))
			}
			w.crash()
		}
		w.commit(w.installed(1))
		l.events = nil
		w.up()
		w.until("it waits for approval", time.Minute, func() bool { return w.engine.Report().Status.Approve != "" })
		w.approve()
		w.after(5 * time.Second)
		if said := strings.Join(l.events, ", "); said != "end of session 5, install by session 6" {
			t.Errorf("what was done is %s", said)
		}
	}, "a")
}

// TestSessionsFillTheTable holds that a machine whose sessions were all left by
// earlier terms is logged in to as soon as the term is held, and not before:
// until then they may be those of another controller that acts.
func TestSessionsFillTheTable(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		l := &logins{Driver: w.fleet.Driver(), open: map[string]bool{}, refuse: driver.ErrRefused, room: 1}
		w.bmcs = l
		w.commit(w.design("a"))
		w.up()
		w.after(time.Minute)
		w.want("a", site.InSync)
		w.crash()
		w.up()
		w.after(5 * time.Minute)
		w.want("a", site.InSync)
		if len(l.open) != 1 || !l.open["session 2"] {
			t.Errorf("open are %v", l.open)
		}
	}, "a")
}

// TestSessionThatCannotBeEnded holds that a machine that keeps a session of an
// earlier term is repaired all the same, and what is destructive waits.
func TestSessionThatCannotBeEnded(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		l := &logins{Driver: w.fleet.Driver(), open: map[string]bool{}, refuse: driver.ErrDenied}
		w.bmcs = l
		w.commit(w.design("a"))
		w.up()
		w.after(2 * time.Minute)
		w.crash()
		w.fleet.Machine("a").SetPower("off")
		w.up()
		w.after(40 * time.Second)
		w.want("a", site.InSync)
		w.crash()
		w.commit(w.installed(1))
		w.up()
		w.after(5 * time.Second)
		w.approve()
		w.after(10 * time.Second)
		if n := w.node("a"); n.State != site.Blocked || !strings.Contains(n.Reason, "did not shut down cleanly") {
			t.Errorf("a is %s (%s)", n.State, n.Reason)
		}
		l.refuse = driver.ErrUnreachable // not now: then nothing is written
		w.crash()
		w.up()
		w.after(2 * time.Minute)
		w.want("a", site.Retrying)
		if n := w.fleet.Machine("a").Counts().Installs; n != 0 || !strings.Contains(w.node("a").Reason, "end the session that term") {
			t.Errorf("%d installations, and a says %s", n, w.node("a").Reason)
		}
	}, "a")
}

// TestNoSessions holds that a machine that has none is kept as any other, and
// that its status says what that means.
func TestNoSessions(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.bmcs = &logins{Driver: w.fleet.Driver(), basic: true}
		w.commit(w.design("a"))
		w.up()
		w.after(5 * time.Minute)
		w.want("a", site.InSync)
		if notes := fmt.Sprint(w.node("a").Notes); !strings.Contains(notes, "its BMC has no sessions") {
			t.Errorf("the notes are %s", notes)
		}
	}, "a")
}

// TestObservingEndsNoSessions holds that --observe writes nothing of this.
func TestObservingEndsNoSessions(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		l := &logins{Driver: w.fleet.Driver(), open: map[string]bool{}}
		w.bmcs = l
		w.commit(w.design("a"))
		w.up()
		w.after(time.Minute)
		w.crash()
		w.observe, l.events = true, nil
		w.up()
		w.after(5 * time.Minute)
		w.want("a", site.InSync)
		if len(l.events) != 0 {
			t.Errorf("an observer did %s", l.events)
		}
	}, "a")
}

// A history is read without a write, and has what is not in the records yet, once.
func TestHistoryIsReadWithoutAWrite(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.commit(w.design("a"))
		w.up()
		w.after(20*time.Minute + time.Second)
		w.do(site.Order{Verb: site.VerbPause, Node: "a", Reason: "x"})
		for range 3 { // the last seconds are not written yet, in one of them
			before, err := w.engine.Records.Events(w.t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			all, err := w.engine.History(w.t.Context(), "a")
			if err != nil || len(all) < len(before) {
				t.Fatalf("%d events after %d, %v", len(all), len(before), err)
			}
			seen := map[uint64]bool{}
			for _, ev := range all {
				if seen[ev.Seq] {
					t.Errorf("%d is there twice", ev.Seq)
				}
				seen[ev.Seq] = true
			}
			after, err := w.engine.Records.Events(w.t.Context(), "a")
			if err != nil || len(after) != len(before) {
				t.Fatalf("%d are in the records after %d, %v", len(after), len(before), err)
			}
			for _, ev := range w.engine.Events(0) {
				if ev.Node == "a" && len(all) < 32 && !seen[ev.Seq] {
					t.Errorf("the history has no %+v", ev)
				}
			}
			w.after(500 * time.Millisecond)
		}
	}, "a")
}
