package design

import (
	"strconv"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"

	"github.com/slipway-gitops/slipway/engine/site"
)

// maxSpellings limits how often a package is evaluated again because of
// misspelt fields: once for each level of nesting.
const maxSpellings = 5

// spelling corrects misspelt fields. A field that the schema does not have is a
// finding, which no suppression silences. To avoid further findings, the
// package is then evaluated as if the field with the nearest name had been
// written.
type spelling struct {
	// meant are the correct names, by the places of the labels.
	meant map[token.Position]string
	// found are the misspelt fields, by the layer and path of the reader.
	found map[string][]misspelling
	// fresh says that a misspelt field was found since the last compilation,
	// top that one names a section.
	fresh, top bool
}

type misspelling struct {
	at      token.Pos
	path    string
	finding site.Finding
}

// note records that field, a field of v, was meant to be near, unless near is
// set too and both cannot hold. A nil spelling ignores it.
func (s *spelling) note(r *reader, v, field cue.Value, name, near string, m misspelling) {
	if s == nil {
		return
	}
	if clash(field, v.LookupPath(cue.MakePath(cue.Str(near)))) {
		return
	}
	all := namedAt(field, name)
	for _, p := range all {
		if s.meant == nil {
			s.meant, s.found = map[token.Position]string{}, map[string][]misspelling{}
		}
		s.meant[key(p)] = near
	}
	if len(all) > 0 {
		s.fresh, s.top = true, s.top || m.path == name
		s.found[r.key()] = append(s.found[r.key()], m)
	}
}

// clash reports whether two values both set the same scalar or list.
func clash(a, b cue.Value) bool {
	if a.IncompleteKind() != cue.StructKind {
		return len(setBy(a)) > 0 && len(setBy(b)) > 0
	}
	for it, err := a.Fields(); err == nil && it.Next(); {
		if sub := b.LookupPath(cue.MakePath(it.Selector())); sub.Exists() && clash(it.Value(), sub) {
			return true
		}
	}
	return false
}

// retell reports the misspelt fields that were found where a reader reads.
func (s *spelling) retell(r *reader) {
	for _, m := range s.found[r.key()] {
		r.tell(m.at, m.path, m.finding)
	}
}

// namedAt returns the places where a value's field has this name.
func namedAt(v cue.Value, name string) []token.Pos {
	var all []token.Pos
	for _, c := range conjuncts(v) {
		if f, ok := c.Source().(*ast.Field); ok && ours(f.Pos()) && labelled(f, name) {
			all = append(all, f.Label.Pos())
		}
	}
	return all
}

// correct replaces misspelt names in a part of a file.
func (s *spelling) correct(n ast.Node) {
	if len(s.meant) == 0 {
		return
	}
	ast.Walk(n, func(n ast.Node) bool {
		if f, ok := n.(*ast.Field); ok {
			if near, ok := s.meant[key(f.Label.Pos())]; ok {
				f.Label = relabelled(f.Label, near)
			}
		}
		return true
	}, nil)
}

// relabelled returns a label with another name. It stays quoted if the old
// label was, so that references cannot use it.
func relabelled(l ast.Label, name string) ast.Label {
	if _, quoted := l.(*ast.BasicLit); quoted {
		return &ast.BasicLit{ValuePos: l.Pos(), Kind: token.STRING, Value: strconv.Quote(name)}
	}
	return &ast.Ident{NamePos: l.Pos(), Name: name}
}
