package main

import (
	"go/ast"
	"go/token"
	"slices"
)

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
