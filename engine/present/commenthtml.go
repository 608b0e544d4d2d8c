package present

import (
	"html"
	"net/url"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// A comment is Markdown that this package has written. What it uses of Markdown is little, and here that little is shown
// elsewhere: as HTML for a page, as text for a terminal. So the words of a plan are in one place. Everything that is not
// known markup is shown as text, whatever it looks like. A library for Markdown would let the tags through that GitHub's comments
// need for what is folded, and a second one would have to take out all others. In the tests such a library, as GitHub's reader,
// is what these pages are compared with (tests/markdown).

// CommentHTML returns a comment as HTML. Its heading is a heading of the second rank.
func CommentHTML(markdown string) string {
	var w commentPage
	for _, b := range blocksOf(markdown) {
		w.block(b)
	}
	w.lists(0)
	w.text.WriteString(strings.Repeat("</details>", w.open))
	return w.text.String()
}

// CommentText returns a comment as text for a terminal.
func CommentText(markdown string) string {
	var lines []string
	add := func(text string) { lines = append(lines, text) }
	for _, b := range blocksOf(markdown) {
		switch b.kind {
		case openBlock:
			add(plainText(b.lines[0]) + ":")
		case closeBlock:
			continue
		case quoteBlock:
			for _, line := range b.lines {
				add("! " + plainText(line))
			}
		case itemBlock:
			add(strings.Repeat("  ", b.depth) + b.mark + " " + plainText(b.lines[0]))
			continue // items are below each other
		case codeBlock:
			for _, line := range b.lines {
				add("    " + line)
			}
		case tableBlock:
			for _, row := range b.rows[1:] {
				cells := make([]string, len(row))
				for i, cell := range row {
					if cells[i] = plainText(cell); i > 0 && i < len(b.rows[0]) {
						cells[i] = plainText(b.rows[0][i]) + ": " + cells[i]
					}
				}
				add("  " + strings.Join(cells, "; "))
			}
		default:
			for _, line := range b.lines {
				add(plainText(line))
			}
		}
		add("")
	}
	return strings.TrimSpace(site.PrintableLines(strings.Join(lines, "\n"))) + "\n"
}

// blockKind is what a part of a comment is.
type blockKind int

const (
	paragraph blockKind = iota
	headingBlock
	quoteBlock
	itemBlock
	tableBlock
	codeBlock
	openBlock  // of what is folded, with its summary
	closeBlock // of that
	noteBlock  // in small letters
)

// block is a part of a comment.
type block struct {
	kind  blockKind
	lines []string   // Markdown, but for code
	rows  [][]string // of a table, the heading first
	depth int        // of an item
	mark  string     // of an item: "-", or its number with a dot
}

// blocksOf are the parts of a comment.
func blocksOf(markdown string) (all []block) {
	lines := strings.Split(strings.ReplaceAll(markdown, "\r\n", "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		mark, depth, isItem := itemOf(line)
		switch {
		case strings.TrimSpace(line) == "":
		case strings.HasPrefix(line, "```"):
			var b block
			b, i = codeOf(lines, i)
			all = append(all, b)
		case strings.HasPrefix(line, "### "):
			all = append(all, block{kind: headingBlock, lines: []string{line[len("### "):]}})
		case strings.HasPrefix(line, "<details><summary>"):
			all = append(all, block{kind: openBlock, lines: []string{strings.TrimSuffix(strings.TrimPrefix(line, "<details><summary>"), "</summary>")}})
		case line == "</details>":
			all = append(all, block{kind: closeBlock})
		case strings.HasPrefix(line, "<sub>") && strings.HasSuffix(line, "</sub>"):
			all = append(all, block{kind: noteBlock, lines: []string{strings.TrimSuffix(strings.TrimPrefix(line, "<sub>"), "</sub>")}})
		case strings.HasPrefix(line, "> "):
			if text := line[len("> "):]; text != "[!CAUTION]" {
				all = joined(all, quoteBlock, text, i > 0 && strings.HasPrefix(lines[i-1], "> ") && lines[i-1] != "> [!CAUTION]")
			}
		case strings.HasPrefix(line, "| "):
			if !strings.HasPrefix(line, "|---") {
				all = rowed(all, cellsOf(line), i > 0 && strings.HasPrefix(lines[i-1], "|"))
			}
		case strings.HasPrefix(line, "|---"):
		case isItem:
			all = append(all, block{kind: itemBlock, lines: []string{strings.TrimLeft(line, " ")[len(mark)+1:]}, depth: depth, mark: mark})
		default:
			all = joined(all, paragraph, line, i > 0 && strings.TrimSpace(lines[i-1]) != "" && len(all) > 0 && all[len(all)-1].kind == paragraph)
		}
	}
	return all
}

// joined adds a line to the last part, or begins another.
func joined(all []block, kind blockKind, line string, same bool) []block {
	if n := len(all) - 1; same && n >= 0 && all[n].kind == kind {
		all[n].lines = append(all[n].lines, line)
		return all
	}
	return append(all, block{kind: kind, lines: []string{line}})
}

func rowed(all []block, cells []string, same bool) []block {
	if n := len(all) - 1; same && n >= 0 && all[n].kind == tableBlock {
		all[n].rows = append(all[n].rows, cells)
		return all
	}
	return append(all, block{kind: tableBlock, rows: [][]string{cells}})
}

// cellsOf are the cells of a row. In what others say there is no "|".
func cellsOf(line string) []string {
	cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

// itemOf says whether a line is an item of a list, how deep, and what it begins with.
func itemOf(line string) (mark string, depth int, is bool) {
	text := strings.TrimLeft(line, " ")
	depth = (len(line) - len(text)) / 2
	mark, _, is = strings.Cut(text, " ")
	if !is || mark == "" {
		return "", 0, false
	}
	number := strings.TrimSuffix(mark, ".")
	isNumber := number != mark && number != "" && strings.Trim(number, "0123456789") == ""
	return mark, depth, mark == "-" || isNumber
}

// codeOf is a block of code, and its last line.
func codeOf(lines []string, from int) (b block, to int) {
	fence := lines[from][:len(lines[from])-len(strings.TrimLeft(lines[from], "`"))]
	b.kind = codeBlock
	for to = from + 1; to < len(lines) && lines[to] != fence; to++ {
		b.lines = append(b.lines, lines[to])
	}
	return b, to
}

// commentPage is a comment on its way to a page.
type commentPage struct {
	text  strings.Builder
	depth int // of lists that are open
	open  int // parts that are folded, and open
}

// item begins an item of a list, within the items and lists that are open.
func (w *commentPage) item(depth int, numbered bool) {
	w.lists(depth + 1)
	if w.depth == depth+1 {
		w.text.WriteString("</li>")
	}
	for w.depth <= depth {
		w.text.WriteString(map[bool]string{false: "<ul>", true: `<ul class="numbered">`}[numbered])
		if w.depth++; w.depth <= depth {
			w.text.WriteString("<li>")
		}
	}
	w.text.WriteString("<li>")
}

// lists closes lists until so many are open.
func (w *commentPage) lists(depth int) {
	for ; w.depth > depth; w.depth-- {
		w.text.WriteString("</li></ul>")
	}
}

func (w *commentPage) block(b block) {
	if b.kind == itemBlock {
		w.item(min(b.depth, 3), b.mark != "-")
		if b.mark != "-" {
			w.text.WriteString(html.EscapeString(b.mark) + " ")
		}
		w.text.WriteString(inHTML(b.lines[0]))
		return
	}
	w.lists(0)
	switch b.kind {
	case headingBlock:
		w.text.WriteString("<h2>" + inHTML(b.lines[0]) + "</h2>")
	case quoteBlock:
		w.text.WriteString(`<div class="verdict bad"><p>` + linesInHTML(b.lines) + "</p></div>")
	case noteBlock:
		w.text.WriteString(`<p class="dim">` + linesInHTML(b.lines) + "</p>")
	case codeBlock:
		w.text.WriteString("<pre>" + html.EscapeString(strings.Join(b.lines, "\n")) + "</pre>")
	case tableBlock:
		w.table(b.rows)
	case openBlock:
		w.open++
		w.text.WriteString("<details><summary>" + inHTML(b.lines[0]) + "</summary>")
	case closeBlock:
		if w.open > 0 {
			w.open--
			w.text.WriteString("</details>")
		}
	default:
		w.text.WriteString("<p>" + linesInHTML(b.lines) + "</p>")
	}
}

func (w *commentPage) table(rows [][]string) {
	w.text.WriteString(`<table class="comment"><thead><tr>`)
	for _, cell := range rows[0] {
		w.text.WriteString("<th>" + inHTML(cell) + "</th>")
	}
	w.text.WriteString("</tr></thead><tbody>")
	for _, row := range rows[1:] {
		w.text.WriteString("<tr>")
		for i, cell := range row {
			label := ""
			if i > 0 && i < len(rows[0]) {
				label = ` data-l="` + html.EscapeString(plainText(rows[0][i])) + `"`
			}
			w.text.WriteString("<td" + label + ">" + inHTML(cell) + "</td>")
		}
		w.text.WriteString("</tr>")
	}
	w.text.WriteString("</tbody></table>")
}

func linesInHTML(lines []string) string {
	var b strings.Builder
	for i, line := range lines {
		if i > 0 {
			b.WriteString("<br>")
		}
		b.WriteString(inHTML(line))
	}
	return b.String()
}

// inHTML is a line of a comment as HTML.
func inHTML(line string) string {
	var b strings.Builder
	bold := false
	spansOf(line, func(s span) {
		text := html.EscapeString(s.text)
		switch {
		case s.bold && bold:
			b.WriteString("</b>")
			bold = false
		case s.bold:
			b.WriteString("<b>")
			bold = true
		case s.code:
			b.WriteString("<code>" + text + "</code>")
		case s.link != "":
			b.WriteString(`<a href="` + html.EscapeString(s.link) + `" rel="noreferrer">` + text + "</a>")
		default:
			b.WriteString(text)
		}
	})
	if bold {
		b.WriteString("</b>")
	}
	return b.String()
}

// plainText is a line of a comment as text.
func plainText(line string) string {
	var b strings.Builder
	spansOf(line, func(s span) { b.WriteString(s.text) })
	return b.String()
}

// span is a part of a line: text, or where bold letters begin or end.
type span struct {
	text string
	bold bool
	code bool
	link string // to http or https
}

// spansOf calls show with the parts of a line.
func spansOf(line string, show func(span)) {
	text := func(s string) {
		if s != "" {
			show(span{text: site.PlainLine(s)})
		}
	}
	from := 0
	for i := 0; i < len(line); {
		s, size := spanAt(line[i:])
		if size == 0 {
			i++
			continue
		}
		text(line[from:i])
		show(s)
		i += size
		from = i
	}
	text(line[from:])
}

// spanAt is the markup that a text begins with, and its length; 0 for none.
func spanAt(text string) (s span, size int) {
	switch {
	case strings.HasPrefix(text, "**"):
		return span{bold: true}, len("**")
	case strings.HasPrefix(text, "<code>"):
		code, _, ends := strings.Cut(text[len("<code>"):], "</code>")
		if ends {
			return span{text: site.PlainLine(code), code: true}, len("<code>") + len(code) + len("</code>")
		}
	case text[0] == '`':
		code, _, ends := strings.Cut(text[1:], "`")
		if ends && code != "" {
			return span{text: code, code: true}, len(code) + 2 // as it is: a code span knows no entities
		}
	case text[0] == '[':
		shown, rest, opens := strings.Cut(text[1:], "](")
		to, _, ends := strings.Cut(rest, ")")
		u, err := url.Parse(to)
		if opens && ends && err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" {
			return span{text: site.PlainLine(shown), link: to}, len(shown) + len(to) + len("[]()")
		}
	}
	return span{}, 0
}
