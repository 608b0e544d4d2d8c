package secret

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Versions tells the values that a secret has had apart, by digests with a key that follows from
// the root key of the site. The zero value knows no version.
//
// Records and exports hold these digests. Unlike Value.Digest they reveal nothing: without the root key, which is
// in neither, nobody can test a guess.
type Versions struct {
	key []byte
	id  string // of the key
}

// Root is what the key of versions is derived from: the root key of a site (sitekey.Key).
type Root interface {
	// Derive returns size bytes for one use of the key.
	Derive(use string, size int) ([]byte, error)
}

// VersionsOf returns the versions of a site's secrets.
func VersionsOf(root Root, siteName string) (Versions, error) {
	const keySize, idSize = 32, 4
	b, err := root.Derive("versions of secrets v1 "+siteName, keySize+idSize)
	if err != nil {
		return Versions{}, fmt.Errorf("the key for versions of secrets: %w", err)
	}
	return Versions{key: b[:keySize], id: fmt.Sprintf("%x", b[keySize:])}, nil
}

// Of returns the version of a value under the name of a secret: 8 hex digits that stand for the key, a
// dot, and 32 of HMAC-SHA-256 over the name and the value. It is empty without a key. The user name is no part of it: a
// password that was read is known under any. Equal values of two secrets have different versions.
func (v Versions) Of(name string, value Value) string {
	if v.key == nil {
		return ""
	}
	mac := hmac.New(sha256.New, v.key)
	mac.Write(binary.BigEndian.AppendUint32(nil, uint32(len(name))))
	mac.Write([]byte(name + value.Reveal()))
	return fmt.Sprintf("%s.%x", v.id, mac.Sum(nil)[:16])
}

// Present is what a source has now for a secret.
type Present struct {
	Version string
	// Key says that it is a private key: a login proves it and sends nothing of it.
	Key bool
}

// Present returns the version of a credential's value. Nothing is sent anywhere, so it asks for no host. A derived
// credential needs of, see Request.Of. Its errors are those of Get.
func (s *Store) Present(name string, of Of, by Versions) (Present, error) {
	defer s.trouble()
	value, err := s.toCompare(name, of)
	if err != nil {
		return Present{}, fmt.Errorf("credential %q: %w", name, err)
	}
	return Present{Version: by.Of(site.SecretOfCredential(name), value), Key: value.IsPEM()}, nil
}

// toCompare returns a value that stays in this process.
func (s *Store) toCompare(name string, of Of) (Value, error) {
	if c, _ := s.designed(Request{Name: name}); c == nil || c.From != site.FromDerived {
		f, err := s.find(Request{Name: name})
		if err != nil {
			return Value{}, err
		}
		return f.value, nil
	}
	derive := s.deriving()
	if derive == nil {
		return Value{}, fmt.Errorf("%w: it is derived from the site key, and there is none here", ErrMissing)
	}
	v, err := derive(of)
	if err != nil {
		return Value{}, fmt.Errorf("%w: %w", ErrMissing, err)
	}
	return v, nil
}
