package secret

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"testing"

	"golang.org/x/crypto/ssh"
)

// A private key is no password in whatever form it is stored, and no error quotes it.
func TestKeysAreNoPasswords(t *testing.T) {
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	must := func(b []byte, err error) []byte {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	block, err := ssh.MarshalPrivateKey(ed, "")
	if err != nil {
		t.Fatal(err)
	}
	armoured := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	pkcs8 := must(x509.MarshalPKCS8PrivateKey(ed))
	for name, key := range map[string]string{
		"OpenSSH":              string(pem.EncodeToMemory(block)),
		"OpenSSH, unarmoured":  base64.StdEncoding.EncodeToString(block.Bytes),
		"PKCS 8":               armoured("PRIVATE KEY", pkcs8),
		"PKCS 8, one line":     base64.StdEncoding.EncodeToString(pkcs8),
		"PKCS 8, unpadded":     base64.RawURLEncoding.EncodeToString(pkcs8),
		"PKCS 8, DER":          string(pkcs8),
		"PKCS 1":               armoured("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rs)),
		"PKCS 1, one line":     base64.StdEncoding.EncodeToString(x509.MarshalPKCS1PrivateKey(rs)),
		"SEC 1":                armoured("EC PRIVATE KEY", must(x509.MarshalECPrivateKey(ec))),
		"SEC 1, one line":      base64.StdEncoding.EncodeToString(must(x509.MarshalECPrivateKey(ec))),
		"behind other text":    "my key:\n" + armoured("PRIVATE KEY", pkcs8),
		"encrypted":            armoured("ENCRYPTED PRIVATE KEY", []byte("x")),
		"PuTTY":                "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\n",
		"a certificate":        armoured("CERTIFICATE", []byte("x")),
		"lines":                "a\nb",
		"an end of line":       "a\r",
		"a NUL":                "a\x00",
		"PEM in a single line": "-----BEGIN PRIVATE KEY----- AAAA -----END PRIVATE KEY-----",
	} {
		if got, err := New("u", key).Password(); got != "" || !errors.Is(err, ErrKind) {
			t.Errorf("%s: a password, %v", name, err)
		}
	}
	for _, good := range []string{canary, "with spaces", "ünïcode ☃", "ghp_0123456789abcdefghijABCDEFGHIJ012345", "aGVsbG8gd29ybGQ=", "BEGIN", ""} {
		if got, err := New("u", good).Password(); got != good || err != nil {
			t.Errorf("%q: got %q, %v", good, got, err)
		}
		if got, err := New("u", good).PEM(); got != nil || !errors.Is(err, ErrKind) {
			t.Errorf("%q is PEM: %v", good, err)
		}
	}
	if got, err := New("", armoured("PRIVATE KEY", pkcs8)).PEM(); err != nil || string(got) != armoured("PRIVATE KEY", pkcs8) {
		t.Errorf("got %q, %v", got, err)
	}
}

// A file gets a secret of any kind as it is. One of several lines ends with a line break.
func TestContentsOfFiles(t *testing.T) {
	for secret, want := range map[string]string{
		"calvin 7": "calvin 7",
		"-----BEGIN PRIVATE KEY-----\nMC4C\n-----END PRIVATE KEY-----": "-----BEGIN PRIVATE KEY-----\nMC4C\n-----END PRIVATE KEY-----\n",
		"a\nb\n": "a\nb\n",
	} {
		if got := New("", secret).Content(); string(got) != want {
			t.Errorf("%q: got %q", secret, got)
		}
	}
}
