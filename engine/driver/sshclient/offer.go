package sshclient

import (
	"crypto/ed25519"
	"crypto/rand"
	"strings"
	"sync"
	"time"

	gossh "golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Entry is how a connection logged in.
type Entry struct {
	By      string // as site.Login has it
	Account string
	// Authority is the public key of who signed the certificate; empty by other ways.
	Authority string
	// Refused says why no certificate logged in, empty where one did or none was to.
	Refused string
	// Host is how the host proved itself: site.ByCertificate or site.ByKey.
	Host string
	told *told
}

// HostKeys are the host keys that the host has proven to have on this connection, the first of each
// kind, as in authorized_keys(5); none where it is not OpenSSH. Call it after the first session.
func (e Entry) HostKeys() ([]string, error) {
	if e.told == nil {
		return nil, nil
	}
	return e.told.proven()
}

// spare is how long a system that refused a certificate is shown none, if it has let the
// credential in: each refusal is a failed login in its log, which some systems count.
const spare = 10 * time.Minute

// offer is whether logins show a certificate. It may be used by several at once.
type offer struct {
	mu    sync.Mutex
	by    driver.Certificates
	why   string    // the last refusal
	until time.Time // while it counts
}

func (o *offer) set(by driver.Certificates) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.by = by
}

// now is what is offered at a time, and why nothing is although something could be.
func (o *offer) now(at time.Time) (by driver.Certificates, why string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if at.Before(o.until) {
		return driver.Certificates{}, o.why
	}
	return o.by, ""
}

// refused keeps that a certificate was refused, and shows none until then.
func (o *offer) refused(err error, until time.Time) (why string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.why, o.until = strings.TrimPrefix(err.Error(), driver.ErrDenied.Error()+": "), until
	return o.why
}

// forget has the next login show a certificate again.
func (o *offer) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.until = time.Time{}
}

// Certify has logins show certificates from now on, besides the credential: each has a
// connection, a key pair and a certificate of its own, and the key is never stored.
func (c *Client) Certify(by driver.Certificates) { c.offer.set(by) }

// Again has the next login show a certificate although one was refused a while ago: the
// system was changed.
func (c *Client) Again() { c.offer.forget() }

// way is one way to log in.
type way struct {
	by    string
	login func() (login, error)
}

// ways are those to try, in order; the credential's is always one of them. It notes why none
// is by certificate although one could be.
func (c *Client) ways(e *Entry, at time.Time) []way {
	by, why := c.offer.now(at)
	e.Refused = orDefault(why, by.Why)
	own := way{c.login.by(), func() (login, error) { return c.login, c.login.valid(at) }}
	shown := way{site.ByCertificate, func() (login, error) { return c.certify(by) }}
	switch {
	case by.Sign == nil:
		return []way{own}
	case by.Last:
		return []way{own, shown}
	}
	return []way{shown, own}
}

// certify makes a key pair for one connection, and has it signed.
func (c *Client) certify(by driver.Certificates) (login, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return login{}, err
	}
	signer, err := gossh.NewSignerFromKey(private)
	if err != nil {
		return login{}, err
	}
	line, err := by.Sign(authorized(signer.PublicKey()), c.user)
	if err != nil {
		return login{}, denied("%w", err)
	}
	l, err := certified(signer, []byte(line))
	if err == nil {
		l.authority = authorized(l.certificate.SignatureKey)
	}
	return l, err
}

func authorized(key gossh.PublicKey) string {
	return strings.TrimSpace(string(gossh.MarshalAuthorizedKey(key)))
}
