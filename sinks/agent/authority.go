package agent

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/keyfile"
)

// Authority signs the certificates by which agents recognize the daemon. It is created at the first start and kept,
// because running agents recognize the daemon by it.
type Authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate

	mu    sync.Mutex
	hosts []string // that agents may call, besides the connection's address
	leafs map[string]*tls.Certificate
}

// authorityLasts and leafLasts are how long the certificates are valid. Agents do not trust their clocks. What
// protects them is that nobody else has the key.
const (
	authorityLasts = 50 * 365 * 24 * time.Hour
	leafLasts      = 365 * 24 * time.Hour
)

// maxAuthority is the largest file of an authority, in bytes.
const maxAuthority = 64 << 10

// LoadAuthority reads the authority from a file that only its owner can read. It creates a missing file.
func LoadAuthority(file string) (*Authority, error) {
	text, err := keyfile.Read(file, maxAuthority)
	if errors.Is(err, fs.ErrNotExist) {
		if text, err = newAuthority(); err == nil {
			err = writeWhole(file, text)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("authority for agents: %w", err)
	}
	a := &Authority{leafs: map[string]*tls.Certificate{}}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		switch block.Type {
		case "EC PRIVATE KEY":
			a.key, err = x509.ParseECPrivateKey(block.Bytes)
		case "CERTIFICATE":
			a.cert, err = x509.ParseCertificate(block.Bytes)
		}
		if err != nil {
			return nil, fmt.Errorf("authority for agents: %s: %w", file, err)
		}
	}
	if a.key == nil || a.cert == nil || !a.key.PublicKey.Equal(a.cert.PublicKey) {
		return nil, fmt.Errorf("authority for agents: %s does not hold a certificate and its key; remove the file to get a new one, which running agents will not know", file)
	}
	return a, nil
}

func newAuthority() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	t := &x509.Certificate{
		SerialNumber: serialNumber(), Subject: pkix.Name{CommonName: "Slipway, authority for agents"},
		NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(authorityLasts),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, MaxPathLenZero: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})...), nil
}

// writeWhole writes a file completely or not at all.
func writeWhole(file string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".authority-*") // with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // no effect after the rename
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close(), func() error {
		if err != nil {
			return nil
		}
		return os.Rename(f.Name(), file)
	}())
}

func serialNumber() *big.Int {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(err) // crypto/rand never fails
	}
	return n
}

// Digest is the SHA-256 of the authority's certificate: "sha256:" and hex digits.
func (a *Authority) Digest() string {
	sum := sha256.Sum256(a.cert.Raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Names adds a host, an address or a name, to the daemon's certificate, because agents call it.
func (a *Authority) Names(host string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if host != "" && !slices.Contains(a.hosts, host) {
		a.hosts = append(a.hosts, host)
	}
}

// Certificate returns the daemon's certificate. It covers the hosts that agents call and the address of this
// connection.
func (a *Authority) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	hosts := slices.Clone(a.hosts)
	if hello != nil && hello.Conn != nil {
		if host, _, err := net.SplitHostPort(hello.Conn.LocalAddr().String()); err == nil && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	slices.Sort(hosts)
	key := strings.Join(hosts, " ")
	if is := a.leafs[key]; is != nil && time.Until(is.Leaf.NotAfter) > leafLasts/12 {
		return is, nil
	}
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	t := &x509.Certificate{
		SerialNumber: serialNumber(), Subject: pkix.Name{CommonName: "Slipway"}, NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(leafLasts),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, own.Public(), a.key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	const most = 64 // addresses of this host
	if len(a.leafs) >= most {
		clear(a.leafs)
	}
	a.leafs[key] = &tls.Certificate{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: own, Leaf: leaf}
	return a.leafs[key], nil
}
