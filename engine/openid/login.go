package openid

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/hostfile"
)

// Paths of logging in and out.
const (
	StartPath  = "/login/start"
	BackPath   = "/login/callback" // the issuer sends browsers there
	LogoutPath = "/logout"
)

// The cookies. Their prefix has browsers take them from this host alone, over HTTPS, for all of its paths.
const (
	sessionCookie = "__Host-slipway-session"
	attemptCookie = "__Host-slipway-login"
)

const mostSecretFile = 4 << 10

// ErrLogin is wrapped when a login fails for a reason that the person is told.
var ErrLogin = errors.New("nobody was logged in")

// Logins lets persons in whom an issuer has authenticated. Which issuer that is says the access file, which is read
// again when it changes: other settings that a person is judged by end all sessions.
type Logins struct {
	Access *access.File
	Log    *slog.Logger
	// Now is the clock; nil is that of the host. Only for tests.
	Now func() time.Time

	issuers  issuers
	sessions sessions
	attempts attempts
}

func (l *Logins) now() time.Time {
	if l.Now != nil {
		return l.Now()
	}
	return time.Now()
}

// issuers keeps the issuer that the access file names now.
type issuers struct {
	mu  sync.Mutex
	now *Issuer
}

func (a *issuers) of(c *access.Issuer, clock func() time.Time) *Issuer {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.now == nil || a.now.URL != c.URL || a.now.Authority != c.Authority {
		a.now = &Issuer{URL: c.URL, Authority: c.Authority, Now: clock}
	}
	return a.now
}

// Settings are those of the issuer; nil where persons do not log in, or the access file is wrong.
func (l *Logins) Settings() *access.Issuer {
	if l == nil {
		return nil
	}
	p, err := l.Access.Policy()
	if err != nil {
		return nil
	}
	return p.Issuer()
}

// issuer is the issuer of settings.
func (l *Logins) issuer(s *access.Issuer) *Issuer { return l.issuers.of(s, l.Now) }

// Try asks the issuer, and says what is wrong where it cannot be used now.
func (l *Logins) Try(ctx context.Context) error {
	s := l.Settings()
	if s == nil {
		return nil
	}
	return l.issuer(s).Try(ctx)
}

// OfToken is whose ID token it is: one that the issuer has made for `slipway login`.
func (l *Logins) OfToken(ctx context.Context, text string) (access.Caller, error) {
	if _, err := l.Access.Policy(); err != nil {
		return access.Caller{}, ErrBroken
	}
	s := l.Settings()
	if s == nil || s.Command == "" {
		return access.Caller{}, fmt.Errorf("%w: nobody logs in to this daemon with one", ErrToken)
	}
	claims, err := l.issuer(s).Verify(ctx, text, s.Command, "")
	if err != nil {
		return access.Caller{}, err
	}
	return personOf(s, claims)
}

// OfSession is whose browser it is; false for one that is not logged in. A session ends with its time, with other
// settings in the access file that a person is judged by, and as soon as the person is known no more: nothing is for the person.
func (l *Logins) OfSession(r *http.Request, known func(access.Caller) bool) (access.Caller, bool) {
	if l == nil {
		return access.Caller{}, false
	}
	cookie, err := r.Cookie(sessionCookie)
	if err != nil {
		return access.Caller{}, false
	}
	one, ok := l.sessions.of(cookie.Value, l.now())
	if !ok {
		return access.Caller{}, false
	}
	p, err := l.Access.Policy()
	if err != nil {
		return one.caller, true // who may do nothing until the file is right, and is logged in then
	}
	if s := p.Issuer(); s == nil || !reflect.DeepEqual(judging(s), one.by) || !known(one.caller) {
		l.sessions.end(cookie.Value)
		l.Log.Info("a session has ended, because the access file has other settings of oidc, or no longer has a line for its person", "by", one.caller.String())
		return access.Caller{}, false
	}
	return one.caller, true
}

// SessionOf tells the session that a browser shows, which may have ended, from others; empty for none. It is not what
// the cookie has.
func SessionOf(r *http.Request) string {
	cookie, err := r.Cookie(sessionCookie)
	if err != nil {
		return ""
	}
	sum := digestOf(cookie.Value)
	return hex.EncodeToString(sum[:])
}

