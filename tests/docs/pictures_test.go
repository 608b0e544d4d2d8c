package docs

import (
	"fmt"
	"html"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"
	dom "golang.org/x/net/html"

	"github.com/slipway-gitops/slipway/tests/markdown"
)

// pictureCmd holds a picture of what a command prints: picture FILE TITLE CMD…
// What is behind a | chooses lines, and is not shown.
func pictureCmd(ts *testscript.TestScript, _ bool, args []string) {
	out, err := readerOf(ts).run(ts, strings.Join(args[2:], " "))
	ts.Check(err)
	command, _, _ := strings.Cut(strings.Join(args[2:], " "), " |")
	holdPicture(ts, args[0], terminalPicture(args[1], "$ "+command, out))
}

// drawsCmd holds a picture of the comment on the open pull request: draws FILE TITLE
func drawsCmd(ts *testscript.TestScript, _ bool, args []string) {
	for _, c := range readerOf(ts).forge.pull.Comments() {
		if c.Author() == machineAccount {
			holdPicture(ts, args[0], commentPicture(args[1], c.Body()))
			return
		}
	}
	ts.Fatalf("there is no comment")
}

// holdPicture compares a picture with its file, as output is compared with a page.
func holdPicture(ts *testscript.TestScript, file, is string) {
	file = filepath.Join(folder, file)
	was, err := os.ReadFile(file)
	if err == nil && (bound{}).compares(strings.Split(strings.TrimRight(string(was), "\n"), "\n"), is) {
		return
	}
	if !*update {
		ts.Fatalf("%s is not what is shown now (-update writes it): %v\n%s", file, err, is)
	}
	ts.Check(os.WriteFile(file, []byte(is), 0o644))
}

// drawing is a picture under way.
type drawing struct {
	strings.Builder
	y int // the base line of the last text
}

// The measures of pictures, in pixels: narrow, so that they can be read on a phone.
const (
	pictureWidth = 524
	margin       = 16
	lineHeight   = 19
	gutter       = 12                                  // between columns
	columnsShown = (pictureWidth - 2*margin) * 10 / 73 // of a terminal
)

// Colours are GitHub's for light and dark, after what the reader's system prefers.
const pictureStyle = `<style>
.back { fill: #ffffff; stroke: #d1d9e0 } text { fill: #1f2328; font: 13px -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif }
.mono { font: 12px ui-monospace, Menlo, Consolas, "Liberation Mono", monospace; white-space: pre }
.h { font-size: 15px; font-weight: 600 } .b { font-weight: 600 } .c { font-family: ui-monospace, Menlo, Consolas, "Liberation Mono", monospace; font-size: 12px }
.dim { fill: #59636e } .link { fill: #0969da } .good { fill: #1a7f37 } .wait { fill: #9a6700 } .bad { fill: #d1242f } .rule { stroke: #d1d9e0 } .alarm { fill: #d1242f }
@media (prefers-color-scheme: dark) {
.back { fill: #0d1117; stroke: #3d444d } text { fill: #f0f6fc }
.dim { fill: #9198a1 } .link { fill: #4493f8 } .good { fill: #3fb950 } .wait { fill: #d29922 } .bad { fill: #f85149 } .rule { stroke: #3d444d } .alarm { fill: #f85149 }
}
</style>
`

func (d *drawing) finish(title string) string {
	height := d.y + margin
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %[1]d %[2]d\" role=\"img\">\n<title>%s</title>\n%s<rect class=\"back\" x=\"0.5\" y=\"0.5\" width=\"%d\" height=\"%d\" rx=\"6\"/>\n%s</svg>\n",
		pictureWidth, height, html.EscapeString(title), pictureStyle, pictureWidth-1, height-1, d.String())
}

// text writes one line, which is escaped already.
func (d *drawing) text(x int, class, escaped string) {
	fmt.Fprintf(d, "<text x=\"%d\" y=\"%d\" class=\"%s\">%s</text>\n", x, d.y, class, escaped)
}

// terminalPicture is what a terminal shows of a command.
func terminalPicture(title, command, out string) string {
	d := &drawing{y: margin - 4}
	for i, line := range strings.Split(command+"\n"+strings.TrimRight(out, "\n"), "\n") {
		for j, part := range wrap(line, columnsShown) {
			d.y += lineHeight
			class := "mono"
			if i == 0 {
				class += " dim"
			} else if i == 1 && j == 0 {
				class += " b"
			}
			d.text(margin, class, coloured(part))
		}
	}
	return d.finish(title)
}

