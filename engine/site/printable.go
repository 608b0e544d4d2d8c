package site

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text of others (the design, commits, BMCs, hypervisors, forges) may hold runes
// that a terminal obeys, that turn the order of what is around them, or that
// nobody sees. People are shown such a rune by its number, in the one form that
// is also valid in JSON: \u202e.

// Printable is text of others as one line that people may be shown. White space
// is a space, so that no line can be forged.
func Printable(text string) string { return printable(text, oneLine) }

// PrintableLines is Printable for text with lines and tabs of its own.
func PrintableLines(text string) string { return printable(text, severalLines) }

// PrintableJSON is JSON of the same meaning without runes that are not seen,
// which encoding/json leaves in its strings.
func PrintableJSON(text []byte) []byte { return []byte(printable(string(text), inJSON)) }

// form is what is made of text.
type form int

const (
	oneLine form = iota
	severalLines
	inJSON // where nothing may be lost
)

// mostMarks is how many marks may stand over one letter: more would cover other
// lines.
const mostMarks = 4

func printable(text string, as form) string {
	if !needsChange(text, as) {
		return text
	}
	var b strings.Builder
	before, marks := ' ', 0
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if unicode.In(r, unicode.Mn, unicode.Me) {
			marks++
		} else {
			marks = 0
		}
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(unprintable(rune(text[i])))
		case as != oneLine && (r == '\n' || r == '\t'):
			b.WriteRune(r)
		case as == inJSON && !isSeen(r):
			b.WriteString(unprintable(r))
		case unicode.IsSpace(r) && unicode.IsControl(r): // a run of them is one space
			if !unicode.IsSpace(before) || !unicode.IsControl(before) {
				b.WriteByte(' ')
			}
		case unicode.IsSpace(r):
			b.WriteByte(' ')
		case (r == '\ufe0e' || r == '\ufe0f') && unicode.Is(unicode.So, before):
			// which only says how a symbol looks
		case !isSeen(r) || marks > mostMarks:
			b.WriteString(unprintable(r))
		default:
			b.WriteRune(r)
		}
		before, i = r, i+size
	}
	return b.String()
}

// needsChange is quick to say that most text is printable as it is.
func needsChange(text string, as form) bool {
	for i := range len(text) {
		if c := text[i]; c >= utf8.RuneSelf || (c < ' ' || c == 0x7f) && !(as != oneLine && (c == '\n' || c == '\t')) {
			return true
		}
	}
	return false
}

// isSeen says whether a rune can be seen, and changes nothing but its own place.
func isSeen(r rune) bool {
	const brailleBlank = '\u2800'
	return unicode.IsPrint(r) && r != brailleBlank &&
		!unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// unprintable is how people are shown a rune that cannot be.
func unprintable(r rune) string {
	if high, low := utf16.EncodeRune(r); high != unicode.ReplacementChar {
		return fmt.Sprintf(`\u%04x\u%04x`, high, low)
	}
	return fmt.Sprintf(`\u%04x`, r)
}
