package design

import (
	"maps"
	"slices"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/format"
	cueliteral "cuelang.org/go/cue/literal"
	"cuelang.org/go/cue/token"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/schema"
)

// Most nodes of a large site differ only in names, serial numbers and
// addresses. CUE does not need to repeat for each of them what it found for
// one. A node is plain when its declaration is literals in braces, possibly
// unified with references. Nodes are alike when they are plain with the same
// references and the same fields. CUE evaluates one of them, the model. The
// layer of each other node combines the model's layer with the node's own
// literals, provided that
//
//   - nothing that nodes share computes with what a node says (inert), so that
//     other literals change nothing but themselves;
//   - in the model each literal stands alone: only the schema says more about
//     its field;
//   - the schema accepts the other node's literals.
//
// If any of this is uncertain, CUE evaluates the node.

// plainNode is the declaration of a plain node.
type plainNode struct {
	name string
	// class identifies nodes that are alike.
	class string
	// literals is the layer of the literals in the braces.
	literals *tree
	place    site.Origin
}

// plainNodes finds the plain nodes of a package: those declared once and
// plainly.
func plainNodes(files []*ast.File) map[string]*plainNode {
	all, seen := map[string]*plainNode{}, map[string]bool{}
	for _, f := range files {
		for _, d := range f.Decls {
			section, in := fieldsIn(d)
			if section != nodesSection {
				continue
			}
			for _, x := range in {
				name, _, err := ast.LabelName(x.Label)
				if err != nil {
					continue
				}
				delete(all, name)
				if n := plainly(name, x); n != nil && !seen[name] {
					all[name] = n
				}
				seen[name] = true
			}
		}
	}
	return all
}

// plainly returns a node's declaration as a plain one, or nil if it is not
// plain.
func plainly(name string, f *ast.Field) *plainNode {
	if len(f.Attrs) > 0 || f.Constraint != token.ILLEGAL {
		return nil
	}
	var class strings.Builder
	braces := operands(f.Value, &class)
	if braces == nil {
		return nil
	}
	t := literalTree(braces, "node/"+name)
	if t == nil {
		return nil
	}
	t.skeleton(&class)
	return &plainNode{name: name, class: class.String(), literals: t, place: origin(f.Pos(), "node/"+name)}
}

// operands takes `#A & b.#C & {…}` apart. It writes the references and returns
// the braces, or nil for anything else.
func operands(x ast.Expr, refs *strings.Builder) *ast.StructLit {
	switch y := x.(type) {
	case *ast.StructLit:
		return y
	case *ast.BinaryExpr:
		if y.Op != token.AND || !isReference(y.X) && !isUnion(y.X) {
			return nil
		}
		text, err := format.Node(y.X)
		if err != nil {
			return nil
		}
		refs.Write(text)
		refs.WriteByte('\n')
		return operands(y.Y, refs)
	}
	return nil
}

func isReference(x ast.Expr) bool {
	switch y := x.(type) {
	case *ast.Ident:
		return true
	case *ast.SelectorExpr:
		_, ok := y.X.(*ast.Ident)
		return ok
	}
	return false
}

func isUnion(x ast.Expr) bool {
	y, ok := x.(*ast.BinaryExpr)
	return ok && y.Op == token.AND && isReference(y.Y) && (isReference(y.X) || isUnion(y.X))
}

// literalTree returns the layer of literals in braces, or nil if there is
// anything else.
func literalTree(s *ast.StructLit, layer string) *tree {
	t := &tree{fields: make(map[string]*tree, len(s.Elts))}
	for _, d := range s.Elts {
		f, ok := d.(*ast.Field)
		if !ok || len(f.Attrs) > 0 || f.Constraint != token.ILLEGAL || hasAlias(f) {
			return nil
		}
		name, _, err := ast.LabelName(f.Label)
		sub := literalField(f.Value, layer)
		if err != nil || sub == nil || strings.HasPrefix(name, "_") || strings.HasPrefix(name, "#") {
			return nil
		}
		if t.fields[name] = together(t.fields[name], sub); t.fields[name] == nil {
			return nil
		}
	}
	return t
}

// together combines two declarations of one field. It returns nil unless both
// are braces.
func together(a, b *tree) *tree {
	switch {
	case a == nil:
		return b
	case a.fields == nil || b.fields == nil:
		return nil
	}
	for name, f := range b.fields {
		if a.fields[name] = together(a.fields[name], f); a.fields[name] == nil {
			return nil
		}
	}
	return a
}

func literalField(x ast.Expr, layer string) *tree {
	if s, ok := x.(*ast.StructLit); ok {
		t := literalTree(s, layer)
		if t != nil && len(t.fields) == 0 {
			t.origin = origin(s.Pos(), layer)
		}
		return t
	}
	value, ok := literalValue(x)
	if !ok {
		return nil
	}
	return &tree{value: value, origin: origin(x.Pos(), layer)}
}

