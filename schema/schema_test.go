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