// Begin sends a browser to the issuer.
func (l *Logins) Begin(w http.ResponseWriter, r *http.Request, from netip.Prefix, to string) error {
	s := l.Settings()
	if s == nil || s.Client == "" {
		return fmt.Errorf("%w: persons do not log in to this page", ErrLogin)
	}
	if page, _ := url.Parse(s.Page); r.Host != page.Host { // the issuer sends the browser there, and cookies are of one host
		http.Redirect(w, r, s.Page+StartPath+"?"+url.Values{"to": {OwnPage(to)}}.Encode(), http.StatusSeeOther)
		return nil
	}
	d, err := l.issuer(s).describe(r.Context())
	if err != nil {
		return err
	}
	one := attempt{
		issuer: s.URL, client: s.Client, state: rand.Text(), nonce: rand.Text(), secret: oauth2.GenerateVerifier(),
		to: OwnPage(to), network: from.String(), ends: l.now().Add(attemptsEndWithin),
	}
	c, err := l.config(s, d)
	if err != nil {
		return err
	}
	l.setCookie(w, attemptCookie, l.attempts.begin(one), attemptsEndWithin)
	http.Redirect(w, r, c.AuthCodeURL(one.state, oidc.Nonce(one.nonce), oauth2.S256ChallengeOption(one.secret)), http.StatusSeeOther)
	return nil
}

// config is what the page is at the issuer.
func (l *Logins) config(s *access.Issuer, d *described) (*oauth2.Config, error) {
	c := &oauth2.Config{ClientID: s.Client, Endpoint: d.endpoint(), RedirectURL: s.Page + BackPath, Scopes: append([]string{oidc.ScopeOpenID, "email"}, s.Scopes...)}
	if s.Secret == "" {
		c.Endpoint.AuthStyle = oauth2.AuthStyleInParams // a public client has only its ID to show
		return c, nil
	}
	text, err := hostfile.Read(s.Secret, l.Access.Owner, mostSecretFile, "who logs in")
	if err == nil {
		var info fs.FileInfo
		if info, err = os.Stat(s.Secret); err == nil && info.Mode().Perm()&0o007 != 0 {
			err = fmt.Errorf("%s: everybody can read the secret: run chmod o-rwx %s", s.Secret, s.Secret)
		}
	}
	if c.ClientSecret = strings.TrimSpace(text); err == nil && c.ClientSecret == "" {
		err = fmt.Errorf("%s: is empty", s.Secret)
	}
	if err != nil {
		l.Log.Error("the secret of the client of OpenID Connect cannot be used", "err", err)
		return nil, fmt.Errorf("%w: the daemon cannot use its secret for the issuer; the log of the daemon says why", ErrLogin)
	}
	return c, nil
}

// Finish takes a browser that comes back from the issuer, and logs its person in. It gives the page that the person
// wanted. What proves the browser is the cookie of Begin: a state that somebody else has seen is of no use. A person
// whom admit refuses is not logged in.
func (l *Logins) Finish(w http.ResponseWriter, r *http.Request, admit func(access.Caller) error) (access.Caller, string, error) {
	l.setCookie(w, attemptCookie, "", 0)
	cookie, err := r.Cookie(attemptCookie)
	if err != nil {
		return access.Caller{}, "", fmt.Errorf("%w: this browser has not begun a login here, or it has taken too long: log in again", ErrLogin)
	}
	one, ok := l.attempts.take(cookie.Value, l.now())
	if !ok {
		return access.Caller{}, "", fmt.Errorf("%w: this login was used already, or has taken longer than %v: log in again", ErrLogin, attemptsEndWithin)
	}
	q := r.URL.Query()
	if subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(one.state)) != 1 {
		return access.Caller{}, "", fmt.Errorf("%w: this is the answer to another login, such as one in another tab: log in again", ErrLogin)
	}
	s := l.Settings()
	switch {
	case s == nil || s.URL != one.issuer || s.Client != one.client:
		return access.Caller{}, "", fmt.Errorf("%w: the access file was changed meanwhile: log in again", ErrLogin)
	case q.Has("iss") && q.Get("iss") != s.URL: // RFC 9207
		return access.Caller{}, "", fmt.Errorf("%w: this is the answer of another issuer, %s", ErrLogin, printable(q.Get("iss")))
	case q.Get("error") != "":
		return access.Caller{}, "", fmt.Errorf("%w: the issuer says: %s", ErrLogin, printable(strings.TrimSpace(q.Get("error")+" "+q.Get("error_description"))))
	}
	caller, err := l.exchange(r.Context(), s, one, q.Get("code"))
	if err != nil {
		return caller, "", err
	}
	if err := admit(caller); err != nil {
		return caller, "", fmt.Errorf("%w: %w", ErrLogin, err)
	}
	if old, err := r.Cookie(sessionCookie); err == nil {
		l.sessions.end(old.Value)
	}
	now := l.now()
	l.setCookie(w, sessionCookie, l.sessions.begin(session{caller: caller, by: judging(s), began: now, ends: now.Add(s.Session)}), s.Session)
	return caller, one.to, nil
}

