package vault

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

const canary = "canary-5f1c"

// server is a double of a server of secrets, as its API is documented: KV version 2 under
// "secret", and AppRole.
type server struct {
	t       *testing.T
	tokens  map[string]bool // that are valid now
	logins  int
	asked   []string
	answer  func(w http.ResponseWriter, r *http.Request) bool // in place of the usual one
	objects map[string]string
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked = append(s.asked, r.Method+" "+r.URL.Path)
	if s.answer != nil && s.answer(w, r) {
		return
	}
	if r.Header.Get("X-Vault-Request") != "true" || r.Header.Get("X-Vault-Namespace") != "team" {
		s.t.Errorf("headers %v", r.Header)
	}
	wrong := func(status int, errs ...string) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string][]string{"errors": append([]string{}, errs...)})
	}
	if r.Method == http.MethodPost && r.URL.Path == "/v1/auth/approle/login" {
		var by map[string]string
		_ = json.NewDecoder(r.Body).Decode(&by)
		if by["role_id"] != "role-1" || by["secret_id"] != canary {
			wrong(http.StatusBadRequest, "invalid role or secret ID")
			return
		}
		s.logins++
		token := fmt.Sprintf("hvs.%d", s.logins)
		s.tokens = map[string]bool{token: true}
		fmt.Fprintf(w, `{"request_id":"1","auth":{"client_token":%q,"lease_duration":3600,"renewable":true}}`, token)
		return
	}
	if !s.tokens[r.Header.Get("X-Vault-Token")] {
		wrong(http.StatusForbidden, "permission denied")
		return
	}
	object, ok := s.objects[strings.TrimPrefix(r.URL.Path, "/v1/secret/data/")]
	if !ok {
		wrong(http.StatusNotFound)
		return
	}
	fmt.Fprintf(w, `{"request_id":"2","data":{"data":%s,"metadata":{"version":3,"deletion_time":"","destroyed":false}}}`, object)
}

// serve starts the double and gives a client of it with a login.
func serve(t *testing.T, d *server, l Login) *Server {
	t.Helper()
	d.t = t
	h := httptest.NewTLSServer(d)
	t.Cleanup(h.Close)
	h.Config.ErrorLog = nil
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw}))
	at, err := url.Parse(h.URL)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(at, ca)
	if err != nil {
		t.Fatal(err)
	}
	s.Namespace, s.Mount = "team", "secret"
	s.Login = func(to *url.URL) (Login, error) {
		if to.Hostname() != "127.0.0.1" {
			return Login{}, fmt.Errorf("not for %s", to.Hostname())
		}
		return l, nil
	}
	return s
}

var objects = map[string]string{
	"fra/bmc": `{"site":"fra","hosts":["192.0.2.0/24","bmc.example.org"],"use":"redfish","ports":[443,8443],"username":"admin","secret":"` + canary + `"}`,
}

func TestReadWithAToken(t *testing.T) {
	d := &server{tokens: map[string]bool{"hvs.root": true}, objects: objects}
	s := serve(t, d, Login{Secret: "hvs.root"})
	object, err := s.Read(t.Context(), "fra/bmc")
	if err != nil {
		t.Fatal(err)
	}
	text, err := Credential(object, "fra")
	if want := "hosts: 192.0.2.0/24, bmc.example.org\nuse: redfish\nports: 443, 8443\nusername: admin\n\n" + canary; err != nil || string(text) != want {
		t.Errorf("got %q, %v", text, err)
	}
	if _, err := Credential(object, "ber"); err == nil || !strings.Contains(err.Error(), `does not say "ber"`) {
		t.Errorf("of another site: %v", err)
	}
	if _, err := s.Read(t.Context(), "fra/other"); err == nil || !strings.Contains(err.Error(), "there is no such secret") {
		t.Errorf("one that is not there: %v", err)
	}
	d.tokens = nil
	if _, err := s.Read(t.Context(), "fra/bmc"); !errors.Is(err, ErrDenied) || !strings.Contains(err.Error(), "permission denied: the token or role needs") {
		t.Errorf("denied: %v", err)
	}
}

// The token of a role is had once, and again where it was revoked: once for each request,
// so that a role that may not read is no storm of logins.
func TestReadAsARole(t *testing.T) {
	d := &server{objects: objects}
	s := serve(t, d, Login{Role: "role-1", Secret: canary})
	read := func() {
		t.Helper()
		if _, err := s.Read(t.Context(), "fra/bmc"); err != nil {
			t.Error(err)
		}
	}
	read()
	read()
	if d.logins != 1 {
		t.Errorf("%d logins for two looks, want 1", d.logins)
	}
	d.tokens = nil // revoked
	if _, err := s.Read(t.Context(), "fra/bmc"); !errors.Is(err, ErrDenied) || d.logins != 1 {
		t.Errorf("a token that is denied within a minute: %v after %d logins, want 1", err, d.logins)
	}
	s.had = time.Now().Add(-renewEvery)
	read()
	if d.logins != 2 {
		t.Errorf("%d logins after a revocation, want 2", d.logins)
	}
	s.until = time.Now() // its lease is nearly over
	read()
	if d.logins != 3 {
		t.Errorf("%d logins after a lease, want 3", d.logins)
	}
	s.had = time.Now().Add(-renewEvery)
	d.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusForbidden)
		}
		return r.Method == http.MethodGet
	}
	if _, err := s.Read(t.Context(), "fra/bmc"); !errors.Is(err, ErrDenied) || d.logins != 4 {
		t.Errorf("a role that may not read: %v after %d logins, want 4", err, d.logins)
	}
	wrong := &server{}
	other := serve(t, wrong, Login{Role: "role-1", Secret: "wrong"})
	for range 3 { // asked for once
		_, _ = other.Read(t.Context(), "fra/bmc")
	}
	if len(wrong.asked) != 1 {
		t.Errorf("a wrong secret ID was sent %d times, want 1", len(wrong.asked))
	}
	if _, err := other.Read(t.Context(), "fra/bmc"); err == nil || !strings.Contains(err.Error(), "log in as the role: the server answered with status 400: invalid role or secret ID") {
		t.Errorf("a wrong secret ID: %v", err)
	}
}

