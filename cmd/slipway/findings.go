package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/slipway-gitops/slipway/engine/cleartext"
	"github.com/slipway-gitops/slipway/engine/design/rule"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// sources are a design's files by lines, each read once, with stars in the place
// of secrets: what is printed ends in logs that others read.
type sources struct {
	files fs.FS
	lines map[string][][]byte
}

func newSources(files fs.FS) *sources { return &sources{files, map[string][][]byte{}} }

// line is a line of a file, counted from 1; nil where there is none.
func (s *sources) line(file string, n int) []byte {
	if s.files == nil || n < 1 {
		return nil
	}
	lines, ok := s.lines[file]
	if !ok {
		content, _ := fs.ReadFile(s.files, file) // without it there is no excerpt
		lines = bytes.Split(cleartext.Masked(content), []byte("\n"))
		s.lines[file] = lines
	}
	if n > len(lines) {
		return nil
	}
	return lines[n-1]
}

// spot is a place in a file; line is 0 where only the file is known.
type spot struct {
	file      string
	line, col int
}

// spotOf reads file:line:col.
func spotOf(place string) spot {
	rest, col, ok := cutNumber(place)
	if !ok {
		return spot{file: place}
	}
	file, line, ok := cutNumber(rest)
	if !ok {
		return spot{file: place}
	}
	return spot{file, line, col}
}

func cutNumber(s string) (before string, n int, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return s, 0, false
	}
	n, err := strconv.Atoi(s[i+1:])
	return s[:i], n, err == nil
}

// findingsPrinter writes findings as text.
type findingsPrinter struct {
	w         *screen
	from      *sources
	bold, dim func(string) string
}

// printFindings writes findings as a good compiler does: what is wrong and
// where, the line, why it matters and what to do.
func printFindings(w *screen, files fs.FS, findings []site.Finding) {
	p := findingsPrinter{w, newSources(files), paint(w, text.Bold), paint(w, text.Faint)}
	for _, f := range findings {
		p.print(f)
	}
}

// isSecret says whether a finding is about what nobody should read, however its
// line looks.
func isSecret(f site.Finding) bool { return f.Code == "clear-secret" || cleartext.NamesSecret(f.Path) }

func (p findingsPrinter) print(f site.Finding) {
	place := ""
	if f.Place() != "" {
		place = p.bold(f.Place()) + ": "
	}
	colour := severityColour(p.w, f.Severity)
	p.w.Printf("%s%s: %s %s\n", place, colour(string(f.Severity)), f.Message, p.dim("["+f.Code+"]"))
	if !isSecret(f) {
		p.excerpt(spot{f.File, f.Line, f.Col}, colour)
	}
	if f.More > 0 {
		p.w.Printf("  %s\n", f.Others())
	}
	p.note("why", f.Why)
	p.note("do", f.Fix)
	for _, r := range f.Related {
		p.note("see", r)
		if !isSecret(f) {
			p.excerpt(spotOf(r), p.dim)
		}
	}
	p.w.Println()
}

func (p findingsPrinter) note(what, said string) {
	if said != "" {
		p.w.Printf("  %s %s\n", p.dim(fmt.Sprintf("%-4s", what+":")), said)
	}
}

// excerpt shows the line at a place and underlines what begins there.
func (p findingsPrinter) excerpt(at spot, colour func(string) string) {
	line := p.from.line(at.file, at.line)
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
	if text, marked := bytes.CutPrefix(line, []byte("\ufeff")); marked { // a byte order mark, which nobody sees
		line, at.col = text, at.col-len("\ufeff")
	}
	shown, before, width := clip(line, at.col)
	number := strconv.Itoa(at.line)
	p.w.Printf("  %s %s\n", p.dim(number+" │"), shown)
	p.w.Printf("  %s %s%s\n", p.dim(strings.Repeat(" ", len(number))+" │"),
		strings.Repeat(" ", before), colour(strings.Repeat("^", width)))
}

// maxExcerpt is how much of a line is shown, in columns; what stands before a
// mistake is shown for half of it at most.
const maxExcerpt = 120

