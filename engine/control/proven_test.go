package control

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"testing"
	"time"
)

// What was verified is not verified again, and counts no longer than its certificates and authorities.
func TestProvenCertificates(t *testing.T) {
	now := time.Now()
	authority := func(until time.Duration) (*x509.Certificate, *ecdsa.PrivateKey, *x509.CertPool) {
		c, key := made(t, nil, nil, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(until)})
		pool := x509.NewCertPool()
		pool.AddCert(c)
		return c, key, pool
	}
	ca, key, pool := authority(2 * time.Hour)
	_, _, others := authority(2 * time.Hour)
	own, _ := made(t, ca, key, &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, NotBefore: now.Add(-time.Minute), NotAfter: now.Add(3 * time.Hour)})
	server, _ := made(t, ca, key, &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, NotBefore: now.Add(-time.Minute), NotAfter: now.Add(3 * time.Hour)})
	var p proven
	for _, x := range []struct {
		what  string
		shown *x509.Certificate
		by    *x509.CertPool
		at    time.Duration
		ok    bool
	}{
		{"at first", own, pool, 0, true},
		{"once more", own, pool, time.Hour, true},
		{"by other authorities", own, others, 0, false},
		{"by none", own, x509.NewCertPool(), 0, false},
		{"after its authority has expired", own, pool, 2*time.Hour + time.Second, false},
		{"before it is valid", own, pool, -2 * time.Minute, false},
		{"one of a server", server, pool, 0, false},
		{"and again", own, pool, 0, true},
	} {
		if err := p.verify([]*x509.Certificate{x.shown}, x.by, now.Add(x.at)); (err == nil) != x.ok {
			t.Errorf("%s: %v", x.what, err)
		}
	}
	if len(p.all) != 1 {
		t.Errorf("%d are kept, want the one that was accepted", len(p.all))
	}
}

func made(t *testing.T, by *x509.Certificate, byKey *ecdsa.PrivateKey, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber, template.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: "somebody"}
	if by == nil {
		by, byKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by, key.Public(), byKey)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c, key
}
