package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/openid"
)

// Pages answers paths outside /api/.
type Pages interface {
	http.Handler
	// Login shows the page on which persons log in. It asks the API nothing.
	Login(w http.ResponseWriter, r *http.Request, n LoginNotice)
}

// LoginNotice is what the page says on which persons log in.
type LoginNotice struct {
	Status int    // of HTTP
	Issuer string // the URL of the issuer; empty where nobody can log in
	// Start is the path that begins a login; empty where nobody can log in.
	Start string
	// Says is what went wrong, and Done what was done, in a sentence; empty for nothing.
	Says, Done string
	// Certificates says whether persons can show a certificate instead.
	Certificates bool
}

// resourcePath is where a client finds out by which issuer persons log in, see RFC 9728.
const resourcePath = "/.well-known/oauth-protected-resource"

// Resource is what clients are told about logging in, before they show anything.
type Resource struct {
	Resource string   `json:"resource"`
	Issuers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
	// Client is the ID of the public client that `slipway login` uses at the issuer.
	Client string `json:"slipway_client_id"`
}

// errNothing is wrapped where a caller has shown nothing at all, so that it can be asked to.
var errNothing = errors.New("show a certificate of a person, or the token of a program as \"Authorization: Bearer TOKEN\"")

// errEnded is wrapped where a browser shows a session that has ended.
var errEnded = errors.New("your login has ended: log in again")

// patienceWithIssuer is how long a page waits for the issuer before it says that it does not answer.
const patienceWithIssuer = 3 * time.Second

// tryIssuer asks the issuer once when the daemon starts, so that the log says what is wrong before somebody is kept
// out. The API goes on without.
func (a *api) tryIssuer(ctx context.Context) {
	if err := a.logins.Try(ctx); err != nil && ctx.Err() == nil {
		a.log.Warn("persons cannot log in by OpenID Connect now; certificates and tokens of programs work, and the issuer is asked again", "err", err)
	}
}

// knows says whether there is anything for a person, whatever it is.
func (a *api) knows(c access.Caller) bool {
	return a.policyNow("").Names(c) || slices.ContainsFunc(a.daemon.Sites(), func(site string) bool { return a.policyNow(site).Names(c) })
}

// admit says why a person is not logged in: there is nothing for them, or nothing that counts yet.
func (a *api) admit(c access.Caller) error {
	if a.knows(c) {
		return nil
	}
	for _, site := range a.daemon.Sites() {
		if a.policyNow(site).Waits(c) {
			return fmt.Errorf("the design of site %s has a role for %s that was not approved: ask a person with the verb \"grant\" to look at `slipway grant`", site, c)
		}
	}
	return fmt.Errorf("the access file on the daemon's host has no line for %s, and none for a group of that person: ask for a line \"person %s: ROLE\"", c, c.Name)
}

// answerNobody answers what is for everybody: how to log in, and the steps of that. It is false for all other requests.
func (a *api) answerNobody(w http.ResponseWriter, r *http.Request, pages Pages) bool {
	s := a.logins.Settings()
	if pages != nil && r.Method == http.MethodPost && r.URL.Path == openid.LogoutPath && (s != nil && s.Client != "" || a.logins != nil && openid.SessionOf(r) != "") {
		a.logOut(w, r, pages, s) // also while the access file is wrong
		return true
	}
	if s == nil {
		return false
	}
	if r.URL.Path == resourcePath && s.Command != "" && r.Method == http.MethodGet {
		if err := a.limits.login(addressOf(r)); err != nil {
			fail(w, err)
			return true
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(Resource{"https://" + r.Host, []string{s.URL}, append([]string{"openid", "email"}, s.Scopes...), s.Command})
		return true
	}
	if pages == nil || s.Client == "" {
		return false
	}
	switch what := r.Method + " " + r.URL.Path; what {
	case "GET /login", "GET " + openid.StartPath, "GET " + openid.BackPath:
		if err := a.limits.login(addressOf(r)); err != nil {
			fail(w, err)
		} else {
			a.login(w, r, pages, what)
		}
		return true
	}
	if r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/static/") {
		pages.ServeHTTP(w, r) // the page on which persons log in needs its style
		return true
	}
	return false
}

// logOut logs a browser out. The settings are nil where nobody logs in now.
func (a *api) logOut(w http.ResponseWriter, r *http.Request, pages Pages, s *access.Issuer) {
	if err := a.limits.login(addressOf(r)); err != nil {
		fail(w, err)
		return
	}
	if !IsOwnForm(r) {
		fail(w, fmt.Errorf("%w: this form was not sent by a page of this host", access.ErrDenied))
		return
	}
	if who, ok := a.logins.End(w, r); ok {
		a.log.Info("logged out", "by", who.String(), "from", addressOf(r).String())
	}
	n := LoginNotice{Status: http.StatusOK, Certificates: a.certificates, Done: "You are logged out of Slipway. You may still be logged in at the issuer."}
	if s != nil && s.Client != "" {
		n.Issuer, n.Start = s.URL, startOf("/")
	}
	pages.Login(w, r, n)
}

