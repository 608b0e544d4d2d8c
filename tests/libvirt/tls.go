package libvirt

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"time"
)

// TLS is what a client needs to speak to libvirt over TLS, in PEM: the authority
// that the server's certificate is from, and a certificate of its own with the
// key. The server's is good for 10.77.0.1, 127.0.0.1 and localhost.
type TLS struct {
	Authority, Certificate, Key string
}

// certify makes the authority and both certificates, and gives the server its.
func (h *Hypervisor) certify() {
	h.t.Helper()
	root := h.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "hypervisor's authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil)
	server := h.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "hypervisor"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		IPAddresses: []net.IP{net.ParseIP(Address), net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
	}, root)
	client := h.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "slipway"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}, root)
	h.write("pki/CA/cacert.pem", root.pem)
	h.write("pki/libvirt/servercert.pem", server.pem)
	h.write("pki/libvirt/private/serverkey.pem", server.keyPEM)
	h.TLS = TLS{Authority: root.pem, Certificate: client.pem, Key: client.keyPEM}
}

// certificate is one with its key.
type certificate struct {
	x509        *x509.Certificate
	key         *ecdsa.PrivateKey
	pem, keyPEM string
}

// issue signs a certificate, with its own key when there is no issuer.
func (h *Hypervisor) issue(c *x509.Certificate, issuer *certificate) *certificate {
	h.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		h.t.Fatal(err)
	}
	now := time.Now()
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(now.UnixNano()), now.Add(-time.Hour), now.Add(24*time.Hour)
	if issuer == nil {
		issuer = &certificate{x509: c, key: key}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, issuer.x509, key.Public(), issuer.key)
	if err != nil {
		h.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		h.t.Fatal(err)
	}
	return &certificate{
		x509: c, key: key,
		pem:    string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		keyPEM: string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})),
	}
}
