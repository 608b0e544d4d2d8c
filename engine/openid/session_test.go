package openid

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/access"
)

var discard = slog.New(slog.DiscardHandler)

func TestSessionsAreBounded(t *testing.T) {
	var all sessions
	now := time.Now()
	begin := func(name string, at time.Time) string {
		return all.begin(session{caller: access.Caller{Kind: access.OIDC, Name: name, Issuer: "https://x"}, began: at, ends: at.Add(time.Hour)})
	}
	first := begin("ana", now)
	for n := range mostSessionsOfOne {
		if _, ok := all.of(first, now); !ok {
			t.Fatalf("the first of ana has ended after %d others", n)
		}
		begin("ana", now.Add(time.Duration(n+1)*time.Second))
	}
	if _, ok := all.of(first, now); ok {
		t.Errorf("ana has %d sessions", len(all.all))
	}
	for n := range 2 * mostSessions {
		begin(fmt.Sprint("p", n), now.Add(time.Duration(n+100)*time.Millisecond))
	}
	if len(all.all) > mostSessions {
		t.Errorf("there are %d sessions", len(all.all))
	}
	begin("late", now.Add(3*time.Hour))
	if len(all.all) != 1 {
		t.Errorf("%d sessions that are over are kept", len(all.all)-1)
	}
}

func TestSessionEnds(t *testing.T) {
	now := time.Now()
	for name, x := range map[string]struct {
		at time.Duration
		is bool
	}{"at once": {0, true}, "just before its end": {time.Hour - 1, true}, "at its end": {time.Hour, false}, "a clock that was set back a bit": {-30 * time.Second, true}, "and a lot": {-2 * time.Minute, false}} {
		var all sessions
		secret := all.begin(session{began: now, ends: now.Add(time.Hour)})
		if _, ok := all.of(secret, now.Add(x.at)); ok != x.is {
			t.Errorf("%s: %v", name, ok)
		}
		if _, ok := all.of(secret, now); ok != x.is {
			t.Errorf("%s, and back again: %v", name, ok)
		}
	}
}

func TestAttemptsAreBounded(t *testing.T) {
	var all attempts
	now := time.Now()
	begin := func(network string, n int) string {
		return all.begin(attempt{network: network, state: fmt.Sprint(n), ends: now.Add(attemptsEndWithin - time.Duration(mostAttempts-n%mostAttempts)*time.Millisecond)})
	}
	other := begin("10.0.0.1/32", 1)
	first := begin("10.0.0.2/32", 0)
	for n := range 10 * mostAttemptsOfOne { // one address crowds out its own logins alone
		begin("10.0.0.2/32", n+1)
	}
	if _, ok := all.take(other, now); !ok || len(all.all) != mostAttemptsOfOne {
		t.Errorf("the login of another is there: %v; %d are kept", ok, len(all.all))
	}
	if _, ok := all.take(first, now); ok {
		t.Error("the first is still there")
	}
	for n := range mostAttempts + 100 {
		begin(fmt.Sprint(n), n)
	}
	if len(all.all) != mostAttempts {
		t.Errorf("%d are kept", len(all.all))
	}
	for name, at := range map[string]time.Duration{"over": attemptsEndWithin, "begun in the future": -2 * time.Minute} {
		one := all.begin(attempt{ends: now.Add(attemptsEndWithin)})
		if _, ok := all.take(one, now.Add(at)); ok {
			t.Errorf("%s: taken", name)
		}
	}
}

// Whatever a link says, the browser stays on this host.
func FuzzOwnPage(f *testing.F) {
	for _, to := range []string{"/sites/berlin/nodes?q=a%20b&after=x", "/sites/%2f/evil", "//evil", "/sites/x#y", "/sites/\t/evil", `/sites\..\evil`} {
		f.Add(to)
	}
	base, _ := url.Parse("https://slipway.example.org:8443")
	f.Fuzz(func(t *testing.T, to string) {
		got := OwnPage(to)
		u, err := base.Parse(got)
		if err != nil || u.Host != base.Host || u.Scheme != "https" || got != "/" && !strings.HasPrefix(u.Path, "/sites/") || strings.HasPrefix(got, "//") || strings.ContainsAny(got, "\\\r\n\t") {
			t.Errorf("%q leads to %q", to, got)
		}
	})
}

// A secret that everybody on the host can read is not used, and who logs in is not told where it is.
func TestSecretOfTheClient(t *testing.T) {
	p, i := provider(t)
	dir := t.TempDir()
	lines := "oidc issuer: " + p.URL + "\noidc authority: " + i.Authority + "\noidc client: slipway\noidc page: https://slipway.test\noidc secret: " + filepath.Join(dir, "secret") + "\n"
	if err := os.WriteFile(filepath.Join(dir, "access.conf"), []byte(lines), 0o644); err != nil {
		t.Fatal(err)
	}
	l := &Logins{Access: &access.File{Path: filepath.Join(dir, "access.conf"), Owner: uint32(os.Geteuid())}, Log: discard}
	for name, x := range map[string]struct {
		text string
		mode os.FileMode
		is   bool
	}{"right": {"s3cret\n", 0o640, true}, "readable by all": {"s3cret\n", 0o644, false}, "writable by others": {"s3cret\n", 0o620, false}, "empty": {"\n", 0o600, false}, "not there": {"", 0, false}} {
		path := filepath.Join(dir, "secret")
		os.Remove(path)
		if x.mode != 0 {
			if err := os.WriteFile(path, []byte(x.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, x.mode); err != nil {
				t.Fatal(err)
			}
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "https://slipway.test"+StartPath, nil)
		err := l.Begin(w, r, netip.MustParsePrefix("10.0.0.1/32"), "/")
		if (err == nil) != x.is || err != nil && strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", name, err)
		}
		if at := w.Header().Get("Location"); x.is && (!strings.HasPrefix(at, p.URL) || strings.Contains(at, "s3cret")) {
			t.Errorf("sent to %s", at)
		}
	}
	// Under another name of the host the login begins again at the page's own: its cookies are of that one.
	w := httptest.NewRecorder()
	err := l.Begin(w, httptest.NewRequest(http.MethodGet, "https://10.0.0.9"+StartPath, nil), netip.MustParsePrefix("10.0.0.1/32"), "/sites/berlin")
	if at := w.Header().Get("Location"); err != nil || at != "https://slipway.test/login/start?to=%2Fsites%2Fberlin" || w.Header().Get("Set-Cookie") != "" {
		t.Errorf("sent to %s, %v", at, err)
	}
}

func TestCookies(t *testing.T) {
	w := httptest.NewRecorder()
	(&Logins{}).setCookie(w, sessionCookie, "x", time.Hour)
	if got := w.Header().Get("Set-Cookie"); got != "__Host-slipway-session=x; Path=/; Max-Age=3600; HttpOnly; Secure; SameSite=Lax" {
		t.Errorf("got %s", got)
	}
}
