package tests

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// certsCmd writes certificates into a folder: that of an authority, ca.pem, and with their keys one of a
// server at 127.0.0.1, those of ana@example.org and bob@example.org, an expired one of ana, and one of
// another authority, whose name is stranger.
func certsCmd(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o700))
	now := time.Now()
	issue := func(name string, by *x509.Certificate, byKey *ecdsa.PrivateKey, change func(*x509.Certificate)) (*x509.Certificate, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		ts.Check(err)
		c := &x509.Certificate{
			SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}
		change(c)
		if by == nil {
			by, byKey = c, key
		}
		der, err := x509.CreateCertificate(rand.Reader, c, by, key.Public(), byKey)
		ts.Check(err)
		own, err := x509.MarshalECPrivateKey(key)
		ts.Check(err)
		ts.Check(os.WriteFile(filepath.Join(dir, name+".crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644))
		ts.Check(os.WriteFile(filepath.Join(dir, name+".key"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: own}), 0o600))
		made, err := x509.ParseCertificate(der)
		ts.Check(err)
		return made, key
	}
	authority := func(c *x509.Certificate) {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage, c.ExtKeyUsage = true, true, x509.KeyUsageCertSign, nil
	}
	ca, caKey := issue("ca", nil, nil, authority)
	others, othersKey := issue("others", nil, nil, authority)
	issue("api", ca, caKey, func(c *x509.Certificate) {
		c.IPAddresses, c.ExtKeyUsage = []net.IP{net.IPv4(127, 0, 0, 1)}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	})
	mail := func(c *x509.Certificate) { c.EmailAddresses = []string{c.Subject.CommonName + "@example.org"} }
	issue("ana", ca, caKey, mail)
	issue("bob", ca, caKey, mail)
	issue("expired", ca, caKey, func(c *x509.Certificate) {
		c.EmailAddresses, c.NotBefore, c.NotAfter = []string{"ana@example.org"}, now.Add(-2*time.Hour), now.Add(-time.Hour)
	})
	issue("stranger", others, othersKey, func(c *x509.Certificate) { c.EmailAddresses = []string{"ana@example.org"} })
}

var apiListens = regexp.MustCompile(`msg="the API listens" .*address=(\S+)`)

// apiCmd puts the URL of the daemon's --api into the environment as API.
func apiCmd(ts *testscript.TestScript, _ bool, _ []string) {
	stageOf(ts).daemon.until(ts, func() bool {
		at := apiListens.FindStringSubmatch(ts.ReadFile("daemon.log"))
		if at != nil {
			ts.Setenv("API", "https://"+at[1])
		}
		return at != nil
	})
}
