package repo

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"github.com/slipway-gitops/slipway/engine/secret"
)

// Login returns what to log in with over HTTPS: a user name, and a password or
// token. It is called at the start of each session, because tokens may be
// short-lived and files may be replaced.
type Login func(ctx context.Context) (secret.Value, error)

// defaultUser is sent with a token that has no user name. GitHub requires
// exactly this name with an App's installation token, and accepts any with
// other tokens, like the other forges.
const defaultUser = "x-access-token"

// web holds what is needed to reach a repository over HTTPS.
type web struct {
	base   *url.URL
	login  Login // nil: nobody logs in
	client *http.Client
}

// NewHTTPS is New for an address https://host[:port]/path. The login is sent
// only to that host: redirects are not followed. The server must have a
// certificate of one of the authorities in the PEM file ca or, if that is
// empty, of the system's. Use a nil login for a public repository. http:// is
// accepted only for addresses of this host.
func NewHTTPS(address string, login Login, ca string) (Remote, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return Remote{}, errors.New("the repository's address is not a URL: pass https://host/path")
	case u.User != nil:
		return Remote{}, fmt.Errorf("repository %s: the address carries a user or a token, which everyone who sees the address would see: remove it and put it into the credential", sanitised(u))
	case u.Hostname() == "" || strings.Trim(u.Path, "/") == "" || u.RawQuery != "" || u.Fragment != "":
		return Remote{}, fmt.Errorf("repository %s: write https://host[:port]/path", sanitised(u))
	case u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())):
		return Remote{}, fmt.Errorf("repository %s: with %s anyone on the way can read and change what is sent, also the token: use https://", sanitised(u), plain(u.Scheme)+"://")
	}
	roots, err := authorities(ca)
	if err != nil {
		return Remote{}, fmt.Errorf("repository %s: %w", sanitised(u), err)
	}
	w := &web{base: &url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimSuffix(u.Path, "/")}, login: login, client: &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
			MaxResponseHeaderBytes: 64 << 10,
			ForceAttemptHTTP2:      true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	return Remote{path: u.Path, host: u.Hostname(), port: u.Port(), web: w}, nil
}

// fixed returns a login that never changes.
func fixed(v secret.Value) Login {
	if v.IsZero() {
		return nil
	}
	return func(context.Context) (secret.Value, error) { return v, nil }
}

func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// authorities reads a file of certificates; nil means the system's.
func authorities(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("certificate authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("certificate authorities: %s holds no certificate in PEM form", file)
	}
	return pool, nil
}

// exchange is a session over HTTP (gitprotocol-http(5)). One request gets the
// server's first output. A second one sends all that we write, when its answer
// is first read.
type exchange struct {
	*web
	ctx     context.Context
	service service
	who     secret.Value
	request bytes.Buffer
	answer  io.ReadCloser
	asked   bool
}

func (w *web) start(ctx context.Context, what service) (*session, error) {
	x := &exchange{web: w, ctx: ctx, service: what, answer: http.NoBody}
	if w.login != nil {
		var err error
		if x.who, err = w.login(ctx); err != nil {
			return nil, err
		}
	}
	if err := x.advertisement(); err != nil {
		x.end()
		return nil, err
	}
	return &session{x, x, &tail{}, x.end}, nil
}

func (x *exchange) name() string { return "git-" + x.service.program }

// advertisement begins the session. Servers that speak version 2 the way git
// does omit the line that names the service.
func (x *exchange) advertisement() error {
	u := x.base.JoinPath("info/refs")
	u.RawQuery = "service=" + x.name()
	req, err := http.NewRequestWithContext(x.ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	if err := x.send(req, "advertisement"); err != nil {
		return err
	}
	return x.skipService()
}

func (x *exchange) skipService() error {
	const title, flush = "# service=", "0000"
	want := fmt.Sprintf("%04x%s%s\n", 4+len(title)+len(x.name())+1, title, x.name()) + flush
	start := make([]byte, len(want))
	n, err := io.ReadFull(x.answer, start)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return err
	}
	if string(start[:n]) == want {
		return nil
	}
	x.answer = readCloser{io.MultiReader(bytes.NewReader(start[:n]), x.answer), x.answer}
	return nil
}

