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
	credential string // empty: not signed
	secrets    Secrets
	client     *http.Client
}

// NewWebhook refuses an address that others could read along on the way to.
// The credential is looked up for each message, so that it can be changed.
func NewWebhook(address, credential string, secrets Secrets) (*Webhook, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "":
		return nil, errors.New("notify by a webhook: its address is not a URL such as https://hooks.example.org/slipway")
	case u.User != nil:
		return nil, errors.New("notify by a webhook: its address has a password in it, which anybody on this host can read from the command line: use --notify-credential")
	case u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())):
		return nil, fmt.Errorf("notify by a webhook: %s:// to %s can be read and changed on the way: use https:// (http:// is for this host itself)", u.Scheme, u.Hostname())
	}
	w := &Webhook{url: u, credential: credential, secrets: secrets, client: &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout: answerTimeout, ResponseHeaderTimeout: answerTimeout,
			MaxResponseHeaderBytes: maxAnswerHeader,
			DisableKeepAlives:      true, // messages are rare
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if _, err := w.key(); err != nil {
		return nil, fmt.Errorf("notify by a webhook: %w", err)
	}
	return w, nil
}

func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// key is what messages are signed with, empty when they are not.
func (w *Webhook) key() (string, error) {
	if w.credential == "" {
		return "", nil
	}
	r, err := secret.For(w.credential, secret.Notify, w.url)
	if err != nil {
		return "", err
	}
	v, err := w.secrets.Get(r)
	if err != nil {
		return "", err
	}
	text, err := v.Password()
	if err != nil {
		return "", fmt.Errorf("credential %q: %w", w.credential, err)
	}
	return text, nil
}

// Send posts the message; only an answer of 2xx says that it was taken.
func (w *Webhook) Send(ctx context.Context, m Message) error {
	key, err := w.key()
	if err != nil {
		return err
	}
	body := m.body()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "slipway")
	if key != "" {
		req.Header.Set(signatureHeader, sign(key, body))
	}
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
