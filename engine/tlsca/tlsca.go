// Package tlsca is the authority of a site that signs TLS certificates of its nodes. Its key follows from the site's
// root key, or it is an intermediate whose root is kept elsewhere. Only signing requests are brought here: the private
// keys of nodes stay on the nodes.
package tlsca

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"strconv"
	"strings"
	"time"
)

// Root is what an authority is derived from: the root key of a site (sitekey.Key).
type Root interface {
	// Derive gives size bytes for one use of the key.
	Derive(use string, size int) ([]byte, error)
}

// MostEpoch is the last epoch.
const MostEpoch = 1_000_000

// Skew is by how much clocks may differ: a certificate begins that long before it was signed, and none is signed for
// a system whose clock is farther off.
const Skew = 24 * time.Hour

// maxNames bounds the names of one certificate.
const maxNames = 128

// The life of a derived authority is the same each time, so that its certificate is the same byte by byte. It is over
// with the last year that every program reads (RFC 5280, section 4.1.2.5); another epoch comes long before.
var (
	derivedFrom  = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	derivedUntil = time.Date(2049, 12, 31, 23, 59, 59, 0, time.UTC)
)

// Authority signs certificates of one site. It prints its fingerprint alone.
type Authority struct {
	certificate *x509.Certificate
	signer      crypto.Signer
	// chain has the certificates to show after the one of a node, without the root; none where the authority is the
	// root itself.
	chain []byte
}

// Derive is the authority that follows from a site's root key. Epoch 0 is the first, as 1 is.
func Derive(root Root, site string, epoch int) (*Authority, error) {
	epoch = max(epoch, 1)
	if epoch > MostEpoch {
		return nil, fmt.Errorf("the epoch of the TLS authority is %d: it is a number from 1 to %d", epoch, MostEpoch)
	}
	use := binary.BigEndian.AppendUint32([]byte("tls authority v1"), uint32(len(site)))
	use = binary.BigEndian.AppendUint32(append(use, site...), uint32(epoch))
	key, err := scalar(root, string(use))
	if err != nil {
		return nil, fmt.Errorf("make the TLS authority: %w", err)
	}
	number := sha256.Sum256(append([]byte("serial "), use...))
	number[0] &= 0x7f
	template := &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(number[:16]), Subject: pkix.Name{Organization: []string{"Slipway"}, CommonName: fmt.Sprintf("%s TLS authority, epoch %d", brief(site), epoch)},
		NotBefore: derivedFrom, NotAfter: derivedUntil, IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, SignatureAlgorithm: x509.ECDSAWithSHA256,
	}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), steady{key})
	if err != nil {
		return nil, fmt.Errorf("make the TLS authority: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make the TLS authority: %w", err)
	}
	return &Authority{certificate: certificate, signer: key}, nil
}

// EpochOf is the epoch that the certificate of an authority names, as Derive makes it; 0 where it names none. It proves
// nothing.
func EpochOf(text string) (epoch int) {
	c, err := Parse(text)
	if err != nil {
		return 0
	}
	if at := strings.LastIndex(c.Subject.CommonName, ", epoch "); at >= 0 {
		epoch, err = strconv.Atoi(c.Subject.CommonName[at+len(", epoch "):])
	}
	if err != nil {
		return 0
	}
	return epoch
}

// scalar derives a key of P-256. A value that is no key has a chance of 2⁻³²; the next number gives another one.
func scalar(root Root, use string) (*ecdsa.PrivateKey, error) {
	for try := range 8 {
		raw, err := root.Derive(fmt.Sprintf("%s/%d", use, try), 32)
		if err != nil {
			return nil, err
		}
		key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), raw)
		clear(raw)
		if err == nil {
			return key, nil
		}
	}
	return nil, errors.New("no key follows from the root key")
}

// steady signs the same bytes with the same signature (RFC 6979).
type steady struct{ *ecdsa.PrivateKey }

func (s steady) Sign(_ io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	return s.PrivateKey.Sign(nil, digest, opts)
}

// brief is a text that a common name has room for: 64 characters with the rest.
func brief(site string) string { return site[:min(len(site), 32)] }

