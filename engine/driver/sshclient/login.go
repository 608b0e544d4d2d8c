package sshclient

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	gossh "golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// login is the one way to log in; each connection tries it once.
type login struct {
	method      gossh.AuthMethod
	certificate *gossh.Certificate // nil without one
	password    bool               // the method sends a password
	key         gossh.PublicKey    // that the method proves; nil without one
	authority   string             // that signed the certificate for this login alone; empty for others
}

// by is how it logs in, as site.Login has it.
func (l login) by() string {
	if l.password {
		return site.ByPassword
	}
	return site.ByKey
}

func (l login) what() string {
	if l.authority != "" {
		return "certificate"
	}
	return "credential"
}

func loginBy(s secret.Value) (login, error) {
	if !s.IsPEM() {
		password, err := s.Password()
		if err != nil {
			return login{}, denied("the credential cannot be logged in with: %w; a private key must be in PEM form as ssh-keygen writes it", err)
		}
		if password == "" {
			return login{}, denied("the credential is empty; put a private key or a password there")
		}
		return login{method: gossh.Password(password), password: true}, nil
	}
	text, _ := s.PEM()
	signer, err := gossh.ParsePrivateKey(text)
	var locked *gossh.PassphraseMissingError
	switch {
	case errors.As(err, &locked):
		return login{}, denied("the private key needs a passphrase; nobody can type it for a daemon: store the key without one")
	case err != nil:
		return login{}, denied("the private key cannot be read; it must be in PEM form as ssh-keygen writes it")
	}
	_, behind := pem.Decode(text)
	if behind = bytes.TrimSpace(behind); len(behind) == 0 {
		return login{method: gossh.PublicKeys(signer), key: signer.PublicKey()}, nil
	}
	return certified(signer, behind)
}

// certified logs in by a certificate of a key, and not by the key itself.
func certified(signer gossh.Signer, line []byte) (login, error) {
	key, _, options, rest, err := gossh.ParseAuthorizedKey(line)
	cert, ok := key.(*gossh.Certificate)
	switch {
	case err != nil || !ok || len(options) > 0 || len(bytes.TrimSpace(rest)) > 0:
		return login{}, denied("what follows the private key is not one certificate like `ssh-ed25519-cert-v01@openssh.com AAAA…`; put there what ssh-keygen wrote into the file whose name ends in -cert.pub, or nothing")
	case cert.CertType != gossh.UserCert:
		return login{}, denied("the certificate after the private key is a host certificate; sign the key without -h")
	}
	both, err := gossh.NewCertSigner(cert, signer)
	if err != nil {
		return login{}, denied("the certificate does not belong to the private key before it; store the two that belong together")
	}
	return login{method: gossh.PublicKeys(both), certificate: cert}, nil
}

// valid says whether a certificate is worth trying at a time: one that is over
// is refused by every server, which would not say why.
func (l login) valid(now time.Time) error {
	switch c, at := l.certificate, uint64(now.Unix()); {
	case c == nil:
		return nil
	case at < c.ValidAfter:
		return denied("the certificate of the credential is valid from %s on; check the clocks, or sign the key again", moment(c.ValidAfter))
	case c.ValidBefore != gossh.CertTimeInfinity && at >= c.ValidBefore:
		return denied("the certificate of the credential was valid until %s; sign the key again", moment(c.ValidBefore))
	}
	return nil
}

// about tells of the certificate what a server may have disliked.
func (l login) about() string {
	if l.certificate == nil {
		return ""
	}
	if l.authority != "" {
		return fmt.Sprintf(" for %q", strings.Join(l.certificate.ValidPrincipals, ", "))
	}
	return fmt.Sprintf(", a certificate for %.200q that %s signed; the server needs that key in TrustedUserCAKeys, and the account among the names",
		strings.Join(l.certificate.ValidPrincipals, ", "), gossh.FingerprintSHA256(l.certificate.SignatureKey))
}

func moment(unix uint64) string {
	return time.Unix(int64(unix), 0).UTC().Format("2006-01-02 15:04Z")
}

func denied(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{driver.ErrDenied}, args...)...)
}
