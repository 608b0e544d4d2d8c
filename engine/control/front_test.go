package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/site"
)

// other is the fake under another name.
type other struct {
	*fake
	name string
}

func (o *other) Sites() []string { return []string{o.name} }

func (o *other) Report(string) (site.Report, error) {
	r, err := o.fake.Report("berlin")
	r.Status.Site = o.name
	return r, err
}

// behindFront runs two sites, berlin and paris, in front of which is what it returns. A site that is added to away is away.
func behindFront(t *testing.T, file *access.File) (f *Front, berlin, paris *fake, away map[string]error) {
	t.Helper()
	berlin, paris = &fake{reason: "as designed"}, &fake{reason: "as designed"}
	dir, away := t.TempDir(), map[string]error{}
	for name, d := range map[string]Daemon{"berlin": berlin, "paris": &other{paris, "paris"}} {
		socket := filepath.Join(dir, name)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- ServeBehind(ctx, socket, d, file, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%s of %s", r.URL.Path, name) }), slog.New(slog.DiscardHandler))
		}()
		t.Cleanup(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
		await(t, socket)
	}
	f = &Front{Log: slog.New(slog.DiscardHandler), Processes: func() (all []Process) {
		for _, name := range []string{"berlin", "paris"} {
			all = append(all, Process{name, filepath.Join(dir, name), away[name]})
		}
		return all
	}}
	return f, berlin, paris, away
}

func TestFrontPassesRequestsToTheSite(t *testing.T) {
	f, berlin, paris, away := behindFront(t, nil)
	socket, _ := serving(t, f)
	c := dial(t, socket)
	ctx := t.Context()
	for _, name := range []string{"berlin", "paris"} {
		if r, err := c.Report(ctx, name); err != nil || r.Status.Site != name {
			t.Errorf("report of %s: %v, of site %q", name, err, r.Status.Site)
		}
	}
	if names, err := c.Sites(ctx); err != nil || !slices.Equal(names, []string{"berlin", "paris"}) {
		t.Errorf("sites: %q %v", names, err)
	}
	if _, err := c.Report(ctx, ""); !errors.Is(err, ErrWhichSite) || !strings.HasSuffix(err.Error(), "this daemon manages 2: berlin, paris") {
		t.Errorf("without a site: %v", err)
	}
	if _, err := c.Report(ctx, "oslo"); !errors.Is(err, site.ErrNotFound) {
		t.Errorf("a site that is not there: %v", err)
	}

	// Who has asked is recorded at the site, and nowhere else.
	if _, err := c.Do(ctx, "paris", site.Order{Verb: site.VerbPause, Node: "n1", Reason: "a test"}); err != nil {
		t.Fatal(err)
	}
	if len(paris.audit) != 1 || paris.audit[0].By != userName(uint32(os.Geteuid())) || paris.audit[0].Kind != string(access.User) || paris.audit[0].Outcome != site.AuditDone {
		t.Errorf("the audit log of paris is %+v", paris.audit)
	}
	if len(paris.orders) != 1 || len(berlin.orders)+len(berlin.audit) != 0 {
		t.Errorf("paris has orders %v, berlin %v and %v", paris.orders, berlin.orders, berlin.audit)
	}

	// One that is away concerns no other.
	away["paris"] = errors.New("it has ended: exit status 1")
	f.roundTripper().CloseIdleConnections()
	if _, err := c.Report(ctx, "paris"); !errors.Is(err, ErrAway) || !strings.Contains(err.Error(), "site paris does not answer: it has ended: exit status 1") {
		t.Errorf("a site that is away: %v", err)
	}
	if _, err := c.Report(ctx, "berlin"); err != nil {
		t.Error(err)
	}
}

func TestFrontStreamsEvents(t *testing.T) {
	f, berlin, _, _ := behindFront(t, nil)
	socket, _ := serving(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	var heard []string
	err := dial(t, socket).Stream(ctx, "berlin", 0, Hearing{
		Opened: func() { berlin.happens("the first") },
		Event:  func(e site.Event) { heard = append(heard, e.Text); cancel() },
	})
	if !errors.Is(err, context.Canceled) || !slices.Equal(heard, []string{"the first"}) {
		t.Errorf("heard %q: %v", heard, err)
	}
}

// What a caller from the network may do is decided in the process of the site.
func TestFrontOnTheNetwork(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "access.conf"), roles)
	f, berlin, paris, _ := behindFront(t, &access.File{Path: filepath.Join(dir, "access.conf"), Owner: owner()})
	o := listening(t, f, nil)
	as := func(who string) *http.Client { return o.as(o.people.client(t, mail(who+"@example.org"))) }
	const pause = `{"node": "n1", "reason": "a test"}`
	for _, c := range []struct {
		who, site string
		status    int
	}{{"ana", "berlin", 200}, {"bob", "berlin", 403}, {"eve", "berlin", 403}, {"eve", "paris", 200}} {
		if status, answer := o.ask(as(c.who), http.MethodPost, "/api/v1/sites/"+c.site+"/pause", "", pause); status != c.status {
			t.Errorf("%s pauses n1 of %s: %d %s", c.who, c.site, status, answer)
		}
	}
	by := func(f *fake) (all []string) {
		for _, e := range f.audit {
			all = append(all, e.By+" "+string(e.Outcome))
		}
		return all
	}
	if got := by(berlin); !slices.Equal(got, []string{"ana@example.org done", "bob@example.org denied", "eve@example.org denied"}) {
		t.Errorf("the audit log of berlin has %q", got)
	}
	if got := by(paris); !slices.Equal(got, []string{"eve@example.org done"}) {
		t.Errorf("the audit log of paris has %q", got)
	}
	if _, answer := o.ask(as("eve"), http.MethodGet, "/api/v1/whoami", "", ""); !strings.Contains(answer, `"whole":{"paris":[`) {
		t.Errorf("eve is %s", answer)
	}
	// What says who somebody is counts for nothing when it comes from outside.
	if status, answer := o.ask(as("bob"), http.MethodPost, "/api/v1/sites/berlin/pause", "", pause, callerHeader, "eyJraW5kIjoidXNlciIsIm5hbWUiOiJyb290In0="); status != http.StatusForbidden {
		t.Errorf("bob as root: %d %s", status, answer)
	}
	// Nobody who is not known reaches a process; the attempt is recorded there.
	if status, _ := o.ask(o.as(nil), http.MethodPost, "/api/v1/sites/berlin/pause", "", pause); status != http.StatusUnauthorized {
		t.Errorf("nobody: %d", status)
	}
	if last := berlin.audit[len(berlin.audit)-1]; last.Kind != string(access.Nobody) || last.Outcome != site.AuditDenied {
		t.Errorf("the last entry is %+v", last)
	}
}

