package tests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The engine's drivers are wrapped to be measured. A plain type assertion for
// a rarer ability would then say no, without a word: driver.As looks behind
// wrappers.
func TestAbilitiesAreAskedForByAs(t *testing.T) {
	var files []string
	for _, pattern := range []string{"../engine/*.go", "../engine/control/*.go", "../cmd/*/*.go"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	looked := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		looked++
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range assertions(t, name, text) {
			t.Errorf("%s: a type assertion to an interface of package driver: use driver.As", at)
		}
	}
	if looked < 20 {
		t.Errorf("only %d files", looked)
	}
	bad := "package x\nfunc f(m any) { _, _ = m.(driver.Inspector); switch m.(type) { case driver.Sweeper: } }"
	if got := assertions(t, "bad.go", []byte(bad)); len(got) != 2 {
		t.Errorf("of two assertions these are found: %v", got)
	}
}

// assertions are the places in which something is asserted to have a type of
// package driver.
func assertions(t *testing.T, name string, text []byte) []token.Position {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var places []token.Position
	note := func(e ast.Expr) {
		if s, ok := e.(*ast.SelectorExpr); ok {
			if p, ok := s.X.(*ast.Ident); ok && p.Name == "driver" {
				places = append(places, fset.Position(e.Pos()))
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeAssertExpr:
			note(n.Type)
		case *ast.TypeSwitchStmt:
			for _, c := range n.Body.List {
				for _, e := range c.(*ast.CaseClause).List {
					note(e)
				}
			}
		}
		return true
	})
	return places
}
