package design

import (
	"path"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/ast/astutil"
	"cuelang.org/go/cue/token"

	"github.com/slipway-gitops/slipway/engine/site"
)

// The endpoint that leads to the manager of a machine, with its former name.
const (
	endpointsField = "endpoints"
	managerBefore  = "bmc"
	managerField   = "manager"
)

// nameNow returns the present name of a renamed field in the struct at a path; empty for any
// other field.
func nameNow(in, name string) string {
	if name == managerBefore && lastOf(in) == endpointsField {
		return managerField
	}
	return ""
}

// isMigrated reports whether a migration rewrites a file.
func isMigrated(file string) bool {
	return path.Ext(file) == ".cue" && !strings.HasPrefix(file, "cue.mod/")
}

// managers renames the endpoint bmc to manager: the fields of endpoints, and the references
// to them. This change came without a new version of the schema.
func (m *migrator) managers() {
	ways := m.modelsOf(endpointsField)
	delete(ways, managerBefore) // names of a single endpoint, not of all
	delete(ways, managerField)
	for _, name := range m.names() {
		r := renaming{migrator: m, ways: ways, fields: map[*ast.Field]bool{}}
		r.file(m.files[name])
	}
}

// renaming renames the endpoint in one file.
type renaming struct {
	*migrator
	ways   map[string]bool // names of what `endpoints` refers to somewhere
	fields map[*ast.Field]bool
}

func (r *renaming) file(f *ast.File) {
	eachNamed(f, r.ways, func(e ast.Expr) {
		for _, s := range structs(e) {
			r.endpoints(s)
		}
	})
	astutil.Resolve(f, func(token.Pos, string, ...any) {}) // a name that is not declared here is in another file
	r.references(f)
}

// endpoints renames the fields of endpoints.
func (r *renaming) endpoints(s *ast.StructLit) {
	for _, d := range s.Elts {
		switch x := d.(type) {
		case *ast.Comprehension:
			for _, s := range structs(x.Value) {
				r.endpoints(s)
			}
		case *ast.Field:
			r.field(s, x)
		}
	}
}

func (r *renaming) field(in *ast.StructLit, f *ast.Field) {
	if pattern, ok := f.Label.(*ast.ListLit); ok {
		r.pattern(f, pattern)
		return
	}
	if r.fields[f] || !labelled(f, managerBefore) {
		return
	}
	if at := mentioned(in, managerField); at != nil {
		r.ask(at, "the name manager is used here for something else", "Give it another name: it would mean the endpoint `manager`, which `bmc` becomes.")
		return
	}
	r.fields[f] = true
	label := ast.Node(f.Label)
	if a, ok := label.(*ast.Alias); ok {
		label = a.Expr
	}
	r.replace(label, managerField)
	r.changed(f)
}

// pattern renames the endpoint in the label of a constraint, as in `["bmc" | "os"]: {…}`.
func (r *renaming) pattern(f *ast.Field, label *ast.ListLit) {
	if r.fields[f] {
		return
	}
	ast.Walk(label, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		switch {
		case !ok || !strings.Contains(lit.Value, managerBefore):
		case isText(lit, managerBefore):
			r.replace(lit, `"`+managerField+`"`)
			r.changed(label)
		default:
			r.ask(lit, "this pattern may mean the endpoint bmc, which is called manager now", "Change the pattern so that it matches \"manager\".")
		}
		return true
	}, nil)
	r.fields[f] = true
}

// references renames the endpoint in references to it.
func (r *renaming) references(f *ast.File) {
	ast.Walk(f, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.SelectorExpr:
			if slices.Equal(parts(x), []string{managerBefore}) && r.isWays(x.X) {
				r.refer(x, x.Sel, managerField)
			}
		case *ast.IndexExpr:
			if isText(x.Index, managerBefore) && r.isWays(x.X) {
				r.refer(x, x.Index, `"`+managerField+`"`)
			}
		case *ast.Ident:
			if x.Name == managerBefore && r.meansField(x) {
				r.refer(x, x, managerField)
			}
		case *ast.Field:
			if x.Value != nil && labelled(x, "url") {
				r.template(x)
			}
		case *ast.Comprehension:
			r.comprehension(x)
		}
		return true
	}, nil)
}

// isWays reports whether an expression is all endpoints of something.
func (r *renaming) isWays(e ast.Expr) bool {
	return slices.ContainsFunc(parts(e), func(name string) bool { return r.ways[name] })
}

// meansField reports whether a name refers to a renamed field.
func (r *renaming) meansField(x *ast.Ident) bool {
	for f := range r.fields {
		if x.Node == ast.Node(f.Value) {
			return true
		}
	}
	return false
}

// refer renames a part of a reference. It records the change unless the change of a field
// already shows it.
func (r *renaming) refer(x ast.Expr, part ast.Node, to string) {
	r.replace(part, to)
	for f := range r.fields {
		if f.Pos().Offset() <= x.Pos().Offset() && x.End().Offset() <= f.End().Offset() {
			return
		}
	}
	r.changed(x)
}

// template renames the endpoint in a URL that refers to a value of the node, as in
// `{endpoints.bmc.credential}`.
func (r *renaming) template(f *ast.Field) {
	const was, is = "{" + endpointsField + "." + managerBefore + ".", "{" + endpointsField + "." + managerField + "."
	ast.Walk(f.Value, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && strings.Contains(lit.Value, was) {
			r.refer(lit, lit, strings.ReplaceAll(lit.Value, was, is))
		}
		return true
	}, nil)
}

// comprehension reports comparisons with the name bmc in a comprehension over endpoints.
func (r *renaming) comprehension(x *ast.Comprehension) {
	kinds := map[string]bool{}
	for _, c := range x.Clauses {
		if f, ok := c.(*ast.ForClause); ok && f.Key != nil && r.isWays(f.Source) {
			kinds[f.Key.Name] = true
		}
	}
	isKind := func(e ast.Expr) bool {
		id, ok := e.(*ast.Ident)
		return ok && kinds[id.Name]
	}
	ast.Walk(x, func(n ast.Node) bool {
		b, ok := n.(*ast.BinaryExpr)
		if ok && (isKind(b.X) && isText(b.Y, managerBefore) || isKind(b.Y) && isText(b.X, managerBefore)) {
			r.ask(b, "this means the endpoint bmc, which is called manager now", `Compare it with "manager".`)
		}
		return true
	}, nil)
}

func isText(e ast.Expr, text string) bool {
	lit, ok := e.(*ast.BasicLit)
	return ok && lit.Value == `"`+text+`"`
}

// mentioned returns a reference by name within a node, or nil without one.
func mentioned(n ast.Node, name string) (found ast.Node) {
	labels := map[ast.Node]bool{}
	ast.Walk(n, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.Field:
			labels[x.Label] = true
		case *ast.SelectorExpr:
			labels[x.Sel] = true
		case *ast.Ident:
			if x.Name == name && !labels[x] {
				found = x
			}
		}
		return found == nil
	}, nil)
	return found
}

// ask reports what Slipway cannot rewrite without knowing what the author means.
func (m *migrator) ask(n ast.Node, what, fix string) {
	m.findings.at(origin(n.Pos(), "site"), site.Finding{
		Code: "unknown-field", Message: what,
		Why: "The endpoint `bmc` is called `manager`, and Slipway cannot rewrite this without knowing what you mean.",
		Fix: fix,
	})
}
