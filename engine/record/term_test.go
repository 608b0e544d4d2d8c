package record

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/slipway-gitops/slipway/engine/site"
)

func acquire(t testing.TB, s *Site, holder string) *Term {
	t.Helper()
	term, err := s.Acquire(t.Context(), holder, 0)
	must(t, err)
	return term
}

// inBubble opens records in virtual time and closes them in the end.
func inBubble(t *testing.T, f func(*testing.T, *Store)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(t.Context(), dir, Options{NoSync: true})
		must(t, err)
		f(t, s)
		must(t, s.Close())
	})
}

func TestTermsGrow(t *testing.T) {
	s := open(t, t.TempDir())
	first := acquire(t, s.Site("berlin"), "a")
	if first.Number != 1 || !first.Clean {
		t.Errorf("the first term is %d, clean %t", first.Number, first.Clean)
	}
	must(t, first.Release(t.Context()))
	must(t, first.Release(t.Context()))
	s, b, _ := reopen(t, s, "berlin")
	second := acquire(t, b, "b")
	if second.Number != 2 || !second.Clean {
		t.Errorf("after a release: term %d, clean %t", second.Number, second.Clean)
	}
	_, b, _ = reopen(t, s, "berlin") // as after a crash
	third := acquire(t, b, "c")
	if third.Number != 3 || third.Clean {
		t.Errorf("after a crash: term %d, clean %t", third.Number, third.Clean)
	}
	if other := acquire(t, b.store.Site("paris"), "c"); other.Number != 1 {
		t.Errorf("another site's first term is %d", other.Number)
	}
}

func TestLeaseIsRenewed(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Store) {
		term := acquire(t, s.Site("berlin"), "a")
		ctx, cancel := term.Bound(t.Context())
		defer cancel()
		for range 20 {
			time.Sleep(RenewEvery)
			must(t, term.Renew(t.Context()))
			if !term.Holds(time.Now()) || ctx.Err() != nil {
				t.Fatalf("renewed, and may not write: %v", context.Cause(ctx))
			}
		}
		must(t, term.Release(t.Context()))
		synctest.Wait() // the end of a context is told by a goroutine of its own
		select {
		case <-term.lost:
		default:
			t.Error("released, and not told so")
		}
		if term.Holds(time.Now()) || ctx.Err() == nil {
			t.Error("released, and may write")
		}
	})
}

// TestLeaseLapses holds that nothing is sent by a holder that cannot renew,
// well before its lease is over, and that it goes on once it can.
func TestLeaseLapses(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Store) {
		term := acquire(t, s.Site("berlin"), "a")
		ctx, cancel := term.Bound(t.Context())
		defer cancel()
		began := time.Now()
		<-ctx.Done()
		if after := time.Since(began); after != Lease-leaseMargin {
			t.Errorf("lapsed after %v", after)
		}
		if !strings.Contains(context.Cause(ctx).Error(), "lease of term 1") {
			t.Errorf("the context's cause is %v", context.Cause(ctx))
		}
		if term.Holds(time.Now()) || term.Deadline().After(time.Now()) {
			t.Error("lapsed, and may write")
		}
		must(t, term.Renew(t.Context()))
		again, done := term.Bound(t.Context())
		defer done()
		synctest.Wait() // the end of a context is told by a goroutine of its own
		if !term.Holds(time.Now()) || again.Err() != nil {
			t.Error("renewed, and may not write")
		}
		must(t, term.Release(t.Context()))
	})
}

func TestAnotherHolder(t *testing.T) {
	s := open(t, t.TempDir())
	b := s.Site("berlin")
	first := acquire(t, b, "a")
	second := acquire(t, b, "host b")
	err := first.Renew(t.Context())
	if !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "host b has begun term 2") {
		t.Errorf("got %v, want that the term is lost, and to whom", err)
	}
	<-first.lost
	if first.Holds(time.Now()) {
		t.Error("lost, and may write")
	}
	if err := first.Renew(t.Context()); !errors.Is(err, ErrLost) {
		t.Errorf("renewed again: %v", err)
	}
	must(t, first.Release(t.Context()))
	must(t, second.Renew(t.Context()))
	if third := acquire(t, b, "c"); third.Clean {
		t.Error("the release of a lost term was taken for that of the second")
	}
}

// TestClock holds that a lease is over when either clock says so.
func TestClock(t *testing.T) {
	s := open(t, t.TempDir())
	term := acquire(t, s.Site("berlin"), "a")
	now := time.Now()
	for _, c := range []struct {
		what string
		now  time.Time
		want bool
	}{
		{"now", now, true},
		{"both later", now.Add(Lease), false},
		{"time of day set forward", now.Round(0).Add(3 * time.Hour), false},
		{"time of day set back", now.Round(0).Add(-3 * time.Hour), true},
	} {
		if got := term.Holds(c.now); got != c.want {
			t.Errorf("%s: holds %t", c.what, got)
		}
	}
}

