// Package sshclient logs in to hosts over SSH, for every driver that does: it
// checks the host before it sends a credential, and classifies what goes wrong
// as drivers do. It holds no connection of its own.
package sshclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	gossh "golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// MaxOutput bounds what a command may print, in bytes.
const MaxOutput = 512 << 10

// The bounds of a login.
const (
	connectTimeout = 10 * time.Second
	dialTimeout    = 30 * time.Second // the connection and the login together
)

// Client is who logs in where, and how both sides prove themselves. It may be
// used by several at once.
type Client struct {
	address string
	through string // the address that is dialled, where it is another one
	user    string
	login   login
	trust   trust
	offer   *offer // shared by the clients of one host
	proof   *proof // likewise
}

// Open checks an endpoint and its credential, and sends nothing. Of the URL it
// reads the host, the port, 22 without one, and the user; the scheme and the
// path are the driver's. The credential's user name goes before the URL's, and
// its secret is one of
//
//   - a private key in PEM form;
//   - such a key, and behind it the certificate that OpenSSH's authority made
//     of it, a line "ssh-ed25519-cert-v01@openssh.com AAAA…";
//   - a password.
//
// An empty secret is driver.ErrDenied: certificates, see Certify, are a second way in and
// never the only one.
func Open(e site.Endpoint, s secret.Value) (*Client, error) {
	u, err := url.Parse(e.URL)
	if err != nil || u.Hostname() == "" {
		return nil, refused("the endpoint %q has no host to log in to", e.URL)
	}
	if _, has := u.User.Password(); has {
		return nil, refused("the endpoint of %s holds a password, which does not belong in Git; name a credential instead", u.Host)
	}
	c := &Client{address: net.JoinHostPort(u.Hostname(), orDefault(u.Port(), "22")), offer: &offer{}, proof: &proof{}}
	c.user = orDefault(s.Username(), u.User.Username())
	if c.user == "" {
		fix := "give the endpoint a credential with a username"
		if u.Scheme != "ssh" { // the rule credential-in-url refuses an account in the URL of a node's endpoint
			fix = fmt.Sprintf("write %s://USER@%s, or give it a credential with a username", u.Scheme, u.Host)
		}
		return nil, refused("no user to log in to %s as; %s", u.Host, fix)
	}
	if c.login, err = loginBy(s); err != nil {
		return nil, err
	}
	c.trust, err = parseTrust(e.Trust.HostKeys, u.Host)
	return c, err
}

func orDefault(s, otherwise string) string {
	if s != "" {
		return s
	}
	return otherwise
}

// Address is the host and the port.
func (c *Client) Address() string { return c.address }

// User is who logs in.
func (c *Client) User() string { return c.user }

// PublicKey is the key of the credential, as in authorized_keys(5), empty where it is a
// password or a certificate.
func (c *Client) PublicKey() string {
	if c.login.key == nil {
		return ""
	}
	return strings.TrimSpace(string(gossh.MarshalAuthorizedKey(c.login.key)))
}

// ByPassword reports whether the credential is the account's password.
func (c *Client) ByPassword() bool { return c.login.password }

// Through is the client of the same host by another address, a host and a port. The
// host proves itself as by its own address.
func (c *Client) Through(address string) *Client {
	other := *c
	other.through = address
	return &other
}

// Dial is Login for those to whom it is the same how.
func (c *Client) Dial(ctx context.Context) (*gossh.Client, error) {
	client, _, err := c.Login(ctx)
	return client, err
}

// Login connects and logs in, within the context and half a minute for each way in, and
// says by which. The connection is the caller's from then on: the context's end does
// nothing to it. A wrong host key is driver.ErrRefused, a credential that is not accepted
// driver.ErrDenied, and what may pass driver.ErrUnreachable.
func (c *Client) Login(ctx context.Context) (*gossh.Client, Entry, error) {
	e := Entry{Account: c.user}
	var denial error // by the credential, where that was tried
	for _, w := range c.ways(&e, time.Now()) {
		in, err := c.reach(ctx, w.login)
		switch {
		case err == nil:
			e.By, e.Authority, e.Host, e.told = w.by, in.authority, in.host, in.told
			return in.client, e, nil
		case !errors.Is(err, driver.ErrDenied):
			return nil, e, err
		case w.by == site.ByCertificate:
			e.Refused = c.offer.refused(err, time.Now().Add(spare))
		default:
			denial = err
		}
	}
	if e.Refused != "" {
		denial = fmt.Errorf("%w; by certificate: %s", denial, e.Refused)
	}
	return nil, e, denial
}

