package sshca

import (
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	gossh "golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/engine/item"
)

// HostLife is how long the certificate of a host key is valid.
const HostLife = 30 * 24 * time.Hour

// The bounds of a host key of RSA, in bits.
const (
	leastRSA = 2048
	mostRSA  = 16384
)

// maxHostNames bounds the names of one certificate: OpenSSH reads 256.
const maxHostNames = 128

// hostKinds are the kinds of host keys that are certified.
var hostKinds = []string{gossh.KeyAlgoED25519, gossh.KeyAlgoECDSA256, gossh.KeyAlgoECDSA384, gossh.KeyAlgoECDSA521, gossh.KeyAlgoRSA}

// hostName is a name or an address. In others OpenSSH could read a pattern that is good for many hosts.
var hostName = regexp.MustCompile(`^[A-Za-z0-9_:][A-Za-z0-9._:-]{0,252}$`)

// hostKey reads the public key of a system, and returns it without its comment. Its error wraps ErrKey
// for a key that is not certified: another kind, such as DSA, or RSA of a length that clients refuse.
func hostKey(text string) (string, error) {
	const longest = 8 << 10 // RSA of 16384 bits has less than 3 KiB
	if len(text) > longest {
		return "", fmt.Errorf("%w: it has %d bytes", ErrKey, len(text))
	}
	key, _, options, rest, err := gossh.ParseAuthorizedKey([]byte(text))
	switch {
	case err != nil || len(options) > 0 || len(rest) > 0:
		return "", fmt.Errorf("%w: it must be one line \"ssh-ed25519 AAAA…\"", ErrKey)
	case !slices.Contains(hostKinds, key.Type()):
		return "", fmt.Errorf("%w: it is of the kind %s", ErrKey, key.Type())
	}
	if c, is := key.(gossh.CryptoPublicKey); is && key.Type() == gossh.KeyAlgoRSA {
		if k, is := c.CryptoPublicKey().(*rsa.PublicKey); !is || k.N.BitLen() < leastRSA || k.N.BitLen() > mostRSA {
			return "", fmt.Errorf("%w: RSA keys have %d to %d bits", ErrKey, leastRSA, mostRSA)
		}
	}
	return strings.TrimSpace(string(gossh.MarshalAuthorizedKey(key))), nil
}

// CertifyHost signs the public host key of a node's system for names, for HostLife from now on.
func (a *Authority) CertifyHost(publicKey, node string, names []string, now time.Time) (Certificate, error) {
	line, err := hostKey(publicKey)
	if err != nil {
		return Certificate{}, err
	}
	if node == "" || len(names) == 0 || len(names) > maxHostNames { // without a name it would be good for every host
		return Certificate{}, errors.New("a host certificate needs a node, and names")
	}
	for _, name := range names {
		if !hostName.MatchString(name) {
			return Certificate{}, fmt.Errorf("%.100q is not a name for a host certificate", name)
		}
	}
	key, _, _, _, err := gossh.ParseAuthorizedKey([]byte(line))
	if err != nil {
		return Certificate{}, err
	}
	c := &gossh.Certificate{
		Key: key, CertType: gossh.HostCert, Serial: serial(now), KeyId: item.HostID(a.site, node), ValidPrincipals: names,
		ValidAfter: validAfter, ValidBefore: uint64(now.Add(HostLife).Unix()),
	}
	if err := c.SignCert(rand.Reader, a.signer); err != nil {
		return Certificate{}, fmt.Errorf("sign a host certificate for %s: %w", node, err)
	}
	return signed(c), nil
}