// clip is a line of source, or the part of a long one around a column counted
// in bytes from 1; with it how wide that is which stands before the column, and
// that which begins there.
func clip(line []byte, col int) (shown string, before, width int) {
	col = min(max(col-1, 0), len(line))
	left, right := []rune(expand(string(line[:col]))), []rune(expand(string(line[col:])))
	if len(left)+len(right) > maxExcerpt && len(left) > maxExcerpt/2 {
		left = append([]rune("…"), left[len(left)-maxExcerpt/2:]...)
	}
	token := right[:extent(right)]
	if room := maxExcerpt - len(left); len(right) > room {
		right = append(right[:room:room], '…')
		token = token[:min(len(token), room)]
	}
	return string(left) + string(right), wide(left), max(1, wide(token))
}

// wide is how many columns text takes on a terminal.
func wide(s []rune) int { return text.StringWidthWithoutEscSequences(string(s)) }

// extent is how long that is which begins a piece of source: a text in quotes,
// or a word.
func extent(s []rune) int {
	if len(s) > 0 && s[0] == '"' {
		return quoted(s)
	}
	n := slices.IndexFunc(s, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(",:{}[]()\"", r) })
	if n < 0 {
		return len(s)
	}
	return max(n, min(1, len(s)))
}

// quoted is how long a text in quotes is, with its quotes.
func quoted(s []rune) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return 1
}

// expand is one line of source as it is shown, with two spaces for a tab.
func expand(line string) string { return site.Printable(strings.ReplaceAll(line, "	", "  ")) }

// severityColour colours what is said about a severity.
func severityColour(w *screen, s site.Severity) func(string) string {
	switch s {
	case site.SeverityError:
		return paint(w, text.FgRed, text.Bold)
	case site.SeverityWarning:
		return paint(w, text.FgYellow)
	}
	return paint(w, text.FgCyan)
}

// maxCodes is how many codes the summary names.
const maxCodes = 5

// printSummary says how many findings there are, of which severities, and which
// codes are seen most.
func printSummary(w *screen, c checked) {
	w.Println(verdict(c))
	if most := mostSeen(c.Findings); most != "" {
		w.Println(paint(w, text.Faint)(most))
	}
}

// verdict is the outcome in one line.
func verdict(c checked) string {
	counts := map[site.Severity]int{}
	for _, f := range c.Findings {
		counts[f.Severity]++
	}
	var parts []string
	for _, s := range []site.Severity{site.SeverityError, site.SeverityWarning, site.SeverityNote} {
		if n := counts[s]; n > 0 {
			parts = append(parts, say.Count(n, string(s)))
		}
	}
	if len(parts) == 0 {
		parts = []string{"no findings"}
	}
	if n := len(c.Suppressed); n > 0 {
		parts = append(parts, fmt.Sprintf("%d suppressed", n))
	}
	said := strings.Join(parts, ", ")
	if c.Nodes == 0 {
		return said
	}
	return fmt.Sprintf("%s of site %s checked, %s", say.Count(c.Nodes, "node"), c.Site, said)
}

// mostSeen names the codes that are seen most, and how to learn more of them.
func mostSeen(findings []site.Finding) string {
	counts := map[string]int{}
	for _, f := range findings {
		counts[f.Code]++
	}
	codes := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	switch {
	case len(codes) == 0:
		return ""
	case len(codes) == 1 && known(codes[0]):
		return "more about it: slipway rules " + codes[0]
	}
	var named []string
	for _, code := range codes[:min(len(codes), maxCodes)] {
		named = append(named, fmt.Sprintf("%s %d", code, counts[code]))
	}
	if len(codes) > maxCodes {
		named = append(named, fmt.Sprintf("%d more", len(codes)-maxCodes))
	}
	return "most seen: " + strings.Join(named, ", ") + "; more about one: slipway rules CODE"
}

// known says whether a code is that of a rule, and not of a site's own policy.
func known(code string) bool {
	return slices.ContainsFunc(rule.All(), func(r rule.Rule) bool { return r.Code == code })
}