func TestDirectoryIsRemoved(t *testing.T) {
	for name, remove := range map[string]func(dir string) error{
		"removed": os.RemoveAll,
		"replaced": func(dir string) error {
			return errors.Join(os.RemoveAll(dir), os.MkdirAll(dir+"/files", 0o700), os.WriteFile(dir+"/lock", nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir()+"/state")
			b := s.Site("berlin")
			term := acquire(t, b, "a")
			must(t, remove(s.dir))
			for what, err := range map[string]error{
				"renewal": term.Renew(t.Context()),
				"record":  b.PutNode(t.Context(), "n1", recorded(1)),
			} {
				if err == nil || !strings.Contains(err.Error(), s.dir) || !strings.Contains(err.Error(), "removed or replaced") {
					t.Errorf("%s: got %v, want that the directory is gone", what, err)
				}
			}
		})
	}
}

func TestSessions(t *testing.T) {
	s := open(t, t.TempDir())
	b, ctx := s.Site("berlin"), t.Context()
	all := Sessions{site.Manager: {{Term: 3, Endpoint: "redfish+https://192.0.2.1", ID: "/redfish/v1/SessionService/Sessions/7"}}}
	must(t, b.PutSessions(ctx, "a/b", all))
	must(t, b.PutSessions(ctx, "n1", all))
	must(t, b.DeleteNode(ctx, "n1"))
	_, _, snap := reopen(t, s, "berlin")
	same(t, "sessions", snap.Sessions, map[string]Sessions{"a/b": all})
}

// TestRenewalWithoutAnAnswer holds that a renewal that was written and not
// known to be does not lose the term.
func TestRenewalWithoutAnAnswer(t *testing.T) {
	s := open(t, t.TempDir())
	term := acquire(t, s.Site("berlin"), "a")
	before := term.revision
	must(t, term.Renew(t.Context()))
	term.revision = before
	if err := term.Renew(t.Context()); err == nil || errors.Is(err, ErrLost) {
		t.Errorf("got %v, want an error that passes", err)
	}
	must(t, term.Renew(t.Context()))
}

// A machine that slept has a monotonic clock that stood still, and one whose time
// of day was set back has the other: either that is past the deadline ends the
// lease.
func TestEachClockEndsTheLease(t *testing.T) {
	s := open(t, t.TempDir())
	term := acquire(t, s.Site("berlin"), "a")
	now := time.Now()
	slept := shifted(now, 3*time.Hour, 0)
	if slept.Sub(now) != 0 || slept.Round(0).Sub(now.Round(0)) != 3*time.Hour {
		t.Fatal("a time has another form than this test knows")
	}
	setBack := shifted(now, 0, 3*time.Hour)
	if setBack.Sub(now) != 3*time.Hour || !setBack.Round(0).Equal(now.Round(0)) {
		t.Fatal("a time has another form than this test knows")
	}
	if term.Holds(slept) {
		t.Error("the lease holds by the monotonic clock, after a sleep of 3 hours")
	}
	if term.Holds(setBack) {
		t.Error("the lease holds by the time of day, which was set back by 3 hours")
	}
	for _, at := range []time.Time{term.Deadline(), shifted(term.Deadline(), 0, -time.Minute), shifted(term.Deadline(), -time.Minute, 0)} {
		if term.Holds(at) {
			t.Errorf("the lease holds at its deadline, %s", at)
		}
	}
	if !term.Holds(shifted(term.Deadline(), -time.Nanosecond*1e9, -time.Nanosecond)) {
		t.Error("the lease does not hold before its deadline")
	}
}

// A time of day that is set forward ends no step of a daemon with records of its own: no other can
// begin a term. Its monotonic clock does.
func TestTimeOfDayBreaksOffNoStep(t *testing.T) {
	s := open(t, t.TempDir())
	term := acquire(t, s.Site("berlin"), "a")
	deadline := term.Deadline()
	term.deadline = shifted(deadline, -3*time.Hour, 0) // as if the time of day were 3 hours later
	if err := term.Allowed(); err != nil || term.Holds(time.Now()) {
		t.Errorf("set forward: %v, holds: %t", err, term.Holds(time.Now()))
	}
	term.deadline = shifted(deadline, 3*time.Hour, -Lease)
	if term.Allowed() == nil {
		t.Error("the lease is over by the monotonic clock, and a write is allowed")
	}
	term.deadline = deadline
	must(t, term.Allowed())
	must(t, term.Release(t.Context()))
	if term.Allowed() == nil {
		t.Error("released, and a write is allowed")
	}
}

// shifted is a time whose two clocks were moved apart, wall by whole seconds: no
// function of package time makes one.
func shifted(at time.Time, wall, monotonic time.Duration) time.Time {
	parts := (*struct {
		wall uint64 // 1 bit: has both; 33 bits: seconds; 30 bits: nanoseconds
		ext  int64  // the monotonic clock in nanoseconds
	})(unsafe.Pointer(&at))
	parts.wall += uint64(int64(wall/time.Second)) << 30
	parts.ext += int64(monotonic)
	return at
}

