package design

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"sync"

	"cuelang.org/go/cue"
)

// shapes returns the shapes of all definitions by name.
var shapes = sync.OnceValue(func() map[string]*shape {
	b := newBasis(false)
	return shapesOf(b.evaluating.BuildInstance(b.schema))
})

// shapesOf reads the shapes of a package's definitions.
func shapesOf(v cue.Value) map[string]*shape {
	r := newShaper()
	r.strict = true
	for it, _ := v.Fields(cue.Definitions(true)); it.Next(); {
		if text, ok := regular(it.Value()); ok {
			r.words[text] = formOf(it.Value())
		}
	}
	all := map[string]*shape{}
	for it, _ := v.Fields(cue.Definitions(true)); it.Next(); {
		if it.Selector().IsDefinition() {
			all[it.Selector().String()] = r.definition(it.Selector().String(), it.Value())
		}
	}
	r.link()
	return all
}

// shapeOf reads the shape of a site's own constraint. The shape is closed
// unless the constraint has "..." or no fields.
func shapeOf(v cue.Value) *shape {
	r := newShaper()
	var parts []*shape
	for _, c := range conjuncts(v) {
		if ours(c.Pos()) {
			parts = append(parts, r.read(c))
		}
	}
	r.link()
	whole, in := anything, overlap{}
	for _, p := range parts {
		whole = in.both(whole, p)
	}
	if len(whole.fields)+len(whole.entries) == 0 {
		return anything
	}
	return whole
}

// shaper reads shapes. A field that refers to a definition gets its shape last,
// so that a definition may contain itself.
type shaper struct {
	definitions map[string]*shape
	named       map[*shape]string
	// mixed are structs with several patterns.
	mixed []*shape
	// words are the definitions' own descriptions, by regular expression.
	words map[string]string
	// strict panics on patterns that the shaper does not understand. The schema
	// has none.
	strict bool
}

func newShaper() *shaper {
	return &shaper{definitions: map[string]*shape{}, named: map[*shape]string{}, words: map[string]string{}}
}

// link gives fields that refer to definitions their shapes.
func (r *shaper) link() {
	for s, name := range r.named {
		s.is(r.definitions[name])
	}
	for _, s := range r.mixed {
		unmix(s.entries)
	}
}

// definition reads the shape of a definition once.
func (r *shaper) definition(name string, v cue.Value) *shape {
	key := definitionKey(name, v)
	if r.definitions[key] == nil {
		r.definitions[key] = &shape{}
		*r.definitions[key] = *r.read(v)
	}
	return r.definitions[key]
}

// definitionKey distinguishes definitions of several packages.
func definitionKey(name string, v cue.Value) string { return path.Dir(v.Pos().Filename()) + name }

// read reads the shape of a definition.
func (r *shaper) read(v cue.Value) *shape {
	s := &shape{kind: v.IncompleteKind(), says: v, fallback: fallback(v), form: formOf(v), constraint: isConstraint(v)}
	if s.kind != cue.StructKind && s.kind&cue.StructKind != 0 {
		s.kind = cue.TopKind // a value or fields: CUE decides which fits
	}
	switch s.kind {
	case cue.ListKind:
		if item := v.LookupPath(cue.MakePath(cue.AnyIndex)); item.Exists() {
			s.item = r.field(item)
		}
	case cue.StructKind:
		if op, _ := v.Expr(); op == cue.OrOp {
			s.kind = cue.TopKind
			break
		}
		s.fields = map[string]*shape{}
		for it, _ := v.Fields(cue.Optional(true), cue.Patterns(true)); it.Next(); {
			r.add(s, it.Selector(), it.Value())
		}
		if rest := v.LookupPath(cue.MakePath(cue.AnyString)); len(s.entries) == 0 && rest.Exists() {
			s.entries = []entry{{shape: r.field(rest)}} // "..."
		}
	}
	return s
}

// add adds a field, or a pattern, to a struct's shape.
func (r *shaper) add(s *shape, label cue.Selector, v cue.Value) {
	f := r.field(v)
	if label.LabelType() == cue.PatternConstraint || label.ConstraintType() == cue.PatternConstraint {
		if s.entries = append(s.entries, r.entry(label.Pattern(), f)); len(s.entries) == 2 {
			r.mixed = append(r.mixed, s)
		}
		return
	}
	f.required = label.ConstraintType() == cue.RequiredConstraint
	f.optional = label.ConstraintType() == cue.OptionalConstraint
	s.fields[label.Unquoted()] = f
}

