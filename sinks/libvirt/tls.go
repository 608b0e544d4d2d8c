package libvirt

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// tlsDialer reaches libvirt's own port. Both sides use certificates: the credential is our certificate followed by
// its key.
func tlsDialer(a address, t site.Trust, s secret.Value) (dialFunc, error) {
	host, _, _ := net.SplitHostPort(a.host)
	config := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	if err := trust(config, a, t); err != nil {
		return nil, err
	}
	text, _ := s.PEM() // without PEM there is no key pair
	own, err := tls.X509KeyPair(text, text)
	if err != nil { // the error may quote it
		return func(context.Context) (net.Conn, error) {
			return nil, fmt.Errorf("%w: the credential for %s is not a client certificate with its private key, both in PEM form in one file", driver.ErrDenied, a)
		}, nil
	}
	config.Certificates = []tls.Certificate{own}
	return func(ctx context.Context) (net.Conn, error) { return dialTLS(ctx, a, config) }, nil
}

// trust sets how the hypervisor is verified: by the designed fingerprint, by the designed CA, or by the host's
// roots.
func trust(config *tls.Config, a address, t site.Trust) error {
	switch {
	case t.Fingerprint != "":
		want := strings.ToLower(t.Fingerprint)
		if b, err := hex.DecodeString(strings.TrimPrefix(want, "sha256:")); err != nil || len(b) != sha256.Size || !strings.HasPrefix(want, "sha256:") {
			return refused("trust.fingerprint of %s is not sha256: and 64 hex digits", a)
		}
		// Only the certificate itself is checked, not its chain or name.
		config.InsecureSkipVerify = true
		config.VerifyConnection = func(s tls.ConnectionState) error { return pinned(a, want, s.PeerCertificates[0]) }
	case t.CA != "":
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(t.CA)) {
			return refused("trust.ca of %s holds no certificate in PEM form", a)
		}
	case t.FirstUse:
		return refused("trust.firstUse of %s: a hypervisor is not trusted by its first use; name its CA in trust.ca, or its certificate in trust.fingerprint", a)
	}
	return nil
}

// pinned checks a certificate against the designed fingerprint. This also works if the certificate has expired.
func pinned(a address, want string, c *x509.Certificate) error {
	digest := sha256.Sum256(c.Raw)
	if got := "sha256:" + hex.EncodeToString(digest[:]); got != want {
		return refused("%s shows the certificate %s, and the design pins %s; if it was replaced on purpose, put the new one into trust.fingerprint; if not, somebody may be intercepting the connection", a, got, want)
	}
	return nil
}

func dialTLS(ctx context.Context, a address, config *tls.Config) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", a.host)
	if err != nil {
		return nil, unreachable(err)
	}
	secure := tls.Client(conn, config)
	keep := context.AfterFunc(ctx, func() { conn.Close() })
	err = welcome(ctx, a, secure)
	if !keep() && err == nil {
		err = unreachable(ctx.Err())
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return secure, nil
}

// welcome waits until libvirt has checked our certificate. libvirt sends one byte, 1, if it accepts it, and closes
// the connection otherwise.
func welcome(ctx context.Context, a address, conn *tls.Conn) error {
	err := conn.HandshakeContext(ctx)
	var untrusted *tls.CertificateVerificationError
	var invalid x509.HostnameError
	switch {
	case errors.Is(err, driver.ErrRefused):
		return err
	case errors.As(err, &untrusted), errors.As(err, &invalid):
		return refused("the identity of %s cannot be verified: %v; put the CA that signed its certificate into trust.ca, or pin it as trust.fingerprint", a, err)
	case err != nil:
		return unreachable(err)
	}
	word := make([]byte, 1)
	if _, err := io.ReadFull(conn, word); err != nil || word[0] != 1 {
		if ctx.Err() != nil {
			return unreachable(ctx.Err())
		}
		return fmt.Errorf("%w: libvirt on %s rejects Slipway's certificate: %v; the certificate must be signed by a CA that libvirt trusts, and its name must be in tls_allowed_dn_list if that list is set", driver.ErrDenied, a, err)
	}
	return nil
}
