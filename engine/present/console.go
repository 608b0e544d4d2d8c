package present

import (
	"bytes"
	"regexp"
)

// escapes are control sequences, strings of commands such as titles, and other
// escapes.
var escapes = regexp.MustCompile(`\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(\x07|\x1b\\)?|\x1b[ -/]*[0-~]`)

// ConsoleText is what a terminal would show of a console's lines: without escape
// sequences (ECMA-48, 5.4) and control characters, which could do anything to
// the terminal of whoever reads it.
func ConsoleText(text []byte) string {
	text = escapes.ReplaceAll(text, nil)
	kept := bytes.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r >= ' ' && r != 0x7f && (r < 0x80 || r > 0x9f) {
			return r
		}
		return -1
	}, text)
	return string(bytes.ToValidUTF8(kept, []byte("\uFFFD")))
}
