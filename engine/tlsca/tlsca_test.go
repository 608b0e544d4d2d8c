package tlsca_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/sitekey"
	"github.com/slipway-gitops/slipway/engine/tlsca"
)

func root(t *testing.T) *sitekey.Key {
	t.Helper()
	k, err := sitekey.Create(filepath.Join(t.TempDir(), "site.key"))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func derived(t *testing.T, k tlsca.Root, site string, epoch int) *tlsca.Authority {
	t.Helper()
	a, err := tlsca.Derive(k, site, epoch)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// request is a signing request that asks for more than anybody grants.
func request(t *testing.T, key any) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "n2.example.org"}, DNSNames: []string{"n2.example.org", "*"},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

var grant = tlsca.Grant{Node: "n1", Names: []string{"n1", "n1.example.org", "10.0.0.1", "fd00::1"}, Usage: tlsca.Server, Life: 48 * time.Hour}

// The same root key gives the same certificate byte by byte, and every site and epoch another one.
func TestAuthorityFollowsFromTheRootKey(t *testing.T) {
	t.Parallel()
	k := root(t)
	first := derived(t, k, "fra", 0)
	if again := derived(t, k, "fra", 1); again.PEM() != first.PEM() {
		t.Errorf("got two certificates of one root key:\n%s\n%s", first.PEM(), again.PEM())
	}
	seen := map[string]bool{first.Fingerprint(): true}
	for name, a := range map[string]*tlsca.Authority{
		"another epoch": derived(t, k, "fra", 2), "another site": derived(t, k, "fr", 1), "another root": derived(t, root(t), "fra", 1),
	} {
		if seen[a.Fingerprint()] {
			t.Errorf("%s has the certificate of another authority", name)
		}
		seen[a.Fingerprint()] = true
	}
	if _, err := tlsca.Derive(k, "fra", tlsca.MostEpoch+1); err == nil || !strings.Contains(err.Error(), "1000000") {
		t.Errorf("an epoch beyond the last: %v", err)
	}
	if c, err := tlsca.Parse(first.PEM()); err != nil || !c.IsCA {
		t.Errorf("the certificate of the authority: %v", err)
	}
}

// openssl accepts a certificate for what was granted, and for nothing that the request asked for.
func TestCertificateByOpenSSL(t *testing.T) {
	t.Parallel()
	k, now := root(t), time.Now()
	offline := newKey(t)
	rootPEM, chain := intermediate(t, offline, now.Add(-time.Hour), now.Add(90*24*time.Hour), true)
	online, err := tlsca.Intermediate(chain, []string{rootPEM}, now)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		by    *tlsca.Authority
		trust string
	}{"derived": {derived(t, k, "fra", 1), derived(t, k, "fra", 1).PEM()}, "intermediate": {online, rootPEM}} {
		dir := t.TempDir()
		key := newKey(t)
		signed, err := c.by.Sign(request(t, key), grant, now)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		ca, cert := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cert.pem")
		write(t, ca, c.trust)
		write(t, cert, signed.Chain)
		verify := func(args ...string) string {
			out, _ := exec.CommandContext(t.Context(), "openssl", append([]string{"verify", "-x509_strict", "-CAfile", ca, "-untrusted", cert}, append(args, cert)...)...).CombinedOutput()
			return string(out)
		}
		for _, good := range [][]string{
			{"-purpose", "sslserver", "-verify_hostname", "n1.example.org"}, {"-verify_ip", "10.0.0.1"}, {"-verify_ip", "fd00::1"},
		} {
			if out := verify(good...); !strings.Contains(out, "OK") {
				t.Errorf("%s: %v: %s", name, good, out)
			}
		}
		for _, bad := range [][]string{
			{"-verify_hostname", "n2.example.org"}, {"-purpose", "sslclient"}, {"-attime", "1"},
			{"-attime", big.NewInt(now.Add(49 * time.Hour).Unix()).String()},
		} {
			if out := verify(bad...); strings.Contains(out, "OK") {
				t.Errorf("%s: %v is accepted", name, bad)
			}
		}
		serve(t, name, signed.Chain, key, c.trust)
	}
}

// serve has a client of TLS connect to a server with the certificate.
func serve(t *testing.T, name, chain string, key *ecdsa.PrivateKey, trust string) {
	t.Helper()
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair([]byte(chain), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
	if err != nil {
		t.Fatal(err)
	}
	server, client := net.Pipe()
	defer server.Close()
	go tls.Server(server, &tls.Config{Certificates: []tls.Certificate{pair}}).Handshake() // the client says how it ended
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(trust))
	if err := tls.Client(client, &tls.Config{RootCAs: pool, ServerName: "n1.example.org"}).Handshake(); err != nil {
		t.Errorf("%s: a client of TLS: %v", name, err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// intermediate makes a root, and the file of an intermediate that the root's key signed.
func intermediate(t *testing.T, offline *ecdsa.PrivateKey, from, until time.Time, isCA bool) (rootPEM string, file []byte) {
	t.Helper()
	parent := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "offline root"}, NotBefore: from.Add(-time.Hour), NotAfter: until.Add(100 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, parent, parent, offline.Public(), offline)
	if err != nil {
		t.Fatal(err)
	}
	if parent, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	key := newKey(t)
	child := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "online"}, NotBefore: from, NotAfter: until, IsCA: isCA, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature}
	if isCA {
		child.KeyUsage = x509.KeyUsageCertSign
	}
	signed, err := x509.CreateCertificate(rand.Reader, child, parent, key.Public(), offline)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	file = slices.Concat(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), file
}

