package main

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

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
	was, seen := c.guard, c.seen
	if !seen.IsValid() && holdsFunction(s.Init) {
		c.seen = s.Pos() // what follows a function within the statement is in no block of a profile
	}
	c.add(s.Cond, "("+text+") && false")
	if isErrorGuard(s) {
		c.guard = true
	} else {
		c.add(s.Cond, "("+text+") || true")
		c.operands(s.Cond)
	}
	c.seen = seen
	c.block(s.Body.List)
	c.guard = was
	c.stmt(s.Else)
}

// holdsFunction says whether a function is written within a statement.
func holdsFunction(s ast.Stmt) (holds bool) {
	if s == nil {
		return false
	}
	ast.Inspect(s, func(n ast.Node) bool {
		_, is := n.(*ast.FuncLit)
		holds = holds || is
		return !holds
	})
	return holds
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
