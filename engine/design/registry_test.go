package design

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/design/rule"
	"github.com/slipway-gitops/slipway/engine/site"
)

// What a rule says of itself is complete, and its code is its own.
func TestRulesAreWellFormed(t *testing.T) {
	code := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	seen := map[string]bool{}
	for _, r := range rule.All() {
		if !code.MatchString(r.Code) {
			t.Errorf("the code %q is not of the form some-words", r.Code)
		}
		if seen[r.Code] {
			t.Errorf("two rules have the code %s", r.Code)
		}
		seen[r.Code] = true
		for what, text := range map[string]string{"What": r.What, "Why": r.Why} {
			if !strings.HasSuffix(text, ".") || strings.Contains(text, "\n") {
				t.Errorf("%s of the rule %s is no sentence of one line: %q", what, r.Code, text)
			}
		}
		if !slices.Contains([]site.Severity{site.SeverityError, site.SeverityWarning, site.SeverityNote}, r.Severity) {
			t.Errorf("the rule %s has the severity %q", r.Code, r.Severity)
		}
		if (r.Facts == nil) != (r.Fleet == nil) {
			t.Errorf("the rule %s has Facts without Fleet, or Fleet without Facts", r.Code)
		}
		if checks(r) > 1 && r.Fleet != nil {
			t.Errorf("the rule %s has Site or Node besides Fleet", r.Code)
		}
		if (r.Wrong == "" || r.Right == "" || r.Wrong == r.Right) && unshown[r.Code] == "" {
			t.Errorf("the rule %s has no example of what is wrong and what is right", r.Code)
		}
	}
}

// checks counts the checks that a rule has.
func checks(r rule.Rule) int {
	n := 0
	for _, has := range []bool{r.Site != nil, r.Node != nil, r.Fleet != nil} {
		if has {
			n++
		}
	}
	return n
}

// Every code that is written anywhere in this package and in rule is in
// rule.All(), and a rule without a check is found by the evaluation.
func TestEveryCodeIsRegistered(t *testing.T) {
	evaluation, rules := codesIn(t, "."), codesIn(t, "rule")
	known := codesOf(rule.All())
	for code, place := range evaluation {
		if !slices.Contains(known, code) {
			t.Errorf("%s: the code %q has no entry in rule/evaluation.go", place, code)
		}
	}
	for code, place := range codesIn(t, "../placement") {
		if !slices.Contains(known, code) {
			t.Errorf("%s: the code %q has no entry in rule/placement.go", place, code)
		}
		evaluation[code] = place // it comes after it
	}
	for code, place := range rules {
		if !slices.Contains(known, code) {
			t.Errorf("%s: the code %q is not in rule.All()", place, code)
		}
	}
	for _, r := range rule.All() {
		if checks(r) == 0 && evaluation[r.Code] == "" && r.Code != "panic" {
			t.Errorf("the rule %s has no check, and the evaluation does not find it", r.Code)
		}
	}
}

// codesIn finds the codes in a directory's Go files, each with a place: what is
// assigned to Code, and what is passed for a parameter of that name.
func codesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	s := codeScan{t: t, set: token.NewFileSet(), codes: map[string]string{}, takes: map[signature]int{}}
	files := s.parse(dir)
	for _, f := range files {
		ast.Inspect(f, s.takers)
	}
	for _, f := range files {
		ast.Inspect(f, s.visit)
	}
	return s.codes
}

type signature struct {
	name   string
	params int
}

type codeScan struct {
	t     *testing.T
	set   *token.FileSet
	codes map[string]string
	// takes are the functions with a parameter called code: its index, by name
	// and number of parameters.
	takes map[signature]int
}

func (s codeScan) parse(dir string) []*ast.File {
	paths, err := filepath.Glob(dir + "/*.go")
	if err != nil {
		s.t.Fatal(err)
	}
	var files []*ast.File
	for _, p := range paths {
		if strings.HasSuffix(p, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(s.set, p, nil, parser.SkipObjectResolution)
		if err != nil {
			s.t.Fatal(err)
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		s.t.Fatalf("no Go files in %s: %v", dir, fs.ErrNotExist)
	}
	return files
}

// takers notes a function that takes a code.
func (s codeScan) takers(n ast.Node) bool {
	f, ok := n.(*ast.FuncDecl)
	if !ok {
		return true
	}
	var names []string
	for _, p := range f.Type.Params.List {
		for _, name := range p.Names {
			names = append(names, name.Name)
		}
	}
	if i := slices.Index(names, "code"); i >= 0 {
		s.takes[signature{f.Name.Name, len(names)}] = i
	}
	return true
}

func (s codeScan) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Code" {
			s.take(n.Value)
		}
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			if to, ok := left.(*ast.SelectorExpr); ok && to.Sel.Name == "Code" && i < len(n.Rhs) {
				s.take(n.Rhs[i])
			}
		}
	case *ast.CallExpr:
		if i, ok := s.takes[signature{called(n), len(n.Args)}]; ok {
			s.take(n.Args[i])
		}
	}
	return true
}

func called(c *ast.CallExpr) string {
	switch f := c.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// take notes a code. What is not written out is a parameter called code, or
// the code of a rule.
func (s codeScan) take(e ast.Expr) {
	place := s.set.Position(e.Pos()).String()
	switch e := e.(type) {
	case *ast.BasicLit:
		code, err := strconv.Unquote(e.Value)
		if err != nil {
			s.t.Errorf("%s: %v", place, err)
		}
		s.codes[code] = place
	case *ast.Ident:
		if e.Name != "code" {
			s.t.Errorf("%s: write the code out, so that it can be found", place)
		}
	case *ast.SelectorExpr:
		if e.Sel.Name != "Code" {
			s.t.Errorf("%s: write the code out, so that it can be found", place)
		}
	case *ast.CallExpr:
		if called(e) != "policyCode" { // the site's own
			s.t.Errorf("%s: write the code out, so that it can be found", place)
		}
	default:
		s.t.Errorf("%s: write the code out, so that it can be found", place)
	}
}