type readCloser struct {
	io.Reader
	io.Closer
}

// Write stores the bytes to send.
func (x *exchange) Write(p []byte) (int, error) { return x.request.Write(p) }

// Close ends the bytes to send. Nothing needs to be done for that.
func (x *exchange) Close() error { return nil }

// Read reads the first answer to its end, and then the second.
func (x *exchange) Read(p []byte) (int, error) {
	n, err := x.answer.Read(p)
	switch {
	case n > 0 && errors.Is(err, io.EOF):
		return n, nil
	case !errors.Is(err, io.EOF) || x.asked || x.request.Len() == 0:
		return n, err
	}
	x.asked = true
	if err := x.ask(); err != nil {
		return 0, err
	}
	return x.answer.Read(p)
}

func (x *exchange) ask() error {
	req, err := http.NewRequestWithContext(x.ctx, http.MethodPost, x.base.JoinPath(x.name()).String(), bytes.NewReader(x.request.Bytes()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-"+x.name()+"-request")
	return x.send(req, "result")
}

// send sends a request and makes its answer the one to read.
func (x *exchange) send(req *http.Request, kind string) error {
	req.Header.Set("User-Agent", "git/slipway") // forges recognize Git clients by it
	if x.service.protocol != "" {
		req.Header.Set("Git-Protocol", x.service.protocol)
	}
	if !x.who.IsZero() {
		user := x.who.Username()
		if user == "" {
			user = defaultUser
		}
		password, err := x.who.Password()
		if err != nil {
			return &webError{fmt.Sprintf("the repository's credential: %v; https:// needs a token", err)}
		}
		req.SetBasicAuth(user, password)
	}
	_ = x.answer.Close()
	resp, err := x.client.Do(req)
	if err != nil {
		x.answer = http.NoBody
		return withoutURL(err)
	}
	x.answer = resp.Body
	if resp.StatusCode != http.StatusOK {
		return x.refusal(resp)
	}
	want := "application/x-" + x.name() + "-" + kind
	if got, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); got != want {
		return &webError{fmt.Sprintf("what answers is not a Git server (%s instead of %s): check the address", plain(got), want)}
	}
	return nil
}

func (x *exchange) end() {
	_ = x.answer.Close()
	x.client.CloseIdleConnections()
}

// webError is an error that already says what to do.
type webError struct{ what string }

func (e *webError) Error() string { return e.what }

// refusal says what an answer other than 200 means.
func (x *exchange) refusal(resp *http.Response) error {
	switch code := resp.StatusCode; {
	case code == http.StatusUnauthorized && x.who.IsZero():
		return &webError{"the server wants a user name and a token: name a credential that holds one"}
	case code == http.StatusUnauthorized:
		return &webError{"the server refused the token: it is wrong, expired or revoked: make a new one and put it into the credential"}
	case code == http.StatusForbidden && x.service == receiving:
		return &webError{"the token does not allow a push: give it write access to the repository's contents"}
	case code == http.StatusForbidden:
		return &webError{"the token does not allow this: give it read access to the repository's contents"}
	case code == http.StatusNotFound || code == http.StatusGone:
		return &webError{"there is no Git repository, or this token may not see it: check the address, and for which repositories the token is"}
	case code/100 == 3:
		return &webError{"the repository has moved to " + moved(resp) + ": Slipway does not follow: write that address if it is right"}
	}
	said, _ := io.ReadAll(io.LimitReader(resp.Body, 512)) // only for display
	return &webError{fmt.Sprintf("the server answers %s: %s", plain(resp.Status), plain(string(said)))}
}

// moved returns the repository address that a redirect leads to.
func moved(resp *http.Response) string {
	u, err := resp.Location()
	if err != nil {
		return "an address that is not readable"
	}
	u.Path = strings.TrimSuffix(u.Path, "/info/refs")
	return sanitised(u)
}

func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
