package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// A mutant is the program with one small mistake in it. A test that fails
// because of it has caught it.
type mutant struct {
	// Key names the mutant by what it changes, free of line numbers: the file,
	// the function, the text before and after, and the how manieth such place of
	// the function it is.
	Key  string
	File string // relative to the module
	Func string // "(*Engine).gate"
	Line int
	// Sum is a digest of the function with the mistake in it.
	Sum string

	id       int
	decl     *function
	from, to int // offsets in the file
	with     string
	// seen is the offset in the file at which coverage says whether it is run.
	seen int
}

// function names the function that the mutant is of.
func (m *mutant) function() string { return m.File + " " + m.Func }

// function is a function of a source file that has mutants.
type function struct {
	src  *source
	decl *ast.FuncDecl
	name string
}

// source is a parsed file.
type source struct {
	file string
	pkg  string
	text []byte
	fset *token.FileSet
	tree *ast.File
}

func parse(file string, text []byte) (*source, error) {
	s := &source{file: file, text: text, fset: token.NewFileSet()}
	var err error
	s.tree, err = parser.ParseFile(s.fset, file, text, parser.SkipObjectResolution)
	if err == nil {
		s.pkg = s.tree.Name.Name
	}
	return s, err
}

func (s *source) at(p token.Pos) int { return s.fset.Position(p).Offset }

func (s *source) of(n ast.Node) string { return string(s.text[s.at(n.Pos()):s.at(n.End())]) }

// Names that the mutated program has besides its own.
const (
	never = "mutantNever" // a variable that is false
	zero  = "mutantZero"  // gives the zero value of what it is given
	drop  = "mutantDrop"  // takes an error and gives none
)

// mutants are those of the functions of a file, in the order of the text.
func (s *source) mutants() []*mutant {
	var all []*mutant
	for _, d := range s.tree.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil || f.Recv == nil && (f.Name.Name == "init" || f.Name.Name == "main") {
			continue
		}
		fn := &function{src: s, decl: f, name: nameOf(s, f)}
		c := &collector{fn: fn, src: s, results: [][]string{resultsOf(f.Type)}}
		c.block(f.Body.List)
		all = append(all, c.all...)
	}
	count := map[string]int{}
	for _, m := range all {
		count[m.Key]++
		if n := count[m.Key]; n > 1 {
			m.Key += " #" + strconv.Itoa(n)
		}
		sum := sha256.Sum256([]byte(m.decl.mutated(m, m.decl.decl.Name.Name)))
		m.Sum = hex.EncodeToString(sum[:8])
	}
	return all
}

func nameOf(s *source, f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	t := s.of(f.Recv.List[0].Type)
	if strings.HasPrefix(t, "*") {
		t = "(" + t + ")"
	}
	return t + "." + f.Name.Name
}

// resultsOf are the types of a function's results, one for each.
func resultsOf(t *ast.FuncType) []string {
	var all []string
	if t.Results == nil {
		return nil
	}
	for _, f := range t.Results.List {
		name := ""
		if id, ok := f.Type.(*ast.Ident); ok {
			name = id.Name
		}
		for range max(1, len(f.Names)) {
			all = append(all, name)
		}
	}
	return all
}

// collector walks a function and collects its mutants.
type collector struct {
	fn  *function
	src *source
	all []*mutant
	// results are those of the functions around, innermost last.
	results [][]string
	// guard is set within a statement that an error alone leads to.
	guard bool
	seen  token.Pos // where coverage is asked for; none for the mutant's own place
}

// add adds the mutant that has a text in the place of a node.
func (c *collector) add(n ast.Node, with string) { c.replace(n.Pos(), n.End(), with) }

