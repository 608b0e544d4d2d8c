package design

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"

	"github.com/slipway-gitops/slipway/engine/site"
)

// maxNesting is how deep braces, brackets and parentheses of a file may nest. CUE
// takes a second for each ten thousand levels, and memory too.
const maxNesting = 200

// maxOperators is how many operators, calls and selectors an expression may have. CUE
// nests each in the one before, and takes half a minute for ten thousand.
const maxOperators = 1000

// byteOrderMark is what some editors write at the beginning of a file. It means nothing.
const byteOrderMark = "\ufeff"

// inspect finds whatever makes the text of a file differ from its looks, or
// unreadable for CUE. It says so in one sentence, where CUE has several or none.
func inspect(name string, src []byte) []site.Finding {
	var found []site.Finding
	at := func(offset int, f site.Finding) {
		f.Severity, f.File = site.SeverityError, name
		f.Line, f.Col = lineAndColumn(src, offset)
		found = append(found, f)
	}
	if offset := conflictMarker(src); offset >= 0 {
		at(offset, site.Finding{
			Code: "merge-conflict", Message: "the file holds an unsolved merge conflict of Git",
			Why: "The file says two things at once, and Git could not decide between them.",
			Fix: "Keep one of the two parts, or both, and remove the lines <<<<<<<, ======= and >>>>>>>.",
		})
	}
	if offset := yamlMark(src); offset >= 0 {
		at(offset, site.Finding{
			Code: "syntax", Message: "the line \"---\" begins a document of YAML",
			Why: "The file is read as CUE, which has no such line.",
			Fix: "Remove the line. Data files may be YAML; they end in .yaml.",
		})
	}
	for offset, r := range string(src) {
		if what := hiddenRunes[r]; what != "" && (offset > 0 || r != '\ufeff') {
			at(offset, site.Finding{
				Code: "hidden-character", Message: fmt.Sprintf("the line holds U+%04X, %s", r, what),
				Why: "It is invisible and can make a line look different from what it means, so a reviewer may approve something else.",
				Fix: fmt.Sprintf("Remove it, or write it as \"\\u%04X\" in the quotes if it is meant.", r),
			})
			break
		}
	}
	if offset, r := posing(src); offset >= 0 {
		at(offset, site.Finding{
			Code: "posing-letter", Message: fmt.Sprintf("a word has %q (U+%04X), which looks like a Latin letter but is not, among Latin letters", r, r),
			Why: "The word differs from what it looks like, so a reviewer may approve something else, and a search for it finds nothing.",
			Fix: "Write the word in letters of one script.",
		})
	}
	return append(found, depth(name, src)...)
}

// depth finds the place at which a file is nested too deeply for CUE to read it.
func depth(name string, src []byte) []site.Finding {
	offset, operators := tooDeep(src)
	if offset < 0 {
		return nil
	}
	f := site.Finding{
		Code: "too-deep", Severity: site.SeverityError, File: name,
		Message: fmt.Sprintf("fields, brackets or parentheses are nested more than %d levels deep", maxNesting),
		Why:     "Evaluation is limited so that no commit can stop the daemon.",
		Fix:     "Use fewer levels, or look for what generates the file.",
	}
	if operators {
		f.Code = "too-many-operators"
		f.Message = fmt.Sprintf("the expression has more than %d operators, calls and selectors", maxOperators)
		f.Fix = "Divide it into several fields, or look for what generates the file."
	}
	f.Line, f.Col = lineAndColumn(src, offset)
	return []site.Finding{f}
}

// lineAndColumn returns the place of an offset, both from 1.
func lineAndColumn(src []byte, offset int) (line, col int) {
	return 1 + bytes.Count(src[:offset], []byte("\n")), offset - bytes.LastIndexByte(src[:offset], '\n')
}

