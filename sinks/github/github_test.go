package github

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/forge"
	"github.com/slipway-gitops/slipway/engine/secret"
)

// pull is a pull request as GitHub gives it.
func pull(n int) object {
	return object{
		"number": n, "title": "Add <b>n1</b>", "state": "open", "user": object{"login": "mona"}, "draft": false,
		"base":       object{"ref": "main", "repo": object{"id": 1}},
		"head":       object{"sha": sha, "repo": object{"id": 1}},
		"updated_at": "2026-01-02T03:04:05Z", "html_url": "https://github.com/acme/site/pull/3",
	}
}

func TestWhereTheRepositoryIs(t *testing.T) {
	for _, c := range []struct {
		api, git, page string
		is             bool
	}{
		{PublicAPI, "https://github.com/Acme/site.git", "https://github.com/acme/site/blob/c0ffee", true},
		{PublicAPI, "https://github.com/acme/site/", "https://github.com/acme/site/blob/c0ffee", true},
		{PublicAPI, "https://github.com/acme/sites", "https://github.com/acme/site/blob/c0ffee", false},
		{PublicAPI, "https://git.example.org/acme/site", "https://github.com/acme/site/blob/c0ffee", false},
		{PublicAPI, "ssh://github.com/acme/site", "https://github.com/acme/site/blob/c0ffee", false},
		{"https://git.example.org/api/v3", "https://git.example.org/acme/site", "https://git.example.org/acme/site/blob/c0ffee", true},
		{"https://git.example.org:8443/api/v3/", "https://git.example.org/acme/site", "https://git.example.org:8443/acme/site/blob/c0ffee", false},
		{"https://api.acme.ghe.com", "https://acme.ghe.com/acme/site", "https://acme.ghe.com/acme/site/blob/c0ffee", true},
	} {
		t.Run(c.api+" "+c.git, func(t *testing.T) {
			s := withToken()
			s.hosts = append(s.hosts, "git.example.org", "api.acme.ghe.com")
			r, err := Open(Config{API: c.api, Repository: "acme/site", Credential: "github", Secrets: s})
			if err != nil {
				t.Fatal(err)
			}
			u, err := url.Parse(c.git)
			if err != nil {
				t.Fatal(err)
			}
			if r.Is(u) != c.is || r.Pages("c0ffee") != c.page {
				t.Errorf("it is %s: %t; its pages are %s", c.git, r.Is(u), r.Pages("c0ffee"))
			}
		})
	}
}

