package redfish

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// answerError is an answer that is not a success.
type answerError struct {
	method, path string
	status       int
	said         string   // by the BMC, for people
	ids          []string // of its messages, without registry and version
	class        error
	after        time.Duration // the BMC's Retry-After, 0 for none
	location     string        // of a redirect, on the same host
}

func newAnswerError(r *http.Response, body []byte) *answerError {
	infos := messages(body)
	e := &answerError{
		method: r.Request.Method, path: printable(r.Request.URL.Path), status: r.StatusCode,
		said: said(infos), after: retryAfter(r.Header.Get("Retry-After")),
	}
	if to, err := r.Location(); err == nil && to.Host == r.Request.URL.Host {
		e.location = to.EscapedPath()
	}
	for _, info := range infos {
		e.ids = append(e.ids, messageKey(at[string](info, "MessageId")))
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

// classOf is what an answer means to the engine: what its messages say, as
// statuses are used freely, or what its status does. 409 and the 5xx are what
// BMCs answer while they or the machine are in the middle of something. An
// account that may not write was accepted all the same, and goes on to look.
func classOf(e *answerError) error {
	for _, id := range e.ids {
		if class := messageClass[id]; class != nil {
			return class
		}
	}
	switch {
	case e.status == http.StatusUnauthorized, e.method == http.MethodGet && e.forbidden():
		return driver.ErrDenied
	case e.forbidden():
		return driver.ErrRefused
	case e.status == http.StatusMethodNotAllowed, e.status == http.StatusNotImplemented,
		e.status == http.StatusNotFound && e.method != http.MethodGet:
		return errors.ErrUnsupported
	case e.status == http.StatusConflict, e.status == http.StatusPreconditionFailed, e.status == http.StatusTooManyRequests, e.status >= 500:
		return driver.ErrBusy
	}
	return driver.ErrRefused
}

func (e *answerError) forbidden() bool {
	return e.status == http.StatusForbidden || slices.Contains(e.ids, "InsufficientPrivilege")
}

// messageClass are the messages that say more than the status they come with.
var messageClass = map[string]error{
	// The Base registry (DMTF DSP8011).
	"ServiceTemporarilyUnavailable": driver.ErrBusy,
	"ServiceInUnknownState":         driver.ErrBusy,
	"ServiceShuttingDown":           driver.ErrBusy,
	"ResourceInStandby":             driver.ErrBusy,
	"ResourceInUse":                 driver.ErrBusy,
	"SessionLimitExceeded":          driver.ErrBusy,
	"CreateLimitReachedForResource": driver.ErrBusy,
	"ActionNotSupported":            errors.ErrUnsupported,
	"PasswordChangeRequired":        driver.ErrDenied,
	// HPE iLO, while the machine is in its power-on self-test or between two
	// power states; with all its sessions in use.
	"UnableToModifyDuringSystemPOST": driver.ErrBusy,
	"InvalidOperationForSystemState": driver.ErrBusy,
	"MaxSessionsReached":             driver.ErrBusy,
	// Dell iDRAC: not ready yet; all its sessions are in use.
	"SYS518":  driver.ErrBusy,
	"RAC0218": driver.ErrBusy,
	// HPE and Dell: the feature needs a licence that the BMC does not have.
	"LicenseKeyRequired": errors.ErrUnsupported,
	"LIC501":             errors.ErrUnsupported,
}

// messageKey is a message's id without its registry and version (DSP0266 section
// 8.6.3): Base.1.8.GeneralError is GeneralError.
func messageKey(id string) string { return id[strings.LastIndexByte(id, '.')+1:] }

// hasMessage says whether the BMC answered with one of the messages.
func hasMessage(err error, keys ...string) bool {
	var e *answerError
	return errors.As(err, &e) && slices.ContainsFunc(e.ids, func(id string) bool { return slices.Contains(keys, id) })
}

// lasting says whether a read is refused for good: then it costs what was to be
// read, and is not asked for in each look again.
func lasting(err error) bool {
	return errors.Is(err, driver.ErrRefused) || errors.Is(err, errors.ErrUnsupported) || hasStatus(err, http.StatusForbidden)
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

// messages are those of an error body (DSP0266 section 8.6). Some BMCs send a
// single message where a list belongs, and some none but the error itself.
func messages(body []byte) []object {
	var o object
	if json.Unmarshal(body, &o) != nil {
		return nil
	}
	infos := at[[]object](o, "error", "@Message.ExtendedInfo")
	if one := at[object](o, "error", "@Message.ExtendedInfo"); len(infos) == 0 && one != nil {
		infos = []object{one}
	}
	e := at[object](o, "error")
	switch silent := !slices.ContainsFunc(infos, func(info object) bool { return at[string](info, "Message") != "" }); {
	case len(infos) == 0 && e != nil:
		infos = []object{{"MessageId": e["code"], "Message": e["message"]}}
	case silent && e["message"] != nil:
		infos[0] = maps.Clone(infos[0]) // what it says is said once, for all of them
		infos[0]["Message"] = e["message"]
	}
	return infos[:min(len(infos), 8)]
}

// said is what messages tell people: their ids, texts and what to do.
func said(infos []object) string {
	var parts []string
	for _, info := range infos[:min(len(infos), 3)] {
		if m := message(info); m != "" {
			parts = append(parts, m)
		}
	}
	return printable(strings.Join(parts, "; "))
}

// message is one message as people read it.
func message(info object) string {
	var parts []string
	for _, part := range []string{at[string](info, "MessageId"), at[string](info, "Message"), resolution(info)} {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ": ")
}

// resolution is what the BMC says to do, if that is more than "None".
func resolution(info object) string {
	r := strings.TrimSpace(at[string](info, "Resolution"))
	if r == "" || strings.EqualFold(strings.Trim(r, "."), "none") {
		return ""
	}
	return "the BMC advises: " + r
}

// printable makes foreign words fit for a terminal and one line.
func printable(s string) string {
	return site.Shorten(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s), 400)
}
