package design

import (
	"fmt"
	"path"
	"slices"

	"cuelang.org/go/cue/ast"

	"github.com/slipway-gitops/slipway/engine/site"
)

// siteDirs returns the directories of the sites' packages.
func (m *migrator) siteDirs() []string {
	var dirs []string
	for _, name := range m.names() {
		if dir := path.Dir(name); path.Dir(dir) == sitesDir && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	if len(dirs) == 0 {
		return []string{"."}
	}
	return dirs
}

// packageIn lists the files of a site's package, innermost first.
func (m *migrator) packageIn(dir string) []string {
	l := newLoader(m.pack)
	l.dir = dir
	pkg := l.mainPackage()
	var files []string
	for _, d := range lineage(dir) {
		in := slices.DeleteFunc(l.inDir(d), func(name string) bool { return packageName(l.files[name]) != pkg })
		files = append(in, files...)
	}
	return files
}

// states reports whether a site already states the present version. It reports a version
// that this program does not migrate from.
func (m *migrator) states(files []string) bool {
	for _, name := range files {
		for _, v := range under(topFields(m.files[name], "site"), "schema") {
			lit, ok := v.(*ast.BasicLit)
			switch {
			case ok && lit.Value == fmt.Sprintf("%q", site.SchemaVersion):
				return true
			case ok && lit.Value == fmt.Sprintf("%q", versionBefore):
			default:
				m.findings.at(origin(v.Pos(), "site"), site.Finding{
					Code: "schema-version", Message: fmt.Sprintf("the site is written for the schema %s", m.text(v)),
					Why: "The meaning of a field may have changed, and this program does not know how.",
					Fix: fmt.Sprintf("Use a slipway of that version; this one migrates from %q to %q.", versionBefore, site.SchemaVersion),
				})
			}
		}
	}
	return false
}

// topFields returns the values of the fields with a name at the top of a file.
func topFields(f *ast.File, name string) []ast.Expr {
	var values []ast.Expr
	for _, d := range f.Decls {
		if field, ok := d.(*ast.Field); ok && labelled(field, name) {
			values = append(values, field.Value)
		}
	}
	return values
}

// under returns the values of the fields with a name in structs.
func under(values []ast.Expr, name string) []ast.Expr {
	var found []ast.Expr
	for _, v := range values {
		for _, s := range structs(v) {
			for _, d := range s.Elts {
				if field, ok := d.(*ast.Field); ok && labelled(field, name) {
					found = append(found, field.Value)
				}
			}
		}
	}
	return found
}

// structs returns the structs that make up an expression.
func structs(e ast.Expr) []*ast.StructLit {
	switch x := e.(type) {
	case *ast.StructLit:
		return []*ast.StructLit{x}
	case *ast.BinaryExpr:
		return append(structs(x.X), structs(x.Y)...)
	case *ast.UnaryExpr:
		return structs(x.X)
	case *ast.ParenExpr:
		return structs(x.X)
	case *ast.Alias:
		return structs(x.Expr)
	}
	return nil
}

// modelsOf returns a field's name, the names that it refers to and that these are made of,
// and the names of `let` clauses for any of them.
func (m *migrator) modelsOf(name string) map[string]bool {
	names := map[string]bool{name: true}
	for before := 0; before != len(names); {
		before = len(names)
		for _, f := range m.files {
			eachNamed(f, names, func(e ast.Expr) {
				for _, name := range parts(e) {
					names[name] = true
				}
			})
			ast.Walk(f, func(n ast.Node) bool {
				let, ok := n.(*ast.LetClause)
				if ok && slices.ContainsFunc(parts(let.Expr), func(name string) bool { return names[name] }) {
					names[let.Ident.Name] = true
				}
				return true
			}, nil)
		}
	}
	return names
}

// eachNamed visits the values of everything with one of some names, except within the
// site's own kinds of items.
func eachNamed(f *ast.File, names map[string]bool, visit func(ast.Expr)) {
	ast.Walk(f, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.LetClause:
			if names[x.Ident.Name] {
				visit(x.Expr)
			}
		case *ast.Field:
			name, _, err := ast.LabelName(x.Label)
			if err == nil && names[name] {
				visit(x.Value)
			}
			return name != extensionsField
		}
		return true
	}, nil)
}

// parts returns the last names of the references that make up an expression.
func parts(e ast.Expr) []string {
	switch x := e.(type) {
	case *ast.Ident:
		return []string{x.Name}
	case *ast.SelectorExpr:
		name, _, err := ast.LabelName(x.Sel)
		if err == nil {
			return []string{name}
		}
	case *ast.BinaryExpr:
		return append(parts(x.X), parts(x.Y)...)
	case *ast.UnaryExpr:
		return parts(x.X)
	case *ast.ParenExpr:
		return parts(x.X)
	case *ast.Alias:
		return append(parts(x.Ident), parts(x.Expr)...)
	case *ast.StructLit:
		var names []string
		for _, d := range x.Elts {
			if e, ok := d.(*ast.EmbedDecl); ok {
				names = append(names, parts(e.Expr)...)
			}
		}
		return names
	}
	return nil
}
