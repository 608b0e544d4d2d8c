package github

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	gh "github.com/google/go-github/v60/github"

	"github.com/slipway-gitops/slipway/engine/forge"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Bounds on one request.
const (
	requestTimeout = 30 * time.Second
	// maxAnswer is how large an answer may be: a page of 100 comments, each as
	// long as GitHub takes it.
	maxAnswer = 32 << 20
)

// transport is what every request goes through: it authorizes, waits its turn,
// asks only for what has changed, and hears what GitHub says about its limits.
type transport struct {
	base   http.RoundTripper
	api    *url.URL
	who    tokens
	limits *limits
	cache  *cache
}

// RoundTrip sends a request once more when its token was not good any more and
// there is another.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer req.Body.Close()
	}
	// A redirect, or a link to a next page, may lead elsewhere.
	if req.URL.Host != t.api.Host || req.URL.Scheme != t.api.Scheme {
		return nil, fmt.Errorf("%s leads to %s, and the token is for %s alone", t.api.Host, req.URL.Host, t.api.Host)
	}
	used, resp, err := t.once(req)
	if err == nil && resp.StatusCode == http.StatusUnauthorized && t.who.refused(used) {
		_, resp, err = t.once(req)
	}
	return resp, err
}

func (t *transport) once(req *http.Request) (used secret.Value, resp *http.Response, err error) {
	if used, err = t.who.token(req.Context()); err != nil {
		return used, nil, err
	}
	token, err := used.Password()
	if err != nil {
		return used, nil, fmt.Errorf("%w: the credential for %s was replaced: %w; start the daemon again to log in as a GitHub App", forge.ErrDenied, t.api.Host, err)
	}
	leave, err := t.limits.enter(req)
	if err != nil {
		return used, nil, err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(req.Context(), requestTimeout)
	defer cancel()
	out := req.Clone(ctx)
	if req.GetBody != nil {
		if out.Body, err = req.GetBody(); err != nil {
			return used, nil, err
		}
	}
	out.Header.Set("Authorization", "Bearer "+token)
	t.cache.ask(out)
	if resp, err = t.base.RoundTrip(out); err != nil {
		return used, nil, err
	}
	body, err := read(resp)
	if err != nil {
		return used, nil, err
	}
	if err := t.limits.heard(resp, body); err != nil {
		return used, nil, err
	}
	body = t.cache.answer(out, resp, body)
	resp.Body = io.NopCloser(bytes.NewReader(body))
	resp.Request = req // without the token, which nobody further up needs
	return used, resp, nil
}

// read takes an answer's body as a whole, within bounds.
func read(resp *http.Response) ([]byte, error) {
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("the answer is longer than %d MiB, which is not read", maxAnswer>>20)
	}
	return body, err
}

// explain makes an error of GitHub's one that a person can act on, and tells
// whether to try again: see the errors of forge. The need is what the token has
// to be, or to allow.
func explain(err error, need string) error {
	var limited *forge.Limited
	var primary *gh.RateLimitError
	var secondary *gh.AbuseRateLimitError
	var answer *gh.ErrorResponse
	var link *url.Error
	switch {
	case err == nil, errors.Is(err, forge.ErrDenied), errors.Is(err, forge.ErrGone), errors.Is(err, forge.ErrRefused),
		errors.Is(err, site.ErrNotYet):
		return err // explained already
	case errors.As(err, &limited):
		return limited
	case errors.As(err, &primary): // the library remembers it, too
		return &forge.Limited{Until: primary.Rate.Reset.Time, Why: "this hour's requests are used up"}
	case errors.As(err, &secondary):
		return &forge.Limited{Until: time.Now().Add(secondary.GetRetryAfter()), Why: said(secondary.Message)}
	case errors.As(err, &answer):
		return refusal(answer, need)
	case errors.As(err, &link): // whose text has the whole address
		return fmt.Errorf("ask GitHub: %w", link.Err)
	}
	return fmt.Errorf("ask GitHub: %w", err)
}

func refusal(e *gh.ErrorResponse, need string) error {
	code := e.Response.StatusCode
	what := fmt.Sprintf("GitHub answers %d: %s", code, said(e.Message))
	for _, x := range e.Errors {
		what += fmt.Sprintf(" (%s %s %s)", said(x.Field), said(x.Code), said(x.Message))
	}
	switch code {
	case http.StatusUnauthorized:
		return fmt.Errorf("%w: %s: the token or key is wrong, expired or revoked: make a new one and put it into the credential", forge.ErrDenied, what)
	case http.StatusForbidden:
		do, known := whyForbidden(e.Message, need)
		if !known { // it may pass, as what a proxy or a busy GitHub says does
			return fmt.Errorf("%s: %s", what, do)
		}
		return fmt.Errorf("%w: %s: %s", forge.ErrDenied, what, do)
	case http.StatusNotFound, http.StatusGone:
		return fmt.Errorf("%w: %s: GitHub does not find it, or the token may not see it; required: %s", forge.ErrGone, what, need)
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return fmt.Errorf("%w: %s", forge.ErrRefused, what)
	}
	return errors.New(what)
}

// forbidden are the reasons for a 403 that are none of the token's rights, by what
// GitHub says of each, in small letters, and what to do.
var forbidden = []struct{ says, do string }{
	{"saml", "authorize the token for the organization's single sign-on (Configure SSO, in the settings of the token)"},
	{"ip allow list", "add this host's address to the organization's IP allow list"},
	{"archived", "the repository is archived: unarchive it, or take `--github` away"},
	{"is locked", "the conversation is locked: unlock it, or give Slipway's account the role Write"},
	{"suspended", "the account or the App's installation is suspended: its owner has to lift that"},
	{"blocked", "access is blocked: ask the owner of the repository, or GitHub's support"},
	{"forbids access via a", "an owner of the organization has to allow this kind of token, or approve this one"},
	{"expired", "make a new token and put it into the credential"},
}

// rights is how GitHub says that a token or an App lacks a right.
var rights = []string{"resource not accessible by", "must have", "permission", "not authorized", "write access"}

// whyForbidden says what to do about a 403, and whether GitHub says why it is one.
// Only where it says so is it a right that is missing.
func whyForbidden(message, need string) (do string, known bool) {
	says := strings.ToLower(message)
	for _, f := range forbidden {
		if strings.Contains(says, f.says) {
			return f.do, true
		}
	}
	for _, r := range rights {
		if strings.Contains(says, r) {
			return "required: " + need, true
		}
	}
	return "GitHub does not say that a right is missing; if it stays so, check whether the token has " + need +
		", and whether something between this host and GitHub refuses the request", false
}

// said is what GitHub says, as it may be printed: one line, and not long.
func said(s string) string {
	clean := make([]rune, 0, len(s))
	for _, c := range line(s) {
		if c >= ' ' && c != 0x7f && (c < 0x80 || c >= 0xa0) {
			clean = append(clean, c)
		}
	}
	return cut(string(clean), 300)
}
