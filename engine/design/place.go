package design

import (
	"fmt"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/errors"
	"cuelang.org/go/cue/token"

	"github.com/slipway-gitops/slipway/engine/site"
)

// origin converts a CUE position to an origin.
func origin(p token.Pos, layer string) site.Origin {
	if !p.IsValid() || p.Filename() == "" {
		return site.Origin{}
	}
	file := p.Filename()
	if inSchema(p) {
		file, layer = strings.TrimPrefix(file, "/"), "schema"
	}
	return site.At(file, p.Line(), p.Column(), layer)
}

// or returns an origin or, without one, a whole file.
func or(o site.Origin, file string) site.Origin {
	if o.IsZero() {
		return site.At(file, 0, 0, "site")
	}
	return o
}

func inSchema(p token.Pos) bool { return strings.HasPrefix(p.Filename(), schemaPrefix) }

// ours reports whether a position is in the repository, where a person can
// change it.
func ours(p token.Pos) bool { return p.IsValid() && p.Filename() != "" && !inSchema(p) }

// place returns where a value was set: the literal that won or, without a
// literal, the first field outside the schema that is part of it.
func place(v cue.Value) token.Pos {
	if p := v.Pos(); ours(p) {
		if _, isList := v.Source().(*ast.ListLit); !isList || v.Kind() != cue.ListKind {
			return p
		}
	}
	for _, c := range conjuncts(v) {
		if p := literal(c); ours(p) {
			return p
		}
	}
	return v.Pos()
}

// declared returns where a value's field is named outside the schema. name
// distinguishes the field itself from a pattern that matches it.
func declared(v cue.Value, name string) token.Pos {
	var first token.Pos
	for _, c := range conjuncts(v) {
		p := c.Pos()
		if !ours(p) {
			continue
		}
		if !first.IsValid() {
			first = p
		}
		if f, ok := c.Source().(*ast.Field); ok && labelled(f, name) {
			return p
		}
	}
	if first.IsValid() {
		return first
	}
	return v.Pos()
}

func labelled(f *ast.Field, name string) bool {
	label, _, err := ast.LabelName(f.Label)
	return err == nil && label == name
}

// namings maps a section and an entry to the first place that names it. Without
// it, CUE would have to evaluate every part of the value again.
type namings map[[2]string]token.Pos

func namingsOf(files []*ast.File) namings {
	all := namings{}
	for _, f := range files {
		for _, d := range f.Decls {
			if s, ok := d.(*ast.Field); ok {
				all.add(s)
			}
		}
	}
	return all
}

// add adds the entries of a section.
func (all namings) add(section *ast.Field) {
	entries, ok := section.Value.(*ast.StructLit)
	in, _, err := ast.LabelName(section.Label)
	if !ok || err != nil {
		return
	}
	for _, d := range entries.Elts {
		f, ok := d.(*ast.Field)
		if !ok {
			continue
		}
		name, _, err := ast.LabelName(f.Label)
		if _, known := all[[2]string{in, name}]; err == nil && !known {
			all[[2]string{in, name}] = f.Pos()
		}
	}
}

// of returns where an entry of a section is named.
func (all namings) of(section, name string, entry cue.Value) token.Pos {
	if p, ok := all[[2]string{section, name}]; ok {
		return p
	}
	return declared(entry, name)
}

// conjuncts returns the expressions whose unification is v.
func conjuncts(v cue.Value) []cue.Value {
	op, args := v.Expr()
	if op != cue.AndOp {
		return []cue.Value{v}
	}
	return args
}

// literal returns the position of a conjunct's value, after its label.
func literal(c cue.Value) token.Pos {
	if f, ok := c.Source().(*ast.Field); ok && f.Value != nil {
		return f.Value.Pos()
	}
	return c.Pos()
}

// position returns where an error of CUE can be fixed: the first place outside
// the schema, or any.
func position(e errors.Error) token.Pos {
	all := append([]token.Pos{e.Position()}, e.InputPositions()...)
	for _, p := range all {
		if ours(p) {
			return p
		}
	}
	for _, p := range all {
		if p.IsValid() {
			return p
		}
	}
	return token.NoPos
}

// message returns the text of a CUE error, without its path and positions.
func message(e errors.Error) string {
	format, args := e.Msg()
	text := fmt.Sprintf(format, args...)
	if text == "" {
		text = e.Error() // a Go error wrapped by CUE
	}
	if inner, ok := errors.Unwrap(e).(errors.Error); ok && message(inner) != text {
		text += ": " + message(inner)
	}
	first, _, _ := strings.Cut(text, "\n")
	return shorten(first)
}

// shorten keeps quotations from a design readable.
func shorten(s string) string {
	return site.Shorten(strings.Join(strings.Fields(s), " "), 200)
}
