// Package openid has persons log in by OpenID Connect: it asks an issuer, verifies what the issuer has signed, and
// keeps the sessions of browsers. It says who somebody is; package access says what that person may do.
//
// An issuer that does not answer keeps nobody out who is known otherwise: it is asked when it is first needed, and
// again some time later. See https://openid.net/specs/openid-connect-core-1_0.html and RFC 6749, 7636, 8252, 8628
// and 9700.
package openid

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/slipway-gitops/slipway/engine/site"
)

var (
	// ErrAway is wrapped when the issuer gives no answer that can be used.
	ErrAway = errors.New("the issuer cannot be used now")
	// ErrBroken says that nobody is known by a login, because of the daemon's own files. What is wrong with them is for its log.
	ErrBroken = errors.New("the access file on the daemon's host is wrong, so nobody may use this API with a login: the log of the daemon says what is wrong; whether your login is good was not looked at")
	// ErrToken is wrapped when a token is not accepted.
	ErrToken = errors.New("the token is not accepted")
)

// Times and bounds of asking an issuer.
const (
	askTimeout  = 10 * time.Second
	mostAnswer  = 1 << 20          // bytes
	keepIssuer  = time.Hour        // after that its description and its keys are fetched again
	retryIssuer = 10 * time.Second // how long an issuer that did not answer is left alone
	keysEvery   = 5 * time.Second  // how often its keys are fetched at most: anybody can send a token with an unknown key
)

// Issuer is an issuer of OpenID Connect.
type Issuer struct {
	// URL is the issuer, as its tokens name it.
	URL string
	// Authority is a PEM file with the authority of its certificate; empty for those of the host.
	Authority string
	// Now is the clock by which tokens are judged; nil is that of the host. Only for tests.
	Now func() time.Time

	known discovery
}

func (i *Issuer) now() time.Time {
	if i.Now != nil {
		return i.Now()
	}
	return time.Now()
}

// described is an issuer, as its description on the network has it.
type described struct {
	provider *oidc.Provider
	keys     oidc.KeySet
	seldom   *seldom // bounds how often keys are fetched
	client   *http.Client
	basic    bool // a client shows its secret in the header, and not in the body
}

// endpoint are the addresses of the issuer. They are HTTPS all.
func (d *described) endpoint() oauth2.Endpoint {
	e := d.provider.Endpoint()
	e.AuthStyle = oauth2.AuthStyleInParams
	if d.basic {
		e.AuthStyle = oauth2.AuthStyleInHeader
	}
	return e
}

// context has libraries ask the issuer as this package does.
func (d *described) context(ctx context.Context) context.Context {
	return oidc.ClientContext(ctx, d.client)
}

// describe gives the issuer's description, which is fetched where it is not known.
func (i *Issuer) describe(ctx context.Context) (*described, error) {
	d, err := i.known.get(ctx, i.fetch)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrAway, i.URL, err)
	}
	return d, nil
}

// Try asks the issuer, and says what is wrong where it cannot be used.
func (i *Issuer) Try(ctx context.Context) error {
	_, err := i.describe(ctx)
	return err
}

// fetch fetches the issuer's description.
func (i *Issuer) fetch() (*described, error) {
	client, err := i.client()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, client), i.URL)
	var other *oidc.IssuerMismatchError
	switch {
	case errors.As(err, &other):
		return nil, fmt.Errorf("its description is that of another issuer, %s: write the issuer exactly as it names itself", printable(other.Discovered))
	case err != nil:
		return nil, errors.New(printable(withoutURL(err).Error()))
	}
	var more struct {
		Keys    string   `json:"jwks_uri"`
		Methods []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := provider.Claims(&more); err != nil {
		return nil, errors.New(printable(err.Error()))
	}
	e := provider.Endpoint()
	for what, address := range map[string]string{"authorization_endpoint": e.AuthURL, "token_endpoint": e.TokenURL, "jwks_uri": more.Keys, "device_authorization_endpoint": e.DeviceAuthURL} {
		if u, err := url.Parse(address); (err != nil || u.Scheme != "https" || u.Host == "") && (address != "" || what != "device_authorization_endpoint") {
			return nil, fmt.Errorf("its description has no HTTPS address as %s, but %s", what, printable(address))
		}
	}
	d := &described{provider: provider, client: client, basic: len(more.Methods) == 0 || slices.Contains(more.Methods, "client_secret_basic")}
	keys := *client
	d.seldom = &seldom{RoundTripper: client.Transport, every: keysEvery}
	keys.Transport = d.seldom
	d.keys = oidc.NewRemoteKeySet(oidc.ClientContext(context.Background(), &keys), more.Keys)
	return d, nil
}

// client is what asks the issuer. It follows no redirection: secrets are for the issuer alone.
func (i *Issuer) client() (*http.Client, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if i.Authority != "" {
		text, err := os.ReadFile(i.Authority)
		if err != nil {
			return nil, fmt.Errorf("read its authority: %w", err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("there is no certificate in %s", i.Authority)
		}
	}
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: c, TLSHandshakeTimeout: askTimeout, ResponseHeaderTimeout: askTimeout,
		MaxResponseHeaderBytes: 64 << 10, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute,
	}
	return &http.Client{
		Transport: bounded{t}, Timeout: askTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// withoutURL is an error of an HTTP client without the address, which the caller says.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// printable is a text of the issuer as people may see it.
func printable(text string) string {
	const most = 300
	text = strings.ToValidUTF8(text[:min(len(text), most)], "")
	return site.Printable(strings.TrimSpace(text))
}

// bounded bounds the body of answers: the libraries read all there is.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = &atMost{resp.Body, mostAnswer}
	}
	return resp, err
}

// atMost is a body that ends with an error where it is larger.
type atMost struct {
	io.ReadCloser
	left int
}

func (a *atMost) Read(b []byte) (int, error) {
	if a.left <= 0 {
		return 0, fmt.Errorf("the answer has more than %d bytes", mostAnswer)
	}
	n, err := a.ReadCloser.Read(b[:min(len(b), a.left)])
	a.left -= n
	return n, err
}

// seldom lets a request through once in a while.
type seldom struct {
	http.RoundTripper
	every time.Duration

	mu   sync.Mutex
	last time.Time
}

var errSeldom = errors.New("the keys were fetched a moment ago, and have no such key")

func (s *seldom) RoundTrip(r *http.Request) (*http.Response, error) {
	if !s.mayNow(time.Now()) {
		return nil, errSeldom
	}
	return s.RoundTripper.RoundTrip(r)
}

func (s *seldom) mayNow(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.last.IsZero() && now.Sub(s.last) < s.every {
		return false
	}
	s.last = now
	return true
}

// jsonOf reads the claims of a token exactly: encoding/json takes "AUD" for "aud" in a struct.
func jsonOf(payload []byte) (map[string]json.RawMessage, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(payload, &all); err != nil || all == nil {
		return nil, fmt.Errorf("%w: its claims are not a JSON object", ErrToken)
	}
	return all, nil
}
