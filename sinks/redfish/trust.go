package redfish

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// pools are the certificate pools of the designed CAs, one for all BMCs that
// trust the same.
type pools struct {
	mu    sync.Mutex
	byPEM map[string]*x509.CertPool
}

// exchanges are the key exchanges that are offered. With a post-quantum share
// the hello takes two packets, which old BMCs do not put together, and a
// thousand of them take a processor a second.
var exchanges = []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521}

// config makes the TLS configuration of one BMC, which always verifies: by the
// designed fingerprint or the one of its first use, by the designed CA, or by
// the host's own roots.
func (p *pools) config(t site.Trust, u *url.URL, seen *firstUse) (*tls.Config, error) {
	c := &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12, CurvePreferences: exchanges, ClientSessionCache: &ticket{}}
	switch {
	case t.Fingerprint != "":
		want, ok := fingerprint(t.Fingerprint)
		if !ok {
			return nil, refused("trust.fingerprint %q of %s is not sha256: and 64 hex digits", printable(t.Fingerprint), u.Host)
		}
		// The chain and the name are not looked at, the certificate itself is.
		c.InsecureSkipVerify = true
		c.VerifyConnection = func(s tls.ConnectionState) error { return pinned(u.Host, want, s.PeerCertificates[0]) }
	case t.OnFirstUse():
		c.InsecureSkipVerify = true
		c.VerifyConnection = func(s tls.ConnectionState) error { return seen.verify(u.Host, s.PeerCertificates[0]) }
	case t.CA != "":
		pool, ok := p.pool(t.CA)
		if !ok {
			return nil, refused("trust.ca of %s holds no certificate in PEM form", u.Host)
		}
		c.RootCAs = pool
	}
	verify := c.VerifyConnection
	c.VerifyConnection = func(s tls.ConnectionState) error {
		if verify != nil {
			if err := verify(s); err != nil {
				return err
			}
		}
		return seen.show(u.Host, s.PeerCertificates[0])
	}
	return c, nil
}

func (p *pools) pool(pem string) (*x509.CertPool, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pool := p.byPEM[pem]; pool != nil {
		return pool, true
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(pem)) {
		return nil, false
	}
	if p.byPEM == nil {
		p.byPEM = map[string]*x509.CertPool{}
	}
	p.byPEM[pem] = pool
	return pool, true
}

// fingerprint brings a pinned fingerprint into the form of sum.
func fingerprint(s string) (string, bool) {
	s = strings.ToLower(s)
	digits, found := strings.CutPrefix(s, "sha256:")
	b, err := hex.DecodeString(digits)
	return s, found && err == nil && len(b) == sha256.Size
}

func sum(c *x509.Certificate) string {
	d := sha256.Sum256(c.Raw)
	return "sha256:" + hex.EncodeToString(d[:])
}

// pinned checks a certificate against the designed fingerprint. When it expires says
// nothing then: no authority vouches for it, but who pinned it, and BMCs keep the
// certificate that they were made with for decades.
func pinned(host, want string, c *x509.Certificate) error {
	if got := sum(c); got != want {
		return driver.Say(fmt.Sprintf("the BMC's certificate has changed to %s (it was %s, by the design or at its first use): if it was replaced on purpose, put the new one into the endpoint's trust.fingerprint; if not, somebody may be intercepting the connection", got, want),
			refused("the BMC at %s shows the certificate %s, and %s is expected", host, got, want))
	}
	return nil
}

// firstUse is the certificate that was shown first, and is the only one that is
// trusted from then on.
type firstUse struct {
	mu  sync.Mutex
	sum string
	// last is the certificate that was verified last, in whatever way.
	last string
	// only is the one that is accepted while accounts are changed; empty otherwise.
	only string
}

// show notes a certificate that was verified, unless another one is held to.
func (f *firstUse) show(host string, c *x509.Certificate) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if is := sum(c); f.only != "" && is != f.only {
		return refused("the BMC at %s shows the certificate %s in the middle of a change of its accounts, and began it with %s", host, is, f.only)
	}
	f.last = sum(c)
	return nil
}

// hold accepts no other certificate than the one that was shown last, before it is let go.
func (f *firstUse) hold() (letGo func()) {
	set := func(only string) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.only = only
	}
	set(f.shown())
	return func() { set("") }
}

func (f *firstUse) shown() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

func (f *firstUse) verify(host string, c *x509.Certificate) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	want := f.sum
	if want == "" {
		if now := time.Now(); now.After(c.NotAfter) || now.Before(c.NotBefore) {
			return refused("the certificate of the BMC at %s, %s, is valid from %s to %s only, and Slipway does not accept it at first use; compare it on the BMC itself and put it into the endpoint's trust.fingerprint, or give the BMC a new one",
				host, sum(c), day(c.NotBefore), day(c.NotAfter))
		}
		want = sum(c)
	}
	if err := pinned(host, want, c); err != nil {
		return err
	}
	f.sum = want
	return nil
}

func (f *firstUse) seen() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sum
}

func day(t time.Time) string { return t.UTC().Format("2006-01-02") }

// untrusted explains a certificate that did not verify; other errors stay as
// they are. A person has to look at it: trying again sends nobody a better one.
func untrusted(host string, err error) error {
	var v *tls.CertificateVerificationError
	if !errors.As(err, &v) || len(v.UnverifiedCertificates) == 0 {
		return err
	}
	c := v.UnverifiedCertificates[0]
	why, advice := printableError(v.Err), "put the CA that signed it into the endpoint's trust.ca, or pin it as trust.fingerprint once you have compared it on the BMC itself"
	var invalid x509.CertificateInvalidError
	if errors.As(v.Err, &invalid) && invalid.Reason == x509.Expired {
		// What crypto/x509 says holds the time of the try, so that the same
		// trouble would read differently each time.
		why, advice = "it has expired or is not valid yet", "give the BMC a new certificate, and check its clock and this host's"
	}
	return refused("the certificate of the BMC at %s, %s, valid from %s to %s, is not trusted: %s; %s",
		host, sum(c), day(c.NotBefore), day(c.NotAfter), why, advice)
}

func printableError(err error) string { return printable(fmt.Sprint(err)) }

// ticket keeps the newest TLS session of one BMC, which spares its slow
// processor a signature per burst of requests. It is kept in serial form:
// with parsed certificates, as tls.NewLRUClientSessionCache keeps it, an idle
// machine takes half as much memory again.
type ticket struct {
	mu            sync.Mutex
	ticket, state []byte
}

// Get implements tls.ClientSessionCache.
func (t *ticket) Get(string) (*tls.ClientSessionState, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state == nil {
		return nil, false
	}
	state, err := tls.ParseSessionState(t.state)
	if err != nil {
		return nil, false
	}
	s, err := tls.NewResumptionState(t.ticket, state)
	return s, err == nil
}

// Put implements tls.ClientSessionCache; nil forgets the session.
func (t *ticket) Put(_ string, s *tls.ClientSessionState) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ticket, t.state = nil, nil
	if s == nil {
		return
	}
	ticket, state, err := s.ResumptionState()
	if err != nil || state == nil {
		return
	}
	if b, err := state.Bytes(); err == nil {
		t.ticket, t.state = ticket, b
	}
}
