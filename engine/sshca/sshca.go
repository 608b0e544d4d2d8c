// Package sshca is the authority of a site that signs SSH certificates. Its key follows
// from the site's root key, so nothing is stored: a daemon that is rebuilt from the
// repository and the root key has the same authority. Only public keys are brought here to
// be signed; the private halves stay with who logs in.
package sshca

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	gossh "golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/engine/item"
)

// Root is what an authority is derived from: the root key of a site (sitekey.Key).
type Root interface {
	// Derive gives size bytes for one use of the key.
	Derive(use string, size int) ([]byte, error)
}

// The bounds of a certificate.
const (
	// validAfter is when each certificate begins, in seconds since 1970. Its key is new, so a later
	// begin protects nothing, and a node whose clock is behind must let in who sets the clock.
	validAfter = 1
	// Longest is the longest life of a certificate for a login.
	Longest = time.Hour
)

// MostEpoch is the last epoch.
const MostEpoch = 1_000_000

// Authority signs certificates of one site. It prints its public key alone.
type Authority struct {
	site   string
	signer gossh.Signer
}

// Users is the authority whose certificates let people and the daemon in. Epoch 0 is the
// first, as 1 is.
func Users(root Root, site string, epoch int) (*Authority, error) {
	return derive(root, "ssh user authority v1", site, epoch)
}

// Hosts is the authority whose certificates systems prove themselves by. Epochs are as for Users.
func Hosts(root Root, site string, epoch int) (*Authority, error) {
	return derive(root, "ssh host authority v1", site, epoch)
}

// derive makes the authority of one use of the root key, which has a fixed text for each kind.
func derive(root Root, kind, site string, epoch int) (*Authority, error) {
	epoch = max(epoch, 1)
	if epoch > MostEpoch {
		return nil, fmt.Errorf("the epoch of the SSH authority is %d: it is a number from 1 to %d", epoch, MostEpoch)
	}
	use := binary.BigEndian.AppendUint32([]byte(kind), uint32(len(site)))
	use = binary.BigEndian.AppendUint32(append(use, site...), uint32(epoch))
	seed, err := root.Derive(string(use), ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	signer, err := gossh.NewSignerFromKey(ed25519.NewKeyFromSeed(seed))
	clear(seed)
	if err != nil {
		return nil, fmt.Errorf("make the SSH authority: %w", err)
	}
	return &Authority{site, signer}, nil
}

// Public is the public key, "ssh-ed25519 AAAA…", as a design names it in site.ssh.users or site.ssh.hosts.
func (a *Authority) Public() string {
	return strings.TrimSpace(string(gossh.MarshalAuthorizedKey(a.signer.PublicKey())))
}

func (a *Authority) String() string { return a.Public() }

// Login is what a certificate is good for.
type Login struct {
	Node, Account string
	// For says who logs in and why, for the log of the node's SSH server: "daemon",
	// "ops by slipway ssh".
	For string
	// Life is how long it is valid from now on, up to Longest.
	Life time.Duration
	// Terminal lets it have a terminal.
	Terminal bool
}

// Certificate is one that was signed.
type Certificate struct {
	// Line is as ssh-keygen(1) writes it: "ssh-ed25519-cert-v01@openssh.com AAAA…".
	Line   string
	Serial uint64
	KeyID  string
	// Names are its principals.
	Names       []string
	From, Until time.Time
}

// ErrKey is wrapped when a public key cannot be certified.
var ErrKey = errors.New("not a public key that can be certified")

// Certify signs a public key of Ed25519 for one login. The serial number is that of no
// other certificate of the authority.
func (a *Authority) Certify(publicKey string, l Login, now time.Time) (Certificate, error) {
	key, _, options, rest, err := gossh.ParseAuthorizedKey([]byte(publicKey))
	switch {
	case err != nil || len(options) > 0 || len(rest) > 0 || strings.ContainsAny(strings.TrimSpace(publicKey), "\r\n") || key.Type() != gossh.KeyAlgoED25519:
		return Certificate{}, fmt.Errorf("%w: it must be one line \"ssh-ed25519 AAAA…\"", ErrKey)
	case l.Node == "" || l.Account == "":
		return Certificate{}, errors.New("a certificate needs a node and an account") // without a name it would open every account
	case l.Life < time.Second || l.Life > Longest:
		return Certificate{}, fmt.Errorf("a certificate is valid for at most %s, not for %s", Longest, l.Life)
	}
	c := &gossh.Certificate{
		Key: key, CertType: gossh.UserCert, Serial: serial(now),
		KeyId:           item.LoginID(a.site, l.Node, l.Account, l.For),
		ValidPrincipals: []string{item.LoginName(l.Node, l.Account)},
		ValidAfter:      validAfter, ValidBefore: uint64(now.Add(l.Life).Unix()),
		Permissions: gossh.Permissions{CriticalOptions: map[string]string{}, Extensions: map[string]string{}},
	}
	if l.Terminal {
		c.Extensions["permit-pty"] = ""
	}
	if err := c.SignCert(rand.Reader, a.signer); err != nil {
		return Certificate{}, fmt.Errorf("sign a certificate for %s: %w", l.Node, err)
	}
	return signed(c), nil
}

func signed(c *gossh.Certificate) Certificate {
	return Certificate{
		Line: strings.TrimSpace(string(gossh.MarshalAuthorizedKey(c))), Serial: c.Serial, KeyID: c.KeyId, Names: c.ValidPrincipals,
		From: time.Unix(int64(c.ValidAfter), 0).UTC(), Until: time.Unix(int64(c.ValidBefore), 0).UTC(),
	}
}

// serial is a number that grows with time and has 22 random bits, since several daemons
// may sign for one site in a row and nothing counts for all of them.
func serial(now time.Time) uint64 {
	var random [4]byte
	rand.Read(random[:]) // never fails
	return uint64(now.UnixMilli())<<22 | uint64(binary.BigEndian.Uint32(random[:])>>10)
}
