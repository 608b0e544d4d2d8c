package lab

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// The life of every certificate: fixed, so that it derives from the seed.
var (
	notBefore = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	notAfter  = time.Date(2126, 1, 1, 0, 0, 0, 0, time.UTC)
)

// keys are the keys of a fleet. Ed25519 signatures are deterministic, so the
// same seed makes the same certificates.
type keys struct {
	seed string
	ca   *x509.Certificate
	key  ed25519.PrivateKey
}

func newKeys(seed string) keys {
	k := keys{seed: seed, key: derive(seed, "ca")}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Slipway lab " + seed},
		NotBefore: notBefore, NotAfter: notAfter, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	k.ca = sign(template, template, k.key.Public(), k.key)
	return k
}

func derive(seed, what string) ed25519.PrivateKey {
	sum := sha256.Sum256([]byte("slipway lab\x00" + seed + "\x00" + what))
	return ed25519.NewKeyFromSeed(sum[:])
}

func sign(template, parent *x509.Certificate, public any, key ed25519.PrivateKey) *x509.Certificate {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		panic(err) // the template is ours
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return c
}

func (k keys) caPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: k.ca.Raw})
}

// certificate is the one of the BMC at an address, valid until end.
func (k keys) certificate(addr string, end time.Time) *tls.Certificate {
	key := derive(k.seed, "bmc "+addr)
	sum := sha256.Sum256([]byte(addr))
	c := sign(&x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(sum[:16]), Subject: pkix.Name{CommonName: addr},
		NotBefore: notBefore, NotAfter: end, IPAddresses: []net.IP{net.ParseIP(addr)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, k.ca, key.Public(), k.key)
	return &tls.Certificate{Certificate: [][]byte{c.Raw}, PrivateKey: key, Leaf: c}
}

// selfSigned is a certificate of the BMC at an address that nobody vouches
// for.
func (k keys) selfSigned(addr string) *tls.Certificate {
	key := derive(k.seed, "bmc "+addr)
	t := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: addr}, NotBefore: notBefore, NotAfter: notAfter, IPAddresses: []net.IP{net.ParseIP(addr)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	c := sign(t, t, key.Public(), key)
	return &tls.Certificate{Certificate: [][]byte{c.Raw}, PrivateKey: key, Leaf: c}
}

// CAPEM is the certificate authority of a fleet's BMCs, by its seed.
func CAPEM(seed string) []byte { return newKeys(seed).caPEM() }

// HostKey is the public SSH host key of a machine's installed system, as in
// an authorized_keys file.
func HostKey(seed, name string) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(hostSigner(seed, name).PublicKey())))
}

func hostSigner(seed, name string) ssh.Signer {
	s, err := ssh.NewSignerFromKey(derive(seed, "host "+name))
	if err != nil {
		panic(err) // an ed25519 key always makes a signer
	}
	return s
}