// field reads the shape of a field or an item.
func (r *shaper) field(v cue.Value) *shape {
	name, definition, ok := named(v)
	if !ok {
		return r.read(v)
	}
	r.definition(name, definition)
	s := &shape{form: formOf(v), says: v}
	r.named[s] = definitionKey(name, definition)
	return s
}

// named returns the definition that a value refers to; false if the value is
// anything else.
func named(v cue.Value) (string, cue.Value, bool) {
	root, path := v.ReferencePath()
	if at := path.Selectors(); len(at) != 1 || !at[0].IsDefinition() {
		return "", cue.Value{}, false
	}
	definition := root.LookupPath(path)
	return path.String(), definition, definition.Exists()
}

// is gives a field the shape of a definition.
func (s *shape) is(d *shape) {
	s.form = cmp.Or(s.form, d.form)
	s.kind, s.fields, s.entries, s.item, s.fallback = d.kind, d.fields, d.entries, d.item, d.fallback
}

// unmix adds to each pattern what holds for every key, so that the first match
// has everything. It changes the list in place, which fields share.
func unmix(entries []entry) {
	in := overlap{}
	every := anything
	for _, e := range entries {
		if e.fits == nil {
			every = in.both(every, e.shape)
		}
	}
	var some, others []entry
	for _, e := range entries {
		if e.fits == nil {
			others = append(others, entry{shape: every})
			continue
		}
		e.shape = in.both(e.shape, every)
		some = append(some, e)
	}
	copy(entries, append(some, others...))
}

// overlap makes the shape of what fits two shapes. It makes each pair once,
// because a shape may contain itself.
type overlap map[[2]*shape]*shape

func (u overlap) both(a, b *shape) *shape {
	switch {
	case a.kind == cue.TopKind:
		return b
	case b.kind == cue.TopKind || a.kind != b.kind: // nothing fits; CUE reports it
		return a
	}
	s, ok := u[[2]*shape{a, b}]
	if ok {
		return s
	}
	s = &shape{}
	u[[2]*shape{a, b}] = s
	*s = *a
	s.says = cue.Value{}
	s.fields = maps.Clone(a.fields)
	for name, f := range b.fields {
		if s.fields[name] != nil {
			f = u.both(s.fields[name], f)
		}
		s.fields[name] = f
	}
	s.entries = slices.Concat(a.entries, b.entries)
	if b.item != nil {
		s.item = u.both(a.items(), b.item)
	}
	s.required, s.optional = a.required || b.required, a.optional && b.optional
	if s.fallback == nil {
		s.fallback = b.fallback
	}
	s.form = cmp.Or(s.form, b.form)
	return s
}

func isConstraint(v cue.Value) bool {
	a := v.Attribute("constraint")
	return a.Err() == nil
}

// formOf returns the schema's description of a field in words.
func formOf(v cue.Value) string {
	a := v.Attribute("form")
	text, _ := a.String(0) // empty without one
	return text
}

// entry returns the entry of a pattern: a regular expression, or a pattern that
// any key matches.
func (r *shaper) entry(pattern cue.Value, holds *shape) entry {
	text, ok := regular(pattern)
	if fits, err := regexp.Compile(text); ok && err == nil {
		return entry{fits.MatchString, cmp.Or(r.words[text], "a text that matches "+text), holds}
	}
	if op, _ := pattern.Expr(); r.strict && (op != cue.NoOp || pattern.IncompleteKind() != cue.StringKind || pattern.IsConcrete()) {
		panic(fmt.Sprintf("the schema has a pattern for keys that is not understood: %v", pattern))
	}
	return entry{shape: holds}
}

// regular returns the regular expression of a value.
func regular(v cue.Value) (string, bool) {
	op, args := v.Expr()
	if op != cue.RegexMatchOp {
		return "", false
	}
	text, err := args[0].String()
	return text, err == nil
}

// fallback returns a definition's default for a scalar, or nil without one.
func fallback(v cue.Value) *tree {
	d, ok := v.Default()
	if !ok || !d.IsConcrete() || v.IncompleteKind() == cue.StructKind || v.IncompleteKind() == cue.ListKind {
		return nil
	}
	value, err := scalar(d)
	if err != nil {
		return nil
	}
	return &tree{value: value, origin: origin(d.Pos(), "schema")}
}
