package secret

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"fmt"
	"sync"
)

// digestRounds make each guess at a password from its digest cost some
// milliseconds.
const digestRounds = 100_000

// digests caches the results of Digest, which is called again and again for the
// same values.
var digests sync.Map

// Digest identifies a value in the site's records without revealing it: 32 hex
// digits of PBKDF2 (RFC 8018) with HMAC-SHA-256 over the user name and the
// secret. A weak password can still be found by trying many.
func (v Value) Digest(siteName string) string {
	type of struct {
		site  string
		value Value
	}
	if d, ok := digests.Load(of{siteName, v}); ok {
		return d.(string)
	}
	key, err := pbkdf2.Key(sha256.New, v.Username()+"\x00"+v.Reveal(), []byte("slipway credential of site "+siteName), digestRounds, 16)
	if err != nil {
		panic(err) // only with parameters that FIPS 140 forbids
	}
	d := fmt.Sprintf("%x", key)
	digests.Store(of{siteName, v}, d)
	return d
}
