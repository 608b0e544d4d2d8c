package openid

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// Command is a command line at which a person logs in, a public client of an issuer.
type Command struct {
	Issuer *Issuer
	Client string
	Scopes []string
}

// Tokens are what a login has given.
type Tokens struct {
	// ID says who the person is. It is verified, as far as a client can do that.
	ID string
	// Refresh gets the next ones without the person; empty where the issuer gives none.
	Refresh string
}

// browserWithin is how long a login may take.
const browserWithin = 10 * time.Minute

// config is what the command is at the issuer, which may send a browser back to an address of loopback.
func (c *Command) config(ctx context.Context, back string) (*oauth2.Config, *described, error) {
	d, err := c.Issuer.describe(ctx)
	if err != nil {
		return nil, nil, err
	}
	conf := &oauth2.Config{ClientID: c.Client, Endpoint: d.endpoint(), RedirectURL: back, Scopes: c.Scopes}
	conf.Endpoint.AuthStyle = oauth2.AuthStyleInParams // a public client has only its ID to show
	var more struct {
		Scopes []string `json:"scopes_supported"`
	}
	// Some issuers refuse a scope that they do not know.
	if d.provider.Claims(&more) == nil && slices.Contains(more.Scopes, oidc.ScopeOfflineAccess) {
		conf.Scopes = append(slices.Clone(conf.Scopes), oidc.ScopeOfflineAccess)
	}
	return conf, d, nil
}

// HasDevice says whether the issuer has the flow for devices without a browser.
func (c *Command) HasDevice(ctx context.Context) (bool, error) {
	conf, _, err := c.config(ctx, "")
	return err == nil && conf.Endpoint.DeviceAuthURL != "", err
}

// ByDevice logs a person in who confirms a code with any browser, RFC 8628. show tells the person the address and the
// code.
func (c *Command) ByDevice(ctx context.Context, show func(address, code string)) (Tokens, error) {
	conf, d, err := c.config(ctx, "")
	if err != nil {
		return Tokens{}, err
	}
	ctx, cancel := context.WithTimeout(d.context(ctx), browserWithin)
	defer cancel()
	asked, err := conf.DeviceAuth(ctx)
	if err != nil {
		return Tokens{}, refusal(c.Issuer.URL, err)
	}
	address := asked.VerificationURIComplete
	if address == "" {
		address = asked.VerificationURI
	}
	if u, err := url.Parse(address); err != nil || u.Scheme != "https" {
		return Tokens{}, fmt.Errorf("%w: %s: it sends you to %s, which is not an HTTPS address", ErrAway, c.Issuer.URL, printable(address))
	}
	show(printable(address), printable(asked.UserCode))
	token, err := conf.DeviceAccessToken(ctx, asked)
	if err != nil {
		return Tokens{}, c.ended(ctx, err)
	}
	return c.verified(ctx, token, "")
}

// ended is why a login that waited for a person did not come to its end.
func (c *Command) ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: the login was not confirmed in time: run the command again", ErrLogin)
	}
	return refusal(c.Issuer.URL, err)
}

// ByBrowser logs a person in with a browser on this host, which comes back to a port of loopback, RFC 8252. open shows
// the browser the address.
func (c *Command) ByBrowser(ctx context.Context, open func(address string)) (Tokens, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return Tokens{}, err
	}
	back := &landing{state: rand.Text(), issuer: c.Issuer.URL, codes: make(chan answer, 1)}
	srv := &http.Server{Handler: back, ReadHeaderTimeout: askTimeout, ReadTimeout: askTimeout, WriteTimeout: askTimeout, MaxHeaderBytes: 32 << 10}
	go srv.Serve(l)
	defer srv.Close()
	conf, d, err := c.config(ctx, "http://"+l.Addr().String()+landingPath)
	if err != nil {
		return Tokens{}, err
	}
	nonce, secret := rand.Text(), oauth2.GenerateVerifier()
	open(conf.AuthCodeURL(back.state, oidc.Nonce(nonce), oauth2.S256ChallengeOption(secret)))
	ctx, cancel := context.WithTimeout(d.context(ctx), browserWithin)
	defer cancel()
	select {
	case <-ctx.Done():
		return Tokens{}, c.ended(ctx, ctx.Err())
	case got := <-back.codes:
		if got.wrong != "" {
			return Tokens{}, fmt.Errorf("%w: the issuer says: %s", ErrLogin, got.wrong)
		}
		token, err := conf.Exchange(ctx, got.code, oauth2.VerifierOption(secret))
		if err != nil {
			return Tokens{}, refusal(c.Issuer.URL, err)
		}
		return c.verified(ctx, token, nonce)
	}
}