// entered is a connection that has logged in.
type entered struct {
	client    *gossh.Client
	authority string // that signed the site's certificate that did, if one did
	host      string // how the host proved itself, as in Entry
	told      *told
}

// reach connects and logs in by one way. A host whose certificate is not trusted may have a trusted key without. Where
// it has none either, and the design names who signs its keys, the refusal says what is wrong with the certificate.
func (c *Client) reach(ctx context.Context, way func() (login, error)) (entered, error) {
	in, err := c.dial(ctx, way, false)
	switch {
	case errors.Is(err, errCertificate):
		return c.dial(ctx, way, true)
	case errors.Is(err, errProvesNothing) && len(c.trust.pinned) > 0:
		again, plain := c.dial(ctx, way, true)
		if !errors.Is(plain, driver.ErrRefused) {
			return again, plain
		}
	}
	return in, err
}

// dial connects and logs in by one way. Plain asks for no certificate from the host.
func (c *Client) dial(ctx context.Context, way func() (login, error), plain bool) (entered, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := (&net.Dialer{Timeout: connectTimeout}).DialContext(ctx, "tcp", orDefault(c.through, c.address))
	if err != nil {
		return entered{}, fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
	}
	keep := context.AfterFunc(ctx, func() { conn.Close() })
	var in entered
	l, err := way()
	if err == nil {
		in, err = c.enter(ctx, conn, l, plain)
	}
	if !keep() && !isAnswer(err) {
		err = fmt.Errorf("%w: %w", driver.ErrUnreachable, errors.Join(err, ctx.Err()))
	}
	if err != nil {
		conn.Close()
		return entered{}, err
	}
	in.authority = l.authority
	return in, nil
}

// isAnswer says whether an error is the other side's last word.
func isAnswer(err error) bool {
	return errors.Is(err, driver.ErrRefused) || errors.Is(err, driver.ErrDenied)
}

// enter logs in. A password is sent with the consent of the context's
// driver.Guard.
func (c *Client) enter(ctx context.Context, conn net.Conn, l login, plain bool) (in entered, err error) {
	if !l.password {
		return c.handshake(conn, l, plain)
	}
	err = driver.Login(ctx, func() (err error) { in, err = c.handshake(conn, l, plain); return err })
	return in, err
}

func (c *Client) handshake(conn net.Conn, l login, plain bool) (in entered, _ error) {
	var untrusted error
	trust := c.trust
	trust.site = c.proof.now()
	sc, channels, requests, err := gossh.NewClientConn(conn, c.address, &gossh.ClientConfig{
		User:              c.user,
		Auth:              []gossh.AuthMethod{l.method},
		HostKeyAlgorithms: trust.algorithms(plain),
		HostKeyCallback: func(_ string, _ net.Addr, key gossh.PublicKey) error {
			in.host, untrusted = trust.check(c.address, key)
			return untrusted
		},
	})
	var apart *gossh.AlgorithmNegotiationError
	switch {
	case untrusted != nil:
		return entered{}, untrusted
	case errors.As(err, &apart):
		return entered{}, refused("%s and Slipway have no algorithm for SSH in common, because the server is too old or too strict: %.300s", c.address, apart.Error())
	case err != nil && strings.Contains(err.Error(), "unable to authenticate"): // x/crypto has no type for it
		return entered{}, fmt.Errorf("%w: %s does not let %s in with this %s%s", driver.ErrDenied, c.address, c.user, l.what(), l.about())
	case err != nil:
		return entered{}, fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
	}
	in.told, requests = listenTo(sc, requests)
	in.client = gossh.NewClient(sc, channels, requests)
	return in, nil
}

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{driver.ErrRefused}, args...)...)
}
