package author

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/format"
	"cuelang.org/go/cue/parser"
	"cuelang.org/go/cue/token"
)

// Edit is a change of values in a node's own declaration.
type Edit struct {
	Node   string      `json:"node"`
	Values []EditValue `json:"values"`
}

// EditValue is one value of a node.
type EditValue struct {
	// Path are the names that lead to the value in the node.
	Path []string `json:"path"`
	// Value is JSON: a text, a number, a truth value or a list of texts. Without it the value is
	// removed.
	Value json.RawMessage `json:"value,omitempty"`
	// Own says that the node's own declaration sets the value, and Below that another layer does.
	Own   bool `json:"own,omitempty"`
	Below bool `json:"below,omitempty"`
}

// At returns the path as people write it.
func (v EditValue) At() string { return strings.Join(v.Path, ".") }

// unset removes a value of a layer below.
const unset = "_ @unset()"

// Apply edits the files of a site's package, given by name, and keeps comments and formatting. It
// returns the changed files, or says why the node's declaration cannot be edited.
func (e Edit) Apply(files map[string][]byte) (edited map[string][]byte, why string) {
	d := &declaration{files: files, cuts: map[string][]cut{}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f, err := parser.ParseFile(name, files[name], parser.ParseComments)
		if err != nil {
			return nil, fmt.Sprintf("%s cannot be read as CUE", name)
		}
		d.find(f, "nodes", e.Node)
	}
	if len(d.at) == 0 {
		return nil, fmt.Sprintf("no file of the site's folder declares the node as `nodes: %s:`; a comprehension, a template, a reference or a folder above makes it", quote(e.Node))
	}
	for _, v := range e.Values {
		if why := d.edit(e.Node, v); why != "" {
			return nil, v.At() + ": " + why
		}
	}
	return d.result()
}

// declaration holds the places where files declare a node.
type declaration struct {
	files map[string][]byte
	// at are the values of `nodes: NAME:`, in the order of the files.
	at   []ast.Expr
	cuts map[string][]cut
}

// cut replaces bytes of a file.
type cut struct {
	start, end int
	text       string
}

// find finds the places where a file declares an entry of a section, such as a node.
func (d *declaration) find(f *ast.File, section, name string) {
	for _, decl := range f.Decls {
		all, ok := decl.(*ast.Field)
		if !ok || !isLabelled(all, section) {
			continue
		}
		for _, field := range fieldsOf(all.Value, name) {
			d.at = append(d.at, field.Value)
		}
	}
}

// fieldsOf returns the fields with a name in the structs that make up an expression. It does not
// include what a comprehension or a pattern yields.
func fieldsOf(e ast.Expr, name string) (all []*ast.Field) {
	for _, s := range structsOf(e) {
		for _, decl := range s.Elts {
			if field, ok := decl.(*ast.Field); ok && isLabelled(field, name) {
				all = append(all, field)
			}
		}
	}
	return all
}

// structsOf returns the structs that an expression unifies.
func structsOf(e ast.Expr) []*ast.StructLit {
	switch x := e.(type) {
	case *ast.StructLit:
		return []*ast.StructLit{x}
	case *ast.BinaryExpr:
		if x.Op == token.AND {
			return append(structsOf(x.X), structsOf(x.Y)...)
		}
	case *ast.ParenExpr:
		return structsOf(x.X)
	}
	return nil
}

// isLabelled reports whether a field has exactly this name; patterns and computed names do not
// count.
func isLabelled(f *ast.Field, name string) bool {
	switch f.Label.(type) {
	case *ast.Ident, *ast.BasicLit:
		label, _, err := ast.LabelName(f.Label)
		return err == nil && label == name && !strings.HasPrefix(label, "_")
	}
	return false
}

// edit changes one value, or says why it cannot.
func (d *declaration) edit(node string, v EditValue) (why string) {
	text, why := literalOf(v.Value)
	switch {
	case why != "":
		return why
	case v.Own:
		return d.replace(v, text)
	case text == "":
		text = unset
	}
	d.add(node, v.Path, text)
	return ""
}

// literalOf returns a value as a CUE literal, or an empty text for no value.
func literalOf(value json.RawMessage) (text, why string) {
	if value == nil {
		return "", ""
	}
	var v any
	dec := json.NewDecoder(bytes.NewReader(value))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return "", "what was observed cannot be read"
	}
	switch v := v.(type) {
	case string:
		return quote(v), ""
	case bool:
		return fmt.Sprint(v), ""
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return fmt.Sprint(n), ""
		}
	case []any:
		var texts []string
		for _, x := range v {
			s, ok := x.(string)
			if !ok {
				return "", "what was observed is not a list of texts"
			}
			texts = append(texts, s)
		}
		return cueValue(texts), ""
	}
	return "", "what was observed is neither a text, a whole number, a truth value nor a list of texts"
}

// replace replaces the literals that the declaration has at a path, or removes the fields.
func (d *declaration) replace(v EditValue, text string) (why string) {
	found := false
	for _, at := range d.at {
		for _, chain := range chainsTo(at, v.Path) {
			found = true
			field := chain[len(chain)-1]
			switch {
			case len(field.Attrs) > 0 || text != "" && !isLiteral(field.Value):
				return fmt.Sprintf("at %s it is computed, or set by more than a literal, and Slipway replaces only a literal", field.Pos())
			case text != "":
				d.cut(field.Value, text)
			case v.Below:
				d.cut(field.Value, unset)
			default:
				d.remove(chain)
			}
		}
	}
	if !found {
		return "a comprehension, a template or a reference in the node's declaration sets it"
	}
	return ""
}

