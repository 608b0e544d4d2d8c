package design

import (
	"cmp"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/format"
	"cuelang.org/go/cue/parser"
	"cuelang.org/go/cue/token"

	"github.com/slipway-gitops/slipway/schema"
)

// Definition is a definition of the schema, for people to read.
type Definition struct {
	// Name begins with "#".
	Name string `json:"name"`
	// Doc is the comment, Type says in words what fits.
	Doc  string `json:"doc"`
	Type string `json:"type,omitempty"`
	// Embeds are definitions whose fields this one has too.
	Embeds []string `json:"embeds,omitempty"`
	Fields []Field  `json:"fields,omitempty"`
	// Text is the definition in CUE, with its comments.
	Text string `json:"text"`
}

// Field is a field of a definition or of a struct within it.
type Field struct {
	// Path is the field's path within the definition; NAME stands for any key
	// of a map.
	Path string `json:"path"`
	Doc  string `json:"doc,omitempty"`
	// Type says in words what fits, or names a definition.
	Type string `json:"type"`
	// Required says that the field must be set. Default is its value in CUE
	// when it is not set.
	Required bool   `json:"required,omitempty"`
	Default  string `json:"default,omitempty"`
	// Readers say what uses the field: "rule CODE", "facet NAME", "engine",
	// "people" where only people use it, or "later NAME" where nothing acts on
	// it yet. A field with fields of its own has none.
	Readers []string `json:"readers,omitempty"`
	// Holds says that the field has fields of its own: those that follow, or
	// those of its definition.
	Holds bool `json:"holds,omitempty"`
}

// Section is a top-level field of a site.
type Section struct {
	Name string `json:"name"`
	// Definition is what the section holds: one, or Many by name.
	Definition string `json:"definition"`
	Many       bool   `json:"many"`
}

// Sections lists the top-level fields of a site.
func Sections() []Section {
	var all []Section
	for _, s := range sections {
		all = append(all, Section{s.name, s.definition, s.many})
	}
	return all
}

// Definitions lists the definitions of the schema by name.
var Definitions = sync.OnceValue(func() []Definition {
	r := referencer{structs: map[string]bool{}}
	fields := r.declared()
	var all []Definition
	for _, f := range fields {
		all = append(all, r.definition(f))
	}
	slices.SortFunc(all, func(a, b Definition) int { return strings.Compare(a.Name, b.Name) })
	for i, d := range all {
		all[i].Fields = inherit(d, all)
	}
	return all
})

// inherit returns a definition's fields. A field that only repeats one of an
// embedded definition gets its texts from there, or is left out if it adds
// nothing.
func inherit(d Definition, all []Definition) []Field {
	var fields []Field
	for _, f := range d.Fields {
		from, ok := embedded(d, f.Path, all)
		if ok && f.Holds && !f.Required && f.Default == "" {
			continue
		}
		if ok && f.Doc == "" {
			f.Doc, f.Type, f.Readers = from.Doc, from.Type, from.Readers
		}
		fields = append(fields, f)
	}
	return fields
}

// embedded finds the field of a path in the definitions that d embeds.
func embedded(d Definition, path string, all []Definition) (Field, bool) {
	for _, e := range all {
		if !slices.Contains(d.Embeds, e.Name) {
			continue
		}
		if f, ok := lookup(e, path, all); ok {
			return f, true
		}
	}
	return Field{}, false
}

// lookup finds the field of a path in a definition, in definitions that it
// embeds, or in the definition of one of its fields.
func lookup(d Definition, path string, all []Definition) (Field, bool) {
	for _, f := range d.Fields {
		if f.Path == path {
			return f, true
		}
		rest, within := strings.CutPrefix(path, f.Path+".")
		if !within {
			continue
		}
		if found, ok := embedded(Definition{Embeds: []string{f.Type}}, rest, all); ok {
			return found, true
		}
	}
	return embedded(d, path, all)
}

// referencer reads definitions from the text of the schema.
type referencer struct {
	// structs are the definitions that have fields.
	structs map[string]bool
}

// declared returns the definitions as the files declare them.
func (r *referencer) declared() []*ast.Field {
	var fields []*ast.Field
	names, _ := fs.Glob(schema.Files, "*.cue")
	for _, name := range names {
		src, _ := fs.ReadFile(schema.Files, name)
		f, err := parser.ParseFile(schemaPrefix+name, src, parser.ParseComments)
		if err != nil {
			panic(err) // embedded, and parsed by the tests
		}
		for _, d := range f.Decls {
			if field, ok := d.(*ast.Field); ok {
				_, isStruct := field.Value.(*ast.StructLit)
				r.structs[labelOf(field)] = isStruct
				fields = append(fields, field)
			}
		}
	}
	return fields
}

func (r *referencer) definition(f *ast.Field) Definition {
	d := Definition{Name: labelOf(f), Doc: docOf(f)}
	if s, ok := f.Value.(*ast.StructLit); ok {
		d.Embeds = embeds(s)
		d.Fields = r.fields("", s)
	} else {
		d.Type = cmp.Or(attribute(f, "form"), words(f.Value))
	}
	d.Text = textOf(f)
	return d
}

