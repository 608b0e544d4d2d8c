package oidc

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"time"
)

// Client is a client that is registered at the provider.
type Client struct {
	// Secret is that of a confidential client; empty for a public one.
	Secret string
	// Redirects are where browsers may be sent back to, exactly. With Loopback it is any port of 127.0.0.1 as well.
	Redirects []string
	Loopback  bool
	// Device says that the client may use the device flow.
	Device bool
}

// Provider is a provider of OpenID Connect. Its fields are changed by Change.
type Provider struct {
	URL string
	// CA is the PEM of its certificate.
	CA []byte

	server *httptest.Server

	mu     sync.Mutex
	state  State
	keys   []*key // the last one signs
	codes  map[string]*grant
	device map[string]*grant // by device code
	fresh  map[string]*grant // by refresh token
	asked  map[string]int    // by path
}

// State is how the provider behaves.
type State struct {
	Clients map[string]Client
	// User are the claims of the person who is logged in at the provider.
	User map[string]any
	// Life is how long an ID token is valid.
	Life time.Duration
	// Now is the provider's clock.
	Now func() time.Time

	// Agrees has the person confirm at once what a device shows.
	Agrees bool

	// What follows is unkind.

	// Away has every request answered by a cut connection, and Broken by status 500.
	Away, Broken bool
	// Describe changes the discovery document.
	Describe func(map[string]any)
	// Token changes an ID token before it is signed.
	Token func(*Token)
	// Raw replaces an ID token.
	Raw func(string) string
	// Deny has the person deny the login.
	Deny bool
	// NoRefresh has the provider give no refresh token.
	NoRefresh bool
}

// grant is what a person has agreed to.
type grant struct {
	client, redirect, nonce, challenge string
	user                               map[string]any
	// of the device flow
	userCode  string
	confirmed bool
	denied    bool
}

// Start starts a provider on loopback.
func Start() *Provider {
	p := &Provider{codes: map[string]*grant{}, device: map[string]*grant{}, fresh: map[string]*grant{}, asked: map[string]int{}}
	p.state = State{Clients: map[string]Client{}, User: map[string]any{}, Life: 5 * time.Minute, Now: time.Now}
	p.keys = []*key{newKey()}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.describe)
	mux.HandleFunc("GET /keys", p.giveKeys)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("POST /device", p.startDevice)
	mux.HandleFunc("POST /revoke", p.revoke)
	p.server = httptest.NewUnstartedServer(p.unkind(mux))
	p.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	p.server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	p.server.StartTLS()
	p.URL = p.server.URL
	p.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})
	return p
}

// Close ends the provider.
func (p *Provider) Close() { p.server.CloseClientConnections(); p.server.Close() }

// Roots are what verifies the provider's certificate.
func (p *Provider) Roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(p.CA)
	return pool
}

// Change changes how the provider behaves.
func (p *Provider) Change(change func(*State)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.state)
}

// now is how the provider behaves now.
func (p *Provider) now() State {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.state
	s.Clients, s.User = maps.Clone(s.Clients), maps.Clone(s.User)
	return s
}

// Rotate has another key sign from now on. The keys before are published no more.
func (p *Provider) Rotate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = []*key{newKey()}
}

// Asked is how often a path was asked for.
func (p *Provider) Asked(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[path]
}

func (p *Provider) unkind(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.asked[r.URL.Path]++
		away, broken := p.state.Away, p.state.Broken
		p.mu.Unlock()
		switch {
		case away:
			panic(http.ErrAbortHandler)
		case broken:
			http.Error(w, "out of order", http.StatusInternalServerError)
		default:
			h.ServeHTTP(w, r)
		}
	})
}

func (p *Provider) describe(w http.ResponseWriter, _ *http.Request) {
	doc := map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
		"device_authorization_endpoint": p.URL + "/device", "revocation_endpoint": p.URL + "/revoke", "scopes_supported": []string{"openid", "email", "groups", "offline_access"}, "response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
		"id_token_signing_alg_values_supported": []string{"RS256"}, "code_challenge_methods_supported": []string{"S256"},
		"token_endpoint_auth_methods_supported": []string{"client_secret_basic", "none"}, "authorization_response_iss_parameter_supported": true,
	}
	if change := p.now().Describe; change != nil {
		change(doc)
	}
	answer(w, http.StatusOK, doc)
}

func (p *Provider) giveKeys(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := []map[string]any{}
	for _, k := range p.keys {
		all = append(all, k.public())
	}
	answer(w, http.StatusOK, map[string]any{"keys": all})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body)
}

// refuse is an error as RFC 6749 has it.
func refuse(w http.ResponseWriter, code, text string) {
	status := http.StatusBadRequest
	if code == "invalid_client" {
		status = http.StatusUnauthorized
	}
	answer(w, status, map[string]any{"error": code, "error_description": text})
}

// IDToken is an ID token for a client, as the provider would make it now.
func (p *Provider) IDToken(client, nonce string) string {
	return p.sign(p.now(), client, nonce, p.now().User)
}

func (p *Provider) sign(s State, client, nonce string, user map[string]any) string {
	at := s.Now()
	t := &Token{Header: map[string]any{"alg": "RS256", "typ": "JWT"}, Claims: maps.Clone(user), key: p.signer()}
	t.Header["kid"] = t.key.id
	if t.Claims == nil {
		t.Claims = map[string]any{}
	}
	for name, v := range map[string]any{"iss": p.URL, "aud": client, "iat": at.Unix(), "exp": at.Add(s.Life).Unix(), "sub": "subject-1", "auth_time": at.Unix()} {
		if _, own := t.Claims[name]; !own {
			t.Claims[name] = v
		}
	}
	if nonce != "" {
		t.Claims["nonce"] = nonce
	}
	if s.Token != nil {
		s.Token(t)
	}
	text := t.sign()
	if s.Raw != nil {
		text = s.Raw(text)
	}
	return text
}

func (p *Provider) signer() *key {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keys[len(p.keys)-1]
}

// Confirm has the person confirm what a device shows. It is false for a code that is not known.
func (p *Provider) Confirm(userCode string, agree bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range p.device {
		if g.userCode == userCode {
			g.confirmed, g.denied, g.user = agree, !agree, maps.Clone(p.state.User)
			return true
		}
	}
	return false
}

// Waiting are the codes that devices show.
func (p *Provider) Waiting() (codes []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range p.device {
		codes = append(codes, g.userCode)
	}
	slices.Sort(codes)
	return codes
}

func text(n int) string { return rand.Text()[:n] }