// exchange has the issuer say who the person is.
func (l *Logins) exchange(ctx context.Context, s *access.Issuer, one attempt, code string) (access.Caller, error) {
	i := l.issuer(s)
	d, err := i.describe(ctx)
	if err != nil {
		return access.Caller{}, err
	}
	c, err := l.config(s, d)
	if err != nil {
		return access.Caller{}, err
	}
	token, err := c.Exchange(d.context(ctx), code, oauth2.VerifierOption(one.secret))
	if err != nil {
		return access.Caller{}, refusal(s.URL, err)
	}
	raw, _ := token.Extra("id_token").(string)
	if raw == "" {
		return access.Caller{}, fmt.Errorf("%w: the issuer gave no ID token", ErrLogin)
	}
	claims, err := i.Verify(ctx, raw, s.Client, one.nonce)
	if err != nil {
		return access.Caller{}, err
	}
	return personOf(s, claims)
}

// refusal is what went wrong at the issuer's address for tokens. An answer of OAuth is of the login, anything else of
// the issuer.
func refusal(issuer string, err error) error {
	var answered *oauth2.RetrieveError
	if errors.As(err, &answered) && answered.ErrorCode != "" {
		return fmt.Errorf("%w: the issuer says: %s", ErrLogin, printable(answered.ErrorCode+" "+answered.ErrorDescription))
	}
	if answered != nil && answered.Response != nil {
		return fmt.Errorf("%w: %s: it answers %s", ErrAway, issuer, answered.Response.Status)
	}
	return fmt.Errorf("%w: %s: %s", ErrAway, issuer, printable(withoutURL(err).Error()))
}

// End logs a browser out, and gives who it was.
func (l *Logins) End(w http.ResponseWriter, r *http.Request) (access.Caller, bool) {
	l.setCookie(w, sessionCookie, "", 0)
	cookie, err := r.Cookie(sessionCookie)
	if err != nil {
		return access.Caller{}, false
	}
	one, ok := l.sessions.end(cookie.Value)
	return one.caller, ok
}

// setCookie sets a cookie for a time, or has the browser forget it. It is sent with links on other sites to pages here,
// which are in pull requests and tickets, and with nothing else from there.
func (l *Logins) setCookie(w http.ResponseWriter, name, value string, life time.Duration) {
	c := &http.Cookie{Name: name, Value: value, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode, MaxAge: int(life / time.Second)}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

// OwnPage is a page of this host to go to after a login: what was asked for where it is one, and the first page
// otherwise.
func OwnPage(to string) string {
	const first, most = "/", 2000
	u, err := url.Parse(to)
	if err != nil || len(to) > most || u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != "" || u.RawPath != "" ||
		!strings.HasPrefix(to, "/sites/") || strings.ContainsAny(to, "\\\r\n\t") || strings.Contains(u.Path, "//") || strings.Contains(u.Path, "/.") {
		return first
	}
	return u.RequestURI()
}
