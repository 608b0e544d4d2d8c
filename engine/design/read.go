package design

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/errors"
	"cuelang.org/go/cue/token"

	"github.com/slipway-gitops/slipway/engine/design/rule"
	"github.com/slipway-gitops/slipway/engine/site"
)

// reader reads one layer, or one entry of a section, from CUE.
type reader struct {
	findings *findings
	layer    string
	// node and path name what is read, for findings: the path as a person
	// writes it ("nodes.n1"), and the node if it is one.
	node string
	path string
	// merged says that layers below may still be merged in, so that a missing
	// field is no mistake and a value can be unset.
	merged bool
	// cut says that parts of the design did not compile, so that an open value
	// may be open only for that reason.
	cut bool
	// hollow says that a struct has no value, so that what it holds is not known.
	hollow bool
	// found counts this reader's own findings; told are their paths.
	found int
	told  map[string]bool
	// around are the structs around the current value, outermost first.
	around []cue.Value
	// later are errors of other fields that a value depends on.
	later []consequence
	// spelling is how misspelt fields are corrected.
	spelling *spelling
	// style is the style of the node whose layers are merged.
	style style
	// layers returns the merged layers, nearest first; nil when the reader
	// reads a layer itself.
	layers func() []*tree
}

// key identifies a reader.
func (r *reader) key() string { return r.layer + " " + r.path }

// consequence is an error of a value that another field may have caused.
type consequence struct {
	// on are the paths of the fields that may cause the error; cause is the
	// path that it is reported at.
	on    []string
	cause string
	err   errors.Error
	of    cue.Value
}

// read reads v according to the shape. It returns nil when v sets nothing.
func (r *reader) read(v cue.Value, s *shape, path string) *tree {
	marks := v.Attributes(cue.ValueAttr)
	if slices.ContainsFunc(marks, func(a cue.Attribute) bool { return a.Name() == brokenAttr }) {
		r.hollow = r.hollow || s.isStruct()
		return &tree{broken: true, origin: origin(place(v), r.layer)}
	}
	unset := slices.ContainsFunc(marks, func(a cue.Attribute) bool { return a.Name() == "unset" })
	for _, a := range marks {
		if near := rule.Nearest(a.Name(), []string{"unset"}); near != "" && a.Name() != near && (v.IsConcrete() || s.of(v) == cue.StructKind) {
			r.report(place(v), path, site.Finding{
				Code: "incomplete-value", Message: fmt.Sprintf("%s has the attribute @%s(), which nothing reads", path, a.Name()),
				Why: "It looks as if it removed something, but it does not.",
				Fix: "Write @unset() to remove the field, or remove the attribute.",
			})
		}
	}
	if unset && !r.merged {
		r.report(place(v), path, unsetOutside(path))
		if d, _ := v.Default(); !d.IsConcrete() {
			return &tree{broken: true, origin: origin(place(v), r.layer)}
		}
		unset = false
	}
	if s.constraint {
		return r.readConstraint(v, s, path)
	}
	switch s.of(v) {
	case cue.StructKind:
		return r.readStruct(v, s, path, unset)
	case cue.ListKind:
		return r.readList(v, s, path, unset)
	}
	return r.readScalar(v, s, path, unset)
}

func unsetOutside(path string) site.Finding {
	return site.Finding{
		Code: "unset-outside-layer", Message: path + " is removed with @unset() outside a profile or node",
		Why: "Only layers are laid over one another; here there is nothing to remove.", Fix: "Remove the field.",
	}
}

