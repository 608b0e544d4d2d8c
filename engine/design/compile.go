package design

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/errors"
	"cuelang.org/go/cue/token"

	"github.com/slipway-gitops/slipway/engine/site"
)

// brokenAttr marks a field whose expression was cut out because it does not
// compile.
const brokenAttr = "slipwayBroken"

// maxCompiles limits how often a package is compiled to find its errors.
const maxCompiles = 20

// compiler builds a package despite expressions that do not compile. CUE
// empties an instance that has one, which would hide every other mistake. So
// the compiler reports each such expression, cuts it out, and builds the
// package again.
type compiler struct {
	*loader
	cuts map[token.Position]bool
	// cutNodes are the nodes that lost expressions in their own declarations.
	// cutShared says that an expression was cut elsewhere, or that others may
	// refer to it.
	cutNodes  map[string]bool
	cutShared bool
	// trim removes from a package what need not be evaluated; nil removes
	// nothing.
	trim func(*build.Instance)
	// lost is set when more than one field of an entry was cut, so that
	// references to the missing fields are not reported.
	lost bool
	// named says where the compiled files name the entries of sections.
	named namings
	// spelling is how misspelt fields are corrected.
	spelling spelling
}

// compile returns the package's value, with its broken expressions reported and
// marked. It returns false when nothing can be evaluated.
func (c *compiler) compile(progress func(string)) (cue.Value, bool) {
	c.cuts, c.cutNodes = map[token.Position]bool{}, map[string]bool{}
	c.edit, c.edited = c.amend, len(c.spelling.meant) > 0
	for range maxCompiles {
		inst := c.load()
		if inst == nil {
			return cue.Value{}, false
		}
		c.refuseEmbedding(inst)
		if c.trim != nil {
			c.trim(inst)
		}
		progress("evaluating the package")
		v := c.basis.evaluating.BuildInstance(inst)
		if v.LookupPath(cue.MakePath(cue.Str(nodesSection))).Exists() {
			c.named = namingsOf(inst.Files)
			return v, true
		}
		if !c.report(v.Err()) {
			break
		}
	}
	return cue.Value{}, false
}

// isItem reports whether an expression is a list item in YAML's form, which
// does not compile and is reported as such.
func isItem(e ast.Expr) bool {
	u, ok := e.(*ast.UnaryExpr)
	return ok && u.Op == token.SUB
}

// refuseEmbedding reports definitions embedded at the top of the site's
// package.
func (c *compiler) refuseEmbedding(inst *build.Instance) {
	for _, f := range inst.Files {
		for _, d := range f.Decls {
			if e, ok := d.(*ast.EmbedDecl); ok && !isItem(e.Expr) {
				c.findings.at(origin(d.Pos(), "site"), site.Finding{
					Code: "embedding", Message: "a definition is embedded at the top of the site's package",
					Why: "It would apply to all fields of the site, also to those that it does not know.",
					Fix: "Bind fields instead: `site: schema.#Site`, `nodes: [string]: schema.#Layer`.",
				})
			}
		}
	}
}

// report turns compile errors into findings and marks their places to be cut.
// It returns false when there is no new place, so another round would find
// nothing.
func (c *compiler) report(err error) bool {
	fresh := false
	for _, e := range errors.Errors(err) {
		p := position(e)
		c.findings.at(origin(p, "site"), c.explained(e, p))
		at := key(p)
		if ours(p) && !c.cuts[at] {
			c.cuts[at], c.edited = true, true
			fresh = true
		}
	}
	return fresh
}

// unresolved matches CUE's message for a name that refers to nothing.
var unresolved = regexp.MustCompile(`^reference "([^"]+)" not found$`)

