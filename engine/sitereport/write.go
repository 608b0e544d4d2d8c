package sitereport

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"regexp"
	"strings"

	"github.com/slipway-gitops/slipway/engine/present"
)

//go:embed page.html
var pageHTML string

var htmlPage = template.Must(template.New("page").Funcs(template.FuncMap{"styles": func() template.CSS { return present.ElevationStyle + present.GanttStyle }}).Parse(pageHTML))

// HTML writes the report as one file without scripts or references to others.
func HTML(w io.Writer, f Facts) error {
	var b bytes.Buffer
	if err := htmlPage.Execute(&b, pageOf(f)); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

// Width is the width of a part of the bar.
func (c count) Width() int { return c.To - c.From }

// Markdown writes the report as Markdown with tables, which mentions nobody.
func Markdown(w io.Writer, f Facts) error {
	p := pageOf(f)
	var b strings.Builder
	fmt.Fprintf(&b, "# Site %s\n\n**%s**\n\n%s, Slipway %s\n", markdown(p.Site), markdown(p.Verdict), markdown(p.Made), markdown(p.Version))
	for _, part := range p.Parts {
		if len(part.Says)+len(part.Rows) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n", part.Title)
		for _, text := range part.Says {
			b.WriteString(markdown(text) + "\n\n")
		}
		part.table(&b)
		if part.Left != "" {
			b.WriteString("\n" + markdown(part.Left) + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// moment is a time as escaped Markdown has it. It mentions nobody and is no emoji, so that it is left readable.
var moment = regexp.MustCompile(`(\d{4}-\d\d-\d\d \d\d)&#58;&#8203;(\d\d)&#58;&#8203;(\d\d)`)

// markdown is a text for a line or a cell of Markdown.
func markdown(text string) string {
	return moment.ReplaceAllString(present.MarkdownText(text), "$1:$2:$3")
}

// table writes a table. One without a head gets an empty one, as Markdown has no other.
func (p part) table(b *strings.Builder) {
	columns := len(p.Head)
	for _, row := range p.Rows {
		columns = max(columns, len(row))
	}
	if len(p.Rows) == 0 {
		return
	}
	head := make([]cell, columns)
	for i, name := range p.Head {
		head[i].Text = name
	}
	line(b, head)
	b.WriteString("|" + strings.Repeat(" --- |", columns) + "\n")
	for _, row := range p.Rows {
		line(b, row)
	}
}

func line(b *strings.Builder, cells []cell) {
	for _, c := range cells {
		b.WriteString("| " + markdown(c.Text) + " ")
	}
	b.WriteString("|\n")
}
