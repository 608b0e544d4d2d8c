package watch

import (
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"github.com/slipway-gitops/slipway/engine/site"
)

// longest is how many bytes of a foreign text are looked at: enough for every sentence of Slipway.
const longest = 4000

// clean is foreign text as one line that is safe to show, and bounded.
func clean(text string) string {
	if len(text) > longest {
		end := longest
		for end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end] + " … (cut)"
	}
	return site.Printable(text)
}

// fit is a line that is as wide as that many cells at most. Nothing is hidden without a sign.
func fit(line string, width int) string {
	if width < 1 {
		return ""
	}
	return ansi.Truncate(line, width, "…")
}

// pad is a line of exactly that many cells.
func pad(line string, width int) string {
	line = fit(line, width)
	return line + strings.Repeat(" ", max(0, width-ansi.StringWidth(line)))
}

// wrapped is a line in as many as it takes, broken at spaces. A word is broken only where it is longer than a line: half
// a serial number must not look like a whole one.
func wrapped(line string, width int) (lines []string) {
	if width < 1 || ansi.StringWidth(line) <= width {
		return []string{line}
	}
	begun, used := "", 0
	for word := range strings.SplitSeq(line, " ") {
		wide := ansi.StringWidth(word)
		if used > 0 && used+1+wide > width {
			lines = append(lines, begun)
			begun, used = "", 0
		}
		if used > 0 {
			begun, used = begun+" ", used+1
		}
		if wide > width {
			parts := strings.Split(ansi.Hardwrap(word, width, true), "\n")
			lines = append(lines, parts[:len(parts)-1]...)
			word = parts[len(parts)-1]
			wide = ansi.StringWidth(word)
		}
		begun, used = begun+word, used+wide
	}
	return append(lines, begun)
}

// ink colours text where the user wants colours. Every state has its word too, so that nothing is said by colour alone.
type ink bool

// The colours, as parameters of SGR (ECMA-48, 8.3.117).
const (
	bold    = "1"
	dim     = "2"
	reverse = "7"
	red     = "31"
	green   = "32"
	yellow  = "33"
	magenta = "35"
	cyan    = "36"
)

func (i ink) in(code, text string) string {
	if !bool(i) || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// colourOf is the colour of a state, as the other commands have it.
func colourOf(s site.State) string {
	switch s {
	case site.InSync:
		return green
	case site.Progressing:
		return cyan
	case site.Stalled, site.Foreign:
		return red
	case site.Blocked, site.Retrying, site.Paused:
		return yellow
	}
	return dim
}

// sheet is lines that grow, each wrapped to a width.
type sheet struct {
	ink
	width int
	lines []string
}

// add adds a line of ours, which may have colours.
func (s *sheet) add(line string) { s.lines = append(s.lines, fit(line, s.width)) }

// text adds a text, wrapped and never cut.
func (s *sheet) text(text string) {
	for _, line := range wrapped(site.Printable(text), s.width) {
		s.add(line)
	}
}

// label is how wide the column of labels is.
const label = 12

// row adds a labelled foreign text, wrapped; nothing for no text.
func (s *sheet) row(name, colour, text string) {
	if text == "" {
		return
	}
	for i, line := range wrapped(clean(text), max(1, s.width-label)) {
		head := ""
		if i == 0 {
			head = clean(name)
		}
		s.add(pad(head, label) + s.in(colour, line))
	}
}

// item adds a foreign text as an item of a list, wrapped.
func (s *sheet) item(mark, text string) { s.whole(mark, clean(text)) }

// whole adds a text as an item of a list, wrapped and never cut.
func (s *sheet) whole(mark, text string) {
	for i, line := range wrapped(site.Printable(text), max(1, s.width-4)) {
		if i == 0 {
			s.add(pad(mark, 2) + line)
			continue
		}
		s.add("    " + line)
	}
}

// title adds a heading, with an empty line before it.
func (s *sheet) title(text string) {
	if len(s.lines) > 0 {
		s.add("")
	}
	s.add(s.in(bold, text))
}