// Intermediate reads an authority whose root is elsewhere: its private key and its certificate in PEM, and those
// between it and the root if there are any. One of the roots must have signed it.
func Intermediate(text []byte, roots []string, now time.Time) (*Authority, error) {
	var key crypto.Signer
	var all []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		switch block.Type {
		case "CERTIFICATE":
			c, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return nil, fmt.Errorf("certificate %d in it cannot be read: %w", len(all)+1, err)
			}
			all = append(all, c)
		case "PRIVATE KEY", "EC PRIVATE KEY":
			if key != nil {
				return nil, errors.New("it has two private keys")
			}
			k, err := privateKey(block)
			if err != nil {
				return nil, err
			}
			key = k
		default:
			return nil, fmt.Errorf("it has a block %q: only certificates and one private key without a passphrase belong there", block.Type)
		}
	}
	if key == nil || len(all) == 0 {
		return nil, errors.New("it needs the private key and the certificate of the intermediate, both in PEM")
	}
	own := all[0]
	if public, is := own.PublicKey.(interface{ Equal(crypto.PublicKey) bool }); !is || !public.Equal(key.Public()) {
		return nil, errors.New("its private key is not that of its first certificate")
	}
	if !own.BasicConstraintsValid || !own.IsCA || own.KeyUsage != 0 && own.KeyUsage&x509.KeyUsageCertSign == 0 {
		return nil, fmt.Errorf("its first certificate, of %s, is not one of an authority", subject(own))
	}
	if err := within(own, now); err != nil {
		return nil, err
	}
	if err := signedBy(all, roots, now); err != nil {
		return nil, err
	}
	a := &Authority{certificate: own, signer: key}
	for _, c := range all {
		if !bytes.Equal(c.RawIssuer, c.RawSubject) { // the root is trusted already
			a.chain = append(a.chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
		}
	}
	return a, nil
}

func privateKey(block *pem.Block) (crypto.Signer, error) {
	var key any
	var err error
	if block.Type == "EC PRIVATE KEY" {
		key, err = x509.ParseECPrivateKey(block.Bytes)
	} else {
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	}
	if err != nil {
		return nil, fmt.Errorf("its private key cannot be read: %w", err)
	}
	signer, is := key.(crypto.Signer)
	if !is {
		return nil, errors.New("its private key cannot sign")
	}
	return signer, nil
}

// within refuses an authority that does not count at a time.
func within(c *x509.Certificate, now time.Time) error {
	switch {
	case now.Before(c.NotBefore.Add(-Skew)):
		return fmt.Errorf("the TLS authority of %s counts only from %s on, and the clock of this host shows %s: set the clock, or wait", subject(c), day(c.NotBefore), day(now))
	case !now.Before(c.NotAfter):
		return fmt.Errorf("the TLS authority of %s was over on %s, and the clock of this host shows %s: have the root sign another intermediate, or set the clock", subject(c), day(c.NotAfter), day(now))
	}
	return nil
}

// signedBy verifies the chain of an intermediate up to one of the roots.
func signedBy(all []*x509.Certificate, roots []string, now time.Time) error {
	trusted, between := x509.NewCertPool(), x509.NewCertPool()
	for _, text := range roots {
		c, err := Parse(text)
		if err != nil {
			return err
		}
		trusted.AddCert(c)
	}
	for _, c := range all[1:] {
		between.AddCert(c)
	}
	if now.Before(all[0].NotBefore) { // within the skew
		now = all[0].NotBefore
	}
	_, err := all[0].Verify(x509.VerifyOptions{Roots: trusted, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	if err != nil {
		return fmt.Errorf("none of the authorities in site.tls.authorities has signed the intermediate of %s: %w", subject(all[0]), err)
	}
	return nil
}

func subject(c *x509.Certificate) string { return fmt.Sprintf("%.100q", c.Subject.String()) }

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// Parse reads one certificate of an authority in PEM, as a design names it in site.tls.authorities.
func Parse(text string) (*x509.Certificate, error) {
	block, rest := pem.Decode([]byte(text))
	switch {
	case block == nil || block.Type != "CERTIFICATE":
		return nil, errors.New("it is not a certificate in PEM")
	case len(bytes.TrimSpace(rest)) > 0:
		return nil, errors.New("it has more than one certificate")
	}
	c, err := x509.ParseCertificate(block.Bytes)
	switch {
	case err != nil:
		return nil, fmt.Errorf("it cannot be read: %w", err)
	case !c.BasicConstraintsValid || !c.IsCA:
		return nil, errors.New("it is not the certificate of an authority")
	}
	return c, nil
}

// Fingerprint identifies a certificate in PEM: "SHA256:" and the digest in base64. Of another text it is that of the
// text.
func Fingerprint(text string) string {
	raw := []byte(text)
	if block, _ := pem.Decode(raw); block != nil {
		raw = block.Bytes
	}
	sum := sha256.Sum256(raw)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// PEM is the certificate of the authority.
func (a *Authority) PEM() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw}))
}

