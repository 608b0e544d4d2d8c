package design

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"cuelang.org/go/cue/token"

	"github.com/slipway-gitops/slipway/engine/site"
)

// mistyped is a mistake that people make who come from other languages, by what it looks like.
type mistyped struct {
	// says matches the parser's message, and line the line that it is about; nil matches all.
	says, line *regexp.Regexp
	// at reports whether the parser stops at what line has matched, which is from one column to another.
	at func(col, from, to int) bool
	// message, why and fix tell it. %s is what the first group of line has matched.
	message, why, fix string
}

var (
	anywhere = func(int, int, int) bool { return true }
	within   = func(col, from, to int) bool { return from <= col && col <= to }
)

// mistakes are tried in order; the first that fits is told.
var mistakes = []mistyped{
	{line: regexp.MustCompile(`(?:^|[\s{,:])([A-Za-z_][A-Za-z0-9_.]*(?:-[A-Za-z0-9_.]+)+)\s*:`), at: within,
		message: "the name %s is without quotes", why: "Without quotes CUE reads the dash as a minus.", fix: `Write "%s":`},
	{line: regexp.MustCompile(`([A-Za-z_][A-Za-z0-9_]*|"[^"]*")\s*:\s*@unset\(`), at: anywhere,
		message: "@unset() stands where the value of %s is missing", why: "In CUE an attribute follows a value.", fix: "Write %s: _ @unset()"},
	{says: regexp.MustCompile(`^invalid attribute`), line: regexp.MustCompile(`@(unset)\b`), at: anywhere,
		message: "@%s is without parentheses", why: "In CUE an attribute has parentheses, also empty ones.", fix: "Write @%s()"},
	{line: regexp.MustCompile(`^\s*(-)\s+\S`), at: anywhere,
		message: "the line begins with a dash (%s), as an item of a YAML list does", why: "CUE reads the dash as a minus.", fix: yamlListFix},
	{line: regexp.MustCompile(`^\s*(#)(?:\s|$)`), at: anywhere,
		message: "%s begins no comment in CUE", why: "The rest of the line is read as fields.", fix: "Write // before a comment."},
	{says: regexp.MustCompile(`^illegal character`), line: regexp.MustCompile(`([“”„‘’])`), at: anywhere,
		message: "%s is a typographic quote", why: "CUE has the straight quote alone. Some editors and chats replace it.", fix: `Write " for every such quote of the line.`},
	{says: missingComma, line: regexp.MustCompile(`[:\[,]\s*(\d[\w.:/%-]*)`), at: within,
		message: "the value %s is without quotes", why: "It begins with a digit, so CUE reads a number, and what follows does not fit.", fix: `Write "%s".`},
	{says: missingComma, line: regexp.MustCompile(`("[^"]*"|[A-Za-z_]\w*)\s+\{`), at: within,
		message: "a colon is missing after %s", why: "In CUE a colon stands between the name of a field and its value, also before braces.", fix: "Write %s: {"},
	{says: regexp.MustCompile(`^missing ',' in struct`), at: anywhere,
		message: "a comma or the end of the line is missing here", why: "CUE has read a whole value, and the same line goes on.",
		fix: "Put a comma or a line break between two fields, and quotes around a text."},
	{says: regexp.MustCompile(`^missing ',' in list`), at: anywhere,
		message: "a comma is missing here", why: "CUE has read a whole item of the list, and the same line goes on.",
		fix: "Put a comma between two items, and quotes around a text."},
}

const yamlListFix = `Write a list in brackets, such as ["a", "b"].`

var missingComma = regexp.MustCompile(`^missing ','`)

// number matches what CUE reads as a number.
var number = regexp.MustCompile(`^\d+(\.\d+)?([KMGTP]i?)?$`)

// asMistake tells a parser's error in the words of the mistake that the text looks like. Without one, f stays as it is.
func asMistake(f site.Finding, src []byte, p token.Pos) site.Finding {
	if strings.HasSuffix(f.Message, "found 'EOF'") {
		return unclosed(f, src)
	}
	line := lineAt(src, p)
	for _, x := range mistakes {
		if x.says != nil && !x.says.MatchString(f.Message) {
			continue
		}
		part := ""
		if x.line != nil {
			if part = x.part(line, p.Column()-1); part == "" {
				continue
			}
		}
		fill := func(text string) string { return strings.ReplaceAll(text, "%s", part) }
		f.Message, f.Why, f.Fix = fill(x.message), fill(x.why), fill(x.fix)
		break
	}
	return f
}

// part returns what the mistake matches in a line, if that is where the parser stopped.
func (x mistyped) part(line string, col int) string {
	for _, at := range x.line.FindAllStringSubmatchIndex(line, -1) {
		if text := line[at[2]:at[3]]; x.at(col, at[2], at[1]) && !number.MatchString(text) {
			return text
		}
	}
	return ""
}

// unclosed says which bracket a file ends without.
func unclosed(f site.Finding, src []byte) site.Finding {
	at := openBracket(src)
	if at < 0 {
		return f
	}
	f.Message = fmt.Sprintf("the file ends, and the %c of line %d is not closed", src[at], 1+bytes.Count(src[:at], []byte("\n")))
	f.Fix = fmt.Sprintf("Write %c where it should end. The indentation may show where that is.", map[byte]byte{'{': '}', '[': ']', '(': ')'}[src[at]])
	return f
}

// openBracket returns the offset of the last bracket that is not closed, or -1.
func openBracket(src []byte) int {
	s := nesting{src: src, last: '\n'}
	var open []int
	for ; s.at < len(src); s.at++ {
		at, depth := s.at, s.depth
		if s.inText {
			s.readText()
		} else {
			s.readCode()
		}
		switch {
		case s.depth > depth:
			open = append(open, max(at, s.at))
		case s.depth < depth:
			open = open[:len(open)-1]
		}
	}
	if len(open) == 0 {
		return -1
	}
	return open[len(open)-1]
}

// imported are packages of CUE and of Slipway that a design may name without importing them.
var imported = map[string]string{
	"schema": "github.com/slipway-gitops/slipway/schema",
	"list":   "list", "strings": "strings", "regexp": "regexp", "net": "net", "math": "math", "time": "time", "strconv": "strconv",
	"json": "encoding/json", "yaml": "encoding/yaml", "base64": "encoding/base64", "hex": "encoding/hex", "sha256": "crypto/sha256",
}

// notImported tells that a name is that of a package which the file does not import. It returns false for other names.
func notImported(f site.Finding, name, after string) (site.Finding, bool) {
	path := imported[name]
	if path == "" || !strings.HasPrefix(after, name+".") {
		return f, false
	}
	f.Message = fmt.Sprintf("the file uses the package %s, and does not import it", name)
	f.Why = "In CUE each file imports the packages that it uses."
	f.Fix = fmt.Sprintf("Write import %s below the line with the package.", strconv.Quote(path))
	return f, true
}
