package secret

import (
	"crypto/x509"
	"encoding/base64"
	"errors"
	"strings"
)

// ErrKind is wrapped when a secret is of another kind than requested: a private key must
// never be sent in place of a password.
var ErrKind = errors.New("secret of another kind")

// Password returns a secret that is sent as it is: a password or a token. Its error wraps
// ErrKind when the secret is a private key in any form, or is not a single line. Everything
// that sends a secret calls Password.
func (v Value) Password() (string, error) {
	switch s := v.Reveal(); {
	case isKey(s):
		return "", errKey
	case strings.ContainsAny(s, "\r\n\x00"):
		return "", errLines
	default:
		return s, nil
	}
}

var (
	errKey   = wrong("it is a private key, which is never sent: name a credential that holds a password or token")
	errLines = wrong("it has several lines, which no password or token has")
	errNoPEM = wrong("it is not a private key in PEM form")
)

func wrong(what string) error { return kindError(what) }

// kindError reads as one sentence after the name of what has the secret.
type kindError string

func (e kindError) Error() string { return string(e) }
func (kindError) Unwrap() error   { return ErrKind }

// PEM returns a private key in PEM form, and anything after it. A key proves its owner's
// identity and is never sent. The error wraps ErrKind when the secret is anything else.
func (v Value) PEM() ([]byte, error) {
	if s := v.Reveal(); v.IsPEM() {
		return []byte(s), nil
	}
	return nil, errNoPEM
}

// Content returns a secret of any kind as it is put into a file of a system. A secret of
// several lines, such as a PEM key, ends with a line break, which many programs need.
func (v Value) Content() []byte {
	s := v.Reveal()
	if strings.Contains(s, "\n") && !strings.HasSuffix(s, "\n") {
		s += "\n"
	}
	return []byte(s)
}

// IsPEM reports whether the secret begins like PEM.
func (v Value) IsPEM() bool { return strings.HasPrefix(strings.TrimSpace(v.Reveal()), "-----BEGIN ") }

// keyMarks are texts in private keys: PEM, PuTTY's form, and the base64 of OpenSSH's
// "openssh-key-v1".
var keyMarks = []string{"-----BEGIN ", "PRIVATE KEY", "PuTTY-User-Key-File", "b3BlbnNzaC1rZXktdjE"}

// isKey reports whether a text is or contains a private key.
func isKey(s string) bool {
	for _, mark := range keyMarks {
		if strings.Contains(s, mark) {
			return true
		}
	}
	text := strings.TrimRight(strings.Join(strings.Fields(s), ""), "=")
	for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if der, err := e.DecodeString(text); err == nil && isDER(der) {
			return true
		}
	}
	return isDER([]byte(s))
}

// isDER reports whether bytes are a private key in DER form.
func isDER(der []byte) bool {
	_, pkcs8 := x509.ParsePKCS8PrivateKey(der)
	_, pkcs1 := x509.ParsePKCS1PrivateKey(der)
	_, ec := x509.ParseECPrivateKey(der)
	return pkcs8 == nil || pkcs1 == nil || ec == nil
}