// coloured colours the bar of a status, and escapes the rest.
func coloured(line string) string {
	var b strings.Builder
	for len(line) > 0 {
		first, _ := utf8.DecodeRuneInString(line)
		class := map[rune]string{'█': "good", '▒': "wait", '▓': "wait", '×': "bad", '░': "dim"}[first]
		end := strings.IndexFunc(line, func(r rune) bool { return r != first })
		if class == "" {
			end = strings.IndexAny(line, "█▒▓×░")
		}
		if end < 0 {
			end = len(line)
		}
		if class == "" {
			b.WriteString(html.EscapeString(line[:end]))
		} else {
			fmt.Fprintf(&b, `<tspan class="%s">%s</tspan>`, class, line[:end])
		}
		line = line[end:]
	}
	return b.String()
}

// wrap divides a line at spaces, and indents what follows as the line is.
func wrap(line string, most int) (parts []string) {
	in := strings.Repeat(" ", indent(line)+2)
	for utf8.RuneCountInString(line) > most {
		letters := []rune(line)
		at := strings.LastIndex(string(letters[:most]), " ")
		if at <= len(in) {
			at = len(string(letters[:most]))
		}
		parts, line = append(parts, strings.TrimRight(line[:at], " ")), in+strings.TrimLeft(line[at:], " ")
	}
	return append(parts, line)
}

// piece is text in one style.
type piece struct{ class, text string }

// commentPicture is what GitHub shows of a comment, with what is folded folded.
func commentPicture(title, body string) string {
	d := &drawing{y: margin - 8}
	root, err := dom.Parse(strings.NewReader(markdown.Render(body).HTML()))
	if err != nil {
		panic(err) // a strings.Reader gives everything
	}
	for n := range root.Descendants() {
		if n.Type != dom.ElementNode || n.Parent == nil || n.Parent.Data != "body" {
			continue
		}
		switch n.Data {
		case "h3":
			d.paragraph(margin, pictureWidth-2*margin, "h", pieces(n, ""))
			d.y += 6
		case "blockquote":
			top := d.y + 6
			d.paragraph(margin+14, pictureWidth-2*margin-14, "", pieces(n, ""))
			fmt.Fprintf(d, "<rect class=\"alarm\" x=\"%d\" y=\"%d\" width=\"4\" height=\"%d\"/>\n", margin, top, d.y+6-top)
			d.y += 8
		case "table":
			d.table(n)
		case "details":
			for c := range n.Descendants() {
				if c.Data == "summary" {
					d.paragraph(margin, pictureWidth-2*margin, "", append([]piece{{"dim", "▸ "}}, pieces(c, "")...))
				}
			}
			d.y += 6
		case "ul":
			for c := range n.ChildNodes() {
				if c.Data == "li" {
					d.paragraph(margin+10, pictureWidth-2*margin-10, "", append([]piece{{"", "• "}}, pieces(c, "")...))
				}
			}
			d.y += 6
		case "p", "sub":
			if strings.HasPrefix(textOf(n), "Based on observations") {
				continue // it is another one each time
			}
			class := ""
			if n.Data == "sub" {
				class = "dim"
			}
			d.paragraph(margin, pictureWidth-2*margin, "", pieces(n, class))
			d.y += 6
		}
	}
	return d.finish(title)
}

func textOf(n *dom.Node) (text string) {
	for _, p := range pieces(n, "") {
		text += p.text
	}
	return text
}

// pieces are the texts in an element, each with its style.
func pieces(n *dom.Node, class string) (all []piece) {
	for c := range n.ChildNodes() {
		switch {
		case c.Type == dom.TextNode:
			if text := strings.NewReplacer("\n", " ", "\u200b", "", "[!CAUTION]", "").Replace(c.Data); strings.TrimSpace(text) != "" || text == " " {
				all = append(all, piece{class, text})
			}
		case c.Data == "br":
			all = append(all, piece{"", "\n"})
		default:
			within := map[string]string{"strong": "b", "b": "b", "code": "c", "a": "link", "sub": "dim"}[c.Data]
			all = append(all, pieces(c, strings.TrimSpace(class+" "+within))...)
		}
	}
	return all
}

