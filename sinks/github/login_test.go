package github

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/slipway-gitops/slipway/engine/forge"
	"github.com/slipway-gitops/slipway/engine/secret"
)

// The token goes to the API's host, and nowhere that a redirect or a link leads.
func TestTokenStaysAtItsHost(t *testing.T) {
	virtually(t, func(t *testing.T) {
		h := newHub()
		statuses(h)
		h.on("GET /repositories/1/pulls/3", func(*http.Request) any { return pull(3) })
		to := ""
		h.before = func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasPrefix(r.URL.Path, "/repos/") {
				return false
			}
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusMovedPermanently)
			return true
		}
		r := connect(t, h, withToken())
		to = "https://evil.example.org/repos/acme/site/pulls/3"
		if _, err := r.Proposal(t.Context(), 3); err == nil || !strings.Contains(err.Error(), "the token is for api.github.com alone") {
			t.Errorf("got %v, want a refusal", err)
		}
		to = "http://api.github.com/repositories/1/pulls/3"
		if _, err := r.Proposal(t.Context(), 3); err == nil {
			t.Error("a redirect to http:// is followed")
		}
		to = "https://api.github.com/repositories/1/pulls/3"
		if p, err := r.Proposal(t.Context(), 3); err != nil || p.Number != 3 {
			t.Errorf("got %v, %v: a renamed repository is not read", p, err)
		}
		if _, _, err := r.api.Reactions.CreateIssueCommentReaction(t.Context(), "acme", "site", 1, "eyes"); err == nil || !strings.Contains(err.Error(), "write its new name") {
			t.Errorf("got %v, want a write not to be sent on as a read", err)
		}
	})
}

// A token that was replaced in its file is used at once when the old one is
// refused, and a wrong one is not tried twice.
func TestTokenIsReplaced(t *testing.T) {
	virtually(t, func(t *testing.T) {
		h, s := newHub(), withToken()
		h.on("GET ./pulls/{n}", func(*http.Request) any { return pull(3) })
		h.before = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get("Authorization") != "Bearer new" {
				w.WriteHeader(http.StatusUnauthorized)
				s.set(secret.New("", "new")) // an administrator is at work
				return true
			}
			return false
		}
		r := connect(t, h, s)
		if _, err := r.Proposal(t.Context(), 3); err != nil {
			t.Error(err)
		}
		h.before = func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		before := len(h.of(""))
		if _, err := r.Proposal(t.Context(), 3); !errors.Is(err, forge.ErrDenied) || len(h.of(""))-before != 1 {
			t.Errorf("got %v after %d requests", err, len(h.of(""))-before)
		}
	})
}

// A key in the place of a token is for a daemon that begins anew: it is not sent.
func TestKeyIsNotSentAsToken(t *testing.T) {
	virtually(t, func(t *testing.T) {
		h, s := newHub(), withToken()
		h.on("GET ./pulls/{n}", func(*http.Request) any { return pull(3) })
		r := connect(t, h, s)
		s.set(withApp().value)
		before := len(h.of(""))
		if _, err := r.Proposal(t.Context(), 3); !errors.Is(err, forge.ErrDenied) || !strings.Contains(err.Error(), "which is never sent") || len(h.of("")) != before {
			t.Errorf("got %v after %d requests", err, len(h.of(""))-before)
		}
	})
}

func TestApp(t *testing.T) {
	virtually(t, func(t *testing.T) {
		h := newHub()
		h.on("GET ./pulls/{n}", func(*http.Request) any { return pull(3) })
		r := connect(t, h, withApp())
		ask := func() string {
			t.Helper()
			if _, err := r.Proposal(t.Context(), 3); err != nil {
				t.Fatal(err)
			}
			all := h.of("GET /repos/acme/site/pulls")
			return all[len(all)-1].header.Get("Authorization")
		}
		if got := ask(); got != "Bearer installation-1" {
			t.Errorf("authorized by %q", got)
		}
		made := h.of("POST /app/installations/5")[0]
		if got := fmt.Sprint(made.body["repositories"]); got != "[site]" {
			t.Errorf("the token is for %s, want this repository alone", got)
		}
		claims := jwt.RegisteredClaims{}
		parsed, err := jwt.ParseWithClaims(strings.TrimPrefix(made.header.Get("Authorization"), "Bearer "), &claims,
			func(*jwt.Token) (any, error) { return &appKey().PublicKey, nil }, jwt.WithTimeFunc(time.Now))
		if err != nil || parsed.Method.Alg() != "RS256" || claims.Issuer != "Iv1.slipway" {
			t.Fatalf("the App's token is %v, %v", claims, err)
		}
		if early, life := time.Since(claims.IssuedAt.Time), claims.ExpiresAt.Sub(claims.IssuedAt.Time); early != time.Minute || life > 10*time.Minute {
			t.Errorf("it is issued %s early, for %s", early, life)
		}
		<-time.After(54 * time.Minute)
		if got := ask(); got != "Bearer installation-1" {
			t.Errorf("after 54 minutes authorized by %q", got)
		}
		<-time.After(90 * time.Second)
		if got := ask(); got != "Bearer installation-2" {
			t.Errorf("shortly before the token's end authorized by %q", got)
		}
		// A token that ends before its time is replaced in the middle.
		h.before = func(w http.ResponseWriter, r *http.Request) bool {
			expired := r.Header.Get("Authorization") == "Bearer installation-2"
			if expired {
				w.WriteHeader(http.StatusUnauthorized)
			}
			return expired
		}
		if got := ask(); got != "Bearer installation-3" {
			t.Errorf("after a refusal authorized by %q", got)
		}
		login, err := r.Login(mustParse("https://github.com/acme/site"))(t.Context())
		if err != nil || login.Username() != "x-access-token" || login.Reveal() != "installation-3" {
			t.Errorf("Git logs in as %q, %v", login.Username(), err)
		}
		if _, err := r.Login(mustParse("https://evil.example.org/"))(t.Context()); !errors.Is(err, secret.ErrHost) {
			t.Errorf("got %v for another host", err)
		}
	})
}

func TestAppThatIsNotInstalled(t *testing.T) {
	virtually(t, func(t *testing.T) {
		h := newHub()
		h.before = func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusNotFound)
			return true
		}
		_, err := connect(t, h, withApp()).Proposal(t.Context(), 3)
		if !errors.Is(err, forge.ErrDenied) || !strings.Contains(err.Error(), "not installed on acme/site: install it there") {
			t.Errorf("got %v", err)
		}
	})
}