// fields reads the fields of a struct, and of those within it.
func (r *referencer) fields(path string, s *ast.StructLit) []Field {
	var all []Field
	for _, d := range s.Elts {
		if f, ok := d.(*ast.Field); ok {
			all = append(all, r.field(path, f)...)
		}
	}
	return all
}

func (r *referencer) field(path string, f *ast.Field) []Field {
	one := Field{Path: join(path, labelOf(f)), Doc: docOf(f), Required: f.Constraint == token.NOT}
	// A map's keys belong to the line of the map.
	for inner := onlyPattern(f.Value); inner != nil; inner = onlyPattern(f.Value) {
		f = inner
		one.Path = join(one.Path, labelOf(f))
		one.Doc = strings.TrimSpace(one.Doc + " " + docOf(f))
	}
	if readers := attribute(f, "reader"); readers != "" {
		one.Readers = strings.Split(readers, ", ")
	}
	one.Default = defaultOf(f.Value)
	one.Type = cmp.Or(attribute(f, "form"), words(f.Value))
	s, isStruct := f.Value.(*ast.StructLit)
	if !isStruct {
		one.Holds = r.structs[one.Type]
		return []Field{one}
	}
	within := r.fields(one.Path, s)
	one.Holds = len(within) > 0
	if e := embeds(s); len(e) > 0 {
		one.Type = strings.Join(e, " and ")
	}
	return append([]Field{one}, within...)
}

// labelOf returns a field's name, or NAME for a pattern.
func labelOf(f *ast.Field) string {
	name, _, err := ast.LabelName(f.Label)
	if err != nil {
		return "NAME"
	}
	return name
}

// onlyPattern returns the pattern of a struct that is a map, or nil for another
// struct.
func onlyPattern(value ast.Expr) *ast.Field {
	s, ok := value.(*ast.StructLit)
	if !ok || len(s.Elts) != 1 {
		return nil
	}
	f, ok := s.Elts[0].(*ast.Field)
	if !ok {
		return nil
	}
	if _, isPattern := f.Label.(*ast.ListLit); !isPattern {
		return nil
	}
	return f
}

// embeds returns the definitions that a struct embeds.
func embeds(s *ast.StructLit) []string {
	var names []string
	for _, d := range s.Elts {
		if e, ok := d.(*ast.EmbedDecl); ok {
			if id, ok := e.Expr.(*ast.Ident); ok {
				names = append(names, id.Name)
			}
		}
	}
	return names
}

// docOf returns a field's comment as one text.
func docOf(f *ast.Field) string {
	var b strings.Builder
	for _, c := range ast.Comments(f) {
		if c.Doc {
			b.WriteString(c.Text())
		}
	}
	return strings.TrimSpace(b.String())
}

// attribute returns the text of a field's attribute; empty without one.
func attribute(f *ast.Field, key string) string {
	for _, a := range f.Attrs {
		if k, body := a.Split(); k == key {
			text, err := strconv.Unquote(body)
			if err != nil {
				panic(err) // embedded, and read by the tests
			}
			return text
		}
	}
	return ""
}

// defaultOf returns the default of an expression, in CUE; empty without one.
func defaultOf(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.BinaryExpr:
		return cmp.Or(defaultOf(x.X), defaultOf(x.Y))
	case *ast.UnaryExpr:
		if x.Op == token.MUL {
			text, _ := format.Node(x.X) // it was parsed
			return string(text)
		}
	}
	return ""
}

// words says in words what fits an expression; empty where only the attribute
// form can say it.
func words(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.Ident:
		return cmp.Or(kindOf[x.Name], x.Name)
	case *ast.StructLit:
		return "fields"
	case *ast.ListLit:
		if rest, ok := x.Elts[0].(*ast.Ellipsis); ok {
			return "a list of " + words(rest.Type)
		}
	case *ast.UnaryExpr:
		if x.Op == token.MUL {
			return ""
		}
	case *ast.BinaryExpr:
		return cmp.Or(words(x.X), words(x.Y))
	}
	return ""
}

var kindOf = map[string]string{
	"string": "a text", "bool": "true or false", "int": "a whole number", "number": "a number", "_": "anything",
}

// textOf returns a definition's text without the engine's attributes.
func textOf(f *ast.Field) string {
	ast.Walk(f, func(n ast.Node) bool {
		if field, ok := n.(*ast.Field); ok {
			field.Attrs = slices.DeleteFunc(field.Attrs, func(a *ast.Attribute) bool {
				key, _ := a.Split()
				return key == "form" || key == "reader" || key == "constraint"
			})
		}
		return true
	}, nil)
	text, err := format.Node(f)
	if err != nil {
		panic(err) // embedded, and formatted by the tests
	}
	return string(text) + "\n"
}
