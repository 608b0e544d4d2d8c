// Package member is the outside of a member of the etcd that the daemons of a site form: the folder by
// which a host is one, and the socket on which people see and change who the members are. The member
// itself is engine/record's.
//
// A folder holds
//
//	member.json     the address of this host's member, and those of others
//	member.pem      its certificate
//	member.key      the key of that
//	authority.pem   the certificate authority of all members
//	authority.key   the key of that; not in the folder of a witness
package member

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/keyfile"
	"github.com/slipway-gitops/slipway/engine/record"
)

// lasts is how long certificates are valid. A member does not renew its own: replacing it does.
const lasts = 10 * 365 * 24 * time.Hour

const (
	settingsFile     = "member.json"
	certFile         = "member.pem"
	keyFile          = "member.key"
	authorityFile    = "authority.pem"
	authorityKeyFile = "authority.key"
)

// Settings are what a folder says of its member.
type Settings struct {
	// Address is IP:PORT. The member listens there, and the certificate is for its IP.
	Address string `json:"address"`
	// Others are asked who the members are when this one has no data yet.
	Others []string `json:"others,omitempty"`
	// Witness is set if the host runs no daemon.
	Witness bool `json:"witness,omitempty"`
}

// Folder is the folder of a member.
type Folder struct {
	Dir string
	Settings
}

// ErrNone is wrapped if there is no folder of a member.
var ErrNone = errors.New("there is no member's folder")

