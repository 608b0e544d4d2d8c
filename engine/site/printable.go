package site

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text from others (the design, commits, BMCs, hypervisors, forges) may contain
// runes that control a terminal, reorder the text around them, or are invisible.
// People see such a rune by its number, in the form that is also valid JSON:
// \u202e.

// Printable returns text from others as one line that is safe to show. White
// space becomes spaces, so that nobody can forge a line.
func Printable(text string) string { return printable(text, oneLine) }

// Shorten returns at most that many characters of a text. A shortened text ends with "…". Where the
// bound is one of bytes (what a service accepts), of cells (a terminal) or of width (a picture), those who
// have it shorten by themselves; so do the programs inside machines, which import nothing of this package.
func Shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	n, end := 0, 0
	for i := range text {
		if n == most-1 {
			end = i
		}
		if n++; n > most {
			return text[:end] + "…"
		}
	}
	return text
}

// PrintableLines is Printable for text with its own lines and tabs.
func PrintableLines(text string) string { return printable(text, severalLines) }

// PrintableJSON returns equivalent JSON with invisible runes escaped, which
// encoding/json leaves in strings.
func PrintableJSON(text []byte) []byte { return []byte(printable(string(text), inJSON)) }

// form is the form that printable produces.
type form int

const (
	oneLine form = iota
	severalLines
	inJSON // nothing may be lost
)

// mostMarks is how many marks may stand over one letter. More would cover other
// lines.
const mostMarks = 4

func printable(text string, as form) string {
	if !needsChange(text, as) {
		return text
	}
	var b strings.Builder
	b.Grow(len(text))
	before, marks := ' ', 0
	for i := 0; i < len(text); {
		if plain := plainUntil(text, i); plain > i { // nearly all of a page
			b.WriteString(text[i:plain])
			before, marks, i = rune(text[plain-1]), 0, plain
			continue
		}
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
		case unicode.IsSpace(r) && unicode.IsControl(r): // a run of these becomes one space
			if !unicode.IsSpace(before) || !unicode.IsControl(before) {
				b.WriteByte(' ')
			}
		case unicode.IsSpace(r):
			b.WriteByte(' ')
		case (r == '\ufe0e' || r == '\ufe0f') && unicode.Is(unicode.So, before):
			// drop it: it only selects how a symbol looks
		case !isSeen(r) || marks > mostMarks:
			b.WriteString(unprintable(r))
		default:
			b.WriteRune(r)
		}
		before, i = r, i+size
	}
	return b.String()
}

// plainUntil is where the characters of ASCII end that nothing is done to.
func plainUntil(text string, from int) int {
	for from < len(text) && text[from] >= ' ' && text[from] < 0x7f {
		from++
	}
	return from
}

// needsChange is a fast path: most text is printable as it is.
func needsChange(text string, as form) bool {
	for i := range len(text) {
		if c := text[i]; c >= utf8.RuneSelf || (c < ' ' || c == 0x7f) && !(as != oneLine && (c == '\n' || c == '\t')) {
			return true
		}
	}
	return false
}

// isSeen reports whether a rune is visible and affects only its own place.
func isSeen(r rune) bool {
	const brailleBlank = '\u2800'
	return unicode.IsPrint(r) && r != brailleBlank &&
		!unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// unprintable returns the escaped form of a rune that cannot be shown.
func unprintable(r rune) string {
	if high, low := utf16.EncodeRune(r); high != unicode.ReplacementChar {
		return fmt.Sprintf(`\u%04x\u%04x`, high, low)
	}
	return fmt.Sprintf(`\u%04x`, r)
}
