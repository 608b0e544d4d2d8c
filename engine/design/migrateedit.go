package design

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"

	"github.com/slipway-gitops/slipway/engine/site"
)

// edit replaces bytes of a file.
type edit struct {
	start, end int
	text       string
}

// inBraces returns where a field can be inserted first in the braces of a
// value. It cannot when the value refers to the package schema, because the
// field would shadow that name.
func (m *migrator) inBraces(name string, v ast.Expr, field string) (at int, text string, ok bool) {
	for _, s := range structs(v) {
		if !s.Lbrace.IsValid() || mentions(s, "schema") {
			continue
		}
		at := s.Lbrace.Offset() + 1
		end := m.lineEnd(name, at)
		switch rest := strings.TrimSpace(string(m.pack.files[name][at:end])); {
		case rest == "" || strings.HasPrefix(rest, "//"):
			return end, "\n\t" + field, true
		case len(s.Elts) == 0:
			return at, field, true
		}
		return at, field + ", ", true
	}
	return 0, "", false
}

// lineEnd returns the end of the line at an offset.
func (m *migrator) lineEnd(name string, at int) int {
	src := m.pack.files[name]
	if n := bytes.IndexByte(src[at:], '\n'); n >= 0 {
		return at + n
	}
	return len(src)
}

func (m *migrator) byHand(n ast.Node, what, fix string) {
	m.findings.at(origin(n.Pos(), "site"), site.Finding{
		Code: "schema-version", Message: what,
		Why: fmt.Sprintf("The site is written for the schema %q, and Slipway cannot rewrite this without knowing what you mean.", versionBefore),
		Fix: fix,
	})
}

// text returns the source of a node.
func (m *migrator) text(n ast.Node) string {
	return string(m.pack.files[n.Pos().Filename()][n.Pos().Offset():n.End().Offset()])
}

func (m *migrator) replace(n ast.Node, text string) {
	name := n.Pos().Filename()
	m.edits[name] = append(m.edits[name], edit{n.Pos().Offset(), n.End().Offset(), text})
}

func (m *migrator) insert(at int, text string, in ast.Node) {
	name := in.Pos().Filename()
	m.edits[name] = append(m.edits[name], edit{at, at, text})
}

// changed records that a node changes.
func (m *migrator) changed(n ast.Node) { m.changing = append(m.changing, n) }

// change returns the Change that the edits make to a node.
func (m *migrator) change(n ast.Node) Change {
	name, start, end := n.Pos().Filename(), n.Pos().Offset(), n.End().Offset()
	var within []edit
	for _, e := range m.edits[name] {
		if start <= e.start && e.end <= end {
			within = append(within, edit{e.start - start, e.end - start, e.text})
		}
	}
	was := m.text(n)
	return Change{name, n.Pos().Line(), shorten(was), shorten(string(apply([]byte(was), within)))}
}

// apply applies edits that do not overlap.
func apply(src []byte, edits []edit) []byte {
	slices.SortStableFunc(edits, func(a, b edit) int { return a.start - b.start })
	var out []byte
	at := 0
	for _, e := range edits {
		out = append(append(out, src[at:e.start]...), e.text...)
		at = e.end
	}
	return append(out, src[at:]...)
}
