package design

import (
	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/ast/astutil"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/errors"
	"cuelang.org/go/cue/token"

	"github.com/slipway-gitops/slipway/engine/site"
)

// brokenAttr marks a field whose expression was cut out because it does not
// compile.
const brokenAttr = "slipwayBroken"

// maxCompiles bounds how often a package is compiled to find its errors.
const maxCompiles = 20

// compiler builds a package in spite of expressions that do not compile. CUE
// empties an instance that has one, which would hide everything else that is
// wrong; so each is reported, cut out, and the package built again.
type compiler struct {
	*loader
	cuts map[token.Position]bool
	// dropped is set when a whole declaration had to go, so that references
	// to what it declared say nothing.
	dropped bool
}

// compile gives the package's value, with its broken expressions reported and
// marked. It is false when nothing can be evaluated.
func (c *compiler) compile(progress func(string)) (cue.Value, bool) {
	c.cuts = map[token.Position]bool{}
	c.edit = c.cut
	for range maxCompiles {
		inst := c.load()
		if inst == nil {
			return cue.Value{}, false
		}
		progress("evaluating the package")
		v := cuecontext.New().BuildInstance(inst)
		if v.LookupPath(cue.MakePath(cue.Str(nodesSection))).Exists() {
			return v, true
		}
		if !c.report(v.Err()) {
			break
		}
	}
	return cue.Value{}, false
}

// report turns errors of compilation into findings and marks their places to
// be cut. It is false when there is no new place, so that another round would
// bring nothing.
func (c *compiler) report(err error) bool {
	fresh := false
	for _, e := range errors.Errors(err) {
		p := position(e)
		c.findings.at(origin(p, "site"), site.Finding{
			Code: "does-not-compile", Message: message(e),
			Why: "The expression has no meaning, so neither has the value that it would give.",
			Fix: "Repair the expression or what it refers to.",
		})
		at := key(p)
		if ours(p) && !c.cuts[at] {
			c.cuts[at], c.edited = true, true
			fresh = true
		}
	}
	return fresh
}

func key(p token.Pos) token.Position {
	return token.Position{Filename: p.Filename(), Offset: p.Offset()}
}

// cut takes the marked expressions out of a file.
func (c *compiler) cut(f *ast.File) {
	for at := range c.cuts {
		if at.Filename == f.Filename && !blank(f, at.Offset) {
			c.drop(f, at.Offset)
		}
	}
}

// blank puts `_` in the place of the innermost field's value that holds the
// offset.
func blank(f *ast.File, offset int) bool {
	var inner *ast.Field
	ast.Walk(f, func(n ast.Node) bool {
		if x, ok := n.(*ast.Field); ok && x.Value != nil && holds(x.Value, offset) {
			inner = x
		}
		return true
	}, nil)
	if inner == nil {
		return false
	}
	any := ast.NewIdent("_")
	any.NamePos = inner.Value.Pos()
	inner.Value = any
	inner.Attrs = append(inner.Attrs, &ast.Attribute{At: inner.Value.Pos(), Text: "@" + brokenAttr + "()"})
	return true
}

// drop takes out the whole top-level declaration that holds the offset.
func (c *compiler) drop(f *ast.File, offset int) {
	astutil.Apply(f, func(cur astutil.Cursor) bool {
		_, isFile := cur.Parent().Node().(*ast.File)
		if _, isDecl := cur.Node().(ast.Decl); isFile && isDecl && holds(cur.Node(), offset) {
			cur.Delete()
			c.dropped = true
		}
		return cur.Node() == f
	}, nil)
}

func holds(n ast.Node, offset int) bool {
	from, to := n.Pos(), n.End()
	return from.IsValid() && to.IsValid() && from.Offset() <= offset && offset < to.Offset()
}
