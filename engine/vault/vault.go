// Package vault reads secrets from a server of OpenBao or HashiCorp Vault through its HTTP
// API. It reads objects of the KV secrets engine, version 2.
package vault

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Limits of answers: their bytes, redirects, and characters shown.
const (
	maxAnswer    = 1 << 20
	maxRedirects = 3
	maxShown     = 200
)

// ErrDenied is wrapped when the server denies access.
var ErrDenied = errors.New("denied")

// Login is how Slipway logs in to the server: with a token or, if a role is named, as that
// AppRole.
type Login struct {
	Role   string
	Secret string
}

// Server is a server of secrets. Its methods are safe for concurrent use.
type Server struct {
	// Address is its URL, such as https://bao.example.org:8200.
	Address *url.URL
	// Namespace is the namespace of the secrets; empty for the root.
	Namespace string
	// Mount is the path of the secrets engine.
	Mount string
	// Login returns the login for a host of the server, and refuses other hosts. It is also
	// called for the active host that a standby server names.
	Login func(at *url.URL) (Login, error)

	client *http.Client

	mu    sync.Mutex
	by    Login // the role's login
	token string
	err   error     // why there is no token
	had   time.Time // when it was requested
	until time.Time
}

// New makes a server from its address. It trusts authorities in PEM form or, without any,
// those of this host.
func New(address *url.URL, authorities string) (*Server, error) {
	if err := mayReach(address); err != nil {
		return nil, err
	}
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if authorities != "" {
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM([]byte(authorities)) {
			return nil, errors.New("the file of the authorities has no certificate in PEM form")
		}
	}
	return &Server{Address: address, client: &http.Client{
		Transport:     &http.Transport{Proxy: nil, TLSClientConfig: trust, MaxResponseHeaderBytes: 64 << 10, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// mayReach refuses an address to which others can read and change the traffic.
func mayReach(address *url.URL) error {
	local, err := netip.ParseAddr(address.Hostname())
	isLocal := address.Hostname() == "localhost" || err == nil && local.IsLoopback()
	if address.Scheme == "https" || address.Scheme == "http" && isLocal {
		return nil
	}
	return fmt.Errorf("what is sent to %s can be read and changed on the way: use https:// (http:// is for this host itself)", shown(address.Redacted()))
}

// Read returns the fields of an object by its path below the mount.
func (s *Server) Read(ctx context.Context, object string) (map[string]json.RawMessage, error) {
	var got struct {
		Data struct {
			Data     map[string]json.RawMessage
			Metadata struct {
				Deleted   string `json:"deletion_time"`
				Destroyed bool
			}
		}
	}
	at := path.Join("/v1", s.Mount, "data", object)
	err := s.asked(ctx, func(token string) error { return s.do(ctx, http.MethodGet, at, token, nil, &got) })
	switch {
	case err != nil:
		return nil, err
	case got.Data.Metadata.Deleted != "" || got.Data.Metadata.Destroyed:
		return nil, errors.New("the newest version of the secret was deleted there")
	case got.Data.Data == nil:
		return nil, fmt.Errorf("%s holds no object: the secrets engine there has to be KV, version 2", s.Mount)
	}
	return got.Data.Data, nil
}

// asked makes a request with a token. A role's token that is denied may have expired or been
// revoked, so asked gets a new one, once.
func (s *Server) asked(ctx context.Context, request func(token string) error) error {
	login, err := s.Login(s.Address)
	if err != nil {
		return err
	}
	if login.Role == "" {
		return request(login.Secret)
	}
	token, fresh, err := s.tokenOf(ctx, login, "")
	if err != nil {
		return err
	}
	if err = request(token); !errors.Is(err, ErrDenied) || fresh {
		return err
	}
	if token, _, err = s.tokenOf(ctx, login, token); err != nil {
		return err
	}
	return request(token)
}

// How often Slipway logs in at most.
const (
	loginEvery = 30 * time.Second // after a failed login
	renewEvery = time.Minute      // with a denied token: its role may not read the path
)

// tokenOf returns the token of a role. It gets a new one if there is none, if it is about to
// expire, or if it was denied.
func (s *Server) tokenOf(ctx context.Context, l Login, denied string) (token string, fresh bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	age := now.Sub(s.had)
	switch {
	case s.by != l:
	case s.err != nil && age < loginEvery:
		return "", false, s.err
	case s.err == nil && now.Before(s.until) && (s.token != denied || age < renewEvery):
		return s.token, false, nil
	}
	var lease time.Duration
	s.by, s.had = l, now
	s.token, lease, s.err = s.login(ctx, l)
	s.until = time.Now().Add(lease * 2 / 3)
	return s.token, true, s.err
}

// login logs in as a role.
func (s *Server) login(ctx context.Context, l Login) (token string, lease time.Duration, err error) {
	var got struct {
		Auth struct {
			Token string `json:"client_token"`
			Lease int64  `json:"lease_duration"` // in seconds; 0 for no expiry
		}
	}
	body, err := json.Marshal(map[string]string{"role_id": l.Role, "secret_id": l.Secret})
	if err != nil {
		return "", 0, err
	}
	err = s.do(ctx, http.MethodPost, "/v1/auth/approle/login", "", body, &got)
	clear(body)
	switch {
	case errors.Is(err, ErrDenied):
		return "", 0, fmt.Errorf("%w: the server refuses the role and its secret ID", ErrDenied)
	case err != nil:
		return "", 0, fmt.Errorf("log in as the role: %w", err)
	case got.Auth.Token == "":
		return "", 0, errors.New("log in as the role: the server answered without a token")
	}
	lease = time.Duration(got.Auth.Lease) * time.Second
	if lease <= 0 || lease > 24*time.Hour {
		lease = time.Hour
	}
	return got.Auth.Token, lease, nil
}

// do makes a request and reads the answer. It follows a standby server to the active one, if
// the login may be sent there.
func (s *Server) do(ctx context.Context, method, at, token string, body []byte, into any) error {
	to := s.Address.JoinPath(at)
	for range maxRedirects {
		req, err := http.NewRequestWithContext(ctx, method, to.String(), bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("X-Vault-Request", "true") // agents and proxies of the server require it
		if token != "" {
			req.Header.Set("X-Vault-Token", token)
		}
		if s.Namespace != "" {
			req.Header.Set("X-Vault-Namespace", s.Namespace)
		}
		resp, err := s.client.Do(req)
		if err != nil {
			return err
		}
		answer, err := readAnswer(resp)
		if err != nil {
			return err
		}
		if resp.StatusCode != http.StatusTemporaryRedirect {
			defer clear(answer)
			return understand(resp.StatusCode, answer, into)
		}
		if to, err = s.active(to, resp.Header.Get("Location")); err != nil {
			return err
		}
	}
	return fmt.Errorf("the server names another one for the %dth time", maxRedirects)
}

// active returns the active server that a standby server names.
func (s *Server) active(from *url.URL, location string) (*url.URL, error) {
	to, err := from.Parse(location)
	switch {
	case err != nil || location == "":
		return nil, errors.New("the server is in standby, and does not name the active one")
	}
	if err := mayReach(to); err != nil {
		return nil, fmt.Errorf("the server is in standby, and names another one: %w", err)
	}
	if _, err := s.Login(to); err != nil {
		return nil, fmt.Errorf("the server is in standby, and names %s: %w", shown(to.Host), err)
	}
	return to, nil
}

func readAnswer(resp *http.Response) ([]byte, error) {
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(b) > maxAnswer {
		err = fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	return b, err
}

// understand decodes an answer, or returns its error. It shows only the messages of an
// error.
func understand(status int, answer []byte, into any) error {
	if status == http.StatusOK {
		if json.Unmarshal(answer, into) != nil {
			return errors.New("the answer is not what a server of secrets says") // the JSON error would show a part of it
		}
		return nil
	}
	var wrong struct{ Errors []string }
	_ = json.Unmarshal(answer, &wrong) // some answers have no messages
	text := ""
	if len(wrong.Errors) > 0 {
		text = ": " + shown(strings.Join(wrong.Errors, "; "))
	}
	switch status {
	case http.StatusForbidden, http.StatusUnauthorized:
		return fmt.Errorf("%w%s: the token or role needs a policy with the capability \"read\" on the path", ErrDenied, text)
	case http.StatusNotFound:
		return fmt.Errorf("there is no such secret on the server%s", text)
	case http.StatusServiceUnavailable:
		return fmt.Errorf("the server is sealed or in maintenance%s", text)
	}
	return fmt.Errorf("the server answered with status %d%s", status, text)
}

func shown(text string) string { return site.Shorten(site.Printable(text), maxShown) }

// fields are the fields of a credential's object besides its secret.
var fields = []string{"hosts", "use", "ports", "username"}

// Credential returns an object as the text of a credential file: header lines, an empty
// line, and the secret. The object has "secret", "site" with the site's name, "hosts" and
// "use", and optionally "ports" and "username". They are texts, numbers, or lists of these.
func Credential(object map[string]json.RawMessage, siteName string) ([]byte, error) {
	if is, err := line(object["site"]); err != nil || is != siteName {
		return nil, fmt.Errorf("its field \"site\" does not say %q, so it may be the secret of another site: set it on the server", siteName)
	}
	var b bytes.Buffer
	for _, name := range fields {
		text, err := line(object[name])
		if err != nil {
			return nil, fmt.Errorf("its field %q %w", name, err)
		}
		if text != "" {
			fmt.Fprintf(&b, "%s: %s\n", name, text)
		}
	}
	var text string
	if json.Unmarshal(object["secret"], &text) != nil || text == "" {
		return nil, errors.New("it has no text in the field \"secret\"")
	}
	b.WriteString("\n" + text)
	return b.Bytes(), nil
}

var errLine = errors.New("is neither a text of one line, a number, nor a list of these")

// line returns a text, a number, or a list of these joined by commas.
func line(raw json.RawMessage) (string, error) {
	var many []json.RawMessage
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	if json.Unmarshal(raw, &many) != nil {
		many = []json.RawMessage{raw}
	}
	var texts []string
	for _, one := range many {
		var text string
		var number json.Number
		switch {
		case json.Unmarshal(one, &text) == nil:
		case json.Unmarshal(one, &number) == nil:
			text = number.String()
		default:
			return "", errLine
		}
		texts = append(texts, text)
	}
	if slices.ContainsFunc(texts, func(s string) bool { return strings.ContainsAny(s, "\r\n") }) {
		return "", errLine
	}
	return strings.Join(texts, ", "), nil
}
