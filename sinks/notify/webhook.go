package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/secret"
)

// These are the bounds of a webhook's answer.
const (
	maxAnswer       = 4 << 10 // bytes of the body that are read
	maxAnswerHeader = 64 << 10
	answerTimeout   = 20 * time.Second
	refusedFor      = time.Hour // no request for this long after an answer that a retry does not change
)

// signatureHeader carries "sha256=" and the HMAC-SHA256 of the body in hex,
// keyed with the credential's secret. The secret itself is never sent.
const signatureHeader = "Slipway-Signature-256"

// Webhook is an address that messages are posted to.
type Webhook struct {
	url        *url.URL
	credential string // empty for none
	form       form
	secrets    secret.Source
	client     *http.Client

	// refused is a service's refusal of the address or of the credential with this digest. Until refusedUntil no
	// request is sent.
	refused      error
	refusedWith  [sha256.Size]byte
	refusedUntil time.Time
}

// NewWebhook makes a Webhook. It refuses an address that exposes messages on the way. form is one of Forms. The
// credential is read for each message, so that it can be changed.
func NewWebhook(address, credential, form string, secrets secret.Source) (*Webhook, error) {
	f, known := forms[form]
	u, err := url.Parse(address)
	switch {
	case !known:
		return nil, fmt.Errorf("notify by a webhook: there is no form %q: --notify-form takes one of %s", form, strings.Join(Forms(), ", "))
	case err != nil || u.Host == "":
		return nil, errors.New("notify by a webhook: its address is not a URL such as https://hooks.example.org/slipway")
	case u.User != nil:
		return nil, errors.New("notify by a webhook: its address has a password in it, which anybody on this host can read from the command line: use --notify-credential")
	case u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())):
		return nil, fmt.Errorf("notify by a webhook: %s:// to %s can be read and changed on the way: use https:// (http:// is for this host itself)", u.Scheme, u.Hostname())
	}
	w := &Webhook{url: u, credential: credential, form: f, secrets: secrets, client: &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout: answerTimeout, ResponseHeaderTimeout: answerTimeout,
			MaxResponseHeaderBytes: maxAnswerHeader,
			DisableKeepAlives:      true, // messages are rare
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	key, err := w.key()
	if err == nil {
		_, err = w.form.posts(w.url, key, newMessage("", "", time.Time{}, nil))
	}
	if err != nil {
		return nil, fmt.Errorf("notify by a webhook: %w", err)
	}
	return w, nil
}

// Pace is the service's pace of repetition.
func (w *Webhook) Pace() Pace { return w.form.pace }

func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// key is the credential; zero for none.
func (w *Webhook) key() (credential, error) {
	if w.credential == "" {
		return credential{}, nil
	}
	r, err := secret.For(w.credential, secret.Notify, w.url)
	if err != nil {
		return credential{}, err
	}
	v, err := w.secrets.Get(r)
	if err != nil {
		return credential{}, err
	}
	text, err := v.Password()
	if err != nil {
		return credential{}, fmt.Errorf("credential %q: %w", w.credential, err)
	}
	return credential{name: w.credential, user: v.Username(), text: text}, nil
}

// Send posts the message. Only an answer of 2xx accepts it. If a service refuses the address or the credential,
// Send sends nothing more for an hour, or until the credential changes.
func (w *Webhook) Send(ctx context.Context, m Message) error {
	key, err := w.key()
	if err != nil {
		return err
	}
	digest := sha256.Sum256([]byte(key.user + "\x00" + key.text))
	if digest == w.refusedWith && time.Now().Before(w.refusedUntil) {
		return w.refused
	}
	posts, err := w.form.posts(w.url, key, m)
	if err != nil {
		return err
	}
	var settled []string
	var problems []error
	for _, p := range posts {
		err := w.post(ctx, p, key)
		var answer *answerError
		switch {
		case err == nil:
		case errors.As(err, &answer) && w.form.malformed(answer.status):
			problems = append(problems, err)
		default:
			after := time.Duration(0)
			if answer != nil {
				after = answer.after
				if w.form.final(answer.status) {
					w.refused = fmt.Errorf("%w; not sent again before %s unless the credential changes", err, time.Now().Add(refusedFor).UTC().Format(time.TimeOnly))
					w.refusedWith, w.refusedUntil = digest, time.Now().Add(refusedFor)
					err = w.refused
				}
			}
			return &undelivered{settled: settled, after: after, err: errors.Join(append(problems, err)...)}
		}
		settled = append(settled, p.causes...)
	}
	if len(problems) > 0 {
		return &undelivered{settled: settled, err: errors.Join(problems...)}
	}
	return nil
}

// post sends one request.
func (w *Webhook) post(ctx context.Context, p request, key credential) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url.String(), bytes.NewReader(p.body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	req.Header.Set("User-Agent", "slipway")
	for name, values := range p.header {
		req.Header[name] = values
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return fmt.Errorf("post to %s: %w", w.url.Host, withoutURL(err))
	}
	defer resp.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // only to be shown
	if len(said) == maxAnswer {
		said = said[:max(0, maxAnswer-len(key.text))] // the end may contain part of the secret
	}
	if resp.StatusCode/100 != 2 {
		return &answerError{host: w.url.Host, status: resp.StatusCode, after: retryAfter(resp.Header.Get("Retry-After")),
			text: printable(resp.Status) + ": " + printable(key.hide(string(said)))}
	}
	return nil
}

// answerError is an answer that does not accept a message.
type answerError struct {
	host   string
	status int
	after  time.Duration // requested by the service; 0 for none
	text   string
}

func (e *answerError) Error() string { return fmt.Sprintf("post to %s: it answers %s", e.host, e.text) }

// retryAfter is the wait that a service requests: seconds, or a date (RFC 9110 section 10.2.3). It is at most an
// hour.
func retryAfter(header string) time.Duration {
	wait := time.Duration(0)
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(header); err == nil {
		wait = time.Until(at)
	}
	return min(max(wait, 0), time.Hour)
}

// withoutURL is an error without the address, which may be a secret.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

func sign(key string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}
