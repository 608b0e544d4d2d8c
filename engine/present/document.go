package present

import (
	"fmt"
	"strings"
)

// document is Markdown that grows by parts up to a limit in bytes.
type document struct {
	text strings.Builder
	left int
	cut  []shortage
}

// shortage is how many parts of a kind were left out.
type shortage struct {
	kind  string
	count int
}

// add adds a part of a kind, or counts it as left out if it does not fit. After
// that it adds no more parts of this kind.
func (d *document) add(kind, part string) {
	for i := range d.cut {
		if d.cut[i].kind == kind {
			d.cut[i].count++
			return
		}
	}
	if len(part) <= d.left {
		d.text.WriteString(part)
		d.left -= len(part)
		return
	}
	d.cut = append(d.cut, shortage{kind, 1})
}

// section adds parts of a kind under a heading, and a line after them. If the
// first part does not fit, it leaves out the heading too.
func (d *document) section(kind, heading string, parts []string, last string) {
	if len(parts) == 0 {
		return
	}
	around := len(heading) + len(last) + len("\n\n")
	if around+len(parts[0]) > d.left {
		d.cut = append(d.cut, shortage{kind, len(parts)})
		return
	}
	d.left -= around
	d.text.WriteString(heading)
	for _, part := range parts {
		d.add(kind, part)
	}
	if !strings.HasSuffix(d.text.String(), "\n") {
		d.text.WriteString("\n") // cut within a line
	}
	d.text.WriteString(last + "\n")
}

// list adds a section with one item per text.
func (d *document) list(kind, heading string, texts []string, more int) {
	items := make([]string, 0, len(texts))
	for _, x := range texts {
		items = append(items, "- "+escape(x)+"\n")
	}
	last := ""
	if more > 0 {
		last = fmt.Sprintf("- and %d more\n", more)
	}
	d.section(kind, heading+"\n\n", items, last)
}

// leaving adds parts while reserving room for others.
func (d *document) leaving(room int, add func()) {
	d.left -= room
	add()
	d.left += room
}
