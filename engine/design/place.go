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

// origin is a position as the site's values have it.
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

// or is an origin or, without one, a whole file.
func or(o site.Origin, file string) site.Origin {
	if o.IsZero() {
		return site.At(file, 0, 0, "site")
	}
	return o
}

func inSchema(p token.Pos) bool { return strings.HasPrefix(p.Filename(), schemaPrefix) }

// ours says whether a position is in the repository, where a person can
// change it.
func ours(p token.Pos) bool { return p.IsValid() && p.Filename() != "" && !inSchema(p) }

// place is where a value was set: the literal that won or, for what has no
// literal of its own, the first field outside the schema that takes part.
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

// declared is where a value's field is named outside the schema; name tells
// the field itself from a pattern that matches it.
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

// namings are where the entries of sections are named in some files, first
// places first, by section and entry. It saves taking the value apart, which
// CUE does by evaluating every part of it again.
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

// of is where an entry of a section is named.
func (all namings) of(section, name string, entry cue.Value) token.Pos {
	if p, ok := all[[2]string{section, name}]; ok {
		return p
	}
	return declared(entry, name)
}

// conjuncts are the expressions whose unification is v.
func conjuncts(v cue.Value) []cue.Value {
	op, args := v.Expr()
	if op != cue.AndOp {
		return []cue.Value{v}
	}
	return args
}

// literal is the position of what a conjunct sets, past its label.
func literal(c cue.Value) token.Pos {
	if f, ok := c.Source().(*ast.Field); ok && f.Value != nil {
		return f.Value.Pos()
	}
	return c.Pos()
}

// position is where an error of CUE can be repaired: the first place outside
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

// message is what an error of CUE says, without its path and positions.
func message(e errors.Error) string {
	format, args := e.Msg()
	text := fmt.Sprintf(format, args...)
	if text == "" {
		text = e.Error() // an error of Go in CUE's clothes
	}
	if inner, ok := errors.Unwrap(e).(errors.Error); ok && message(inner) != text {
		text += ": " + message(inner)
	}
	first, _, _ := strings.Cut(text, "\n")
	return shorten(first)
}

// shorten keeps what is quoted from a design readable.
func shorten(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 200 {
		return string(r[:200]) + "…"
	}
	return s
}