func (a *Authority) String() string { return a.Fingerprint() }

// Fingerprint identifies the authority.
func (a *Authority) Fingerprint() string { return Fingerprint(a.PEM()) }

// Until is the last moment of the authority.
func (a *Authority) Until() time.Time { return a.certificate.NotAfter }

// The uses of a certificate.
const (
	Server = "server"
	Client = "client"
	Both   = "both"
)

// Grant is what a certificate is good for. It comes from the design alone.
type Grant struct {
	Node string
	// Names are host names and addresses.
	Names []string
	// Usage is one of the uses above.
	Usage string
	// Life is how long it counts from now on.
	Life time.Duration
}

// Certificate is one that was signed.
type Certificate struct {
	// Chain is in PEM: the certificate, and those between it and the root.
	Chain string
	// Serial is in lower-case hex.
	Serial string
	// Key is the SHA-256 of its public key (the SubjectPublicKeyInfo) in hex.
	Key   string
	Until time.Time
}

// maxRequest bounds a signing request, in bytes. One for a key of P-256 has about 200.
const maxRequest = 4 << 10

// ErrRequest is wrapped when a signing request cannot be signed.
var ErrRequest = errors.New("not a signing request that can be signed")

// Sign signs the key of a signing request (PKCS #10, DER). Whatever else the request asks for does not count. The
// certificate ends with the authority at the latest.
func (a *Authority) Sign(request []byte, g Grant, now time.Time) (Certificate, error) {
	if len(request) > maxRequest {
		return Certificate{}, fmt.Errorf("%w: it has %d bytes, and at most %d are read", ErrRequest, len(request), maxRequest)
	}
	r, err := x509.ParseCertificateRequest(request)
	if err != nil {
		return Certificate{}, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	key, is := r.PublicKey.(*ecdsa.PublicKey)
	if !is || key.Curve != elliptic.P256() {
		return Certificate{}, fmt.Errorf("%w: its key is not one of ECDSA P-256", ErrRequest)
	}
	if err := r.CheckSignature(); err != nil { // after its kind: a signature of a large key takes minutes
		return Certificate{}, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	if err := within(a.certificate, now); err != nil {
		return Certificate{}, err
	}
	if public, is := a.certificate.PublicKey.(interface{ Equal(crypto.PublicKey) bool }); is && public.Equal(r.PublicKey) {
		return Certificate{}, fmt.Errorf("%w: its key is that of the authority", ErrRequest)
	}
	template, err := g.template(now)
	if err != nil {
		return Certificate{}, err
	}
	if template.NotAfter.After(a.certificate.NotAfter) {
		template.NotAfter = a.certificate.NotAfter
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, r.PublicKey, a.signer)
	if err != nil {
		return Certificate{}, fmt.Errorf("sign a certificate of %s: %w", g.Node, err)
	}
	chain := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), a.chain...)
	public := sha256.Sum256(r.RawSubjectPublicKeyInfo)
	return Certificate{Chain: string(chain), Key: hex.EncodeToString(public[:]), Serial: hex.EncodeToString(template.SerialNumber.Bytes()), Until: template.NotAfter.UTC()}, nil
}

// template is the certificate without its key.
func (g Grant) template(now time.Time) (*x509.Certificate, error) {
	if g.Node == "" || len(g.Names) == 0 || len(g.Names) > maxNames || g.Life <= 0 {
		return nil, fmt.Errorf("a certificate needs a node, 1 to %d names, and a life", maxNames)
	}
	number := make([]byte, 16)
	rand.Read(number) // never fails
	number[0] = number[0]&0x7f | 0x40
	c := &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(number), Subject: pkix.Name{CommonName: commonName(g.Names[0], g.Node)},
		NotBefore: now.Add(-Skew), NotAfter: now.Add(g.Life), BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	for _, name := range g.Names {
		if ip := net.ParseIP(name); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, name)
		}
	}
	switch g.Usage {
	case Server:
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	case Client:
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	case Both:
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	default:
		return nil, fmt.Errorf("%q is not a use of a certificate", g.Usage)
	}
	return c, nil
}

// commonName is the first of the names that a common name has room for.
func commonName(names ...string) string {
	for _, name := range names {
		if len(name) <= 64 {
			return name
		}
	}
	return ""
}
