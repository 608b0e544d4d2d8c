package design

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/errors"
	"cuelang.org/go/cue/token"
)

// constraint is a site's own CUE that plain values are checked against. It
// belongs to the context of the package that it comes from.
type constraint struct {
	// context is where the values to check are made.
	context *cue.Context
	value   cue.Value
	// topics are the fields that the constraint names; nil means all.
	topics map[string]bool
	// verdicts caches results by the JSON of the checked value, so a value that
	// a hundred nodes share is checked once.
	verdicts map[string][]breach
}

// breach is one place where a value violates a constraint.
type breach struct {
	path []string
	// lacks says that the value has nothing in this place. given is then the
	// constraint's own value, if it has one.
	lacks bool
	given *tree
	// message says what is wrong, in words that follow the path.
	message string
	// at is the place in the constraint.
	at token.Pos
}

// constraintAt returns the constraint at a path of a package. It is nil where
// there is none or where it has an error of its own.
func constraintAt(v cue.Value, path ...string) *constraint {
	at := make([]cue.Selector, len(path))
	for i, key := range path {
		at[i] = cue.Str(key)
	}
	c := &constraint{context: cuecontext.New(), value: v.LookupPath(cue.MakePath(at...)), verdicts: map[string][]breach{}}
	if !c.value.Exists() || c.value.Validate() != nil {
		return nil
	}
	c.topics = topics(c.value)
	return c
}

// topics returns the fields that a struct names, or nil where it could read
// other fields too. A constraint reads only its own scope, unless something in
// it has an alias or is computed.
func topics(v cue.Value) map[string]bool {
	named := map[string]bool{}
	for _, c := range conjuncts(v) {
		if inSchema(c.Pos()) {
			continue
		}
		for _, d := range declarations(c.Source()) {
			f, ok := d.(*ast.Field)
			if !ok {
				return nil
			}
			label, _, err := ast.LabelName(f.Label)
			if err != nil || aliased(f) {
				return nil
			}
			named[label] = true
		}
	}
	return named
}

// declarations returns what a struct literal holds. For any other node it
// returns one embedding, for which topics returns nil.
func declarations(n ast.Node) []ast.Decl {
	if f, ok := n.(*ast.Field); ok {
		n = f.Value
	}
	if s, ok := n.(*ast.StructLit); ok {
		return s.Elts
	}
	return []ast.Decl{&ast.EmbedDecl{}}
}

func aliased(f *ast.Field) bool {
	found := false
	ast.Walk(f, func(n ast.Node) bool {
		x, isField := n.(*ast.Field)
		_, isAlias := n.(*ast.Alias)
		found = found || isAlias || isField && x.Alias != nil
		return !found
	}, nil)
	return found
}

// hold checks a plain struct against the constraint.
func (c *constraint) hold(plain map[string]any) []breach {
	have := map[string]any{}
	for key, value := range plain {
		if c.topics == nil || c.topics[key] {
			have[key] = value
		}
	}
	text, _ := json.Marshal(have) // plain values
	found, ok := c.verdicts[string(text)]
	if !ok {
		found = c.breaches(have)
		c.verdicts[string(text)] = found
	}
	return found
}

func (c *constraint) breaches(have map[string]any) []breach {
	both := c.value.Unify(c.context.Encode(have))
	all := lacking(both, have, nil)
	for _, e := range errors.Errors(both.Validate(cue.Concrete(true))) {
		path := labels(e)[min(len(e.Path()), len(c.value.Path().Selectors())):]
		if slices.ContainsFunc(all, func(b breach) bool { return prefixes(b.path, path) }) {
			continue
		}
		p := position(e)
		if !ours(p) {
			p = place(part(c.value, path))
		}
		all = append(all, breach{path: path, message: c.objection(have, path, e), at: p})
	}
	return all
}

func prefixes(short, long []string) bool {
	return len(short) <= len(long) && slices.Equal(short, long[:len(short)])
}

// lacking lists the fields that a constraint names and a value lacks.
func lacking(both cue.Value, have any, path []string) []breach {
	var all []breach
	switch have := have.(type) {
	case map[string]any:
		it, err := both.Fields()
		for err == nil && it.Next() {
			name := it.Selector().Unquoted()
			at := append(slices.Clone(path), name)
			if sub, ok := have[name]; ok {
				all = append(all, lacking(it.Value(), sub, at)...)
				continue
			}
			if !follows(it.Value()) {
				all = append(all, breach{path: at, lacks: true, given: given(it.Value()), at: declared(it.Value(), name)})
			}
		}
	case []any:
		in, _ := items(both)
		for i := range min(len(in), len(have)) {
			all = append(all, lacking(in[i], have[i], append(slices.Clone(path), strconv.Itoa(i)))...)
		}
	}
	return all
}

// follows reports whether the error of a value comes from another value.
func follows(v cue.Value) bool {
	errs := errors.Errors(v.Err())
	return len(errs) > 0 && len(errs[0].Path()) > 0 && !slices.Equal(labels(errs[0]), labelsOf(v.Path().Selectors()))
}

// given returns the constraint's own value for a missing field, or nil if it is
// not concrete.
func given(v cue.Value) *tree {
	if v.Validate(cue.Concrete(true)) != nil {
		return nil
	}
	scratch := &findings{}
	r := reader{findings: scratch, layer: "site"}
	t := r.read(v, anything, "")
	if len(scratch.list) > 0 {
		return nil
	}
	return t
}

// objection describes why the constraint rejects the value at a path.
func (c *constraint) objection(have any, path []string, e errors.Error) string {
	is, ok := at(have, path)
	want := part(c.value, path)
	if !ok || !want.Exists() || want.Err() != nil {
		return ": " + message(e)
	}
	text, _ := json.Marshal(is) // plain values
	return fmt.Sprintf(" is %s; it must be %s", shorten(string(text)), shorten(fmt.Sprint(want)))
}

// at returns the part of a plain value at a path.
func at(have any, path []string) (any, bool) {
	for _, key := range path {
		ok := false
		switch x := have.(type) {
		case map[string]any:
			have, ok = x[key]
		case []any:
			i, err := strconv.Atoi(key)
			if ok = err == nil && i < len(x); ok {
				have = x[i]
			}
		}
		if !ok {
			return nil, false
		}
	}
	return have, true
}

// part returns what a constraint has at a path, whether the field is required
// or optional.
func part(v cue.Value, path []string) cue.Value {
	for _, key := range path {
		from, label := v, cue.Str(key)
		ways := []cue.Selector{label, label.Required(), label.Optional(), cue.AnyString}
		if i, err := strconv.Atoi(key); err == nil && i >= 0 && from.IncompleteKind() == cue.ListKind {
			ways = []cue.Selector{cue.Index(i), cue.AnyIndex}
		}
		for _, way := range ways {
			if v = from.LookupPath(cue.MakePath(way)); v.Exists() {
				break
			}
		}
	}
	return v
}
