package rule

import (
	"strings"
	"testing"
)

// No text makes the reading of a key break off, and what passes is of a known
// kind.
func FuzzKeyFault(f *testing.F) {
	f.Add(someKey)
	f.Add("ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAAQ==")
	f.Add("ssh-ed25519 AAAA")
	f.Add("ssh-dss")
	f.Fuzz(func(t *testing.T, text string) {
		kind, _, _ := strings.Cut(text, " ")
		if keyFault(text) == "" && keyParts[kind] == 0 {
			t.Errorf("%q passes and is of no known kind", text)
		}
	})
}

func TestKeyFault(t *testing.T) {
	for text, want := range map[string]string{
		someKey:          "",
		someKey + " a b": "",
		someKey[:60]:     "cannot be read",
		"ssh-rsa " + someKey[len("ssh-ed25519 "):]: "says ssh-rsa and is something else",
		"ssh-ed448 AAAA":     `is of the unknown kind "ssh-ed448"`,
		"ssh-ed25519 AAAA":   "cannot be read",
		"ssh-ed25519 AAAAAA": "cannot be read",
	} {
		if got := keyFault(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
