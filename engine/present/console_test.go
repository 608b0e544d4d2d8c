package present_test

import (
	"testing"

	"github.com/slipway-gitops/slipway/engine/present"
)

func TestConsoleText(t *testing.T) {
	for in, want := range map[string]string{
		"booting\r\nok\n":                        "booting\nok\n",
		"\x1b[0;32m  OK  \x1b[0m Started sshd":   "  OK   Started sshd",
		"\x1b]0;a title\x07login:":               "login:",
		"\x1b]52;c;cm0gLXJmIC8=\x1b\\after":      "after",
		"\x1bP payload \x1b\\x\x1b(By\x1b=z":     "xyz",
		"half a sequence \x1b[12":                "half a sequence 12",
		"bell\x07 delete\x7f eight-bit \u009b2J": "bell delete eight-bit 2J",
		"bytes \xff\xfe":                         "bytes \uFFFD\uFFFD",
	} {
		if got := present.ConsoleText([]byte(in)); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
