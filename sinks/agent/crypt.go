package agent

import (
	"crypto/rand"
	"crypto/sha512"
	"hash"
	"strconv"
	"strings"
)

// These are the bounds of SHA-512 crypt, from "Unix crypt using SHA-256 and SHA-512" (U. Drepper, version 0.6).
const (
	cryptPrefix   = "$6$"
	defaultRounds = 5000
	leastRounds   = 1000
	mostRounds    = 100_000 // well above common settings; protects the daemon's CPU from a machine
	longestSalt   = 16
)

// crypt64 holds the digits of crypt(5).
const crypt64 = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// newSetting is a setting of SHA-512 crypt with a new random salt of 96 bits.
func newSetting() string {
	salt := make([]byte, longestSalt)
	rand.Read(salt) // never fails
	for i := range salt {
		salt[i] = crypt64[salt[i]%64]
	}
	return cryptPrefix + string(salt)
}

// sha512crypt hashes a password with a setting like crypt(3): "$6$SALT" or "$6$rounds=N$SALT". It returns false for
// any other setting.
func sha512crypt(password, setting string) (string, bool) {
	salt, ok := strings.CutPrefix(setting, cryptPrefix)
	rounds := defaultRounds
	if rest, given := strings.CutPrefix(salt, "rounds="); ok && given {
		var text string
		text, salt, ok = strings.Cut(rest, "$")
		n, err := strconv.Atoi(text)
		if ok = ok && err == nil && n >= leastRounds && n <= mostRounds && strconv.Itoa(n) == text; ok {
			rounds = n
		}
	}
	if !ok || len(salt) > longestSalt || strings.Trim(salt, crypt64) != "" {
		return "", false
	}
	return setting + "$" + encode(stretched([]byte(password), []byte(salt), rounds)), true
}

// stretched is steps 1 to 21 of the specification.
func stretched(password, salt []byte, rounds int) []byte {
	b := sum(password, salt, password)
	a := sha512.New()
	a.Write(password)
	a.Write(salt)
	repeat(a, b, len(password))
	for n := len(password); n > 0; n >>= 1 {
		if n&1 != 0 {
			a.Write(b)
		} else {
			a.Write(password)
		}
	}
	c := a.Sum(nil)
	p := series(password, len(password), len(password))
	s := series(salt, 16+int(c[0]), len(salt))
	for i := range rounds {
		round := sha512.New()
		write := func(when bool, yes, no []byte) {
			if when {
				round.Write(yes)
			} else {
				round.Write(no)
			}
		}
		write(i%2 != 0, p, c)
		write(i%3 != 0, s, nil)
		write(i%7 != 0, p, nil)
		write(i%2 != 0, c, p)
		c = round.Sum(nil)
	}
	return c
}

func sum(parts ...[]byte) []byte {
	h := sha512.New()
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}

// series hashes a text repeated so many times, and extends the digest to a length.
func series(text []byte, times, length int) []byte {
	h := sha512.New()
	for range times {
		h.Write(text)
	}
	var all strings.Builder
	digest := h.Sum(nil)
	for all.Len() < length {
		all.Write(digest[:min(len(digest), length-all.Len())])
	}
	return []byte(all.String())
}

func repeat(h hash.Hash, block []byte, length int) {
	for ; length > len(block); length -= len(block) {
		h.Write(block)
	}
	h.Write(block[:length])
}

// encode writes a digest with the digits of crypt(5), in the order of step 22 of the specification.
func encode(c []byte) string {
	var b strings.Builder
	digits := func(v uint, n int) {
		for range n {
			b.WriteByte(crypt64[v&63])
			v >>= 6
		}
	}
	for i := range 21 {
		x, y, z := i, i+21, i+42
		switch i % 3 {
		case 1:
			x, y, z = y, z, x
		case 2:
			x, y, z = z, x, y
		}
		digits(uint(c[x])<<16|uint(c[y])<<8|uint(c[z]), 4)
	}
	digits(uint(c[63]), 2)
	return b.String()
}
