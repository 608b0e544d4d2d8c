package engine_test

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
)

// guessable are digests of a text that need no key.
func guessable(text string) (all []string) {
	for _, of := range []string{text, text + "\n", "admin\x00" + text, "admin:" + text, "credential bmc" + text, "bmc" + text} {
		b := []byte(of)
		m, s1, s2, s5 := md5.Sum(b), sha1.Sum(b), sha256.Sum256(b), sha512.Sum512(b)
		for _, sum := range [][]byte{m[:], s1[:], s2[:], s5[:]} {
			all = append(all, fmt.Sprintf("%x", sum[:16]), base64.StdEncoding.EncodeToString(sum)[:20])
		}
		all = append(all, base64.StdEncoding.EncodeToString(b))
	}
	return all
}
