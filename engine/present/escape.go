package present

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/slipway-gitops/slipway/engine/site"
)

// longestText is how many characters of a foreign text are shown in Markdown.
const longestText = 400

// special are the characters that CommonMark, HTML, and the Markdown of GitHub
// and GitLab interpret within a line. Written as entities they are only text
// (CommonMark 6.2: an entity never stands for structure). Foreign text never
// begins a line, but it may begin a list item, where more characters are
// special. References mention people, issues and the like. Forges look for them
// in the rendered text, so a zero-width space after them prevents a mention.
const (
	special    = "\\`*_[]<>|:"
	references = "@#!&~$"
)

// escape returns text for a line of Markdown or HTML. It trims spaces at both
// ends, because bold text cannot begin or end with one (CommonMark 6.4).
func escape(s string) string { return escaped(strings.TrimSpace(shorten(site.Printable(s))), true) }

// literal returns a value as code, where nobody is mentioned and nothing linked.
func literal(s string) string {
	return "<code>" + escaped(shorten(site.Printable(s)), false) + "</code>"
}

// escaped escapes a clean text. Shown text, unlike code, also needs protection
// from what forges find in it: ":name:" for an emoji, "GH-7" for an issue.
func escaped(s string, shown bool) string {
	var b strings.Builder
	runes := []rune(s)
	for i, r := range runes {
		next := ' '
		if i+1 < len(runes) {
			next = runes[i+1]
		}
		switch {
		case strings.ContainsRune(references, r):
			fmt.Fprintf(&b, "&#%d;&#8203;", r)
		case r == ':' && next == ' ':
			b.WriteRune(r)
		case r == ':' && shown:
			b.WriteString("&#58;&#8203;")
		case r == '-' && shown && unicode.IsDigit(next) && i >= 2 && strings.EqualFold(string(runes[i-2:i]), "gh"):
			b.WriteString("-&#8203;")
		case strings.ContainsRune(special, r), begins(runes[:i+1], next), r == '.' && i >= 3 && strings.EqualFold(string(runes[i-3:i]), "www"):
			fmt.Fprintf(&b, "&#%d;", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// begins reports whether a text, given the next rune, would begin a list item
// or a thematic break (CommonMark 4.1 and 5.2).
func begins(text []rune, next rune) bool {
	last := len(text) - 1
	switch text[last] {
	case '-':
		return last == 0
	case '+':
		return last == 0 && next == ' '
	case '.', ')':
		return last > 0 && next == ' ' && !slices.ContainsFunc(text[:last], func(r rune) bool { return r < '0' || r > '9' })
	}
	return false
}

// fenced returns printable lines as a code block. Its fence is longer than any
// run of backticks in the text, so nothing ends the block early (CommonMark 4.5).
// A last line counts the lines beyond mostLines.
func fenced(language, text string) string {
	const mostLines = 200
	run, longest := 0, 2
	for _, r := range text {
		if run++; r != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n")+"\n", "\n")
	if more := len(lines) - 1 - mostLines; more > 0 {
		lines = append(lines[:mostLines], fmt.Sprintf("… %d more lines\n", more))
	}
	fence := strings.Repeat("`", longest+1)
	return fence + language + "\n" + strings.Join(lines, "") + fence + "\n"
}

// shorten truncates a long text.
func shorten(s string) string { return site.Shorten(s, longestText) }

// linked returns a text as a link to a line of a file, if it is known which
// pages show files.
func linked(text, pages, file string, line int) string {
	if !isShown(pages, file) {
		return escape(text)
	}
	return "[" + escape(text) + "](" + lineAddress(pages, file, line) + ")"
}

// LineAddress is where a forge shows what an origin names, below the pages of its revision; empty where it shows nothing.
func LineAddress(pages string, o site.Origin) string {
	if o.IsZero() || !isShown(pages, o.File.Value()) {
		return ""
	}
	return lineAddress(pages, o.File.Value(), o.Line)
}

// isShown says whether pages show a file: those of the schema are in the program.
func isShown(pages, file string) bool {
	return pages != "" && file != "" && len(file) <= longestText && !strings.HasPrefix(file, "schema/")
}

func lineAddress(pages, file string, line int) string {
	parts := strings.Split(site.Printable(file), "/")
	for i, part := range parts {
		parts[i] = strictly.Replace(url.PathEscape(part))
	}
	to := strings.TrimSuffix(pages, "/") + "/" + strings.Join(parts, "/")
	if line > 0 {
		to += fmt.Sprintf("#L%d", line)
	}
	return to
}

// strictly escapes characters that are valid in a URL path but special to
// Markdown or a forge.
var strictly = strings.NewReplacer("&", "%26", "@", "%40", "$", "%24", ":", "%3A", "~", "%7E", "_", "%5F", "+", "%2B", "=", "%3D", ";", "%3B", ",", "%2C")

// MarkdownText returns foreign text for a line or a cell of Markdown: printable, bounded, only text, and mentioning nobody.
func MarkdownText(s string) string { return escape(s) }
