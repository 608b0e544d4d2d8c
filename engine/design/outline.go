package design

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"iter"
	"maps"
	"slices"
	"strconv"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/parser"
	"cuelang.org/go/cue/token"
)

// outline says how the text of a file of the site's package divides into the
// nodes and what they share. A worker makes it, because that requires parsing.
// The parent uses it and does not parse.
type outline struct {
	// Entangled says why the file cannot be divided; empty when it can.
	Entangled string  `json:"entangled,omitempty"`
	Parts     []piece `json:"parts,omitempty"`
	// Uses are the names that declarations of nodes, and patterns over nodes,
	// refer to.
	Uses []string `json:"uses,omitempty"`

	// The parent fills in: the parts that belong to no single node, whether
	// there are nodes and imports, and the digest of the package clause and the
	// imports.
	common            []*piece
	hasNodes, imports bool
	clauses           digest
}

// declarations yields the parts that belong to one node.
func (o *outline) declarations() iter.Seq[*piece] {
	return func(yield func(*piece) bool) {
		if o == nil || !o.hasNodes {
			return
		}
		for i := range o.Parts {
			if p := &o.Parts[i]; p.Kind == oneNode && !yield(p) {
				return
			}
		}
	}
}

// piece is one declaration of a file.
type piece struct {
	Kind pieceKind `json:"kind"`
	// Name is the node's name, or that of the field at the top of the package.
	Name string `json:"name,omitempty"`
	// Bare says that a node's name is an identifier, so that nodes next to it
	// could refer to it.
	Bare bool `json:"bare,omitempty"`
	// Start and End are the part's byte offsets, Line and Col where it begins.
	Start int `json:"start"`
	End   int `json:"end"`
	Line  int `json:"line"`
	Col   int `json:"col"`
	// Uses are the names that a field at the top refers to.
	Uses []string `json:"uses,omitempty"`

	// digest is that of the text and its place. The parent computes it.
	digest digest
}

type pieceKind int

const (
	// clause is the package clause or an import, which every text keeps.
	clause pieceKind = iota
	// topField is a field at the top of the package other than `nodes`.
	topField
	// overNodes is a pattern over nodes.
	overNodes
	// oneNode is a declaration of one node.
	oneNode
)

// outlineOf divides a file. A file is entangled if it does not parse or may
// bind nodes together. Then the package is evaluated as a whole, which is
// always correct.
func outlineOf(name string, src []byte, version string) *outline {
	f, err := parser.ParseFile(name, src, parser.Version(version))
	if err != nil {
		return &outline{Entangled: "it does not parse"}
	}
	o := outliner{src: src, nodes: map[string]bool{}}
	o.used = names{}
	for _, d := range f.Decls {
		o.top(d)
	}
	o.finish(f)
	if o.out.Entangled != "" {
		return &outline{Entangled: o.out.Entangled}
	}
	o.out.Uses = o.used.sorted()
	return &o.out
}

// settle computes the parent's fields of an outline, once for each text.
func (o *outline) settle(src []byte) {
	h := sha256.New()
	for i := range o.Parts {
		p := &o.Parts[i]
		if p.Start < 0 || p.End > len(src) || p.Start > p.End {
			*o = outline{Entangled: "it was divided wrongly"}
			return
		}
		p.digest = digestOf(append(binary.AppendUvarint(binary.AppendUvarint(nil, uint64(p.Line)), uint64(p.Col)), src[p.Start:p.End]...))
		switch p.Kind {
		case oneNode:
			o.hasNodes = true
			continue
		case clause:
			h.Write(p.digest[:])
			o.imports = o.imports || bytes.HasPrefix(src[p.Start:p.End], []byte("import"))
		}
		o.common = append(o.common, p)
	}
	o.clauses = digest(h.Sum(nil))
}

type names map[string]bool

func (n names) sorted() []string { return slices.Sorted(maps.Keys(n)) }

type outliner struct {
	src []byte
	out outline
	// used are names that nodes refer to. nodes are the names by which one node
	// could refer to another one next to it.
	used  names
	nodes map[string]bool
}

func (o *outliner) entangled(why string) {
	if o.out.Entangled == "" {
		o.out.Entangled = why
	}
}

// top divides a declaration at the top of a file.
func (o *outliner) top(d ast.Decl) {
	switch x := d.(type) {
	case *ast.Package, *ast.ImportDecl, *ast.CommentGroup:
		o.part(clause, "", d, nil)
	case *ast.Field:
		o.field(x)
	case *ast.Attribute:
		o.entangled("it has an attribute of its own")
	default:
		o.entangled("a declaration at its top is not a field")
	}
}

func (o *outliner) field(f *ast.Field) {
	name, _, err := ast.LabelName(f.Label)
	switch {
	case err != nil || hasAlias(f):
		o.entangled("a field at its top has no name of its own")
	case name == nodesSection:
		o.section(f)
	default:
		uses := names{}
		uses.collect(f.Value)
		o.part(topField, name, f, uses)
	}
}

func hasAlias(f *ast.Field) bool {
	_, label := f.Label.(*ast.Alias)
	_, value := f.Value.(*ast.Alias)
	return label || value || f.Alias != nil
}

// section divides a declaration of nodes.
func (o *outliner) section(f *ast.Field) {
	s, ok := f.Value.(*ast.StructLit)
	if !ok || len(f.Attrs) > 0 || f.Constraint != token.ILLEGAL {
		o.entangled("`nodes` is more than fields in braces")
		return
	}
	for _, d := range s.Elts {
		switch x := d.(type) {
		case *ast.Field:
			o.node(f, x, len(s.Elts) == 1 && !s.Lbrace.IsValid())
		case *ast.CommentGroup:
		default:
			o.entangled("`nodes` has more than fields")
		}
	}
}