// A role that the design of one site gives is known in front, and counts at that site alone.
func TestFrontKnowsTheDesignsAccess(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "access.conf"), "role viewer: read\ndesign: read\n")
	f, _, paris, _ := behindFront(t, &access.File{Path: filepath.Join(dir, "access.conf"), Owner: owner()})
	g := site.Granted{Roles: map[string]site.GrantedRole{"reader": {Verbs: []string{"read"}, Whole: true}}, People: map[string][]string{"dan@example.org": {"reader"}}}
	paris.approved, paris.inForce = site.GrantedState{Granted: g}, g
	o := listening(t, f, func(n *Network) { n.Access = &access.File{Path: filepath.Join(dir, "access.conf"), Owner: owner()} })
	dan := o.as(o.people.client(t, mail("dan@example.org")))
	if _, answer := o.ask(dan, http.MethodGet, "/api/v1/whoami", "", ""); !strings.Contains(answer, `"whole":{"paris":["read"]}`) {
		t.Errorf("dan is %s", answer)
	}
	for name, want := range map[string]int{"berlin": http.StatusForbidden, "paris": http.StatusOK} {
		if status, answer := o.ask(dan, http.MethodGet, "/api/v1/sites/"+name+"/report", "", ""); status != want {
			t.Errorf("dan reads %s: %d %s", name, status, answer)
		}
	}
}

// The socket behind serves only requests of which the host's daemon says who asks.
func TestBehindWantsACaller(t *testing.T) {
	f, _, _, _ := behindFront(t, nil)
	for _, path := range []string{"/api/v1/sites", "/api/v1/sites/paris/report"} {
		resp, err := f.Get(t.Context(), "paris", path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
	resp, err := f.Get(t.Context(), "paris", "/metrics")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("metrics: %v %v", resp, err)
	}
	resp.Body.Close()
}

// A stream that is passed on ends when its caller is not known any more.
func TestPassedStreamEndsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		known := true
		again := identifier(func(*http.Request) (access.Caller, error) {
			mu.Lock()
			defer mu.Unlock()
			if !known {
				return access.Caller{}, ErrWhoAreYou
			}
			return access.Caller{Kind: access.Token, Name: "ci"}, nil
		})
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), identifierKey{}, again))
		defer cancel()
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody)
		c := &call{r: r, caller: access.Caller{Kind: access.Token, Name: "ci"}}
		go c.whileKnown(ctx, cancel)
		time.Sleep(2*heartbeat + time.Second)
		if ctx.Err() != nil {
			t.Fatal("it ended while its caller was known")
		}
		mu.Lock()
		known = false
		mu.Unlock()
		time.Sleep(heartbeat)
		if ctx.Err() == nil {
			t.Error("it goes on although its caller is not known")
		}
	})
}
