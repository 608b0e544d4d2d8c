package inside

import (
	"strings"
	"unicode"
)

// MaxSaid bounds what LastLines gives, in bytes.
const MaxSaid = 1500

// LastLines are the last lines that a program printed, for people: on its error
// output, or else on its output, printable and bounded.
func (o Output) LastLines(n int) string {
	text := strings.TrimSpace(string(o.Err))
	if text == "" {
		text = strings.TrimSpace(string(o.Out))
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