func (c *collector) replace(from, to token.Pos, with string) {
	seen := from
	if c.seen.IsValid() {
		seen = c.seen
	}
	old := string(c.src.text[c.src.at(from):c.src.at(to)])
	c.all = append(c.all, &mutant{
		Key:  fmt.Sprintf("%s %s: `%s` -> `%s`", c.src.file, c.fn.name, oneLine(old), oneLine(with)),
		File: c.src.file, Func: c.fn.name, Line: c.src.fset.Position(from).Line,
		decl: c.fn, from: c.src.at(from), to: c.src.at(to), with: with, seen: c.src.at(seen),
	})
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func (c *collector) block(list []ast.Stmt) {
	for _, s := range list {
		c.stmt(s)
	}
}

// stmt adds the mutants of a statement: those of its conditions, and the program
// without it where it calls or assigns something.
func (c *collector) stmt(s ast.Stmt) {
	switch s := s.(type) {
	case nil:
	case *ast.BlockStmt:
		c.block(s.List)
	case *ast.LabeledStmt:
		c.stmt(s.Stmt)
	case *ast.ExprStmt:
		c.without(s, s.X)
		c.expr(s.X)
	case *ast.AssignStmt:
		if s.Tok != token.DEFINE && !isBlank(s.Lhs) {
			c.without(s, nil)
		}
		for _, x := range s.Rhs {
			c.value(x, looksBool(x))
		}
		for _, x := range s.Lhs {
			c.expr(x)
		}
	case *ast.IncDecStmt:
		c.without(s, nil)
	case *ast.DeclStmt:
		if d, ok := s.Decl.(*ast.GenDecl); ok && d.Tok == token.VAR {
			for _, spec := range d.Specs {
				for _, x := range spec.(*ast.ValueSpec).Values {
					c.value(x, looksBool(x))
				}
			}
		}
	case *ast.GoStmt:
		c.expr(s.Call)
	case *ast.DeferStmt:
		c.expr(s.Call)
	case *ast.SendStmt:
		c.without(s, nil)
	case *ast.ReturnStmt:
		c.returns(s)
	case *ast.BranchStmt:
		if s.Label == nil && s.Tok == token.CONTINUE {
			c.add(s, "break")
		}
	case *ast.IfStmt:
		c.ifs(s)
	case *ast.ForStmt:
		c.init(s.Init)
		if s.Cond != nil {
			c.operands(s.Cond)
			c.add(s.Cond, "("+c.src.of(s.Cond)+") && false")
		}
		c.block(s.Body.List)
	case *ast.RangeStmt:
		c.expr(s.X)
		c.block(s.Body.List)
	case *ast.SwitchStmt:
		c.switches(s)
	case *ast.TypeSwitchStmt:
		c.init(s.Init)
		c.clauses(s.Pos(), s.Body.List, false)
	case *ast.SelectStmt:
		for _, clause := range s.Body.List {
			c.block(clause.(*ast.CommClause).Body)
		}
	}
}

// init adds the mutants of the statement before a condition. It cannot be left
// out.
func (c *collector) init(s ast.Stmt) {
	if a, ok := s.(*ast.AssignStmt); ok {
		for _, x := range a.Rhs {
			c.value(x, looksBool(x))
		}
	}
}

// without adds the program without a statement. Logs, texts, what only wakes
// somebody who would look later anyway, locks, and what ends a context are left as
// they are.
func (c *collector) without(s ast.Stmt, x ast.Expr) {
	if call, ok := x.(*ast.CallExpr); ok && isAside(c.src.of(call.Fun)) {
		return
	}
	c.replace(s.Pos(), s.End(), "if "+never+" { "+c.src.of(s)+" }")
}

// asides are calls without which nothing is decided otherwise.
var asides = []string{"Lock", "Unlock", "RLock", "RUnlock", "touch", "wakeUp", "wakeHeld", "wakeAll", "wakeLocked", "signal", "note",
	"stop", "cancel", "Close", "setProblem"}

func isAside(call string) bool {
	if strings.Contains(call, "Log.") || strings.HasPrefix(call, "log.") || strings.HasPrefix(call, "fmt.") {
		return true
	}
	return slices.Contains(asides, call[strings.LastIndexByte(call, '.')+1:])
}

func isBlank(list []ast.Expr) bool {
	return !slices.ContainsFunc(list, func(x ast.Expr) bool {
		id, ok := x.(*ast.Ident)
		return !ok || id.Name != "_"
	})
}

// ifs adds the mutants of an if. One that an error alone leads to is only taken
// as if there were no error.
func (c *collector) ifs(s *ast.IfStmt) {
	c.init(s.Init)
	text := c.src.of(s.Cond)
	c.add(s.Cond, "("+text+") && false")
	was := c.guard
	if isErrorGuard(s) {
		c.guard = true
	} else {
		c.add(s.Cond, "("+text+") || true")
		c.operands(s.Cond)
	}
	c.block(s.Body.List)
	c.guard = was
	c.stmt(s.Else)
}

// isErrorGuard says whether an if has one reason, an error, and ends its function.
func isErrorGuard(s *ast.IfStmt) bool {
	cond, ok := s.Cond.(*ast.BinaryExpr)
	if !ok || cond.Op != token.NEQ || len(s.Body.List) == 0 || s.Else != nil {
		return false
	}
	x, isName := cond.X.(*ast.Ident)
	y, isNil := cond.Y.(*ast.Ident)
	_, returns := s.Body.List[len(s.Body.List)-1].(*ast.ReturnStmt)
	return isName && isNil && y.Name == "nil" && strings.HasSuffix(strings.ToLower(x.Name), "err") && returns
}

func (c *collector) switches(s *ast.SwitchStmt) {
	c.init(s.Init)
	if s.Tag != nil {
		c.expr(s.Tag)
	}
	c.clauses(s.Pos(), s.Body.List, s.Tag == nil)
}

// clauses adds the mutants of the clauses of a switch: that each is left out, and
// for one with conditions that they are met.
func (c *collector) clauses(at token.Pos, list []ast.Stmt, conditions bool) {
	for _, stmt := range list {
		clause := stmt.(*ast.CaseClause)
		was, guard := c.seen, c.guard
		if !was.IsValid() {
			c.seen = at
		}
		if conditions && clause.List != nil {
			for _, x := range clause.List {
				text := c.src.of(x)
				c.add(x, "("+text+") && false")
				if text == "err != nil" {
					c.guard = true
					continue
				}
				c.add(x, "("+text+") || true")
				c.operands(x)
			}
		} else if len(clause.Body) > 0 {
			c.replace(clause.Pos(), clause.End(), "")
		}
		c.seen = was
		c.block(clause.Body)
		c.guard = guard
	}
}

// returns adds the mutants of a return: the other answer of a yes or no, and the
// error that is swallowed.
func (c *collector) returns(s *ast.ReturnStmt) {
	types := c.results[len(c.results)-1]
	for i, x := range s.Results {
		isBool := looksBool(x)
		if len(types) == len(s.Results) {
			isBool = isBool || types[i] == "bool"
			if types[i] == "error" && !c.guard && isPassedOn(x) {
				c.add(x, drop+"("+c.src.of(x)+")")
			}
		}
		c.value(x, isBool)
	}
}

// isPassedOn says whether an error that is returned comes from a call or a
// variable. One that is made there has a condition of its own.
func isPassedOn(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name != "nil"
	case *ast.CallExpr:
		fun, ok := x.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		pkg, ok := fun.X.(*ast.Ident)
		return !ok || pkg.Name != "fmt" && (pkg.Name != "errors" || fun.Sel.Name == "Join")
	}
	return false
}