// landing is where the browser comes back to. Everybody on this host can reach it: only what has the state counts,
// once.
type landing struct {
	state, issuer string
	codes         chan answer
}

const landingPath = "/callback"

type answer struct{ code, wrong string }

func (l *landing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	isOurs := r.Method == http.MethodGet && r.URL.Path == landingPath && subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(l.state)) == 1
	if !isOurs || q.Has("iss") && q.Get("iss") != l.issuer {
		http.Error(w, "This is not the answer to the login that runs here.", http.StatusForbidden)
		return
	}
	got := answer{code: q.Get("code")}
	if q.Get("error") != "" {
		got.wrong = printable(q.Get("error") + " " + q.Get("error_description"))
	}
	select {
	case l.codes <- got:
		io.WriteString(w, "Slipway has the answer. Close this window and go back to the terminal.\n")
	default:
		http.Error(w, "This login was used already.", http.StatusForbidden)
	}
}

// Renew gets the next tokens without the person. An issuer may give another token to get those after them with.
func (c *Command) Renew(ctx context.Context, refresh string) (Tokens, error) {
	conf, d, err := c.config(ctx, "")
	if err != nil {
		return Tokens{}, err
	}
	ctx = d.context(ctx)
	token, err := conf.TokenSource(ctx, &oauth2.Token{RefreshToken: refresh}).Token()
	if err != nil {
		return Tokens{}, refusal(c.Issuer.URL, err)
	}
	return c.verified(ctx, token, "")
}

// Revoke has the issuer take back the token that gets the next ones, RFC 7009. It is false where the issuer offers no
// way to do that.
func (c *Command) Revoke(ctx context.Context, refresh string) (bool, error) {
	_, d, err := c.config(ctx, "")
	if err != nil {
		return false, err
	}
	var more struct {
		Revoke string `json:"revocation_endpoint"`
	}
	if err := d.provider.Claims(&more); err != nil || !strings.HasPrefix(more.Revoke, "https://") {
		return false, nil
	}
	form := url.Values{"token": {refresh}, "token_type_hint": {"refresh_token"}, "client_id": {c.Client}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, more.Revoke, strings.NewReader(form.Encode()))
	if err != nil {
		return false, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := d.client.Do(r)
	if err != nil {
		return false, fmt.Errorf("%w: %s: %s", ErrAway, c.Issuer.URL, printable(withoutURL(err).Error()))
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return false, fmt.Errorf("%w: %s: it answers %s", ErrAway, c.Issuer.URL, resp.Status)
	}
	return true, nil
}

// verified are the tokens of an answer.
func (c *Command) verified(ctx context.Context, token *oauth2.Token, nonce string) (Tokens, error) {
	t := Tokens{Refresh: token.RefreshToken}
	if t.ID, _ = token.Extra("id_token").(string); t.ID == "" {
		return Tokens{}, fmt.Errorf("%w: the issuer gave no ID token", ErrLogin)
	}
	_, err := c.Issuer.Verify(ctx, t.ID, c.Client, nonce)
	return t, err
}

// EndOf is when an ID token ends, as it says itself: nothing is verified. It is zero for what says nothing.
func EndOf(raw string) time.Time {
	c, err := unverified(raw)
	if err != nil {
		return time.Time{}
	}
	end, _ := c.time("exp")
	return end
}