// An intermediate that nobody would trust signs nothing, and the sentence says why.
func TestIntermediateRefused(t *testing.T) {
	t.Parallel()
	now := time.Now()
	offline := newKey(t)
	rootPEM, good := intermediate(t, offline, now.Add(-time.Hour), now.Add(48*time.Hour), true)
	otherRoot, otherFile := intermediate(t, newKey(t), now.Add(-time.Hour), now.Add(48*time.Hour), true)
	leafRoot, leaf := intermediate(t, offline, now.Add(-time.Hour), now.Add(48*time.Hour), false)
	block, rest := pem.Decode(good)
	otherKey := otherFile[strings.Index(string(otherFile), "-----BEGIN PRIVATE"):]
	for name, c := range map[string]struct {
		file []byte
		root string
		now  time.Time
		want string
	}{
		"good":               {good, rootPEM, now, ""},
		"ten years later":    {good, rootPEM, now.AddDate(10, 0, 0), "set the clock"},
		"ten years earlier":  {good, rootPEM, now.AddDate(-10, 0, 0), "set the clock"},
		"another root":       {good, otherRoot, now, "none of the authorities"},
		"not an authority":   {leaf, leafRoot, now, "not one of an authority"},
		"no key":             {pem.EncodeToMemory(block), rootPEM, now, "needs the private key"},
		"no certificate":     {rest, rootPEM, now, "needs the private key"},
		"another key":        {slices.Concat(pem.EncodeToMemory(block), otherKey), rootPEM, now, "not that of its first certificate"},
		"two keys":           {slices.Concat(good, otherKey), rootPEM, now, "two private keys"},
		"something else":     {slices.Concat(good, []byte("-----BEGIN X-----\n-----END X-----\n")), rootPEM, now, `"X"`},
		"nothing":            {nil, rootPEM, now, "needs the private key"},
		"a root that is bad": {good, "x", now, "not a certificate in PEM"},
	} {
		_, err := tlsca.Intermediate(c.file, []string{c.root}, c.now)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// What is no request, or asks for no key of ours, gets no certificate.
func TestRequestsRefused(t *testing.T) {
	t.Parallel()
	a := derived(t, root(t), "fra", 1)
	key := newKey(t)
	good := request(t, key)
	forged := slices.Clone(good)
	forged[len(forged)-1] ^= 1
	big384, _ := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	_, ed, _ := ed25519.GenerateKey(rand.Reader)
	for name, der := range map[string][]byte{
		"empty": nil, "no request": []byte("x"), "cut": good[:40], "with something after it": append(slices.Clone(good), 0), "forged": forged,
		"another curve": request(t, big384), "another kind": request(t, ed),
	} {
		if c, err := a.Sign(der, grant, time.Now()); !errors.Is(err, tlsca.ErrRequest) || c.Chain != "" {
			t.Errorf("%s: got %v", name, err)
		}
	}
	// The work of a signature grows with the size of the key, which the system chooses: it is not looked at before.
	large, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	wrong := request(t, large)
	wrong[len(wrong)-1] ^= 1
	if _, err := a.Sign(wrong, grant, time.Now()); !errors.Is(err, tlsca.ErrRequest) || !strings.Contains(err.Error(), "not one of ECDSA P-256") {
		t.Errorf("a wrong signature of RSA: %v", err)
	}
	if _, err := a.Sign(make([]byte, 32<<10), grant, time.Now()); !errors.Is(err, tlsca.ErrRequest) || !strings.Contains(err.Error(), "has 32768 bytes") {
		t.Errorf("a large request: %v", err)
	}
	for name, g := range map[string]tlsca.Grant{
		"no node": {Names: grant.Names, Usage: tlsca.Server, Life: time.Hour}, "no names": {Node: "n1", Usage: tlsca.Server, Life: time.Hour},
		"no use": {Node: "n1", Names: grant.Names, Life: time.Hour}, "no life": {Node: "n1", Names: grant.Names, Usage: tlsca.Server},
	} {
		if c, err := a.Sign(good, g, time.Now()); err == nil || c.Chain != "" {
			t.Errorf("%s: signed", name)
		}
	}
	if _, err := a.Sign(good, grant, time.Date(2060, 1, 1, 0, 0, 0, 0, time.UTC)); err == nil || !strings.Contains(err.Error(), "set the clock") {
		t.Errorf("after the last day of the authority: %v", err)
	}
	late := grant
	late.Life = 100 * 365 * 24 * time.Hour
	if c, err := a.Sign(good, late, time.Now()); err != nil || c.Until.After(a.Until()) {
		t.Errorf("a certificate outlives its authority: %v, %v", c.Until, err)
	}
}
