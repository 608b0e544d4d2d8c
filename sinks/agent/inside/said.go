package inside

import (
	"strings"
	"unicode"

	"github.com/slipway-gitops/slipway/engine/item"
)

// MaxSaid bounds what LastLines gives, in bytes.
const MaxSaid = 1500

// Said is the end of what a program printed, of at most 16 times MaxSaid bytes, without
// the lines that hold what looks like a secret: errors and the status repeat it.
func Said(output []byte) string {
	text := strings.TrimSpace(string(output))
	if cut := len(text) - 16*MaxSaid; cut > 0 {
		text = text[cut:]
		if _, whole, more := strings.Cut(text, "\n"); more { // what is left of a line may be half a secret
			text = whole
		}
	}
	return item.Redacted(text)
}

// LastLines are the last lines that a program printed, for people: on its error
// output, or else on its output, printable, bounded, and without secrets.
func (o Output) LastLines(n int) string {
	text := Said(o.Err)
	if text == "" {
		text = Said(o.Out)
	}
	return Lines(text, n)
}

// Lines are the last lines of a text, printable and bounded by MaxSaid.
func Lines(text string, n int) string {
	text = text[max(0, len(text)-16*MaxSaid):]
	lines := strings.Split(strings.TrimSpace(text), "\n")
	text = strings.Join(lines[max(0, len(lines)-n):], "\n")
	text = strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, "?"))
	return strings.ToValidUTF8(text[max(0, len(text)-MaxSaid):], "")
}
