package github

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	gh "github.com/google/go-github/v60/github"

	"github.com/slipway-gitops/slipway/engine/forge"
	"github.com/slipway-gitops/slipway/engine/secret"
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
	out.Header.Set("Authorization", "Bearer "+used.Reveal())
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
	case err == nil, errors.Is(err, forge.ErrDenied), errors.Is(err, forge.ErrGone), errors.Is(err, forge.ErrRefused):
		return err // explained already
	case errors.As(err, &limited):
		return limited
	case errors.As(err, &primary): // the library remembers it, too
		return &forge.Limited{Until: primary.Rate.Reset.Time, Why: "the hour's requests are used up"}
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
		return fmt.Errorf("%w: %s: needed is %s", forge.ErrDenied, what, need)
	case http.StatusNotFound, http.StatusGone:
		return fmt.Errorf("%w: %s: it is not there, or not for this token to see; needed is %s", forge.ErrGone, what, need)
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return fmt.Errorf("%w: %s", forge.ErrRefused, what)
	}
	return errors.New(what)
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