// A term that was not written is none, and one that cannot be read is not taken for
// none.
func TestTermThatCannotBegin(t *testing.T) {
	s := open(t, t.TempDir())
	b, ctx := s.Site("berlin"), t.Context()
	first := acquire(t, b, "a")
	if first.Holder != "a" {
		t.Errorf("it is held by %q", first.Holder)
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if term, err := b.Acquire(over, "b", 0); err == nil || term != nil || !strings.HasPrefix(err.Error(), "read the term: ") {
		t.Errorf("got %v, %v", term, err)
	}
	key := b.prefix + "term"
	for name, value := range map[string]string{"not sealed": "{}", "no JSON": ""} {
		if name == "not sealed" {
			_, err := s.kv.Put(ctx, key, value)
			must(t, err)
		} else {
			_, err := s.kv.Do(ctx, opSealed(key, []byte("{")))
			must(t, err)
		}
		if term, err := b.Acquire(ctx, "b", 0); err == nil || term != nil {
			t.Errorf("%s: got %+v, %v", name, term, err)
		}
		if err := first.Renew(ctx); err == nil || !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "term 1 is over") {
			t.Errorf("%s: renewed: %v", name, err)
		}
		first = &Term{Number: 1, Holder: "a", site: b, lost: make(chan struct{})}
		first.extend(instant{clock: time.Now()})
	}
	must(t, s.Close())
	if _, err := b.Acquire(ctx, "b", 0); !errors.Is(err, errClosed) {
		t.Errorf("of records that are closed: %v", err)
	}
	if err := s.own(); !errors.Is(err, errClosed) {
		t.Errorf("the folder of records that are closed: %v", err)
	}
}

// The latest time that any holder has seen goes on from term to term, and not back.
func TestLatestTimeIsHandedOn(t *testing.T) {
	s := open(t, t.TempDir())
	b := s.Site("berlin")
	first := acquire(t, b, "a")
	if !first.Latest.IsZero() {
		t.Errorf("before anybody: %s", first.Latest)
	}
	ahead := time.Now().Add(time.Hour).Round(0)
	first.Latest = ahead
	must(t, first.Renew(t.Context()))
	second := acquire(t, b, "b")
	if !second.Latest.Equal(ahead) {
		t.Errorf("got %s, want %s", second.Latest, ahead)
	}
	second.Latest = time.Now().Add(-time.Hour)
	before := time.Now().Round(0)
	must(t, second.Renew(t.Context()))
	if third := acquire(t, b, "c"); third.Latest.Before(before) {
		t.Errorf("got %s, before %s", third.Latest, before)
	}
}

// A renewal whose own record is there has happened; another's ends the term. The
// holder that ended it is named.
func TestWhoHasTheTerm(t *testing.T) {
	for name, c := range map[string]struct {
		now  tenure
		want string
		lost bool
	}{
		"itself":                {tenure{Term: 1, Holder: "a"}, "written before, with unknown result", false},
		"a later one":           {tenure{Term: 2, Holder: "b"}, "b has begun term 2 and acts for the site", true},
		"one of its number":     {tenure{Term: 1, Holder: "b"}, "term 1 is over", true},
		"its name, a later one": {tenure{Term: 2, Holder: "a"}, "a has begun term 2", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir())
			b := s.Site("berlin")
			term := acquire(t, b, "a")
			value, err := json.Marshal(c.now)
			must(t, err)
			_, err = s.kv.Do(t.Context(), opSealed(b.prefix+"term", value))
			must(t, err)
			err = term.Renew(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrLost) != c.lost {
				t.Errorf("got %v", err)
			}
			if term.Holds(time.Now()) == c.lost {
				t.Errorf("it holds: %t", !c.lost)
			}
			if !c.lost {
				must(t, term.Renew(t.Context()))
			}
		})
	}
}

// What a release writes has its holder, and a release that is not written is told.
func TestRelease(t *testing.T) {
	s := open(t, t.TempDir())
	b := s.Site("berlin")
	must(t, acquire(t, b, "a").Release(t.Context()))
	last, _, err := b.tenure(t.Context())
	if err != nil || last.Holder != "a" || !last.Released || last.Term != 1 {
		t.Errorf("got %+v, %v", last, err)
	}
	term := acquire(t, b, "b")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := term.Release(over); err == nil || !strings.HasPrefix(err.Error(), "release term 2: ") || term.Holds(time.Now()) {
		t.Errorf("not written: %v", err)
	}
	term = acquire(t, b, "c")
	if err := term.Renew(over); err == nil || errors.Is(err, ErrLost) || !strings.HasPrefix(err.Error(), "renew term 3: ") || !term.Holds(time.Now()) {
		t.Errorf("a renewal that is not written: %v", err)
	}
	if err := s.do(over, func(context.Context) error {
		t.Error("etcd is asked for a context that is over")
		return nil
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("a request that is over: %v", err)
	}
	if err := b.PutSessions(t.Context(), "n1", Sessions{}); err != nil {
		t.Error(err)
	}
	must(t, s.Close())
	if err := b.PutSessions(t.Context(), "n1", Sessions{}); err == nil {
		t.Error("sessions are written to records that are closed")
	}
}