// A server in standby names the active one. The token goes only where the login may.
func TestStandby(t *testing.T) {
	active := &server{tokens: map[string]bool{"hvs.root": true}, objects: objects}
	s := serve(t, active, Login{Secret: "hvs.root"})
	name := ""
	active.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.RawQuery == "active" || name == "" {
			return false
		}
		w.Header().Set("Location", name)
		w.WriteHeader(http.StatusTemporaryRedirect)
		return true
	}
	name = "/v1/secret/data/fra/bmc?active"
	if _, err := s.Read(t.Context(), "fra/bmc"); err != nil {
		t.Errorf("over a standby: %v", err)
	}
	for to, want := range map[string]string{
		"https://evil.example.org/v1/x":                "names evil.example.org: not for evil.example.org",
		"http://192.0.2.9/v1/secret/data/fra/bmc":      "can be read and changed on the way",
		s.Address.String() + "/v1/secret/data/fra/bmc": "the server names another one for the 3th time",
		"%%": "failed to parse Location",
	} {
		name = to
		if _, err := s.Read(t.Context(), "fra/bmc"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", to, err, want)
		}
	}
}

// Whatever the server answers, nothing of a secret is in an error, and the text is
// printable.
func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		status       int
		answer, want string
	}{
		"sealed":          {503, `{"errors":["Vault is sealed"]}`, "the server is sealed or in maintenance: Vault is sealed"},
		"hostile":         {500, `{"errors":["\u001b[2J\u202e` + strings.Repeat("x", 900) + `"]}`, "status 500: "},
		"not JSON":        {200, "<html>" + canary, "is not what a server of secrets says"},
		"cut":             {200, `{"data":{"data":{"secret":"` + canary, "is not what a server of secrets says"},
		"large":           {200, `{"data":"` + strings.Repeat("x", maxAnswer) + `"}`, "more than 1048576 bytes"},
		"version 1":       {200, `{"data":{"secret":"` + canary + `"}}`, "KV, version 2"},
		"deleted":         {200, `{"data":{"data":null,"metadata":{"deletion_time":"2026-01-01T00:00:00Z"}}}`, "was deleted there"},
		"too many":        {429, `{"errors":["request path rate limit quota exceeded"]}`, "status 429: request path"},
		"another success": {204, "", "status 204"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, &server{answer: func(w http.ResponseWriter, _ *http.Request) bool {
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.answer)
				return true
			}}, Login{Secret: "hvs.root"})
			_, err := s.Read(t.Context(), "fra/bmc")
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), canary) || strings.ContainsAny(err.Error(), "\x1b\u202e") || len(err.Error()) > 400 {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	s := serve(t, &server{answer: func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true }}, Login{Secret: "hvs.root"})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := s.Read(ctx, "fra/bmc"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("silence: %v", err)
	}
}

func TestCredentialsOfOddObjects(t *testing.T) {
	for object, want := range map[string]string{
		`{}`:                             `"site" does not say "fra"`,
		`{"site":["fra","ber"]}`:         `"site" does not say "fra"`,
		`{"site":"fra"}`:                 `no text in the field "secret"`,
		`{"site":"fra","secret":""}`:     `no text in the field "secret"`,
		`{"site":"fra","secret":["a"]}`:  `no text in the field "secret"`,
		`{"site":"fra","hosts":{"a":1}}`: `"hosts" is neither a text of one line`,
		`{"site":"fra","hosts":"a\nuse: ssh","secret":"x"}`: `"hosts" is neither a text of one line`,
		`{"site":"fra","use":true,"secret":"x"}`:            `"use" is neither`,
	} {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal([]byte(object), &fields); err != nil {
			t.Fatal(err)
		}
		if _, err := Credential(fields, "fra"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", object, err, want)
		}
	}
}

func TestAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"http://bao.example.org:8200": "use https://",
		"ftp://127.0.0.1":             "use https://",
		"http://127.0.0.1:8200":       "",
		"http://localhost:8200":       "",
		"https://bao.example.org":     "",
	} {
		at, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = New(at, ""); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", address, err, want)
		}
	}
	at := &url.URL{Scheme: "https", Host: "bao.example.org"}
	if _, err := New(at, "nothing"); err == nil || !strings.Contains(err.Error(), "has no certificate in PEM form") {
		t.Errorf("no authority: %v", err)
	}
}
