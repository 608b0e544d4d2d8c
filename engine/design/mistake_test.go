package design

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/parser"
	"cuelang.org/go/cue/token"

	"github.com/slipway-gitops/slipway/engine/design/rule"
	"github.com/slipway-gitops/slipway/engine/site"
)

// mistake is one in the text of a file: other text in the place of some.
type mistake struct {
	file     string
	line     int
	from, to int
	text     string
	// path is the field by its definition, as in "#Network.cidr".
	path string
}

// One mistake is one finding, where it was made: a field that lacks a letter,
// or a value of the wrong type, in every place of site-example that has one.
// SLIPWAY_PROVE tries them all.
func TestOneMistakeIsOneFinding(t *testing.T) {
	example := textsOf(t, os.DirFS("../../site-example"))
	all := mistakesIn(t, example)
	if len(all) < 300 {
		t.Fatalf("only %d mistakes can be made", len(all))
	}
	rand.New(rand.NewPCG(3, 14)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	all = all[:many(40, len(all))]
	var group sync.WaitGroup
	for part := range slices.Chunk(all, (len(all)+1)/2) {
		group.Go(func() {
			for _, m := range part {
				m.try(t, example)
			}
		})
	}
	group.Wait()
}

// computedFrom are fields that other values of the example are computed from, in
// CUE or by references: each of those is missing too, and is a finding.
var computedFrom = []string{"nodes.*.addresses misspelt", "profiles.*.endpoints misspelt"}

func (m mistake) try(t *testing.T, files fstest.MapFS) {
	wrong := maps.Clone(files)
	src := string(files[m.file].Data)
	wrong[m.file] = &fstest.MapFile{Data: []byte(src[:m.from] + m.text + src[m.to:])}
	found := EvaluateHere(wrong, "").Findings
	here := slices.ContainsFunc(found, func(f site.Finding) bool { return f.File == m.file && f.Line == m.line })
	if here && (len(found) == 1 || slices.Contains(computedFrom, m.path)) {
		return
	}
	t.Errorf("%s:%d: %s for %s (%s) has %d findings:\n%s", m.file, m.line, m.text, src[m.from:m.to], m.path, len(found), codesAt(found))
}

func codesAt(found []site.Finding) string {
	var b strings.Builder
	for _, f := range found {
		fmt.Fprintf(&b, "\t%s:%d: %s [%s, of %d more]\n", f.File, f.Line, f.Message, f.Code, f.More)
	}
	return b.String()
}

// textsOf are the files of a module, without those of modules within it.
func textsOf(t *testing.T, from fs.FS) fstest.MapFS {
	t.Helper()
	all := fstest.MapFS{}
	err := fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if _, module := fs.Stat(from, path.Join(name, "cue.mod")); d.IsDir() && name != "." && module == nil {
			return fs.SkipDir
		}
		if d.IsDir() {
			return nil
		}
		src, err := fs.ReadFile(from, name)
		all[name] = &fstest.MapFile{Data: src}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// mistakesIn lists the mistakes that can be made.
func mistakesIn(t *testing.T, files fstest.MapFS) []mistake {
	t.Helper()
	top := &shape{fields: map[string]*shape{}}
	for _, s := range sections {
		top.fields[s.name] = shapes()[s.definition]
		if s.many {
			top.fields[s.name] = &shape{entries: []entry{{shape: shapes()[s.definition]}}}
		}
	}
	var all []mistake
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(name, ".cue") || strings.HasPrefix(name, "cue.mod/") {
			continue
		}
		f, err := parser.ParseFile(name, files[name].Data)
		if err != nil {
			t.Fatal(err)
		}
		maker{&all}.decls(f.Decls, top, "")
	}
	return all
}

type maker struct{ all *[]mistake }

func (m maker) decls(decls []ast.Decl, in *shape, path string) {
	for _, d := range decls {
		f, ok := d.(*ast.Field)
		if !ok {
			continue
		}
		name, _, err := ast.LabelName(f.Label)
		if err != nil { // a pattern
			name = "*"
		}
		sub := in.sub(name)
		if definition := heldTo(f.Value); definition != nil {
			sub = definition
		}
		if sub == nil {
			continue
		}
		if in.fields[name] != nil {
			m.misspell(f, name, in, path)
			name = path + "." + name
		} else {
			name = path + ".*"
		}
		m.value(f.Value, sub, strings.TrimPrefix(name, "."))
	}
}

// heldTo is the definition of the schema that a value is held to by name.
func heldTo(x ast.Expr) *shape {
	if b, ok := x.(*ast.BinaryExpr); ok {
		if s, ok := b.X.(*ast.SelectorExpr); ok {
			name, _, _ := ast.LabelName(s.Sel)
			return shapes()[name]
		}
	}
	return nil
}

// misspell leaves a letter out of a field.
func (m maker) misspell(f *ast.Field, name string, in *shape, path string) {
	if len(name) < 4 {
		return
	}
	wrong := name[:len(name)-2] + name[len(name)-1:]
	if in.sub(wrong) == nil && rule.Nearest(wrong, slices.Sorted(maps.Keys(in.fields))) == name {
		m.add(f.Label, wrong, strings.TrimPrefix(path+"."+name, ".")+" misspelt")
	}
}

func (m maker) value(x ast.Expr, s *shape, path string) {
	switch y := x.(type) {
	case *ast.StructLit:
		m.decls(y.Elts, s, path)
	case *ast.BinaryExpr:
		m.value(y.X, s, path)
		m.value(y.Y, s, path)
	case *ast.ListLit:
		for _, item := range y.Elts {
			m.value(item, s.items(), path+".*")
		}
	case *ast.BasicLit:
		wrong, value := `"x y"`, any("x y")
		if y.Kind == token.STRING {
			wrong, value = "7", int64(7)
		}
		if s.says.Exists() && !s.isStruct() && !s.accepts(value) {
			m.add(y, wrong, path)
		}
	}
}

func (m maker) add(n ast.Node, text, path string) {
	p := n.Pos()
	*m.all = append(*m.all, mistake{p.Filename(), p.Line(), p.Offset(), n.End().Offset(), text, path})
}
