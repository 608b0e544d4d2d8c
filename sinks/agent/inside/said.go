package inside

import (
	"strings"
	"unicode"

	"github.com/slipway-gitops/slipway/engine/item"
)

// maxSaid bounds the result of LastLines, in bytes.
const maxSaid = 1500

// Said is the end of a program's output, at most 16 times maxSaid bytes, without lines that seem to contain a
// secret: errors and the status repeat it.
func Said(output []byte) string {
	text := strings.TrimSpace(string(output))
	if cut := len(text) - 16*maxSaid; cut > 0 {
		text = text[cut:]
		if _, whole, more := strings.Cut(text, "\n"); more { // the rest of a cut line may be part of a secret
			text = whole
		}
	}
	return item.Redacted(text)
}

// LastLines are the last lines of a program's error output, or else of its output, for people: printable, bounded,
// and without secrets.
func (o Output) LastLines(n int) string {
	text := Said(o.Err)
	if text == "" {
		text = Said(o.Out)
	}
	return Lines(text, n)
}

// Lines are the last lines of a text, printable and at most maxSaid bytes.
func Lines(text string, n int) string {
	text = text[max(0, len(text)-16*maxSaid):]
	lines := strings.Split(strings.TrimSpace(text), "\n")
	text = strings.Join(lines[max(0, len(lines)-n):], "\n")
	text = strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, "?"))
	return strings.ToValidUTF8(text[max(0, len(text)-maxSaid):], "")
}
