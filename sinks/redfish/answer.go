package redfish

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/slipway-gitops/slipway/engine/driver"
)

// answerError is an answer that is not a success.
type answerError struct {
	method, path string
	status       int
	said         string // by the BMC, for people
	class        error
	after        time.Duration // the BMC's Retry-After, 0 for none
}

func newAnswerError(r *http.Response, body []byte) *answerError {
	e := &answerError{
		method: r.Request.Method, path: r.Request.URL.Path, status: r.StatusCode,
		said: said(body), after: retryAfter(r.Header.Get("Retry-After")),
	}
	e.class = classOf(e)
	return e
}

func (e *answerError) Error() string {
	text := fmt.Sprintf("%v: %s %s answered %d %s", e.class, e.method, e.path, e.status, http.StatusText(e.status))
	if e.said != "" {
		text += ": " + e.said
	}
	return text
}

func (e *answerError) Unwrap() error { return e.class }

// RetryAfterSeconds implements driver.RetryAfter; 0 when the BMC has no wish.
func (e *answerError) RetryAfterSeconds() int { return int(e.after / time.Second) }

// classOf is what a status means to the engine. 409 and the 5xx are what BMCs
// answer while they or the machine are in the middle of something.
func classOf(e *answerError) error {
	switch {
	case e.status == http.StatusUnauthorized, e.status == http.StatusForbidden:
		return driver.ErrDenied
	case e.status == http.StatusMethodNotAllowed, e.status == http.StatusNotImplemented,
		e.status == http.StatusNotFound && e.method != http.MethodGet:
		return errors.ErrUnsupported
	case e.status == http.StatusConflict, e.status == http.StatusTooManyRequests, e.status >= 500:
		return driver.ErrBusy
	}
	return driver.ErrRefused
}

func hasStatus(err error, statuses ...int) bool {
	var e *answerError
	if !errors.As(err, &e) {
		return false
	}
	for _, s := range statuses {
		if e.status == s {
			return true
		}
	}
	return false
}

// retryAfter reads both forms of the header (RFC 9110 section 10.2.3): seconds
// and a date.
func retryAfter(header string) time.Duration {
	if n, err := strconv.Atoi(strings.TrimSpace(header)); err == nil {
		return time.Duration(min(max(n, 0), 86400)) * time.Second
	}
	when, err := http.ParseTime(header)
	if err != nil {
		return 0
	}
	return min(max(time.Until(when), 0), 24*time.Hour).Round(time.Second)
}

// said is what an error body (DSP0266 section 8.6) tells people: the messages
// with their ids. Some BMCs send a single message where a list belongs.
func said(body []byte) string {
	var o object
	if json.Unmarshal(body, &o) != nil {
		return ""
	}
	infos := at[[]object](o, "error", "@Message.ExtendedInfo")
	if infos == nil {
		infos = []object{at[object](o, "error", "@Message.ExtendedInfo")}
	}
	var parts []string
	for _, info := range infos[:min(len(infos), 3)] {
		parts = append(parts, message(info))
	}
	text := strings.Trim(strings.Join(parts, "; "), "; ")
	return printable(cmp.Or(text, message(at[object](o, "error"))))
}

func message(info object) string {
	id := cmp.Or(at[string](info, "MessageId"), at[string](info, "code"))
	text := cmp.Or(at[string](info, "Message"), at[string](info, "message"))
	if id == "" || text == "" {
		return id + text
	}
	return id + ": " + text
}

// printable makes foreign words fit for a terminal and one line.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
	if r := []rune(s); len(r) > 400 {
		s = string(r[:400]) + "…"
	}
	return s
}
