package openid

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	double "github.com/slipway-gitops/slipway/tests/oidc"
)

func commandLine(t *testing.T) (*double.Provider, *Command) {
	p, i := provider(t)
	return p, &Command{Issuer: i, Client: "slipway-cli", Scopes: []string{"openid", "email"}}
}

func TestByDevice(t *testing.T) {
	p, c := commandLine(t)
	if has, err := c.HasDevice(t.Context()); !has || err != nil {
		t.Errorf("got %v, %v", has, err)
	}
	var shown string
	got, err := c.ByDevice(t.Context(), func(address, code string) {
		shown = address
		if !p.Confirm(code, true) {
			t.Errorf("the code %q is not one of %v", code, p.Waiting())
		}
	})
	if err != nil || !strings.HasPrefix(shown, p.URL+"/activate") {
		t.Fatalf("got %v, shown %q", err, shown)
	}
	if end := EndOf(got.ID); time.Until(end) < 4*time.Minute || time.Until(end) > 5*time.Minute {
		t.Errorf("it ends %v", end)
	}
	again, err := c.Renew(t.Context(), got.Refresh)
	if err != nil || again.ID == "" || again.Refresh == got.Refresh {
		t.Errorf("renewed: %+v, %v", again, err)
	}
	if _, err := c.Renew(t.Context(), got.Refresh); !errors.Is(err, ErrLogin) || !strings.Contains(err.Error(), "invalid_grant") {
		t.Errorf("renewed by what was used: %v", err)
	}
	if done, err := c.Revoke(t.Context(), again.Refresh); !done || err != nil {
		t.Errorf("revoke: %v, %v", done, err)
	}
	if _, err := c.Renew(t.Context(), again.Refresh); !errors.Is(err, ErrLogin) {
		t.Errorf("renewed by what was taken back: %v", err)
	}
	if _, err := c.ByDevice(t.Context(), func(_, code string) { p.Confirm(code, false) }); !errors.Is(err, ErrLogin) || !strings.Contains(err.Error(), "access_denied") {
		t.Errorf("a person who says no: %v", err)
	}
	p.Change(func(s *double.State) { s.Agrees = true; s.Token = func(x *double.Token) { x.Claims["aud"] = "other" } })
	if _, err := c.ByDevice(t.Context(), func(string, string) {}); !errors.Is(err, ErrToken) {
		t.Errorf("a token for another client: %v", err)
	}
	p.Change(func(s *double.State) { s.Away = true })
	if _, err := c.Renew(t.Context(), "x"); !errors.Is(err, ErrAway) {
		t.Errorf("an issuer that is away: %v", err)
	}
}

func TestByBrowser(t *testing.T) {
	p, c := commandLine(t)
	client, err := c.Issuer.client()
	if err != nil {
		t.Fatal(err)
	}
	visit := func(address string) (status int, text string) {
		resp, err := client.Get(address)
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, resp.Header.Get("Location") + string(b)
	}
	got, err := c.ByBrowser(t.Context(), func(address string) {
		_, back := visit(address)
		back, _, _ = strings.Cut(back, "<")
		u, err := url.Parse(strings.TrimSpace(back))
		if err != nil || u.Hostname() != "127.0.0.1" || u.Scheme != "http" {
			t.Fatalf("sent back to %q, %v", back, err)
		}
		for what, change := range map[string]func(url.Values){
			"another state":  func(q url.Values) { q.Set("state", "x") },
			"no state":       func(q url.Values) { q.Del("state") },
			"another issuer": func(q url.Values) { q.Set("iss", "https://evil.example.org") },
		} {
			other, q := *u, u.Query()
			change(q)
			other.RawQuery = q.Encode()
			if status, text := visit(other.String()); status != http.StatusForbidden {
				t.Errorf("%s: %d %s", what, status, text)
			}
		}
		if status, text := visit(u.String()); status != 200 || !strings.Contains(text, "Close this window") {
			t.Errorf("got %d %s", status, text)
		}
	})
	if err != nil || got.ID == "" || got.Refresh == "" {
		t.Errorf("got %+v, %v", got, err)
	}
	for says, change := range map[string]func(*double.State){
		"the issuer says: access_denied": func(s *double.State) { s.Deny = true },
		"it is the answer to another login": func(s *double.State) {
			s.Deny, s.Token = false, func(x *double.Token) { x.Claims["nonce"] = "another" }
		},
	} {
		p.Change(change)
		if _, err := c.ByBrowser(t.Context(), func(address string) {
			_, back := visit(address)
			back, _, _ = strings.Cut(back, "<")
			visit(strings.TrimSpace(back))
		}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
}
