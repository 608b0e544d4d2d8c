package control

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/site"
)

// tried are the entries of a fake, as "by: verb outcome times".
func (f *fake) tried() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for _, e := range f.audit {
		all = append(all, fmt.Sprintf("%s: %s %s %d", e.By, e.Verb, e.Outcome, e.Times))
	}
	return all
}

// An attempt at a site that is not there, one that is too many, and one of somebody whom nobody knows are
// recorded, at most twice a minute.
func TestRejectedAttempts(t *testing.T) {
	f := &fake{}
	o := listening(t, f, func(n *Network) { n.Limits = Limits{Rate: 0.001, Burst: 30} })
	ana, stranger := o.as(o.people.client(t, mail("ana@example.org"))), o.as(o.people.client(t, mail("dan@example.org")))
	for range 3 {
		if status, answer := o.ask(ana, http.MethodPost, "/api/v1/sites/paris/pause", "", `{"node":"n1","reason":"x"}`); status != 404 {
			t.Fatalf("%d %s", status, answer)
		}
	}
	for n := range 40 {
		status, answer := o.ask(stranger, http.MethodPost, "/api/v1/sites/berlin/nodes/n1/ssh", "", `{}`)
		if want := map[bool]int{true: 403, false: 429}[n < 2]; status != want {
			t.Fatalf("%d: %d %s", n, status, answer)
		}
	}
	if got := strings.Join(f.tried(), ", "); got != "ana@example.org: pause denied 0, dan@example.org: ssh denied 0" {
		t.Errorf("got %s", got)
	}
}

// What follows within a minute is recorded at its end, with the number.
func TestRejectedAttemptsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		a := newAPI(f, nil, Limits{}, 0, slog.New(slog.DiscardHandler))
		for n := range 500 {
			r, _ := http.NewRequestWithContext(context.Background(), http.MethodPost, "/", nil)
			c := &call{api: a, route: &route{verb: access.Pause, acts: true}, r: r, caller: access.Caller{Kind: access.Person, Name: "ana"}, site: "berlin"}
			c.reject(fmt.Errorf("%w: %d", ErrTooMany, n))
		}
		time.Sleep(2 * rejectedEvery)
		synctest.Wait()
		if got := strings.Join(f.tried(), ", "); got != "ana: pause denied 0, ana: pause denied 499" || len(a.rejected.callers) != 0 {
			t.Errorf("got %s", got)
		}
	})
}

// Many networks without anybody known have no caller's rate be forgotten.
func TestNetworksPushNoCallersOut(t *testing.T) {
	l := newLimits(Limits{Rate: 0.001, Burst: 1, UnknownRate: 1, UnknownBurst: 1})
	ana := access.Caller{Kind: access.Person, Name: "ana"}
	free, err := l.begin(ana, false)
	if err != nil {
		t.Fatal(err)
	}
	free()
	for n := range mostCallers + 10 {
		if err := l.unknown(netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)})); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.begin(ana, false); err == nil {
		t.Error("the rate of a caller was forgotten")
	}
}

// towns is a daemon of two sites.
type towns struct{ fake }

func (*towns) Sites() []string { return []string{"berlin", "paris"} }

// What is of no site is answered also by a daemon of several.
func TestManySites(t *testing.T) {
	o := listening(t, &towns{}, nil)
	ana := o.as(o.people.client(t, mail("ana@example.org")))
	for path, want := range map[string]int{"/sites": 200, "/whoami": 200, "/openapi.json": 200, "/sites/-/status": 400, "/sites/paris/nope": 404} {
		if status, answer := o.ask(ana, http.MethodGet, prefix+path, "", ""); status != want {
			t.Errorf("%s: %d %.200s", path, status, answer)
		}
	}
}

// reluctant is a client that takes ten seconds for each write.
type reluctant struct {
	header http.Header
	writes int
	then   func(writes int)
}

func (r *reluctant) Header() http.Header            { return r.header }
func (*reluctant) WriteHeader(int)                  {}
func (*reluctant) Flush()                           {}
func (*reluctant) SetReadDeadline(time.Time) error  { return nil }
func (*reluctant) SetWriteDeadline(time.Time) error { return nil }
func (r *reluctant) Write(b []byte) (int, error) {
	r.writes++
	r.then(r.writes)
	time.Sleep(9 * time.Second)
	return len(b), nil
}

// A slow client that resumes is sent nothing any more soon after its right was taken away.
func TestSlowStreamEndsWithItsRight(t *testing.T) {
	file := &access.File{Path: filepath.Join(t.TempDir(), "access.conf"), Owner: owner()}
	put(t, file.Path, "role viewer: read\nperson bob: viewer\n")
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		for n := range 100 {
			f.add(site.Event{Node: "n1", Text: fmt.Sprint(n)})
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, eventsPath, nil)
		if err != nil {
			t.Fatal(err)
		}
		w := &reluctant{header: http.Header{}, then: func(writes int) {
			if writes == 5 {
				if err := os.WriteFile(file.Path, []byte("role viewer: read\n"), 0o644); err != nil {
					t.Error(err)
				}
			}
		}}
		c := &call{api: newAPI(f, file, Limits{}, 0, slog.New(slog.DiscardHandler)), route: &route{verb: access.Read, scope: ofSome, events: true}, w: w, r: r, client: ctx,
			caller: access.Caller{Kind: access.Person, Name: "bob"}, site: "berlin"}
		c.policy = c.policyNow("berlin")
		if err := c.stream(1); err != nil {
			t.Error(err)
		}
		if w.writes > 8 {
			t.Errorf("%d writes, the last of them %d after the right was gone", w.writes, w.writes-5)
		}
		time.Sleep(2 * lookEvery) // nobody follows any more
	})
}
