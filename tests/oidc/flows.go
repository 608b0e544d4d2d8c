package oidc

import (
	"crypto/sha256"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// authorize is where a browser comes to log in. The person is logged in already and agrees at once.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q, s := r.URL.Query(), p.now()
	c, known := s.Clients[q.Get("client_id")]
	to, err := url.Parse(q.Get("redirect_uri"))
	if !known || err != nil || !c.mayReturn(to) {
		http.Error(w, "unknown client, or not its redirection", http.StatusBadRequest) // and the browser goes nowhere
		return
	}
	back := url.Values{"state": {q.Get("state")}, "iss": {p.URL}}
	switch {
	case q.Get("response_type") != "code", !slices.Contains(strings.Fields(q.Get("scope")), "openid"), q.Get("state") == "", q.Get("nonce") == "":
		back.Set("error", "invalid_request")
	case q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43:
		back.Set("error", "invalid_request")
		back.Set("error_description", "PKCE is needed")
	case s.Deny:
		back.Set("error", "access_denied")
		back.Set("error_description", "the person said no")
	default:
		code := text(20)
		p.keep(p.codes, code, &grant{client: q.Get("client_id"), redirect: to.String(), nonce: q.Get("nonce"), challenge: q.Get("code_challenge"), user: s.User})
		back.Set("code", code)
	}
	to.RawQuery = back.Encode()
	http.Redirect(w, r, to.String(), http.StatusFound)
}

func (c Client) mayReturn(to *url.URL) bool {
	if slices.Contains(c.Redirects, to.String()) {
		return true
	}
	return c.Loopback && to.Scheme == "http" && to.Hostname() == "127.0.0.1"
}

func (p *Provider) keep(in map[string]*grant, code string, g *grant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	in[code] = g
}

// take gives what belongs to a code, once.
func (p *Provider) take(from map[string]*grant, code string) *grant {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := from[code]
	delete(from, code)
	return g
}

// authenticate is the client that asks for a token.
func (p *Provider) authenticate(w http.ResponseWriter, r *http.Request, s State) (id string, ok bool) {
	if r.ParseForm() != nil {
		refuse(w, "invalid_request", "no form")
		return "", false
	}
	id, secret, basic := r.BasicAuth()
	if basic { // each part is encoded as in a form, RFC 6749 2.3.1
		var wrong [2]error
		id, wrong[0] = url.QueryUnescape(id)
		secret, wrong[1] = url.QueryUnescape(secret)
		if wrong != [2]error{} {
			refuse(w, "invalid_client", "the header is not encoded")
			return "", false
		}
	} else {
		id, secret = r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	}
	c, known := s.Clients[id]
	if !known || c.Secret != secret {
		refuse(w, "invalid_client", "unknown client or wrong secret")
		return "", false
	}
	return id, true
}

// token gives tokens for what a person has agreed to.
func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	s := p.now()
	id, ok := p.authenticate(w, r, s)
	if !ok {
		return
	}
	f := r.PostForm
	switch f.Get("grant_type") {
	case "authorization_code":
		g := p.take(p.codes, f.Get("code"))
		sum := sha256.Sum256([]byte(f.Get("code_verifier")))
		if g == nil || g.client != id || g.redirect != f.Get("redirect_uri") || encode(sum[:]) != g.challenge {
			refuse(w, "invalid_grant", "the code is not known, used, or of another")
			return
		}
		p.give(w, s, g)
	case "refresh_token":
		g := p.take(p.fresh, f.Get("refresh_token"))
		if g == nil || g.client != id {
			refuse(w, "invalid_grant", "the refresh token is not known or used")
			return
		}
		again := *g
		again.nonce = ""
		p.give(w, s, &again)
	case "urn:ietf:params:oauth:grant-type:device_code":
		p.giveDevice(w, s, id, f.Get("device_code"))
	default:
		refuse(w, "unsupported_grant_type", "")
	}
}

func (p *Provider) give(w http.ResponseWriter, s State, g *grant) {
	all := map[string]any{"access_token": "access-" + text(20), "token_type": "Bearer", "expires_in": int(s.Life / time.Second), "id_token": p.sign(s, g.client, g.nonce, g.user)}
	if !s.NoRefresh {
		again := text(20)
		p.keep(p.fresh, again, g)
		all["refresh_token"] = again
	}
	answer(w, http.StatusOK, all)
}

// revoke takes back a refresh token, RFC 7009: also one that is not known.
func (p *Provider) revoke(w http.ResponseWriter, r *http.Request) {
	if _, ok := p.authenticate(w, r, p.now()); ok {
		p.take(p.fresh, r.PostForm.Get("token"))
		w.WriteHeader(http.StatusOK)
	}
}

// startDevice begins the device flow, RFC 8628.
func (p *Provider) startDevice(w http.ResponseWriter, r *http.Request) {
	s := p.now()
	id, ok := p.authenticate(w, r, s)
	if !ok {
		return
	}
	if !s.Clients[id].Device {
		refuse(w, "unauthorized_client", "this client has no device flow")
		return
	}
	code, shown := text(20), text(8)
	p.keep(p.device, code, &grant{client: id, userCode: shown, confirmed: s.Agrees, user: s.User})
	answer(w, http.StatusOK, map[string]any{
		"device_code": code, "user_code": shown, "verification_uri": p.URL + "/activate", "verification_uri_complete": p.URL + "/activate?user_code=" + shown, "expires_in": 600, "interval": 1,
	})
}

func (p *Provider) giveDevice(w http.ResponseWriter, s State, client, code string) {
	g := p.waiting(code)
	switch {
	case g == nil || g.client != client:
		refuse(w, "expired_token", "")
	case g.denied:
		p.take(p.device, code)
		refuse(w, "access_denied", "the person said no")
	case !g.confirmed:
		refuse(w, "authorization_pending", "")
	default:
		p.take(p.device, code)
		p.give(w, s, g)
	}
}

func (p *Provider) waiting(code string) *grant {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.device[code]
	if g == nil {
		return nil
	}
	copied := *g
	copied.user = maps.Clone(g.user)
	return &copied
}