// hiddenRunes are characters that are invisible and change how other characters look.
var hiddenRunes = map[rune]string{
	'\u00ad': "a soft hyphen",
	'\u061c': "a direction mark",
	'\u180e': "a zero-width separator",
	'\u200b': "a zero-width space",
	'\u200c': "a zero-width mark that separates letters",
	'\u200d': "a zero-width mark that joins letters",
	'\u200e': "a direction mark",
	'\u200f': "a direction mark",
	'\u202a': "a direction mark",
	'\u202b': "a direction mark",
	'\u202c': "a direction mark",
	'\u202d': "a mark that overrides the direction of the text",
	'\u202e': "a mark that overrides the direction of the text",
	'\u2060': "a zero-width mark that joins words",
	'\u2061': "an invisible operator",
	'\u2062': "an invisible operator",
	'\u2063': "an invisible operator",
	'\u2064': "an invisible operator",
	'\u2066': "a direction mark",
	'\u2067': "a direction mark",
	'\u2068': "a direction mark",
	'\u2069': "a direction mark",
	'\ufeff': "a byte order mark within the text",
}

// conflictMarker returns the offset of Git's first conflict marker, or -1. A line of
// = alone does not count, only one between the others.
func conflictMarker(src []byte) int {
	offset, begun := 0, -1
	for line := range bytes.Lines(src) {
		switch {
		case begun < 0 && bytes.HasPrefix(line, []byte("<<<<<<< ")):
			begun = offset
		case begun >= 0 && bytes.HasPrefix(line, []byte(">>>>>>> ")):
			return begun
		}
		offset += len(line)
	}
	return begun
}

// yamlMark returns the offset of the line `---` that begins a YAML document at the
// start of a file, or -1.
func yamlMark(src []byte) int {
	offset := 0
	for line := range bytes.Lines(src) {
		switch text := bytes.TrimSpace(bytes.TrimPrefix(line, []byte(byteOrderMark))); {
		case bytes.Equal(text, []byte("---")):
			return offset
		case len(text) > 0 && !bytes.HasPrefix(text, []byte("//")):
			return -1
		}
		offset += len(line)
	}
	return -1
}

// tooDeep returns the offset at which a text is nested too deeply, or -1, and whether
// it is so by operators. What is in quotes and in comments does not count, but what is
// in interpolations does.
func tooDeep(src []byte) (offset int, operators bool) {
	s := nesting{src: src, last: '\n'}
	for ; s.at < len(src); s.at++ {
		if s.inText {
			s.readText()
		} else if s.readCode() {
			return s.at, s.operators[s.depth] > maxOperators
		}
	}
	return -1, false
}

// nesting is how deep a text is nested at a position.
type nesting struct {
	src   []byte
	at    int
	depth int  // of braces, brackets and parentheses
	chain int  // labels that follow each other without braces: a: b: c: 1
	last  byte // the last character that was not space
	// operators are those of the present expression, by the depth of brackets.
	operators [maxNesting + 2]int
	quotes    []quote // around the position, such as in `"\(x["a"])"`
	inText    bool    // the position is in the last of quotes, and not in an interpolation
}

// quote is a pair of quotes that is open.
type quote struct {
	closer, escape string
	depth          int // outside of it
}

// isOneLine reports whether the quote ends with its line.
func (q *quote) isOneLine() bool { return !strings.Contains(q.closer, strings.Repeat(q.closer[:1], 3)) }

// starts reports whether a text is at the position.
func (s *nesting) starts(text string) bool { return bytes.HasPrefix(s.src[s.at:], []byte(text)) }

// readText reads a character within quotes.
func (s *nesting) readText() {
	q := &s.quotes[len(s.quotes)-1]
	switch {
	case s.starts(q.escape + "("):
		s.at += len(q.escape)
		s.inText, q.depth = false, s.depth
		s.open()
	case s.starts(q.escape):
		s.at += len(q.escape)
	case s.starts(q.closer), s.src[s.at] == '\n' && q.isOneLine():
		s.at += len(q.closer) - 1
		s.quotes = s.quotes[:len(s.quotes)-1]
		s.inText = false
	}
}