// value adds the mutants of a value, and both answers where it is a yes or no.
func (c *collector) value(x ast.Expr, isBool bool) {
	if !isBool {
		c.expr(x)
		return
	}
	if id, ok := x.(*ast.Ident); ok && (id.Name == "true" || id.Name == "false") {
		c.expr(x)
		return
	}
	text := c.src.of(x)
	c.add(x, "("+text+") && false")
	c.add(x, "("+text+") || true")
	c.operands(x)
}

// looksBool says whether an expression is a yes or no by its form.
func looksBool(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.ParenExpr:
		return looksBool(x.X)
	case *ast.UnaryExpr:
		return x.Op == token.NOT
	case *ast.BinaryExpr:
		switch x.Op {
		case token.LAND, token.LOR, token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ:
			return true
		}
	}
	return false
}

var boundary = map[token.Token]string{token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">"}

// operands adds the mutants within a condition: each operand of an and or an or
// left out, and each bound moved by one. A comparison the other way round, or an
// or for an and, is caught by every test that catches one of these.
func (c *collector) operands(x ast.Expr) {
	switch x := x.(type) {
	case *ast.ParenExpr:
		c.operands(x.X)
	case *ast.UnaryExpr:
		if x.Op == token.NOT {
			c.operands(x.X)
			return
		}
		c.expr(x)
	case *ast.BinaryExpr:
		switch x.Op {
		case token.LAND, token.LOR:
			neutral := " || true)"
			if x.Op == token.LOR {
				neutral = " && false)"
			}
			for _, y := range []ast.Expr{x.X, x.Y} {
				if b, ok := y.(*ast.BinaryExpr); !ok || b.Op != x.Op {
					c.add(y, "(("+c.src.of(y)+")"+neutral)
				}
				c.operands(y)
			}
			return
		}
		if with := boundary[x.Op]; with != "" {
			c.replace(x.OpPos, x.OpPos+token.Pos(len(x.Op.String())), with)
		}
		c.expr(x.X)
		c.expr(x.Y)
	default:
		c.expr(x)
	}
}

// spoken are fields that hold what people read, and that decide nothing.
var spoken = []string{"sentence", "release", "detail", "reason", "Reason", "Text", "Why", "why", "Note", "note", "Undo", "Message", "Fix", "text"}