func (r *reader) readStruct(v cue.Value, s *shape, path string, unset bool) *tree {
	it, err := v.Fields()
	if err != nil {
		r.hollow = true
		return r.invalid(v, s, path)
	}
	t := &tree{fields: map[string]*tree{}, unset: unset}
	if unset {
		t.origin = origin(place(v), r.layer)
	}
	r.around = append(r.around, v)
	defer func() { r.around = r.around[:len(r.around)-1] }()
	var shut []cue.Value
	for it.Next() {
		name := it.Selector().Unquoted()
		sub := s.sub(name)
		if sub == nil {
			r.unknown(v, it.Value(), s, name, path)
			continue
		}
		if isShutOut(it.Value()) {
			shut = append(shut, it.Value())
			r.hollow = r.hollow || sub.isStruct()
			t.fields[name] = &tree{broken: true, origin: origin(place(it.Value()), r.layer)}
			continue
		}
		if sub.required && it.Value().Err() != nil && len(setBy(it.Value())) == 0 {
			continue // CUE lists it although nothing sets it
		}
		if f := r.read(it.Value(), sub, join(path, name)); f != nil {
			t.fields[name] = f
		}
	}
	if len(shut) > 0 {
		r.closed(shut, path)
	}
	if t.isBare() {
		if p := place(v); ours(p) {
			t.origin = origin(p, r.layer)
		}
	}
	if !r.merged {
		r.missing(v, t, s, path)
	}
	return t
}

// readConstraint reads CUE that other values are checked against.
func (r *reader) readConstraint(v cue.Value, s *shape, path string) *tree {
	if v.IncompleteKind() != cue.StructKind {
		return r.invalid(v, s, path)
	}
	return &tree{origin: origin(place(v), r.layer), open: true}
}

// readList reads a list. A list is one value: no layer overrides its items, so
// each item must be complete.
func (r *reader) readList(v cue.Value, s *shape, path string, unset bool) *tree {
	if !s.holdsFields() && v.Validate() != nil {
		return r.invalid(v, s, path)
	}
	all, ok := items(v)
	if !ok {
		return r.invalid(v, s, path)
	}
	t := &tree{origin: origin(place(v), r.layer), preset: r.merged && choosesList(v)}
	defer func(merged bool) { r.merged = merged }(r.merged)
	r.merged = false
	values := []any{}
	for i, x := range all {
		if value, err := scalar(x); err == nil && !s.holdsFields() {
			values = append(values, value)
			continue
		}
		item := r.read(x, s.items(), join(path, strconv.Itoa(i)))
		t.broken = t.broken || item.broken
		if item.fields != nil {
			item.origin = origin(place(x), r.layer)
			t.items = append(t.items, indexed{i, item})
		}
		values = append(values, item.plain())
	}
	if t.broken {
		return t
	}
	if unset && len(values) == 0 {
		t.unset = true
		return t
	}
	t.value = values
	return r.unlessUnset(t, unset, v, path)
}

// items returns the items of a list, including those without a value. It
// returns false when v is not a list.
func items(v cue.Value) ([]cue.Value, bool) {
	it, err := v.List()
	if err != nil { // to CUE it is not a list when an item has no value
		var fields *cue.Iterator
		if fields, err = v.Fields(); err != nil || !v.LookupPath(cue.MakePath(cue.Index(0))).Exists() {
			return nil, false
		}
		it = *fields
	}
	var all []cue.Value
	for it.Next() {
		all = append(all, it.Value())
	}
	return all, true
}

func (r *reader) readScalar(v cue.Value, s *shape, path string, unset bool) *tree {
	if r.merged && s.fallback != nil && len(setBy(v)) == 0 {
		return nil // layers override a default of the schema
	}
	if v.Validate() != nil {
		return r.invalid(v, s, path)
	}
	if unset && !v.IsConcrete() {
		return &tree{unset: true, origin: origin(place(v), r.layer)}
	}
	d, preset := v.Default()
	if preset {
		v = d
	}
	value, err := scalar(v)
	if err != nil {
		return r.incomplete(v, path)
	}
	t := &tree{value: value, origin: origin(place(v), r.layer), preset: preset && r.merged}
	if r.merged && t.origin.LayerName() == "schema" {
		return nil // the default of a definition that the layer names
	}
	return r.unlessUnset(t, unset, v, path)
}