// readCode reads a character outside of quotes, and reports whether it goes too deep.
func (s *nesting) readCode() bool {
	c := s.src[s.at]
	if s.starts("//") {
		s.skipComment()
		return false
	}
	if s.countOperators(c); s.operators[s.depth] > maxOperators {
		return true
	}
	if s.countLabels(c); s.chain > maxNesting {
		return true
	}
	switch c {
	case '"', '\'':
		s.openQuote()
	case '{', '[', '(':
		s.open()
		return s.depth > maxNesting
	case '}', ']', ')':
		s.depth = max(0, s.depth-1)
		if n := len(s.quotes); n > 0 && c == ')' && s.depth == s.quotes[n-1].depth {
			s.inText = true
		}
	}
	return false
}

// open goes into brackets.
func (s *nesting) open() {
	s.depth = min(s.depth+1, maxNesting+1)
	s.operators[s.depth] = 0
}

// operators are the characters that operators and selectors begin with.
const operators = "+-*/&|=<>!."

// goesOn reports whether what comes next belongs to the same expression or label, also
// after line breaks.
func (s *nesting) goesOn() bool { return s.last == ':' || strings.IndexByte(operators, s.last) >= 0 }

// countOperators counts the operators, calls and selectors of the present expression. It
// goes by the last character, so it is called before countLabels.
func (s *nesting) countOperators(c byte) {
	n := &s.operators[s.depth]
	switch {
	case c == ',', c == ':', c == '\n' && !s.goesOn():
		*n = 0
	case c == '=' && s.at > 0 && strings.IndexByte("=<>!", s.src[s.at-1]) >= 0,
		(c == '&' || c == '|') && s.at > 0 && s.src[s.at-1] == c: // the second character of an operator
	case c == '(', c == '[', strings.IndexByte(operators, c) >= 0:
		*n++
	}
}

// countLabels counts the labels that follow each other without braces.
func (s *nesting) countLabels(c byte) {
	switch {
	case c == ':':
		s.chain++
	case c == ',', c == '\n' && s.last != ':', c == '{', c == '}', c == '[', c == ']':
		s.chain = 0
	}
	if c != ' ' && c != '\t' && c != '\r' && !(c == '\n' && s.goesOn()) {
		s.last = c
	}
}

// skipComment goes to the last character of the comment that begins here.
func (s *nesting) skipComment() {
	end := bytes.IndexByte(s.src[s.at:], '\n')
	if end < 0 {
		end = len(s.src) - s.at
	}
	s.at += end - 1
}

// openQuote begins a text: in one or three quotes, with # before them or without.
func (s *nesting) openQuote() {
	hashes := 0
	for hashes < s.at && s.src[s.at-1-hashes] == '#' {
		hashes++
	}
	mark, raw := string(s.src[s.at]), strings.Repeat("#", hashes)
	if three := strings.Repeat(mark, 3); s.starts(three) {
		mark = three
	}
	s.quotes, s.inText = append(s.quotes, quote{mark + raw, "\\" + raw, s.depth}), true
	s.at += len(mark) - 1
}

// poses are Cyrillic and Greek letters that look like Latin ones.
const poses = "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0405\u0406\u0408" +
	"\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0455\u0456\u0458\u0501\u051b\u051d" +
	"\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf\u03bd\u03c1\u03b1\u03b9"

// posing returns the first letter that looks Latin in a word with Latin letters, and
// its offset; -1 without one.
func posing(src []byte) (int, rune) {
	latin, at, which := false, -1, rune(0)
	for offset, r := range string(src) {
		switch {
		case !unicode.IsLetter(r):
			latin, at = false, -1
			continue
		case unicode.Is(unicode.Latin, r):
			latin = true
		case at < 0 && strings.ContainsRune(poses, r):
			at, which = offset, r
		}
		if latin && at >= 0 {
			return at, which
		}
	}
	return -1, 0
}
