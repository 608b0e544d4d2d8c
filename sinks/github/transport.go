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

// These are the bounds of one request.
const (
	requestTimeout = 30 * time.Second
	// maxAnswer is the maximum size of an answer: a page of 100 comments of GitHub's maximum length.
	maxAnswer = 32 << 20
)

// transport carries every request. It authorizes the request, waits its turn, asks only for changes, and obeys the
// limits that GitHub reports.
type transport struct {
	base   http.RoundTripper
	api    *url.URL
	who    tokens
	limits *limits
	cache  *cache
}

// RoundTrip repeats a request once if its token is no longer valid and another token may exist.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer req.Body.Close()
	}
	// A redirect or a link to the next page may lead to another host.
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
	resp.Request = req // without the token, which no caller needs
	return used, resp, nil
}

// read reads an answer's body completely, up to the size limit.
func read(resp *http.Response) ([]byte, error) {
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("the answer is longer than %d MiB, which is not read", maxAnswer>>20)
	}
	return body, err
}

// explain turns an error of GitHub's into one that a person can act on. It wraps an error of forge that tells
// whether to try again. need says which token, or which right of the token, is required.
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
	case errors.As(err, &link): // its text contains the whole address
		return fmt.Errorf("ask GitHub: %w", link.Err)
	}
	return fmt.Errorf("ask GitHub: %w", err)
}

func refusal(e *gh.ErrorResponse, need string) error {
	code := e.Response.StatusCode
	what := fmt.Sprintf("GitHub answers %d: %s", code, strings.TrimSuffix(said(e.Message), "."))
	for _, x := range e.Errors {
		what += fmt.Sprintf(" (%s %s %s)", said(x.Field), said(x.Code), said(x.Message))
	}
	switch code {
	case http.StatusUnauthorized:
		return fmt.Errorf("%w: %s: the token or key is wrong, expired or revoked: make a new one and put it into the credential", forge.ErrDenied, what)
	case http.StatusForbidden:
		do, known := whyForbidden(e.Message, need)
		if !known { // it may pass, like an answer of a proxy or of a busy GitHub
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

// forbidden lists the reasons for a 403 other than a missing right: what GitHub says, in lower case, and what to
// do.
var forbidden = []struct{ says, do string }{
	{"saml", "authorize the token for the organization's single sign-on (Configure SSO, in the settings of the token)"},
	{"ip allow list", "add this host's address to the organization's IP allow list"},
	{"archived", "the repository is archived: unarchive it, or take `--github` away"},
	{"is locked", "the conversation is locked: unlock it; while it is, no App can comment, and an account needs the role Write"},
	{"suspended", "the account or the App's installation is suspended: its owner has to lift that"},
	{"blocked", "access is blocked: ask the owner of the repository, or GitHub's support"},
	{"forbids access via a", "an owner of the organization has to allow this kind of token, or approve this one"},
	{"expired", "make a new token and put it into the credential"},
}

// rights are GitHub's phrases for a missing right of a token or an App.
var rights = []string{"resource not accessible by", "must have", "permission", "not authorized", "write access"}

// whyForbidden says what to do about a 403, and whether GitHub gives a reason. It only calls a right missing if
// GitHub says so.
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

// said makes GitHub's text printable: one line, at most 300 characters.
func said(s string) string {
	clean := make([]rune, 0, len(s))
	for _, c := range line(s) {
		if c >= ' ' && c != 0x7f && (c < 0x80 || c >= 0xa0) {
			clean = append(clean, c)
		}
	}
	return cut(string(clean), 300)
}
