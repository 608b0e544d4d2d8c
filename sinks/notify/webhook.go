package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/secret"
)

// Bounds on a webhook's answer.
const (
	maxAnswer       = 1 << 10 // bytes of the body that are read
	maxAnswerHeader = 64 << 10
	answerTimeout   = 20 * time.Second
)

// signatureHeader carries "sha256=" and the HMAC-SHA256 of the body in hex,
// keyed with the credential's secret. The secret itself is never sent.
const signatureHeader = "Slipway-Signature-256"

// Secrets gives the values of credentials.
type Secrets interface {
	// Get refuses a use, a host and a port that the credential is not for.
	Get(secret.Request) (secret.Value, error)
}

// Webhook is an address that messages are posted to.
type Webhook struct {
	url        *url.URL
	form       Form
	credential string // empty for none
	secrets    Secrets
	client     *http.Client
}

// NewWebhook refuses an address that others could read along on the way to.
// The credential is looked up for each message, so that it can be changed: it signs
// the messages of the form Plain, and is what the receiver wants in the others.
func NewWebhook(address string, form Form, credential string, secrets Secrets) (*Webhook, error) {
	u, err := url.Parse(address)
	shape, known := shapes[form]
	switch {
	case !known && form != Plain:
		return nil, fmt.Errorf("notify by a webhook: there is no form %q: use one of %s", string(form), strings.Join(Forms(), ", "))
	case shape.needed && credential == "":
		return nil, fmt.Errorf("notify by a webhook: the form %s needs its key: use --notify-credential", form)
	case err != nil || u.Host == "":
		return nil, errors.New("notify by a webhook: its address is not a URL such as https://hooks.example.org/slipway")
	case u.User != nil:
		return nil, errors.New("notify by a webhook: its address has a password in it, which anybody on this host can read from the command line: use --notify-credential")
	case u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())):
		return nil, fmt.Errorf("notify by a webhook: %s:// to %s can be read and changed on the way: use https:// (http:// is for this host itself)", u.Scheme, u.Hostname())
	}
	w := &Webhook{url: u, form: form, credential: credential, secrets: secrets, client: &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout: answerTimeout, ResponseHeaderTimeout: answerTimeout,
			MaxResponseHeaderBytes: maxAnswerHeader,
			DisableKeepAlives:      true, // messages are rare
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if _, _, err := w.key(); err != nil {
		return nil, fmt.Errorf("notify by a webhook: %w", err)
	}
	return w, nil
}

func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// key is the user and the secret of the credential, empty without one.
func (w *Webhook) key() (user, key string, err error) {
	if w.credential == "" {
		return "", "", nil
	}
	r, err := secret.For(w.credential, secret.Notify, w.url)
	if err != nil {
		return "", "", err
	}
	v, err := w.secrets.Get(r)
	if err != nil {
		return "", "", err
	}
	key, err = v.Password()
	if err != nil {
		return "", "", fmt.Errorf("credential %q: %w", w.credential, err)
	}
	return v.Username(), key, nil
}

// Send posts the message; only an answer of 2xx says that it was taken. Of a form
// in which a message is several posts, all are made again after one that was not
// taken: these receivers know what they have.
func (w *Webhook) Send(ctx context.Context, m Message) error {
	user, key, err := w.key()
	if err != nil {
		return err
	}
	shape, formed := shapes[w.form]
	if !formed {
		return hideKey(key, w.post(ctx, w.url, m.body(), func(r *http.Request, body []byte) {
			if key != "" {
				r.Header.Set(signatureHeader, sign(key, body))
			}
		}))
	}
	to, err := shape.at(w.url, key)
	if err != nil || to.Host != w.url.Host || to.Scheme != w.url.Scheme {
		return fmt.Errorf("post to %s: the credential %q does not hold the rest of an address there", w.url.Host, w.credential)
	}
	for _, b := range shape.bodies(m, key) {
		body, err := json.Marshal(b)
		if err != nil {
			return err
		}
		err = w.post(ctx, to, body, func(r *http.Request, _ []byte) {
			if shape.authorize != nil {
				shape.authorize(r, user, key)
			}
		})
		if err != nil {
			return hideKey(key, err)
		}
	}
	return nil
}

// hideKey is an error in which a receiver has not repeated the key.
func hideKey(key string, err error) error {
	if err != nil && key != "" && strings.Contains(err.Error(), key) {
		return errors.New(strings.ReplaceAll(err.Error(), key, "[redacted]"))
	}
	return err
}

// post posts one body.
func (w *Webhook) post(ctx context.Context, to *url.URL, body []byte, complete func(*http.Request, []byte)) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "slipway")
	complete(req, body)
	resp, err := w.client.Do(req)
	if err != nil {
		return fmt.Errorf("post to %s: %w", w.url.Host, withoutURL(err))
	}
	defer resp.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // only to be shown
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("post to %s: it answers %s: %s", w.url.Host, printable(resp.Status), printable(string(said)))
	}
	return nil
}

// withoutURL is an error without the address, which may be a secret itself.
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