// expr adds the mutants within an expression.
func (c *collector) expr(x ast.Expr) {
	switch x := x.(type) {
	case *ast.FuncLit:
		c.results = append(c.results, resultsOf(x.Type))
		was := c.guard
		c.guard = false
		c.block(x.Body.List)
		c.guard = was
		c.results = c.results[:len(c.results)-1]
	case *ast.CompositeLit:
		for _, e := range x.Elts {
			c.element(e)
		}
	case *ast.CallExpr:
		c.call(x)
	case *ast.BasicLit:
		if x.Kind == token.INT && x.Value == "0" {
			c.add(x, "1")
		} else if x.Kind == token.INT && x.Value == "1" {
			c.add(x, "0")
		}
	case *ast.Ident:
		switch x.Name {
		case "true":
			c.add(x, "false")
		case "false":
			c.add(x, "true")
		}
	case *ast.BinaryExpr:
		switch {
		case looksBool(x):
			c.value(x, true)
			return
		case x.Op == token.ADD && !isText(x.X) && !isText(x.Y):
			c.replace(x.OpPos, x.OpPos+1, "-")
		case x.Op == token.SUB:
			c.replace(x.OpPos, x.OpPos+1, "+")
		}
		c.expr(x.X)
		c.expr(x.Y)
	case *ast.ParenExpr:
		c.expr(x.X)
	case *ast.UnaryExpr:
		c.expr(x.X)
	case *ast.StarExpr:
		c.expr(x.X)
	case *ast.SelectorExpr:
		c.expr(x.X)
	case *ast.KeyValueExpr:
		c.expr(x.Value)
	case *ast.IndexExpr:
		c.expr(x.X)
		c.expr(x.Index)
	case *ast.SliceExpr:
		c.expr(x.X)
		for _, y := range []ast.Expr{x.Low, x.High} {
			if y != nil {
				c.expr(y)
			}
		}
	}
}

// element adds the mutants of an element of a literal, and the literal without a
// named field.
func (c *collector) element(e ast.Expr) {
	kv, ok := e.(*ast.KeyValueExpr)
	if !ok {
		c.expr(e)
		return
	}
	name, isField := kv.Key.(*ast.Ident)
	if isField && slices.Contains(spoken, name.Name) {
		return
	}
	if isField && !isZero(c.src.of(kv.Value)) {
		c.add(kv, name.Name+": "+zero+"("+c.src.of(kv.Value)+")")
	}
	if _, isConstant := kv.Value.(*ast.Ident); !isConstant {
		c.expr(kv.Value)
	}
}

func isZero(text string) bool { return text == "nil" || text == "0" || text == `""` || text == "false" }

func (c *collector) call(x *ast.CallExpr) {
	if name, ok := x.Fun.(*ast.Ident); ok && len(x.Args) > 1 {
		switch name.Name {
		case "min":
			c.add(name, "max")
		case "max":
			c.add(name, "min")
		}
	}
	if isAside(c.src.of(x.Fun)) {
		return
	}
	c.expr(x.Fun)
	for _, a := range x.Args {
		c.expr(a)
	}
}

func isText(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.BasicLit:
		return x.Kind == token.STRING
	case *ast.BinaryExpr:
		return isText(x.X) || isText(x.Y)
	}
	return false
}

// mutated is the text of the function with the mistake in it, under another name.
func (f *function) mutated(m *mutant, name string) string {
	s := f.src
	begin, end := s.at(f.decl.Pos()), s.at(f.decl.End())
	nameFrom, nameTo := s.at(f.decl.Name.Pos()), s.at(f.decl.Name.End())
	var b strings.Builder
	b.Write(s.text[begin:nameFrom])
	b.WriteString(name)
	b.Write(s.text[nameTo:m.from])
	b.WriteString(m.with)
	b.Write(s.text[m.to:end])
	return b.String()
}

// diff shows what the mutant changes.
func (m *mutant) diff() string {
	s := m.decl.src
	begin := bytes.LastIndexByte(s.text[:m.from], '\n') + 1
	end := m.to
	if i := bytes.IndexByte(s.text[m.to:], '\n'); i >= 0 {
		end += i
	}
	was := strings.TrimSpace(string(s.text[begin:end]))
	is := strings.TrimSpace(string(s.text[begin:m.from]) + m.with + string(s.text[m.to:end]))
	if text, err := format.Source([]byte(is)); err == nil {
		is = string(text)
	}
	return "- " + strings.ReplaceAll(was, "\n", "\n- ") + "\n+ " + strings.ReplaceAll(is, "\n", "\n+ ")
}