func TestOpenSaysWhatToPass(t *testing.T) {
	small := secret.New("1", "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n")
	for _, c := range []struct {
		name, api, repository, ca string
		secrets                   *safe
		want                      string
	}{
		{"no API", "", "acme/site", "", withToken(), "write https://api.github.com"},
		{"pages", "https://github.com", "acme/site", "", withToken(), "not that of its pages"},
		{"http", "http://ghes.example.org/api/v3", "acme/site", "", withToken(), "use https://"},
		{"token in the address", "https://t0ken-canary@api.github.com", "acme/site", "", withToken(), "put it into the credential"},
		{"no owner", PublicAPI, "site", "", withToken(), "write OWNER/NAME"},
		{"a way out", PublicAPI, "acme/..", "", withToken(), "write OWNER/NAME"},
		{"other host", "https://ghes.example.org/api/v3", "acme/site", "", withToken(), "not for this host"},
		{"broken key", PublicAPI, "acme/site", "", &safe{value: small, hosts: []string{"api.github.com"}}, "not an RSA private key"},
		{"key of nobody", PublicAPI, "acme/site", "", &safe{value: secret.New("", withApp().value.Reveal()), hosts: []string{"api.github.com"}}, "not which App it is"},
		{"no CA", PublicAPI, "acme/site", filepath.Join(t.TempDir(), "ca.pem"), withToken(), "certificate authorities"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Open(Config{API: c.api, Repository: c.repository, Credential: "github", Secrets: c.secrets, CA: c.ca})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want an error with %q", err, c.want)
			}
			if strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "AAAA") {
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	for code, c := range map[int]struct {
		is   error
		want string
	}{
		http.StatusUnauthorized:        {forge.ErrDenied, "make a new one"},
		http.StatusForbidden:           {nil, `GitHub does not say that a right is missing`},
		http.StatusNotFound:            {forge.ErrGone, "the token may not see it"},
		http.StatusGone:                {forge.ErrGone, "does not find it"},
		http.StatusUnprocessableEntity: {forge.ErrRefused, "GitHub answers 422"},
		http.StatusBadGateway:          {nil, "GitHub answers 502"},
	} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			virtually(t, func(t *testing.T) {
				h := newHub()
				h.before = func(w http.ResponseWriter, _ *http.Request) bool {
					w.WriteHeader(code)
					give(w, object{"message": "no \x1b[31m\nway", "errors": []object{{"field": "head", "code": "custom", "message": "bad"}}})
					return true
				}
				_, err := connect(t, h, withToken()).Proposal(t.Context(), 3)
				if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "no [31m way") || !strings.Contains(err.Error(), "#3") {
					t.Fatalf("got %v, want %q", err, c.want)
				}
				for _, kind := range []error{forge.ErrDenied, forge.ErrGone, forge.ErrRefused} {
					if errors.Is(err, kind) != (kind == c.is) {
						t.Errorf("%v is %v", err, kind)
					}
				}
				if strings.Contains(err.Error(), "canary") {
					t.Errorf("the error shows the token: %v", err)
				}
			})
		})
	}
}

// A 403 is explained as a missing right only where GitHub says so. The messages
// are GitHub's own.
func TestForbiddenIsExplained(t *testing.T) {
	for message, want := range map[string]string{
		"Resource not accessible by personal access token":                    `required: "Pull requests: read"`,
		"Resource not accessible by integration":                              `required: "Pull requests: read"`,
		"Must have admin rights to Repository.":                               `required: "Pull requests: read"`,
		"Resource protected by organization SAML enforcement. You must grant": "single sign-on",
		"Although you appear to have the correct authorization credentials, the `acme` organization has an IP allow list enabled": "allow list",
		"Repository was archived so is read-only.":                       "unarchive it",
		"Unable to create comment because issue is locked.":              "unlock it",
		"This installation has been suspended":                           "suspended",
		"`acme` forbids access via a fine-grained personal access token": "allow this kind of token",
		"Repository access blocked":                                      "access is blocked",
		"":                                                               "does not say that a right is missing",
	} {
		t.Run(message, func(t *testing.T) {
			virtually(t, func(t *testing.T) {
				h := newHub()
				h.before = func(w http.ResponseWriter, _ *http.Request) bool {
					w.WriteHeader(http.StatusForbidden)
					give(w, object{"message": message})
					return true
				}
				_, err := connect(t, h, withToken()).Proposal(t.Context(), 3)
				if errors.Is(err, forge.ErrDenied) != (message != "") || !strings.Contains(err.Error(), want) ||
					strings.Contains(err.Error(), "required: ") != strings.HasPrefix(want, "required: ") {
					t.Errorf("got %v, want %q", err, want)
				}
			})
		})
	}
}

func TestAnswerThatIsTooLarge(t *testing.T) {
	virtually(t, func(t *testing.T) {
		h := newHub()
		h.before = func(w http.ResponseWriter, _ *http.Request) bool {
			_, _ = w.Write(make([]byte, maxAnswer+1))
			return true
		}
		if _, err := connect(t, h, withToken()).Proposal(t.Context(), 3); err == nil || !strings.Contains(err.Error(), "longer than 32 MiB") {
			t.Errorf("got %v, want a refusal", err)
		}
	})
}