// node divides a field of `nodes`. alone says that no braces surround the
// field, so that the part is the whole declaration.
func (o *outliner) node(section, f *ast.Field, alone bool) {
	whole := ast.Node(f)
	if alone {
		whole = section
	}
	if _, isPattern := f.Label.(*ast.ListLit); isPattern {
		o.used.collect(f)
		o.part(overNodes, "", whole, nil)
		return
	}
	name, isIdent, err := ast.LabelName(f.Label)
	if err != nil || hasAlias(f) || f.Constraint != token.ILLEGAL {
		o.entangled("a node has no name of its own")
		return
	}
	if isIdent {
		o.nodes[labelIdent(f.Label)] = true
	}
	o.used.collect(f.Value)
	o.part(oneNode, name, whole, nil)
	if n := len(o.out.Parts); n > 0 {
		o.out.Parts[n-1].Bare = isIdent
	}
}

// labelIdent returns the identifier of a label, or an empty text if the label
// is quoted.
func labelIdent(l ast.Label) string {
	if x, ok := l.(*ast.Ident); ok {
		return x.Name
	}
	return ""
}

// collect adds every identifier in an expression that may be a reference. The
// names of fields are not references.
func (n names) collect(x ast.Node) {
	ast.Walk(x, func(y ast.Node) bool {
		switch z := y.(type) {
		case *ast.Field:
			if _, plain := z.Label.(*ast.Ident); plain && z.Value != nil {
				n.collect(z.Value)
				return false
			}
		case *ast.Ident:
			n[z.Name] = true
		case *ast.SelectorExpr:
			n.collect(z.X)
			return false
		}
		return true
	}, nil)
}

func (o *outliner) part(kind pieceKind, name string, x ast.Node, uses names) {
	start, end := x.Pos(), x.End()
	if !start.IsValid() || !end.IsValid() || start.Offset() > end.Offset() || end.Offset() > len(o.src) {
		o.entangled("a declaration has no place")
		return
	}
	o.out.Parts = append(o.out.Parts, piece{
		Kind: kind, Name: name, Start: start.Offset(), End: o.pastComma(end.Offset()),
		Line: start.Line(), Col: start.Column(), Uses: uses.sorted(),
	})
}

// pastComma returns the end of a declaration, including a comma after it.
func (o *outliner) pastComma(end int) int {
	for i := end; i < len(o.src); i++ {
		switch o.src[i] {
		case ' ', '\t':
		case ',':
			return i + 1
		default:
			return end
		}
	}
	return end
}

// finish looks for anything that binds nodes together.
func (o *outliner) finish(f *ast.File) {
	all := names{}
	all.collectBut(f)
	switch {
	case o.refers(f):
		o.entangled("it refers to `nodes`")
	case slices.ContainsFunc(o.used.sorted(), func(n string) bool { return o.nodes[n] }):
		o.entangled("a node may refer to one beside it")
	case o.sparesImports(f, all):
		o.entangled("an import is not used")
	}
	ast.Walk(f, func(n ast.Node) bool {
		if a, ok := n.(*ast.Attribute); ok {
			if key, _ := a.Split(); refused[key] != "" || key == "experiment" {
				o.entangled("it has an attribute that is not allowed")
			}
		}
		return true
	}, nil)
}

// refers reports whether a file refers to `nodes` anywhere.
func (o *outliner) refers(f *ast.File) bool {
	labels := map[*ast.Ident]bool{}
	found := false
	ast.Walk(f, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.Field:
			if l, ok := x.Label.(*ast.Ident); ok {
				labels[l] = true
			}
		case *ast.SelectorExpr:
			if l, ok := x.Sel.(*ast.Ident); ok {
				labels[l] = true
			}
		case *ast.Ident:
			found = found || x.Name == nodesSection && !labels[x]
		}
		return true
	}, nil)
	return found
}

// sparesImports reports whether a file has an import that nothing in it uses.
func (o *outliner) sparesImports(f *ast.File, used names) bool {
	for s := range f.ImportSpecs() {
		if !used[importName(s)] {
			return true
		}
	}
	return false
}

// importName returns the name by which a file uses an import.
func importName(s *ast.ImportSpec) string {
	if s.Name != nil {
		return s.Name.Name
	}
	text, err := strconv.Unquote(s.Path.Value)
	if err != nil {
		return ""
	}
	return ast.ParseImportPath(text).Qualifier
}

// withoutSpareImports drops imports that only left-out parts of the file used.
func withoutSpareImports(f *ast.File) {
	used := names{}
	used.collectBut(f)
	spare := func(s *ast.ImportSpec) bool { return !used[importName(s)] }
	for _, d := range f.Decls {
		if d, ok := d.(*ast.ImportDecl); ok {
			d.Specs = slices.DeleteFunc(d.Specs, spare)
		}
	}
	f.Decls = slices.DeleteFunc(f.Decls, func(d ast.Decl) bool {
		imports, ok := d.(*ast.ImportDecl)
		return ok && len(imports.Specs) == 0
	})
}

// collectBut adds every identifier of a file outside its imports.
func (n names) collectBut(f *ast.File) {
	for _, d := range f.Decls {
		if _, ok := d.(*ast.ImportDecl); !ok {
			n.collect(d)
		}
	}
}
