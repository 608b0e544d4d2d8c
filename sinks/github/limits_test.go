package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/forge"
)

// statuses are there, and empty.
func statuses(h *hub) {
	h.on("GET ./commits/{sha}/status", func(*http.Request) any { return object{"statuses": []any{}} })
	h.on("POST ./statuses/{sha}", func(*http.Request) any { return object{} })
}

func check(n int) forge.Check {
	return forge.Check{Commit: sha, Name: fmt.Sprintf("slipway/site%d", n), Verdict: forge.Pending, Title: "is planned"}
}

// However many want to write, there is one write a second.
func TestOneWriteASecond(t *testing.T) {
	virtually(t, func(t *testing.T) {
		h := newHub()
		statuses(h)
		r := connect(t, h, withToken())
		var all sync.WaitGroup
		for n := range 20 {
			all.Go(func() {
				if err := r.Check(t.Context(), check(n)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		writes := h.writes()
		if len(writes) != 20 {
			t.Fatalf("%d writes arrived, want 20", len(writes))
		}
		for i, w := range writes[1:] {
			if gap := w.at.Sub(writes[i].at); gap < time.Second {
				t.Errorf("write %d comes %s after the one before", i+1, gap)
			}
		}
	})
}

// A write that waits for its turn is given up with its context, and nobody
// behind it is held.
func TestWaitingEndsWithItsContext(t *testing.T) {
	virtually(t, func(t *testing.T) {
		h := newHub()
		statuses(h)
		r := connect(t, h, withToken())
		if err := r.Check(t.Context(), check(1)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := r.Check(ctx, check(2)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the deadline", err)
		}
		if err := r.Check(t.Context(), check(3)); err != nil {
			t.Error(err)
		}
		if n := len(h.writes()); n != 2 {
			t.Errorf("%d writes arrived, want 2", n)
		}
	})
}

// Six hours of writing as fast as we are let stay below GitHub's limits of
// content an hour and points a minute.
func TestBudgets(t *testing.T) {
	virtually(t, func(t *testing.T) {
		h := newHub()
		h.on("GET ./pulls/{n}", func(*http.Request) any { return pull(3) })
		h.on("POST ./issues/comments/{n}/reactions", func(*http.Request) any { return object{} })
		r := connect(t, h, withToken())
		end := time.Now().Add(6 * time.Hour)
		for n := 0; time.Now().Before(end); n++ {
			patient(t, func() error { return r.React(t.Context(), int64(n), forge.Seen) })
		}
		for range 5000 {
			if _, err := r.Proposal(t.Context(), 3); err != nil {
				t.Fatal(err)
			}
		}
		most := func(all []request, span time.Duration, cost func(request) int) int {
			worst, sum, from := 0, 0, 0
			for _, x := range all {
				for sum += cost(x); all[from].at.Before(x.at.Add(-span)); from++ {
					sum -= cost(all[from])
				}
				worst = max(worst, sum)
			}
			return worst
		}
		one := func(request) int { return 1 }
		points := func(x request) int {
			if strings.HasPrefix(x.what, "GET ") {
				return 1
			}
			return 5
		}
		if n := most(h.writes(), time.Hour, one); n > 500 || n < 400 {
			t.Errorf("%d pieces of content in an hour, want 400 to 500", n)
		}
		if n := most(h.writes(), time.Minute, one); n > 80 {
			t.Errorf("%d pieces of content in a minute", n)
		}
		if n := most(h.sent, time.Minute, points); n > 900 {
			t.Errorf("%d points in a minute", n)
		}
	})
}

// patient tries again when it is told to.
func patient(t *testing.T, do func() error) {
	t.Helper()
	for {
		err := do()
		var limited *forge.Limited
		if !errors.As(err, &limited) {
			if err != nil {
				t.Fatal(err)
			}
			return
		}
		<-time.After(time.Until(limited.Until))
	}
}

// For as long as GitHub wants no requests, none is sent; after that, they are.
func TestSilence(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter)
		want   time.Duration
	}{
		"Retry-After in seconds": {func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "90")
			w.WriteHeader(http.StatusForbidden)
		}, 90 * time.Second},
		"Retry-After as a date": {func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", time.Now().Add(2*time.Minute).UTC().Format(http.TimeFormat))
			w.WriteHeader(http.StatusTooManyRequests)
		}, 2 * time.Minute},
		"a date of a clock that is ahead": {func(w http.ResponseWriter) {
			w.Header().Set("Date", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
			w.Header().Set("Retry-After", time.Now().Add(time.Hour+2*time.Minute).UTC().Format(http.TimeFormat))
			w.WriteHeader(http.StatusTooManyRequests)
		}, 2 * time.Minute},
		"the hour used up": {func(w http.ResponseWriter) {
			w.Header().Set("X-RateLimit-Remaining", "0")
			w.Header().Set("X-RateLimit-Reset", fmt.Sprint(time.Now().Add(40*time.Minute).Unix()))
			w.WriteHeader(http.StatusForbidden)
		}, 40*time.Minute + time.Second},
		"secondary, without a time": {func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"message":"You have exceeded a secondary rate limit."}`))
		}, time.Minute},
		"as older servers say it": {func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"message":"You have triggered an abuse detection mechanism."}`))
		}, time.Minute},
		"429 without a time": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusTooManyRequests) }, time.Minute},
		"a time gone by": {func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "-5")
			w.WriteHeader(http.StatusTooManyRequests)
		}, time.Second},
		"an endless time": {func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "2000000000")
			w.WriteHeader(http.StatusTooManyRequests)
		}, 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *testing.T) {
				h := newHub()
				statuses(h)
				h.on("GET ./pulls/{n}", func(*http.Request) any { return pull(3) })
				limiting := true
				h.before = func(w http.ResponseWriter, _ *http.Request) bool {
					if limiting {
						c.answer(w)
					}
					return limiting
				}
				r := connect(t, h, withToken())
				begun := time.Now()
				_, err := r.Proposal(t.Context(), 3)
				var limited *forge.Limited
				if !errors.As(err, &limited) || limited.Until.Sub(begun).Round(time.Second) != c.want {
					t.Fatalf("got %v at %s, want a limit of %s", err, begun.UTC(), c.want)
				}
				limiting = false
				<-time.After(c.want - 500*time.Millisecond)
				if err := r.Check(t.Context(), check(1)); !errors.As(err, &limited) {
					t.Errorf("got %v, want the limit", err)
				}
				if n := len(h.of("")); n != 1 {
					t.Errorf("%d requests arrived, want the first alone", n)
				}
				<-time.After(time.Second)
				if err := r.Check(t.Context(), check(1)); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Whoever waits for the turn while GitHub says that it wants no requests is not
// sent any more.
func TestSilenceIsHeardInTheQueue(t *testing.T) {
	virtually(t, func(t *testing.T) {
		h := newHub()
		r := connect(t, h, withToken())
		h.before = func(w http.ResponseWriter, req *http.Request) bool {
			if req.Method == http.MethodPost {
				<-time.After(time.Second) // in which the others come to wait
				w.WriteHeader(http.StatusTooManyRequests)
			}
			return req.Method == http.MethodPost
		}
		var all sync.WaitGroup
		for n := range 3 {
			all.Go(func() {
				var limited *forge.Limited
				if err := r.React(t.Context(), int64(n), forge.Seen); !errors.As(err, &limited) {
					t.Errorf("got %v, want a limit", err)
				}
			})
		}
		all.Wait()
		if n := len(h.writes()); n != 1 {
			t.Errorf("%d writes arrived, want 1", n)
		}
	})
}

// GitHub that says again and again, without a time, that it wants none is asked
// ever more rarely, and at once as before when it has answered.
func TestSilenceGrows(t *testing.T) {
	virtually(t, func(t *testing.T) {
		h := newHub()
		h.on("GET ./pulls/{n}", func(*http.Request) any { return pull(3) })
		limiting := true
		h.before = func(w http.ResponseWriter, _ *http.Request) bool {
			if limiting {
				w.WriteHeader(http.StatusTooManyRequests)
			}
			return limiting
		}
		r := connect(t, h, withToken())
		waited := func() time.Duration {
			_, err := r.Proposal(t.Context(), 3)
			var limited *forge.Limited
			if !errors.As(err, &limited) {
				t.Fatalf("got %v, want a limit", err)
			}
			wait := time.Until(limited.Until)
			<-time.After(wait)
			return wait
		}
		for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 64} {
			if got := waited(); got != want*time.Minute {
				t.Errorf("waits %s, want %s", got, want*time.Minute)
			}
		}
		limiting = false
		if _, err := r.Proposal(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		limiting = true
		if got := waited(); got != time.Minute {
			t.Errorf("waits %s after an answer, want a minute", got)
		}
	})
}

// The last request of an hour is answered, and the next is not sent.
func TestTheHoursLastRequest(t *testing.T) {
	virtually(t, func(t *testing.T) {
		h := newHub()
		h.on("GET ./pulls/{n}", func(*http.Request) any { return pull(3) })
		h.before = func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("X-RateLimit-Remaining", "0")
			w.Header().Set("X-RateLimit-Reset", fmt.Sprint(time.Now().Add(time.Minute).Unix()))
			return false
		}
		r := connect(t, h, withToken())
		if _, err := r.Proposal(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		_, err := r.Proposal(t.Context(), 3)
		var limited *forge.Limited
		if !errors.As(err, &limited) || len(h.of("")) != 1 {
			t.Errorf("got %v after %d requests, want a limit after one", err, len(h.of("")))
		}
		<-time.After(time.Minute + time.Second)
		if _, err := r.Proposal(t.Context(), 3); err != nil {
			t.Error(err)
		}
	})
}
