package repo_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/repo"
	"github.com/slipway-gitops/slipway/engine/repo/repotest"
	"github.com/slipway-gitops/slipway/engine/secret"
)

func https(t *testing.T, g *repotest.Repo, change func(*repotest.HTTPS)) repo.Remote {
	t.Helper()
	s := repotest.ServeHTTPS(t, g)
	change(s)
	return s.Remote(t)
}

// TestHTTPSIsTwoRequests: a listing is one question for what the server
// speaks, and one for the one reference.
func TestHTTPSIsTwoRequests(t *testing.T) {
	g := repotest.Init(t)
	g.Commit("one")
	s := repotest.ServeHTTPS(t, g)
	if _, err := s.Remote(t).Head(t.Context(), "main"); err != nil {
		t.Fatal(err)
	}
	if n := s.Requests.Load(); n != 2 {
		t.Errorf("listing one reference took %d requests, want 2", n)
	}
}

func TestHTTPSErrorsSayWhatToDo(t *testing.T) {
	g := repotest.Init(t)
	g.Commit("one")
	for name, c := range map[string]struct {
		change func(*repotest.HTTPS)
		want   string
	}{
		"wrong token":    {func(s *repotest.HTTPS) { s.Token = "wrong-canary" }, "refused the token"},
		"no repository":  {func(s *repotest.HTTPS) { s.URL += "x" }, "or this token may not see it"},
		"nobody listens": {func(s *repotest.HTTPS) { s.URL = "https://" + repotest.FreeAddress(t) + "/site.git" }, "refused"},
		"unknown CA":     {func(s *repotest.HTTPS) { s.CA = "" }, "its certificate is not trusted"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := https(t, g, c.change).Head(t.Context(), "main")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want an error with %q", err, c.want)
			}
			if strings.Contains(err.Error(), "canary") {
				t.Errorf("the error shows the token: %v", err)
			}
		})
	}
}

// A server that answers strangely is named for what it does, and what it sends
// in a redirect's address is not believed.
func TestHTTPSOfOthers(t *testing.T) {
	stolen := make(chan string, 1)
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		stolen <- r.Header.Get("Authorization")
	}))
	t.Cleanup(thief.Close)
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, thief.URL+"/other.git/info/refs?service=git-upload-pack", http.StatusMovedPermanently)
		}, "has moved to " + thief.URL + "/other.git"},
		"a web page": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>log in</html>")) }, "is not a Git server"},
		"broken": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "out of\x1b[31m disks", http.StatusServiceUnavailable)
		}, "503 Service Unavailable: out of [31m disks"},
		"wants login": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, "refused the token"},
		"read only":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, "give it read access"},
		"cut off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			_, _ = w.Write([]byte("000eversion 2\n0016object-"))
		}, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(c.answer)
			t.Cleanup(server.Close)
			r, err := repo.New(server.URL+"/site.git", secret.New("", "t0ken"), "")
			if err != nil {
				t.Fatal(err)
			}
			if _, err = r.Head(t.Context(), "main"); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
	if len(stolen) > 0 {
		t.Errorf("a redirect led to another host, which was sent %q", <-stolen)
	}
}

// The login is asked at each session: a token that was replaced is used at the
// next one, and one that cannot be had is the session's error.
func TestLoginIsAskedEachTime(t *testing.T) {
	g := repotest.Init(t)
	first := g.Commit("one")
	s := repotest.ServeHTTPS(t, g)
	token, missing := "expired", errors.New("no token today")
	var failed error
	r, err := repo.NewHTTPS(s.URL, func(context.Context) (secret.Value, error) {
		return secret.New("slipway", token), failed
	}, s.CA)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Head(t.Context(), "main"); err == nil {
		t.Error("a wrong token is accepted")
	}
	token = s.Token
	if got, err := r.Head(t.Context(), "main"); err != nil || got != first {
		t.Errorf("Head is %q, %v, want %q", got, err, first)
	}
	token = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"
	if _, err := r.Head(t.Context(), "main"); err == nil || !strings.Contains(err.Error(), "which is never sent") {
		t.Errorf("got %v for a private key", err)
	}
	failed = missing
	if _, err := r.Head(t.Context(), "main"); !errors.Is(err, missing) {
		t.Errorf("got %v, want %v", err, missing)
	}
}

func TestSilentHTTPSIsLeft(t *testing.T) {
	r, err := repo.New("http://"+repotest.Silent(t)+"/site.git", secret.Value{}, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := r.Head(ctx, "main"); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "does not answer in time") {
		t.Errorf("got %v, want a deadline", err)
	}
}