// Open reads a folder, and checks that its certificate can be used now.
func Open(dir string) (Folder, error) {
	f := Folder{Dir: dir}
	text, err := os.ReadFile(f.path(settingsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return f, fmt.Errorf("%w at %s: `slipway member init` makes the first one, and `slipway member add` on the host that leads makes the others", ErrNone, dir)
	} else if err != nil {
		return f, err
	}
	if err := json.Unmarshal(text, &f.Settings); err != nil {
		return f, fmt.Errorf("%s: %w", f.path(settingsFile), err)
	}
	return f, f.check(time.Now())
}

func (f Folder) path(name string) string { return filepath.Join(f.Dir, name) }

// check reports a certificate that the other members would refuse.
func (f Folder) check(now time.Time) error {
	at, err := netip.ParseAddrPort(f.Address)
	if err != nil {
		return fmt.Errorf("%s: %w", f.path(settingsFile), err)
	}
	pair, err := tls.LoadX509KeyPair(f.path(certFile), f.path(keyFile))
	if err != nil {
		return fmt.Errorf("the member's certificate: %w", err)
	}
	authority, err := readCert(f.path(authorityFile))
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AddCert(authority)
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, DNSName: at.Addr().String(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err != nil {
		if bad, is := errors.AsType[x509.CertificateInvalidError](err); is && bad.Reason == x509.Expired && now.Before(pair.Leaf.NotBefore) {
			return fmt.Errorf("%s is valid from %s, and the clock of this host says %s: set the clock", f.path(certFile), pair.Leaf.NotBefore.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
		} else if is && bad.Reason == x509.Expired {
			return fmt.Errorf("%s ended on %s, as those of all members do, and the clock of this host says %s: set the clock if it is wrong, or begin with a new authority (docs/members.md)", f.path(certFile), pair.Leaf.NotAfter.UTC().Format(time.DateOnly), now.UTC().Format(time.RFC3339))
		}
		return fmt.Errorf("the other members would refuse %s: %w: get a new folder by `slipway member replace %s` on the host that leads", f.path(certFile), err, f.Address)
	}
	return nil
}

// Ends is when the certificates of all members end: that of their authority does, and they end with it.
func Ends(dir string) (time.Time, error) {
	authority, err := readCert(Folder{Dir: dir}.path(authorityFile))
	if err != nil {
		return time.Time{}, err
	}
	return authority.NotAfter, nil
}

// Peer is the member for engine/record.
func (f Folder) Peer() *record.Peer {
	return &record.Peer{Address: f.Address, Others: f.Others, Witness: f.Witness,
		Cert: f.path(certFile), Key: f.path(keyFile), CA: f.path(authorityFile)}
}

// Found makes the first folder, with a new authority.
func Found(dir, address string) (Folder, error) {
	f := Folder{dir, Settings{Address: address}}
	if err := f.checkNew(); err != nil {
		return f, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return f, err
	}
	now := time.Now()
	t := &x509.Certificate{
		SerialNumber: serialNumber(), Subject: pkix.Name{CommonName: "Slipway, authority for members"},
		NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(lasts),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, MaxPathLenZero: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return f, err
	}
	authority, err := x509.ParseCertificate(der)
	if err != nil {
		return f, err
	}
	return f, f.write(authority, key, true)
}

// Invite makes the folder of another member in dir, which must not hold one. It is to be carried to
// that host, and is secret.
func (f Folder) Invite(dir string, s Settings) error {
	g := Folder{dir, s}
	if err := g.checkNew(); err != nil {
		return err
	}
	authority, err := readCert(f.path(authorityFile))
	if err != nil {
		return err
	}
	key, err := readKey(f.path(authorityKeyFile))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: run the command on a host with a daemon, or name its folder with --join", err)
	} else if err != nil {
		return err
	}
	return g.write(authority, key, !s.Witness)
}

// Know notes the addresses of the other members in the folder.
func (f Folder) Know(others []string) error {
	if slices.Equal(f.Others, others) {
		return nil
	}
	f.Others = others
	text, err := f.Settings.text()
	if err != nil {
		return err
	}
	return keyfile.Replace(f.path(settingsFile), text)
}

func (s Settings) text() ([]byte, error) {
	text, err := json.MarshalIndent(s, "", "  ")
	return append(text, '\n'), err
}

// checkNew refuses a folder that holds a member, and an address that is none.
func (f Folder) checkNew() error {
	if _, err := netip.ParseAddrPort(f.Address); err != nil {
		return fmt.Errorf("%q is not IP:PORT, such as 10.0.0.1:2380: members reach each other by addresses, not by names", f.Address)
	}
	if _, err := os.Lstat(f.path(settingsFile)); err == nil {
		return fmt.Errorf("%s is a member's folder already: name another one, or move it away", f.Dir)
	}
	return nil
}

// write writes a folder with a new certificate of its member. The settings come last: without them
// there is no folder.
func (f Folder) write(authority *x509.Certificate, by *ecdsa.PrivateKey, withKey bool) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	at := netip.MustParseAddrPort(f.Address)
	now := time.Now()
	t := &x509.Certificate{
		SerialNumber: serialNumber(), Subject: pkix.Name{CommonName: f.Address},
		NotBefore: now.Add(-24 * time.Hour), NotAfter: authority.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{at.Addr().AsSlice()},
	}
	der, err := x509.CreateCertificate(rand.Reader, t, authority, key.Public(), by)
	if err != nil {
		return err
	}
	own, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	root, err := x509.MarshalECPrivateKey(by)
	if err != nil {
		return err
	}
	settings, err := f.Settings.text()
	if err != nil {
		return err
	}
	parts := []struct {
		name string
		text []byte
	}{
		{certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})},
		{keyFile, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: own})},
		{authorityFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Raw})},
		{authorityKeyFile, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: root})},
		{settingsFile, settings},
	}
	for _, p := range parts {
		if p.name == authorityKeyFile && !withKey {
			continue
		}
		if err := keyfile.Create(f.path(p.name), p.text); err != nil {
			return fmt.Errorf("write the member's folder: %w", err)
		}
	}
	return nil
}

func serialNumber() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return new(big.Int).SetBytes(b[:])
}

func readBlock(path string) (*pem.Block, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM", path)
	}
	return block, nil
}

func readCert(path string) (*x509.Certificate, error) {
	block, err := readBlock(path)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(block.Bytes)
}

func readKey(path string) (*ecdsa.PrivateKey, error) {
	block, err := readBlock(path)
	if err != nil {
		return nil, err
	}
	return x509.ParseECPrivateKey(block.Bytes)
}