// paragraph writes pieces in lines of a width.
func (d *drawing) paragraph(x, width int, class string, all []piece) {
	for _, line := range laid(class, all, float64(width)) {
		d.y += lineHeight
		var b strings.Builder
		for i := 0; i < len(line); {
			text, of := "", line[i].class
			for ; i < len(line) && line[i].class == of; i++ {
				text += line[i].text
			}
			if of == "" {
				b.WriteString(html.EscapeString(text))
			} else {
				fmt.Fprintf(&b, `<tspan class="%s">%s</tspan>`, of, html.EscapeString(text))
			}
		}
		d.text(x, class, b.String())
	}
}

// wide is about how wide a letter of a style is, rather more than less: fonts differ.
func wide(classes ...string) float64 {
	switch all := " " + strings.Join(classes, " ") + " "; {
	case strings.Contains(all, " h "):
		return 8.8
	case strings.Contains(all, " c "):
		return 7.5
	case strings.Contains(all, " b "):
		return 7.6
	default:
		return 6.9
	}
}

// laid divides pieces into lines, at spaces.
func laid(class string, all []piece, width float64) (lines [][]piece) {
	var line, word []piece
	used, long := 0.0, 0.0
	flush := func() {
		if len(line) > 0 {
			lines, line, used = append(lines, line), nil, 0
		}
	}
	put := func() {
		if used > 0 && used+long > width {
			flush()
		}
		if used == 0 && len(word) > 0 {
			word[0].text = strings.TrimLeft(word[0].text, " ")
			if len(word) == 1 && word[0].text == "" {
				word, long = nil, 0
			}
		}
		line, used = append(line, word...), used+long
		word, long = nil, 0
	}
	for _, p := range all {
		if p.text == "\n" {
			put()
			flush()
			continue
		}
		for _, part := range strings.SplitAfter(p.text, " ") {
			if part == "" {
				continue
			}
			word, long = append(word, piece{p.class, part}), long+wide(class, p.class)*float64(utf8.RuneCountInString(part))
			if strings.HasSuffix(part, " ") {
				put()
			}
		}
	}
	put()
	flush()
	return lines
}

// table writes a table, whose columns share the width by what they hold.
func (d *drawing) table(n *dom.Node) {
	var rows [][][]piece
	for tr := range n.Descendants() {
		if tr.Data != "tr" || tr.Type != dom.ElementNode {
			continue
		}
		var row [][]piece
		for c := range tr.ChildNodes() {
			if c.Data == "th" || c.Data == "td" {
				row = append(row, pieces(c, map[bool]string{true: "b"}[c.Data == "th"]))
			}
		}
		rows = append(rows, row)
	}
	widths := columns(rows)
	rule := func() {
		fmt.Fprintf(d, "<line class=\"rule\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%[2]d\"/>\n", margin, d.y+7, pictureWidth-margin)
	}
	d.y += 2
	for _, row := range rows {
		rule()
		top, bottom, x := d.y+4, d.y, margin
		for i, cell := range row {
			d.y = top
			d.paragraph(x, widths[i]-gutter+1, "", cell)
			bottom, x = max(bottom, d.y), x+widths[i]
		}
		d.y = bottom
	}
	rule()
	d.y += 14
}

// columns are the widths of a table's columns: each has room for its longest word, and
// what is left is shared by what they hold.
func columns(rows [][][]piece) (widths []int) {
	var words, texts []float64
	left, total := float64(pictureWidth-2*margin), 0.0
	for i := range rows[0] {
		word, text := 0.0, 1.0
		for _, row := range rows {
			long := 0.0
			for _, p := range row[i] {
				for _, w := range strings.Fields(p.text) {
					long += wide(p.class) * float64(utf8.RuneCountInString(w)+1)
					word = max(word, wide(p.class)*float64(utf8.RuneCountInString(w)))
				}
			}
			text = max(text, long)
		}
		words, texts = append(words, word+gutter), append(texts, max(text-word, 1))
		left, total = left-word-gutter, total+max(text-word, 1)
	}
	for i := range words {
		widths = append(widths, int(words[i]+max(left, 0)*texts[i]/total))
	}
	return widths
}