// choosesList reports whether a list is the default among alternatives. An open
// list is its own default, which is no choice.
func choosesList(v cue.Value) bool {
	if _, ok := v.Default(); !ok {
		return false
	}
	return slices.ContainsFunc(conjuncts(v), func(c cue.Value) bool {
		x, ok := c.Syntax().(ast.Expr)
		return ok && hasMark(x)
	})
}

// hasMark reports whether one of several expressions is marked as the default.
func hasMark(x ast.Expr) bool {
	switch y := x.(type) {
	case *ast.BinaryExpr:
		return y.Op == token.OR && (hasMark(y.X) || hasMark(y.Y))
	case *ast.UnaryExpr:
		return y.Op == token.MUL
	}
	return false
}

// scalar returns a concrete value in the types of encoding/json.
func scalar(v cue.Value) (any, error) {
	switch v.Kind() {
	case cue.StringKind:
		return v.String()
	case cue.BoolKind:
		return v.Bool()
	case cue.IntKind:
		return v.Int64()
	case cue.FloatKind, cue.NumberKind:
		return v.Float64()
	}
	return nil, fmt.Errorf("%s is not a value", v.IncompleteKind())
}

// unlessUnset returns t, and reports a field that is also marked as unset.
func (r *reader) unlessUnset(t *tree, unset bool, v cue.Value, path string) *tree {
	if unset {
		r.report(place(v), path, site.Finding{
			Code: "unset-with-value", Message: path + " is both set and removed with @unset()",
			Why: "Slipway cannot tell which one you mean.", Fix: "Remove the value, or the attribute.",
		})
	}
	return t
}

// unknown reports a field of in that the schema does not have.
func (r *reader) unknown(in, v cue.Value, s *shape, name, path string) {
	f := site.Finding{
		Code: "unknown-field",
		Why:  "Nothing reads it, so it would have no effect.", Fix: "Remove it.",
	}
	known := slices.Sorted(maps.Keys(s.fields))
	f.Message = fmt.Sprintf("there is no field %q in %s%s", name, orTop(path), rule.DidYouMean(name, known))
	near := rule.Nearest(name, known)
	if near != "" {
		f.Fix = fmt.Sprintf("Write %q, or remove it.", near)
	} else if len(known) > 0 {
		f.Fix = "Remove it, or use one of: " + strings.Join(known, ", ") + "."
	}
	at := declared(v, name)
	if now := nameNow(path, name); now != "" && s.fields[now] != nil {
		near = now
		f.Message = fmt.Sprintf("there is no field %q in %s: it is called %q now", name, path, now)
		f.Fix = "Run `slipway migrate`, which rewrites it."
		if !isMigrated(at.Filename()) {
			f.Fix = fmt.Sprintf("Write %q.", now)
		}
	}
	if len(s.entries) > 0 {
		f.Code = "invalid-key"
		f.Message = fmt.Sprintf("%q is not a key that an entry can have in %s; it must be %s", name, path, s.keys())
		f.Why = "The schema does not allow it."
		f.Fix = "Write " + s.keys() + "."
	}
	r.report(at, join(path, name), f)
	if near != "" {
		r.spelling.note(r, in, v, name, near, misspelling{at, join(path, name), f})
	}
}

func orTop(path string) string {
	if path == "" {
		return "a site"
	}
	return path
}

// missing reports the required fields that an entry lacks.
func (r *reader) missing(v cue.Value, t *tree, s *shape, path string) {
	for name, f := range s.fields {
		if f.required && t.fields[name] == nil {
			r.report(declared(v, lastOf(path)), join(path, name), missingField(join(path, name), f))
		}
	}
}

func missingField(path string, s *shape) site.Finding {
	return site.Finding{
		Code: "missing-field", Message: path + " is required and not set",
		Why: "Nothing can stand in for it.", Fix: "Set it to " + s.fits() + ".",
	}
}