// literalValue returns the value of a text, a decimal whole number, true or
// false, or a list of these.
func literalValue(x ast.Expr) (any, bool) {
	switch y := x.(type) {
	case *ast.BasicLit:
		return basicValue(y)
	case *ast.ListLit:
		list := []any{}
		for _, item := range y.Elts {
			b, ok := item.(*ast.BasicLit)
			if !ok {
				return nil, false
			}
			v, ok := basicValue(b)
			if !ok {
				return nil, false
			}
			list = append(list, v)
		}
		return list, true
	}
	return nil, false
}

func basicValue(x *ast.BasicLit) (any, bool) {
	switch x.Kind {
	case token.STRING:
		text, err := cueliteral.Unquote(x.Value)
		return text, err == nil && !strings.HasPrefix(x.Value, "'")
	case token.INT:
		var n cueliteral.NumInfo
		if cueliteral.ParseNum(x.Value, &n) != nil || !isDecimal(x.Value) {
			return nil, false
		}
		return parseDecimal(x.Value)
	case token.TRUE:
		return true, true
	case token.FALSE:
		return false, true
	}
	return nil, false
}

// isDecimal reports whether a number has the usual decimal notation.
func isDecimal(text string) bool {
	return text == "0" || len(text) < 18 && strings.Trim(text, "0123456789") == "" && text[0] != '0'
}

func parseDecimal(text string) (any, bool) {
	n := int64(0)
	for _, c := range text {
		n = n*10 + int64(c-'0')
	}
	return n, true
}

// skeleton writes a tree's fields without their values.
func (t *tree) skeleton(to *strings.Builder) {
	for _, key := range t.keys() {
		f := t.fields[key]
		to.WriteString(cueliteral.String.Quote(key))
		if f.fields == nil {
			to.WriteByte(';')
			continue
		}
		to.WriteByte('{')
		f.skeleton(to)
		to.WriteByte('}')
	}
}

// inert reports whether nothing but the nodes computes with what a node says,
// neither in the files of a package nor in the packages that it imports.
func inert(inst *build.Instance, imported map[string]*build.Instance) bool {
	for _, f := range inst.Files {
		for _, d := range f.Decls {
			if !inertDecl(d) {
				return false
			}
		}
	}
	for path, i := range imported {
		if path == schema.Path {
			continue
		}
		for _, f := range i.Files {
			if slices.ContainsFunc(f.Decls, func(d ast.Decl) bool { return !inertIn(d, nil) }) {
				return false
			}
		}
	}
	return true
}

func inertDecl(d ast.Decl) bool {
	section, in := fieldsIn(d)
	if section != nodesSection {
		return inertIn(d, nil)
	}
	return !slices.ContainsFunc(in, func(f *ast.Field) bool {
		list, isPattern := f.Label.(*ast.ListLit)
		return isPattern && (!ofEveryNode(list) || !inertIn(f.Value, nil))
	})
}

// ofEveryNode reports whether a pattern is `[string]` or `[_]`.
func ofEveryNode(pattern *ast.ListLit) bool {
	if len(pattern.Elts) != 1 {
		return false
	}
	x, ok := pattern.Elts[0].(*ast.Ident)
	return ok && (x.Name == "string" || x.Name == "_")
}

// inertIn reports whether an expression or declaration refers to no field
// declared around it, and chooses nothing. Then it is the same wherever it is
// unified.
func inertIn(n ast.Node, around []names) bool {
	good := true
	ast.Walk(n, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.Comprehension, *ast.Alias, *ast.LetClause, *ast.Ellipsis, *ast.Interpolation, *ast.CallExpr:
			good = false
		case *ast.BinaryExpr:
			good = good && x.Op != token.OR
		case *ast.Field:
			good = good && x.Alias == nil && inertLabel(x.Label)
			if good && x.Value != nil {
				good = inertIn(x.Value, around)
			}
			return false
		case *ast.SelectorExpr:
			good = good && inertIn(x.X, around)
			return false
		case *ast.StructLit:
			inner := append(slices.Clip(around), labelsIn(x))
			for _, d := range x.Elts {
				good = good && inertIn(d, inner)
			}
			return false
		case *ast.Ident:
			good = good && !slices.ContainsFunc(around, func(in names) bool { return in[x.Name] })
		}
		return good
	}, nil)
	return good
}

func inertLabel(l ast.Label) bool {
	switch x := l.(type) {
	case *ast.Ident, *ast.BasicLit:
		return true
	case *ast.ListLit:
		return ofEveryNode(x)
	}
	return false
}

