package oidc

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
)

// key signs tokens.
type key struct {
	id      string
	private *rsa.PrivateKey
}

func newKey() *key {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return &key{"key-" + text(8), private}
}

// public is the key as a set of keys has it, RFC 7517.
func (k *key) public() map[string]any {
	return map[string]any{
		"kty": "RSA", "use": "sig", "alg": "RS256", "kid": k.id,
		"n": encode(k.private.N.Bytes()), "e": encode(big.NewInt(int64(k.private.E)).Bytes()),
	}
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// Token is an ID token that is about to be signed.
type Token struct {
	Header, Claims map[string]any
	key            *key
}

// Stranger has a key sign that is not the provider's, with the name of the provider's.
func (t *Token) Stranger() { t.key = &key{t.key.id, newKey().private} }

// sign signs by what the header says: RS256; HS256, with the public key as everybody knows it; or nothing.
func (t *Token) sign() string {
	header, err := json.Marshal(t.Header)
	if err != nil {
		panic(err)
	}
	claims, err := json.Marshal(t.Claims)
	if err != nil {
		panic(err)
	}
	signed := encode(header) + "." + encode(claims)
	sum := sha256.Sum256([]byte(signed))
	switch t.Header["alg"] {
	case "RS256":
		signature, err := rsa.SignPKCS1v15(rand.Reader, t.key.private, crypto.SHA256, sum[:])
		if err != nil {
			panic(err)
		}
		return signed + "." + encode(signature)
	case "HS256":
		der, err := x509.MarshalPKIXPublicKey(&t.key.private.PublicKey)
		if err != nil {
			panic(err)
		}
		mac := hmac.New(sha256.New, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
		fmt.Fprint(mac, signed)
		return signed + "." + encode(mac.Sum(nil))
	}
	return signed + "."
}
