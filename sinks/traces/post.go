package traces

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/slipway-gitops/slipway/engine/secret"
)

// These are the bounds of a request and its answer.
const (
	maxAnswer   = 64 << 10 // bytes that are read
	maxShown    = 200      // bytes of the answer that people see
	postTimeout = 10 * time.Second
	maxAfter    = time.Hour // that the collector may ask to wait
	wireForm    = "application/x-protobuf"
)

// answerError is an answer that does not take all spans.
type answerError struct {
	host, text string
	final      bool          // the same spans are not sent again
	after      time.Duration // that the collector asks to wait; 0 for none
}

func (e *answerError) Error() string { return fmt.Sprintf("the collector at %s %s", e.host, e.text) }

// isFinal reports whether the spans are not sent again.
func isFinal(err error) bool {
	var a *answerError
	return errors.As(err, &a) && a.final
}

// waitOf is how long the collector asks to wait.
func waitOf(err error) time.Duration {
	var a *answerError
	if errors.As(err, &a) {
		return a.after
	}
	return 0
}

// post sends a batch. It returns an error unless the collector has taken all of it. If rejected is not 0, it has taken
// the others.
func (x *Exporter) post(ctx context.Context, batch []*tracepb.Span) (rejected int, err error) {
	login, err := x.login()
	if err != nil {
		return 0, fmt.Errorf("no spans are sent to %s: %w", x.url.Host, err)
	}
	body, err := proto.Marshal(&collectorpb.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource: x.about, ScopeSpans: []*tracepb.ScopeSpans{{Scope: &commonpb.InstrumentationScope{Name: "slipway", Version: x.Version}, Spans: batch}}}}})
	if err != nil {
		return 0, fmt.Errorf("encode spans: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.url.String(), bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", wireForm)
	req.Header.Set("User-Agent", "slipway/"+x.Version)
	if login.header != "" {
		req.Header.Set(login.header, login.value)
	}
	resp, err := x.client.Do(req)
	if err != nil {
		return 0, fmt.Errorf("spans were not sent to the collector at %s: %w", x.url.Host, withoutURL(err))
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return 0, fmt.Errorf("the answer of the collector at %s was cut: %w", x.url.Host, withoutURL(err))
	}
	return x.read(resp, said, len(batch), login)
}

// read is what the answer to some spans says.
func (x *Exporter) read(resp *http.Response, said []byte, sent int, login login) (rejected int, err error) {
	e := &answerError{host: x.url.Host, final: true}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	var answer collectorpb.ExportTraceServiceResponse
	switch code := resp.StatusCode; {
	case code/100 == 3:
		e.text = fmt.Sprintf("sends requests elsewhere (%d): give --traces the address that takes them", code)
	case code/100 != 2:
		e.text = fmt.Sprintf("answers %d %s: %s", code, http.StatusText(code), login.hide(string(said)))
		switch code { // those to try again (OTLP specification 1.3, retryable response codes)
		case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			e.final, e.after = false, retryAfter(resp.Header.Get("Retry-After"))
		}
	case len(said) == 0:
		return 0, nil
	case kind != wireForm || proto.Unmarshal(said, &answer) != nil:
		e.text = fmt.Sprintf("answers %d with %q, which is not the answer of a collector of OTLP over HTTP: is the address of --traces right?", code, kind)
	case answer.GetPartialSuccess().GetRejectedSpans() > 0:
		p := answer.GetPartialSuccess()
		rejected = int(min(p.GetRejectedSpans(), int64(sent)))
		e.text = fmt.Sprintf("refused %d of %d spans: %s", rejected, sent, login.hide(p.GetErrorMessage()))
	default:
		return 0, nil
	}
	e.text = printable(e.text, maxShown)
	return rejected, e
}

// retryAfter is the wait that a collector asks for: seconds, or a date (RFC 9110 section 10.2.3).
func retryAfter(header string) time.Duration {
	wait := time.Duration(0)
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(header); err == nil {
		wait = time.Until(at)
	}
	return min(max(wait, 0), maxAfter)
}

// withoutURL is an error without the address, whose path may be a secret.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// login is the header that is sent with each request; empty for none.
type login struct{ header, value, secret string }

// named matches a secret that names its header, as services with a key of their own ask for.
var named = regexp.MustCompile(`^([A-Za-z0-9-]+): *(\S.*)$`)

// login reads the credential. With a user name it is a password, else a bearer token or a header with its name.
func (x *Exporter) login() (login, error) {
	if x.Credential == "" {
		return login{}, nil
	}
	r, err := secret.For(x.Credential, secret.Traces, x.url)
	if err != nil {
		return login{}, err
	}
	v, err := x.Secrets.Get(r)
	if err != nil {
		return login{}, err
	}
	text, err := v.Password()
	if err != nil {
		return login{}, fmt.Errorf("credential %q: %w", x.Credential, err)
	}
	m := named.FindStringSubmatch(text)
	switch user := v.Username(); {
	case user != "":
		return login{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+text)), text}, nil
	case m != nil:
		return login{m[1], m[2], m[2]}, nil
	case strings.ContainsAny(text, " \t"):
		return login{}, fmt.Errorf("credential %q: a bearer token has no spaces: a password needs its user name, in the line \"username: NAME\", and the key of a service its header, as \"x-api-key: KEY\"", x.Credential)
	}
	return login{"Authorization", "Bearer " + text, text}, nil
}

// hide removes the secret from what the collector says.
func (l login) hide(text string) string {
	if l.secret == "" {
		return text
	}
	for _, s := range []string{l.value, l.secret} {
		text = strings.ReplaceAll(text, s, "[redacted]")
	}
	return text
}
