package item

import (
	"strings"
	"testing"
)

// HoldsSecret says of every text what its expression says, also where letters fold in unusual ways.
func FuzzHoldsSecret(f *testing.F) {
	for _, text := range []string{"", "a = 1", "PASSWORD: x", "paſſword=1", "to\u212aen: y", "psk x", "tpsk x", "https://a:b@c", "https://a", "-----BEGIN PRIVATE KEY-----",
		"api_key=3", "aPi key = 3", "secrets\n=\n", "credential\t: \"q", "private\nkey: x", strings.Repeat("x", 5000) + "requirepass foo"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if is, want := HoldsSecret(text), secret().Match(text); is != want {
			t.Errorf("%q: %t", text, is)
		}
	})
}

func BenchmarkHoldsSecret(b *testing.B) {
	text := []byte(strings.Repeat("net.core.somaxconn = 4096 # for many connections\n", 40))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		HoldsSecret(text)
	}
}