// login is one step of logging in.
func (a *api) login(w http.ResponseWriter, r *http.Request, pages Pages, what string) {
	switch what {
	case "GET " + openid.BackPath:
		who, to, err := a.logins.Finish(w, r, a.admit)
		if err != nil {
			a.log.Warn("a login has failed", "by", who.String(), "from", addressOf(r).String(), "why", entryText(err))
			a.failLogin(w, r, pages, err)
			return
		}
		a.log.Info("logged in", "by", who.String(), "from", addressOf(r).String())
		http.Redirect(w, r, to, http.StatusSeeOther)
		return
	case "GET " + openid.StartPath:
		if from := r.Header.Get("Sec-Fetch-Site"); from == "" || from == "none" || from == "same-origin" { // and no page of another site begins one
			ctx, cancel := context.WithTimeout(r.Context(), patienceWithIssuer)
			defer cancel()
			if err := a.logins.Begin(w, r.WithContext(ctx), networkOf(addressOf(r)), r.URL.Query().Get("to")); err != nil {
				a.failLogin(w, r, pages, err)
			}
			return
		}
	}
	a.askToLogIn(w, r, pages, http.StatusOK, r.URL.Query().Get("to"))
}

// failLogin says why nobody was logged in.
func (a *api) failLogin(w http.ResponseWriter, r *http.Request, pages Pages, err error) {
	n := LoginNotice{Status: http.StatusForbidden, Start: startOf("/"), Says: entryText(err), Certificates: a.certificates}
	if errors.Is(err, openid.ErrAway) {
		n.Status = http.StatusServiceUnavailable
	}
	if s := a.logins.Settings(); s != nil {
		n.Issuer = s.URL
	}
	pages.Login(w, r, n)
}

func startOf(to string) string { return openid.StartPath + "?" + url.Values{"to": {to}}.Encode() }

// askToLogIn shows the page on which persons log in, where they do so here. It says at once that the issuer does not
// answer, and that the access file is wrong. Without to the person comes back to what was asked for.
func (a *api) askToLogIn(w http.ResponseWriter, r *http.Request, pages Pages, status int, to string) bool {
	if r.Method != http.MethodGet || pages == nil || strings.Contains(r.Header.Get("Accept"), "text/event-stream") { // an open page shows no other
		return false
	}
	n := LoginNotice{Status: status, Certificates: a.certificates}
	s := a.logins.Settings()
	switch _, wrong := a.access.Policy(); {
	case wrong != nil:
		n.Status, n.Says = http.StatusServiceUnavailable, "The access file on the daemon's host is wrong, so nobody can use this page. The log of the daemon says what is wrong."
	case s == nil || s.Client == "":
		return false
	default:
		if to == "" {
			to = r.URL.RequestURI()
		}
		n.Issuer, n.Start = s.URL, startOf(openid.OwnPage(to))
		ctx, cancel := context.WithTimeout(r.Context(), patienceWithIssuer)
		defer cancel()
		if err := a.logins.Try(ctx); err != nil {
			n.Says = entryText(err)
		}
	}
	if err := a.limits.login(addressOf(r)); err != nil {
		fail(w, err)
		return true
	}
	pages.Login(w, r, n)
	return true
}

// SessionOf tells the session that a browser shows, which may have ended, from others; empty for none.
func SessionOf(r *http.Request) string { return openid.SessionOf(r) }

// IsOwnForm says whether a browser sends a form of a page of this host. Every browser that pages are made for says so
// in one way or the other.
func IsOwnForm(r *http.Request) bool {
	if from := r.Header.Get("Sec-Fetch-Site"); from != "" {
		return from == "same-origin"
	}
	u, err := url.Parse(r.Header.Get("Origin"))
	return err == nil && u.Host != "" && u.Host == r.Host
}

// browser is who has logged in with a browser. What it may send to the API itself are reads: to act there are the forms
// of the pages, which no other site can send.
func (i *identification) browser(r *http.Request, c access.Caller) (access.Caller, error) {
	who, ok := i.logins.OfSession(r, i.knows)
	switch {
	case !ok && openid.SessionOf(r) != "":
		return c, fmt.Errorf("%w: %w", ErrWhoAreYou, errEnded)
	case !ok:
		return c, fmt.Errorf("%w: %w", ErrWhoAreYou, errNothing)
	case !isPage(r) && r.Method != http.MethodGet && r.Method != http.MethodHead:
		return c, fmt.Errorf("%w: what a browser is logged in with counts for reads; to act, use the forms of the page", ErrWhoAreYou)
	}
	who.From = c.From
	return who, nil
}

// loggedIn is who has logged in with the command line.
func (i *identification) loggedIn(r *http.Request, token string, c access.Caller) (access.Caller, error) {
	who, err := i.logins.OfToken(r.Context(), token)
	switch {
	case errors.Is(err, openid.ErrAway), errors.Is(err, openid.ErrBroken):
		return c, err
	case err != nil:
		return c, fmt.Errorf("%w: %w", ErrWhoAreYou, err)
	}
	who.From = c.From
	return who, nil
}
