// Package pkcs11 seals small secrets to a private key on a token (PKCS #11 2.40, OASIS): a smart card, a USB key or a
// hardware security module. The private key never leaves the token. The vendor's module is loaded by a program of its
// own, slipway-pkcs11, so that foreign code never runs in the daemon.
package pkcs11

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
)

// The PEM block of a sealed secret: its type, and the header that names the settings of the host.
const (
	blockType      = "SLIPWAY PKCS11 SEALED SECRET"
	headerSettings = "Settings"
)

// Purpose is what a sealed secret is for. A secret that was sealed for one purpose does not open for another.
type Purpose string

// The purposes.
const (
	Identity Purpose = "identity"
	SiteKey  Purpose = "site key"
)

// sealed is a secret in its stored form.
type sealed struct {
	bound
	// Text is encrypted by AES-256-GCM, with the nonce before it, and with bound as the additional data.
	Text []byte `json:"text"`
}

// bound is what belongs to a sealed secret and cannot be changed without its key.
type bound struct {
	Purpose Purpose `json:"purpose"`
	Token   Token   `json:"token"`
	Key     Key     `json:"key"`
	Wrapped Wrapped `json:"wrapped"`
}

// IsSealed reports whether a text is a sealed secret.
func IsSealed(text []byte) bool {
	return bytes.HasPrefix(bytes.TrimSpace(text), []byte("-----BEGIN "+blockType))
}

// Choice says to which key a secret is sealed.
type Choice struct {
	// Settings is the file of the host that names the module and the PIN.
	Settings string
	// Token is the label or serial number of the token; empty for the only one.
	Token string
	Key   Key
}

// Seal seals a secret to a key by the first mechanism that the token opens, which it tries. The note about a refused PIN is kept
// beside file, where the secret will be.
func Seal(c Choice, p Purpose, secret []byte, file string) (text []byte, to Token, err error) {
	s, err := readSettings(c.Settings)
	if err != nil {
		return nil, Token{}, err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, Token{}, err
	}
	a, err := s.ask(Request{Module: s.module, Token: c.Token, Key: c.Key}, file)
	if err != nil {
		return nil, Token{}, err
	}
	f := a.Found
	if f.CanLeave {
		return nil, Token{}, fmt.Errorf("the token %s would give the private key %s away: make another key that is sensitive and not extractable", f.Token, f.Key)
	}
	var errs []error
	for _, m := range f.mechanisms() {
		text, err := f.seal(m, p, secret)
		if err != nil {
			return nil, Token{}, err
		}
		block := encode(text, c.Settings)
		opened, err := Unseal(block, p, file)
		same := bytes.Equal(opened, secret)
		clear(opened)
		switch {
		case err == nil && same:
			return block, f.Token, nil
		case err == nil:
			err = errors.New("the token returned something else than what was sealed")
		case !errors.Is(err, errRefused):
			return nil, Token{}, err
		}
		errs = append(errs, fmt.Errorf("%s: %w", m, err))
	}
	if len(errs) == 0 {
		return nil, Token{}, fmt.Errorf("the key %s on the token %s is neither an RSA key nor one on a curve: make a key of RSA-2048 or P-256, or a larger one", f.Key, f.Token)
	}
	return nil, Token{}, fmt.Errorf("the token %s opens nothing by the key %s: %w", f.Token, f.Key, errors.Join(errs...))
}

func encode(text []byte, settings string) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: blockType, Headers: map[string]string{headerSettings: settings}, Bytes: text})
}

// seal encrypts a secret for the key by a mechanism.
func (f *Found) seal(m Mechanism, p Purpose, secret []byte) ([]byte, error) {
	value, shared, err := f.wrap(m)
	if err != nil {
		return nil, fmt.Errorf("the key %s on the token %s: %w", f.Key, f.Token, err)
	}
	defer clear(shared)
	text := sealed{bound: bound{p, f.Token, f.Key, Wrapped{m, value}}}
	gcm, data, err := text.cipher(shared)
	if err != nil {
		return nil, err
	}
	text.Text = gcm.Seal(nil, nil, secret, data)
	return json.Marshal(text)
}

// Unseal returns a secret, using the token that it was sealed to. file is the file of the sealed secret: a note about a
// refused PIN is kept beside it. The error never wraps fs.ErrNotExist: the file of the secret is there.
func Unseal(text []byte, p Purpose, file string) ([]byte, error) {
	block, rest := pem.Decode(bytes.TrimSpace(text))
	var s sealed
	if block == nil || block.Type != blockType || len(bytes.TrimSpace(rest)) > 0 || json.Unmarshal(block.Bytes, &s) != nil || s.Token.Serial == "" {
		return nil, errDamaged
	}
	if s.Purpose != p {
		return nil, fmt.Errorf("it was sealed as the %s: put the right file in its place", clean(string(s.Purpose)))
	}
	how, err := readSettings(block.Headers[headerSettings])
	if err != nil {
		return nil, err
	}
	a, err := how.ask(Request{Module: how.module, Token: s.Token.Serial, Key: s.Key, Open: &s.Wrapped}, file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New(err.Error())
	}
	if err != nil {
		return nil, err
	}
	defer clear(a.Secret)
	gcm, data, err := s.cipher(a.Secret)
	if err != nil {
		return nil, err
	}
	secret, err := gcm.Open(nil, nil, s.Text, data)
	if err != nil {
		return nil, fmt.Errorf("%w, or the key %s on the token %s was replaced", errDamaged, s.Key, s.Token)
	}
	return secret, nil
}

var errDamaged = errors.New("the sealed secret is damaged")

// cipher returns the cipher of the text by what the token gives, and the additional data.
func (s *sealed) cipher(shared []byte) (cipher.AEAD, []byte, error) {
	data, err := json.Marshal(s.bound)
	if err != nil {
		return nil, nil, err
	}
	key, err := hkdf.Key(sha256.New, shared, nil, blockType+" v1\x00"+string(data), 32)
	if err != nil {
		return nil, nil, err
	}
	defer clear(key)
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, nil, err
	}
	gcm, err := cipher.NewGCMWithRandomNonce(block)
	return gcm, data, err
}

// mechanisms are those to try with a key, the best first.
func (f *Found) mechanisms() []Mechanism {
	switch {
	case len(f.Modulus) > 0:
		return []Mechanism{OAEPSHA256, OAEPSHA1}
	case len(f.Point) > 0:
		return []Mechanism{ECDH}
	}
	return nil
}

// wrap makes a shared secret that only the key can find from the value.
func (f *Found) wrap(m Mechanism) (value, shared []byte, err error) {
	if m == ECDH {
		public, err := f.point()
		if err != nil {
			return nil, nil, err
		}
		ephemeral, err := public.Curve().GenerateKey(rand.Reader)
		if err != nil {
			return nil, nil, err
		}
		shared, err = ephemeral.ECDH(public)
		return ephemeral.PublicKey().Bytes(), shared, err
	}
	public, err := f.rsa()
	if err != nil {
		return nil, nil, err
	}
	shared = make([]byte, 32)
	rand.Read(shared) // never fails
	var h hash.Hash = sha256.New()
	if m == OAEPSHA1 {
		h = sha1.New()
	}
	value, err = rsa.EncryptOAEP(h, rand.Reader, public, shared, nil)
	return value, shared, err
}
