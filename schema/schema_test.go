package schema

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/format"
	"cuelang.org/go/cue/parser"
	"cuelang.org/go/cue/token"
)

// The schema and the example are formatted as `cue fmt` does.
func TestFormatted(t *testing.T) {
	for _, name := range cueFiles(t, ".", "../site-example") {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := format.Source(src); err != nil || !bytes.Equal(got, src) {
			t.Errorf("%s is not formatted (%v); it should be\n%s", name, err, got)
		}
	}
}

// Every definition and every field of the schema has a comment for an editor
// to show. What a node must be only adds to the fields of #Layer.
func TestCommented(t *testing.T) {
	for _, name := range cueFiles(t, ".") {
		f, err := parser.ParseFile(name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if field, ok := d.(*ast.Field); ok {
				commented(t, name, "", field)
			}
		}
	}
}

func commented(t *testing.T, file, path string, f *ast.Field) {
	t.Helper()
	label, _, err := ast.LabelName(f.Label)
	if err != nil || slices.Contains([]string{"#Effective.", "#Node.", "#VirtualNode."}, path) {
		return // a pattern, or a field of #Layer
	}
	path += label
	if len(ast.Comments(f)) == 0 {
		t.Errorf("%s: %s has no comment", file, path)
	}
	if s, ok := f.Value.(*ast.StructLit); ok {
		for _, e := range s.Elts {
			if field, ok := e.(*ast.Field); ok {
				commented(t, file, path+".", field)
			}
		}
	}
}

// The example binds its fields; it embeds no definition at the top of a
// package, which would leave the fields beside it open to typos.
func TestExampleEmbedsNothingAtTheTop(t *testing.T) {
	for _, name := range cueFiles(t, "../site-example") {
		f, err := parser.ParseFile(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if _, ok := d.(*ast.EmbedDecl); ok {
				t.Errorf("%s embeds at the top, %s", name, d.Pos())
			}
		}
	}
}

func cueFiles(t *testing.T, dirs ...string) []string {
	t.Helper()
	var names []string
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if strings.HasSuffix(path, ".cue") {
				names = append(names, path)
			}
			return err
		})
		if err != nil || len(names) == 0 {
			t.Fatalf("no CUE files in %s: %v", dir, err)
		}
	}
	return names
}

// Every whole number has an upper bound, as numbers of the design go into sums and products. What only adds to a field
// that is bounded elsewhere is in #Effective and the kinds of node.
func TestNumbersAreBounded(t *testing.T) {
	bounded := 0
	for _, name := range cueFiles(t, ".") {
		f, err := parser.ParseFile(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			field, ok := d.(*ast.Field)
			if !ok {
				continue
			}
			label, _, _ := ast.LabelName(field.Label)
			if slices.Contains([]string{"#Effective", "#Node", "#VirtualNode"}, label) {
				continue
			}
			for _, x := range integers(field) {
				bounded++
				if _, below, _ := strings.Cut(x, "<="); below == "" {
					t.Errorf("%s: %s has a number without an upper bound: %s", name, label, x)
				}
			}
		}
	}
	if bounded < 20 {
		t.Errorf("only %d numbers were met", bounded)
	}
}

// integers are the conjunctions of a field in which int stands, as they are written.
func integers(n ast.Node) (all []string) {
	written := func(n ast.Node) {
		text, err := format.Node(n)
		if err != nil {
			panic(err)
		}
		all = append(all, string(text))
	}
	ast.Walk(n, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.BinaryExpr:
			if x.Op != token.AND {
				return true
			}
			found := false
			ast.Walk(x, func(n ast.Node) bool {
				i, ok := n.(*ast.Ident)
				found = found || ok && i.Name == "int"
				return true
			}, nil)
			if found {
				written(x)
			}
			return false
		case *ast.Field: // and not its name
			all = append(all, integers(x.Value)...)
			return false
		case *ast.Ident:
			if slices.Contains([]string{"int", "number", "float", "uint"}, x.Name) {
				written(x)
			}
		}
		return true
	}, nil)
	return all
}
