package control

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// ErrUnreachable is wrapped by a client's errors when a server on the network does not answer. It is
// apart from ErrNoDaemon: nobody goes on without a daemon because a network is down.
var ErrUnreachable = errors.New("the server does not answer")

// Server is a daemon on the network, and what its client shows there.
type Server struct {
	// URL is https://HOST or https://HOST:PORT.
	URL string
	// Authorities are those that the server's certificate is verified by; nil for those of the host.
	Authorities *x509.CertPool
	// Certificate is that of a person; nil with the Token of a program, or with a Login.
	Certificate *tls.Certificate
	Token       string
	// Login gives the ID token of a person who has logged in; nil for others. It is asked before each
	// request, as such a token lives for minutes.
	Login func(context.Context) (string, error)
}

// DialServer makes a client for a server; it connects when it is first used. It follows no redirection
// and uses no proxy: what it shows is for that server alone.
func DialServer(s Server) (*Client, error) {
	if err := CheckURL(s.URL); err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: s.Authorities}
	if s.Certificate != nil {
		// Also where the server names other authorities: it then says what is wrong.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return s.Certificate, nil }
	}
	return &Client{
		base: s.URL, token: s.Token, login: s.Login, remote: true,
		http: http.Client{
			Transport:     &http.Transport{TLSClientConfig: c, TLSHandshakeTimeout: readTimeout, ExpectContinueTimeout: time.Second},
			Timeout:       answerTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// HowToLogIn is what a server says about logging in, to somebody who shows nothing.
func (c *Client) HowToLogIn(ctx context.Context) (Resource, error) {
	var is Resource
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+resourcePath, nil)
	if err != nil {
		return is, err
	}
	_, err = c.do(req, &is)
	switch {
	case errors.Is(err, ErrWhoAreYou):
		return is, fmt.Errorf("nobody logs in to %s: its access file has no line \"oidc command-client\"", c.base)
	case err == nil && (is.Client == "" || len(is.Issuers) != 1):
		return is, fmt.Errorf("%s does not say by which issuer persons log in: it may be of another version", c.base)
	}
	return is, err
}

// CheckURL refuses what is not the URL of a server.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.ForceQuery {
		return fmt.Errorf("%q is not the URL of a server: write https://HOST:PORT", text)
	}
	return nil
}

// explainRemote says what to do when a server gives no answer.
func (c *Client) explainRemote(err error) error {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var alert *net.OpError
	switch {
	case errors.As(err, &unknown):
		return fmt.Errorf("the certificate of %s is of an authority that is not trusted: name its authority with --ca of `slipway context add`", c.base)
	case errors.As(err, &name), errors.As(err, &invalid):
		return fmt.Errorf("the certificate of %s is not accepted: %w", c.base, errors.Unwrap(err))
	case errors.As(err, &alert) && alert.Op == "remote error": // as crypto/tls names what the other side says
		return fmt.Errorf("%s does not accept the certificate of this client (%w): it may have expired, or be of another authority than --api-clients names", c.base, alert.Err)
	case errors.Is(err, context.Canceled):
		return err
	}
	return fmt.Errorf("%w: %s: %w", ErrUnreachable, c.base, errors.Unwrap(err))
}

// patience is how long a client waits in all when it is told that it asks too much.
const patience = 30 * time.Second

// send sends a request, again where the daemon says that it asks too much and when.
func (c *Client) send(client *http.Client, req *http.Request) (*http.Response, error) {
	for end := time.Now().Add(patience); ; {
		resp, err := client.Do(req)
		if err != nil || resp.StatusCode != http.StatusTooManyRequests || req.Body != nil && req.GetBody == nil || time.Now().After(end) {
			return resp, err
		}
		wait, err := strconv.Atoi(resp.Header.Get("Retry-After"))
		resp.Body.Close()
		if err != nil || wait < 1 || wait > 10 {
			wait = 1
		}
		select {
		case <-req.Context().Done():
			return nil, req.Context().Err()
		case <-time.After(time.Duration(wait) * time.Second):
		}
		if req.GetBody != nil {
			if req.Body, err = req.GetBody(); err != nil {
				return nil, err
			}
		}
	}
}

// Broken is a client that answers everything with an error.
func Broken(err error) *Client {
	return &Client{base: "http://slipway", broken: err}
}