// labelsIn returns the names by which the contents of braces can be referred to
// there.
func labelsIn(s *ast.StructLit) names {
	all := names{}
	for _, d := range s.Elts {
		if f, ok := d.(*ast.Field); ok {
			if name := labelIdent(f.Label); name != "" {
				all[name] = true
			}
		}
	}
	return all
}

// classes are groups of plain nodes that are alike, each with its model first.
type classes [][]*plainNode

// alike sorts plain nodes into classes of at least two.
func alike(plain map[string]*plainNode) classes {
	byClass := map[string][]*plainNode{}
	for _, name := range slices.Sorted(maps.Keys(plain)) {
		n := plain[name]
		byClass[n.class] = append(byClass[n.class], n)
	}
	var all classes
	for _, class := range slices.Sorted(maps.Keys(byClass)) {
		if len(byClass[class]) > 1 {
			all = append(all, byClass[class])
		}
	}
	return all
}

// followers returns the nodes that need not be evaluated.
func (c classes) followers() names {
	all := names{}
	for _, class := range c {
		for _, n := range class[1:] {
			all[n.name] = true
		}
	}
	return all
}

// keepNodes removes the declarations of all other nodes from files.
func keepNodes(files []*ast.File, keep func(string) bool) {
	drop := func(d ast.Decl) bool {
		f, ok := d.(*ast.Field)
		if !ok {
			return false
		}
		name, _, err := ast.LabelName(f.Label)
		return err == nil && !keep(name)
	}
	for _, f := range files {
		f.Decls = slices.DeleteFunc(f.Decls, func(d ast.Decl) bool {
			section, in := fieldsIn(d)
			if section != nodesSection || len(in) == 0 {
				return false
			}
			s := d.(*ast.Field).Value.(*ast.StructLit)
			s.Elts = slices.DeleteFunc(s.Elts, drop)
			return len(s.Elts) == 0
		})
	}
}

// follow makes the layers of the nodes that are like a model. It returns the
// names of the others, which CUE must evaluate.
func follow(class []*plainNode, model *layer, value cue.Value) (followers []layer, others []string) {
	good := model != nil && len(model.findings) == 0 && !model.broken && standsAlone(class[0].literals, model.tree, value)
	in := shapes()["#Layer"]
	for _, n := range class[1:] {
		if !good || !in.acceptsAll(n.literals) {
			others = append(others, n.name)
			continue
		}
		o := n.place
		followers = append(followers, layer{name: n.name, place: o, tree: like(model.tree, n.literals, o.LayerName())})
	}
	return followers, others
}

// standsAlone reports whether each literal of a node is the value in its layer,
// and only the schema says more about it.
func standsAlone(literals, made *tree, v cue.Value) bool {
	for name, l := range literals.fields {
		m, sub := made.get(name), v.LookupPath(cue.MakePath(cue.Str(name)))
		switch {
		case m == nil:
			return false
		case l.fields != nil:
			if len(m.fields) == 0 && m.origin != l.origin || !standsAlone(l, m, sub) {
				return false
			}
		case m.fields != nil || m.origin != l.origin || said(sub) != 1:
			return false
		}
	}
	return true
}

// said counts the places outside the schema that set a value.
func said(v cue.Value) int {
	n := 0
	for _, c := range conjuncts(v) {
		if ours(literal(c)) {
			n++
		}
	}
	return n
}

// like returns a copy of a model's layer with other literals.
func like(model, literals *tree, of string) *tree {
	t := &tree{fields: make(map[string]*tree, len(model.fields)), origin: model.origin, unset: model.unset, open: model.open, preset: model.preset}
	if o := model.origin; !o.IsZero() && o.LayerName() != "schema" {
		t.origin = site.At(o.File.Value(), o.Line, o.Col, of)
	}
	if literals != nil && !literals.origin.IsZero() && len(model.fields) == 0 {
		t.origin = literals.origin
	}
	if model.fields == nil {
		t.fields, t.value = nil, model.value
		for _, item := range model.items {
			t.items = append(t.items, indexed{item.at, like(item.tree, nil, of)})
		}
		return t
	}
	for name, m := range model.fields {
		if l := literals.get(name); l != nil && l.fields == nil {
			t.fields[name] = l
		} else {
			t.fields[name] = like(m, l, of)
		}
	}
	return t
}

// acceptsAll reports whether the schema accepts every literal of a layer.
func (s *shape) acceptsAll(t *tree) bool {
	for name, f := range t.fields {
		sub := s.sub(name)
		if sub == nil || f.fields != nil && (!sub.isStruct() || !sub.acceptsAll(f)) || f.fields == nil && !sub.accepts(f.value) {
			return false
		}
	}
	return true
}
