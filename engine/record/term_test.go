package record

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

func acquire(t testing.TB, s *Site, holder string) *Term {
	t.Helper()
	term, err := s.Acquire(t.Context(), holder)
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
		select {
		case <-term.Lost():
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
	<-first.Lost()
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
	all := Sessions{site.BMC: {{Term: 3, Endpoint: "redfish+https://192.0.2.1", ID: "/redfish/v1/SessionService/Sessions/7"}}}
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