// explained returns the finding for a compile error. A name that refers to
// nothing is mostly a text without its quotes, or an item of a YAML list.
func (c *compiler) explained(e errors.Error, p token.Pos) site.Finding {
	f := site.Finding{
		Code: "does-not-compile", Message: message(e),
		Why: "The expression cannot be evaluated, so there is no value.",
		Fix: "Correct the expression, or what it refers to.",
	}
	if m := unreferenced.FindStringSubmatch(f.Message); m != nil {
		f.Message = fmt.Sprintf("%s = gives a value a second name, and nothing uses that", m[1])
		f.Why = "In CUE = sets no field."
		f.Fix = fmt.Sprintf("Write %s: for a field.", m[1])
		return f
	}
	m := unresolved.FindStringSubmatch(f.Message)
	if m == nil {
		return f
	}
	src := c.files[p.Filename()]
	name, before := m[1], before(src, p)
	if f, ok := notImported(f, name, strings.TrimPrefix(lineAt(src, p), before)); ok {
		return f
	}
	f.Message = fmt.Sprintf("%s has no quotes, and nothing has this name", name)
	f.Why = "Without quotes CUE reads it as a reference to a field or a `let`."
	f.Fix = fmt.Sprintf("Write %q if it is a text, or declare %s.", name, name)
	if yamlItem.MatchString(before) {
		f.Message = fmt.Sprintf("%q is a list item in YAML's form", "- "+name)
		f.Why = "CUE reads the dash as a minus, and the word after it as a reference."
		f.Fix = fmt.Sprintf("Write the list in brackets, with its texts in quotes: [%q].", name)
	}
	return f
}

// unreferenced matches CUE's message for an alias that nothing uses.
var unreferenced = regexp.MustCompile(`^unreferenced alias or let clause (\S+)$`)

// yamlItem matches the text before an item of a YAML list.
var yamlItem = regexp.MustCompile(`^\s*-\s+$`)

// before returns the part of a line before a position.
func before(src []byte, p token.Pos) string {
	if p.Offset() > len(src) {
		return ""
	}
	line := src[:p.Offset()]
	return string(line[bytes.LastIndexByte(line, '\n')+1:])
}

func key(p token.Pos) token.Position {
	return token.Position{Filename: p.Filename(), Offset: p.Offset()}
}

// amend changes a file before it is compiled.
func (c *compiler) amend(f *ast.File) {
	c.spelling.correct(f)
	f.Unresolved = nil // adding the file resolves a corrected label's names
	c.cut(f)
}

// cut takes the marked expressions out of a file. It replaces the innermost
// field's value by `_` or, outside any field, drops the declaration. It finds
// all fields before it changes one, because a value may have several mistakes.
func (c *compiler) cut(f *ast.File) {
	fields := map[*ast.Field]bool{}
	for at := range c.cuts {
		if at.Filename != f.Filename {
			continue
		}
		around := fieldsAround(f, at.Offset)
		c.blame(around)
		if len(around) > 0 {
			fields[around[len(around)-1]] = true
			continue
		}
		f.Decls = slices.DeleteFunc(f.Decls, func(d ast.Decl) bool { return holds(d, at.Offset) })
	}
	for x := range fields {
		blank(x)
	}
}

// blame records what may have lost an expression that was cut out.
func (c *compiler) blame(around []*ast.Field) {
	if len(around) > 1 && labelled(around[0], nodesSection) && !c.entangled {
		if name, _, err := ast.LabelName(around[1].Label); err == nil {
			c.cutNodes[name] = true
			return
		}
	}
	// section: entry: field: expression
	c.lost = c.lost || len(around) < 3 || !isSection(around[0])
	c.cutShared = true
}

// fieldsAround lists the fields whose values contain an offset, outermost
// first.
func fieldsAround(f *ast.File, offset int) []*ast.Field {
	var around []*ast.Field
	ast.Walk(f, func(n ast.Node) bool {
		if x, ok := n.(*ast.Field); ok && x.Value != nil && holds(x.Value, offset) {
			around = append(around, x)
		}
		return true
	}, nil)
	return around
}

func isSection(f *ast.Field) bool {
	return slices.ContainsFunc(sections, func(s section) bool { return labelled(f, s.name) })
}

func blank(f *ast.Field) {
	anything := ast.NewIdent("_")
	anything.NamePos = f.Value.Pos()
	f.Value = anything
	f.Attrs = append(f.Attrs, &ast.Attribute{At: anything.NamePos, Text: "@" + brokenAttr + "()"})
}

func holds(n ast.Node, offset int) bool {
	from, to := n.Pos(), n.End()
	return from.IsValid() && to.IsValid() && from.Offset() <= offset && offset < to.Offset()
}

// fieldsIn returns a field's name and the fields in its braces.
func fieldsIn(d ast.Decl) (name string, in []*ast.Field) {
	f, ok := d.(*ast.Field)
	if !ok {
		return "", nil
	}
	s, ok := f.Value.(*ast.StructLit)
	name, _, err := ast.LabelName(f.Label)
	if !ok || err != nil {
		return "", nil
	}
	for _, d := range s.Elts {
		if x, ok := d.(*ast.Field); ok {
			in = append(in, x)
		}
	}
	return name, in
}