// chainsTo returns, for each field at a path below an expression, the fields that lead to it.
func chainsTo(e ast.Expr, path []string) (all [][]*ast.Field) {
	for _, field := range fieldsOf(e, path[0]) {
		if len(path) == 1 {
			all = append(all, []*ast.Field{field})
			continue
		}
		for _, rest := range chainsTo(field.Value, path[1:]) {
			all = append(all, append([]*ast.Field{field}, rest...))
		}
	}
	return all
}

// isLiteral reports whether an expression is a literal value.
func isLiteral(e ast.Expr) bool {
	switch x := e.(type) {
	case *ast.BasicLit:
		return x.Kind != token.NULL
	case *ast.UnaryExpr:
		_, isNumber := x.X.(*ast.BasicLit)
		return x.Op == token.SUB && isNumber
	case *ast.ListLit:
		return !slices.ContainsFunc(x.Elts, func(e ast.Expr) bool { return !isLiteral(e) })
	}
	return false
}

// remove removes a field and enclosing fields without braces, because the rest of `bios:
// attributes: X: "1"` would not be CUE.
func (d *declaration) remove(chain []*ast.Field) {
	i := len(chain) - 1
	for i > 0 && !isBraced(chain[i], chain[i-1].Value) {
		i--
	}
	if i == 0 && !slices.ContainsFunc(d.at, func(e ast.Expr) bool { return isBraced(chain[0], e) }) {
		d.cut(chain[0], "{}")
		return
	}
	name, start, end := chain[i].Pos().Filename(), chain[i].Pos().Offset(), chain[i].End().Offset()
	src := d.files[name]
	if end < len(src) && src[end] == ',' {
		end++
		for end < len(src) && src[end] == ' ' {
			end++
		}
	}
	line := bytes.LastIndexByte(src[:start], '\n') + 1
	next := end + bytes.IndexByte(append(src[end:len(src):len(src)], '\n'), '\n')
	if len(bytes.TrimSpace(src[line:start]))+len(bytes.TrimSpace(src[end:next])) == 0 {
		start, end = line, min(next+1, len(src)) // it has its own lines
	}
	d.cuts[name] = append(d.cuts[name], cut{start, end, ""})
}

// isBraced reports whether a field is directly within braces of an expression.
func isBraced(field *ast.Field, in ast.Expr) bool {
	return slices.ContainsFunc(structsOf(in), func(s *ast.StructLit) bool {
		return s.Lbrace.IsValid() && slices.Contains(s.Elts, ast.Decl(field))
	})
}

func (d *declaration) cut(n ast.Node, text string) {
	name := n.Pos().Filename()
	d.cuts[name] = append(d.cuts[name], cut{n.Pos().Offset(), n.End().Offset(), text})
}

// add adds a value to the declaration: in the innermost braces that lead to it, or else as a
// separate declaration after the file's last line.
func (d *declaration) add(node string, path []string, text string) {
	into, depth := (*ast.StructLit)(nil), -1
	for _, at := range d.at {
		if s, n := innermost(at, path); s != nil && n > depth {
			into, depth = s, n
		}
	}
	if into == nil {
		name := d.at[0].Pos().Filename()
		end := len(bytes.TrimRight(d.files[name], "\n"))
		d.cuts[name] = append(d.cuts[name], cut{end, end, "\n\n" + lineAt(append([]string{"nodes", node}, path...), text)})
		return
	}
	name, at := into.Rbrace.Filename(), into.Rbrace.Offset()
	src := d.files[name]
	begin := bytes.LastIndexByte(src[:at], '\n') + 1
	added := lineAt(path[depth:], text)
	switch {
	case strings.TrimSpace(string(src[begin:at])) == "": // the brace is on its own line
		d.cuts[name] = append(d.cuts[name], cut{begin, begin, string(src[begin:at]) + "\t" + added + "\n"})
	case len(into.Elts) == 0 && !slices.ContainsFunc(d.cuts[name], func(c cut) bool { return c.start == at }):
		d.cuts[name] = append(d.cuts[name], cut{at, at, added})
	default:
		d.cuts[name] = append(d.cuts[name], cut{at, at, ", " + added})
	}
}

// innermost returns the deepest braced struct along a path, and how many of the path's names lead
// to it.
func innermost(e ast.Expr, path []string) (s *ast.StructLit, depth int) {
	for _, x := range structsOf(e) {
		if s == nil && x.Lbrace.IsValid() {
			s = x
		}
	}
	if len(path) < 2 {
		return s, 0
	}
	for _, field := range fieldsOf(e, path[0]) {
		if inner, n := innermost(field.Value, path[1:]); inner != nil {
			return inner, n + 1
		}
	}
	return s, 0
}

// lineAt returns a value at a path on one line.
func lineAt(path []string, text string) string {
	var b strings.Builder
	for _, name := range path {
		b.WriteString(label(name) + ": ")
	}
	return b.String() + text
}

// result returns the texts of the files that change. A formatted file stays formatted.
func (d *declaration) result() (edited map[string][]byte, why string) {
	edited = map[string][]byte{}
	for name, cuts := range d.cuts {
		src := d.files[name]
		text := cutting(src, cuts)
		formatted, err := format.Source(text)
		if err != nil {
			return nil, fmt.Sprintf("%s would no longer be valid CUE", name)
		}
		if before, err := format.Source(src); err == nil && bytes.Equal(before, src) {
			text = formatted
		}
		edited[name] = text
	}
	return edited, ""
}

// cutting applies cuts that do not overlap. Cuts at the same place keep their order.
func cutting(src []byte, cuts []cut) []byte {
	slices.SortStableFunc(cuts, func(a, b cut) int { return a.start - b.start })
	var out []byte
	at := 0
	for _, c := range cuts {
		if c.start < at {
			continue // within removed text
		}
		out = append(append(out, src[at:c.start]...), c.text...)
		at = c.end
	}
	return append(out, src[at:]...)
}
