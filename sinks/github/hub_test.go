package github

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine/secret"
)

const (
	sha   = "1111111111111111111111111111111111111111"
	other = "2222222222222222222222222222222222222222"
)

// object is JSON.
type object = map[string]any

// hub is a GitHub of a few handlers, in memory and in virtual time. What a
// test does not set up is not there.
type hub struct {
	*http.ServeMux
	mu   sync.Mutex
	sent []request
	// before answers in the place of all else, when it says so.
	before func(http.ResponseWriter, *http.Request) bool
}

// request is one that the hub received.
type request struct {
	what   string // "POST /repos/acme/site/statuses/1111…"
	at     time.Time
	header http.Header
	body   object
}

// RoundTrip makes the hub its own network.
func (h *hub) RoundTrip(req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	var body []byte
	if req.Body != nil {
		body, _ = io.ReadAll(req.Body)
	}
	r := request{what: req.Method + " " + req.URL.Path, at: time.Now(), header: req.Header.Clone()}
	_ = json.Unmarshal(body, &r.body) // a GET has none
	in := req.Clone(req.Context())
	in.Body = io.NopCloser(bytes.NewReader(body))
	h.mu.Lock()
	h.sent = append(h.sent, r)
	if h.before == nil || !h.before(w, in) {
		h.ServeHTTP(w, in)
	}
	h.mu.Unlock()
	if req.Context().Err() != nil {
		return nil, req.Context().Err()
	}
	resp := w.Result()
	resp.Request = req
	return resp, nil
}

// on answers a route, relative to the repository, with JSON.
func (h *hub) on(route string, answer func(*http.Request) any) {
	method, path, _ := strings.Cut(route, " ")
	if strings.HasPrefix(path, "./") {
		path = "/repos/acme/site" + path[1:]
	}
	h.HandleFunc(method+" "+path, func(w http.ResponseWriter, r *http.Request) { give(w, answer(r)) })
}

// give answers with JSON, and with 201 to what makes something.
func give(w http.ResponseWriter, v any) {
	if code, ok := v.(int); ok {
		w.WriteHeader(code)
		v = object{"message": http.StatusText(code)}
	}
	_ = json.NewEncoder(w).Encode(v)
}

// of are the requests that begin so.
func (h *hub) of(what string) []request {
	h.mu.Lock()
	defer h.mu.Unlock()
	var some []request
	for _, r := range h.sent {
		if strings.HasPrefix(r.what, what) {
			some = append(some, r)
		}
	}
	return some
}

func (h *hub) writes() []request {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(h.sent), func(r request) bool { return strings.HasPrefix(r.what, "GET ") })
}

// page answers a listing with a page of it, and with links as GitHub does.
func (h *hub) page(w http.ResponseWriter, r *http.Request, wrap func([]any) any, all []any) {
	q := r.URL.Query()
	size, _ := strconv.Atoi(q.Get("per_page"))
	n, _ := strconv.Atoi(q.Get("page"))
	n = max(n, 1)
	from, to := min((n-1)*size, len(all)), min(n*size, len(all))
	if to < len(all) {
		q.Set("page", strconv.Itoa(n+1))
		w.Header().Set("Link", fmt.Sprintf(`<https://%s%s?%s>; rel="next"`, r.Host, r.URL.Path, q.Encode()))
	}
	give(w, wrap(all[from:to]))
}

func (h *hub) list(route string, wrap func([]any) any, all func(*http.Request) []any) {
	h.HandleFunc("GET /repos/acme/site/"+route, func(w http.ResponseWriter, r *http.Request) { h.page(w, r, wrap, all(r)) })
}

func plainList(all []any) any { return append([]any{}, all...) }

// safe holds one credential, for some hosts.
type safe struct {
	mu    sync.Mutex
	value secret.Value
	hosts []string
}

func (s *safe) Get(r secret.Request) (secret.Value, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.hosts, r.Host) || r.Use != secret.GitHub || r.Port == 0 {
		return secret.Value{}, fmt.Errorf("%w: %+v", secret.ErrHost, r)
	}
	return s.value, nil
}

func (s *safe) set(v secret.Value) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.value = v
}

func withToken() *safe {
	return &safe{value: secret.New("", "t0ken-canary"), hosts: []string{"api.github.com", "github.com"}}
}

// key is made once: it takes a while.
var appKey = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

func withApp() *safe {
	der := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(appKey())})
	return &safe{value: secret.New("Iv1.slipway", string(der)), hosts: []string{"api.github.com", "github.com"}}
}

// newHub is a hub that knows who we are.
func newHub() *hub {
	h := &hub{ServeMux: http.NewServeMux()}
	h.on("GET /user", func(*http.Request) any { return object{"login": "slipway-machine", "id": 7} })
	h.on("GET /app", func(*http.Request) any { return object{"slug": "slipway", "id": 77} })
	h.on("GET ./installation", func(*http.Request) any { return object{"id": 5} })
	made := 0
	h.on("POST /app/installations/5/access_tokens", func(*http.Request) any {
		made++
		return object{"token": fmt.Sprintf("installation-%d", made), "expires_at": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
			"repositories": []object{{"id": 1296}}}
	})
	return h
}

func connect(t *testing.T, h *hub, s *safe) *Repository {
	t.Helper()
	r, err := open(Config{API: PublicAPI, Repository: "acme/site", Credential: "github", Secrets: s, Log: slog.New(slog.DiscardHandler)}, h)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// virtually runs a test in virtual time.
func virtually(t *testing.T, f func(*testing.T)) {
	t.Helper()
	appKey()
	synctest.Test(t, f)
}

func mustParse(address string) *url.URL {
	u, err := url.Parse(address)
	if err != nil {
		panic(err)
	}
	return u
}