func TestSweep(t *testing.T) {
	virtually(t, func(t *testing.T) {
		h := newHub()
		now := time.Now()
		delivery := func(id int, guid string, ago time.Duration, code int, more object) object {
			d := object{"id": id, "guid": guid, "delivered_at": now.Add(-ago).UTC().Format(time.RFC3339), "status_code": code, "installation_id": 5, "repository_id": 1296}
			for k, v := range more {
				d[k] = v
			}
			return d
		}
		h.HandleFunc("GET /app/hook/deliveries", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("cursor") == "" {
				w.Header().Set("Link", `<https://api.github.com/app/hook/deliveries?per_page=100&cursor=v1_2>; rel="next"`)
				give(w, []object{
					delivery(9, "arrived", time.Minute, 202, nil),
					delivery(8, "missed", 2*time.Minute, 502, nil),
					delivery(7, "arrived", 3*time.Minute, 500, nil),
					delivery(6, "elsewhere", 3*time.Minute, 500, object{"repository_id": 5}),
					delivery(5, "not ours", 3*time.Minute, 500, object{"installation_id": 6}),
				})
				return
			}
			give(w, []object{
				delivery(4, "hopeless", 4*time.Minute, 500, nil),
				delivery(3, "hopeless", 5*time.Minute, 500, nil),
				delivery(2, "hopeless", 6*time.Minute, 500, nil),
				delivery(1, "also missed", 7*time.Minute, 0, nil),
				delivery(0, "long ago", 2*time.Hour, 500, nil),
			})
		})
		h.HandleFunc("POST /app/hook/deliveries/{id}/attempts", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusAccepted)
			give(w, object{})
		})
		n, err := connect(t, h, withApp()).Sweep(t.Context(), now.Add(-time.Hour))
		again := h.of("POST /app/hook/deliveries")
		if err != nil || n != 2 || len(again) != 2 || !strings.Contains(again[0].what, "/1/") || !strings.Contains(again[1].what, "/8/") {
			t.Errorf("%d delivered again, %v: %v", n, err, again)
		}
		if _, err := connect(t, h, withToken()).Sweep(t.Context(), now); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("got %v with a token", err)
		}
	})
}

// A server of one's own has an address and a certificate authority of its own.
func TestEnterpriseServer(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v3/repos/acme/site/pulls/3", func(w http.ResponseWriter, _ *http.Request) { give(w, pull(3)) })
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(ca, cert, 0o600); err != nil {
		t.Fatal(err)
	}
	c := Config{
		API: server.URL + "/api/v3", Repository: "acme/site", Credential: "github", CA: ca,
		Secrets: &safe{value: secret.New("", "t0ken"), hosts: []string{"127.0.0.1"}}, Log: slog.New(slog.DiscardHandler),
	}
	r, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := r.Proposal(t.Context(), 3); err != nil || p.Number != 3 {
		t.Errorf("got %v, %v", p, err)
	}
	c.CA = ""
	if r, err = Open(c); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Proposal(t.Context(), 3); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("got %v without the authority", err)
	}
}

// A server that says nothing is left when its time is up.
func TestSilentServer(t *testing.T) {
	virtually(t, func(t *testing.T) {
		r := connect(t, newHub(), withToken())
		r.api = client(&transport{base: silent{}, api: r.api.BaseURL, who: &static{withToken(), secret.Request{Name: "github", Use: secret.GitHub, Host: "api.github.com", Port: 443}},
			limits: newLimits(slog.New(slog.DiscardHandler)), cache: newCache()})
		begun := time.Now()
		_, err := r.Proposal(t.Context(), 3)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != requestTimeout {
			t.Errorf("got %v after %s", err, time.Since(begun))
		}
	})
}

type silent struct{}

func (silent) RoundTrip(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"", 3, ""}, {"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"äöüß", 3, "äö…"}, {"a\xffb", 3, "a�b"}, {"abcd", 1, "…"},
	} {
		if got := cut(c.text, c.most); got != c.want {
			t.Errorf("%q cut to %d is %q, want %q", c.text, c.most, got, c.want)
		}
	}
}
