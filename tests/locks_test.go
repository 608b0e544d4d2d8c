package tests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// severalLocks are the functions that lock more than once, with the reason.
var severalLocks = map[string]string{}

// A function takes one lock at most: what it does under a second one has a name of its own.
func TestAFunctionTakesOneLock(t *testing.T) {
	set := token.NewFileSet()
	var met []string
	locks := 0
	for _, p := range typeChecked(t, set) {
		takes := lockers(p)
		for _, f := range p.files {
			for _, d := range f.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok || fn.Body == nil {
					continue
				}
				name := p.folder + " " + nameOf(fn)
				for _, at := range locksOf(fn.Body, takes) {
					locks += len(at)
					if len(at) < 2 {
						continue
					}
					met = append(met, name)
					if severalLocks[name] == "" {
						t.Errorf("%s: %s takes %d locks, the second in line %d: move what is done under one into a function of its own",
							set.Position(fn.Pos()), name, len(at), set.Position(at[1]).Line)
					}
				}
			}
		}
	}
	for name := range severalLocks {
		if !slices.Contains(met, name) {
			t.Errorf("%s takes one lock at most: delete it from severalLocks", name)
		}
	}
	if locks < 500 {
		t.Errorf("only %d locks are taken: what was searched?", locks)
	}
}

// What the search must find, and what it must leave.
func TestLocksAreFound(t *testing.T) {
	text := `package x
import "sync"
type a struct { mu, other sync.Mutex }
type b struct { sync.RWMutex }
type file struct{}
func (file) Lock() {}
func twoMutexes(a *a) { a.mu.Lock(); defer a.mu.Unlock(); a.other.Lock() }
func twice(a *a) { a.mu.Lock(); a.mu.Unlock(); a.mu.Lock() }
func embedded(b *b) { b.RLock(); b.RUnlock(); b.Lock() }
func tries(a *a) { if a.mu.TryLock() { return }; a.mu.Lock() }
func inside(a *a) { func() { a.mu.Lock(); a.other.Lock() }() }
func apart(a *a) { a.mu.Lock(); go func() { a.mu.Lock() }() }
func ofAFile(f file) { f.Lock(); f.Lock() }
func (a *a) look() func() { a.mu.Lock(); return a.mu.Unlock }
func twoLooks(x, y *a) { defer x.look()(); defer y.look()() }
func oneLook(a *a) { defer a.look()() }
`
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, "x.go", text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	p := checkedPackage{files: []*ast.File{f}, info: newInfo()}
	config := types.Config{Importer: importer.ForCompiler(set, "gc", exported(t, "engine/retry"))}
	if _, err := config.Check("x", set, p.files, p.info); err != nil {
		t.Fatal(err)
	}
	takes := lockers(p)
	var found []string
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			for _, at := range locksOf(fn.Body, takes) {
				if len(at) > 1 {
					found = append(found, fn.Name.Name)
				}
			}
		}
	}
	if want := []string{"twoMutexes", "twice", "embedded", "tries", "inside", "twoLooks"}; !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
}

// locksOf are the places where a body takes a lock, and those of each closure within it.
func locksOf(body *ast.BlockStmt, takes func(*ast.CallExpr) bool) (all [][]token.Pos) {
	var here []token.Pos
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			all = append(all, locksOf(n.Body, takes)...)
			return false
		case *ast.CallExpr:
			if takes(n) {
				here = append(here, n.Pos())
			}
		}
		return true
	})
	return append(all, here)
}

// lockers says which calls of a package take a lock of package sync: those of its methods, and
// those of functions of the package that return what unlocks.
func lockers(p checkedPackage) func(*ast.CallExpr) bool {
	handing := map[types.Object]bool{}
	called := func(e ast.Expr) types.Object {
		if s, ok := e.(*ast.SelectorExpr); ok {
			return p.info.Uses[s.Sel]
		}
		return nil
	}
	for _, f := range p.files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				if r, ok := n.(*ast.ReturnStmt); ok && len(r.Results) == 1 && isOfSync(called(r.Results[0]), "Unlock", "RUnlock") {
					handing[p.info.Defs[fn.Name]] = true
				}
				return true
			})
		}
	}
	return func(c *ast.CallExpr) bool {
		o := called(c.Fun)
		return o != nil && handing[o] || isOfSync(o, "Lock", "RLock", "TryLock", "TryRLock")
	}
}

// isOfSync says whether something is one of some methods of package sync.
func isOfSync(o types.Object, names ...string) bool {
	return o != nil && o.Pkg() != nil && o.Pkg().Path() == "sync" && slices.Contains(names, o.Name())
}

// nameOf is what a function is called, with the type that it is a method of.
func nameOf(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	return types.ExprString(fn.Recv.List[0].Type) + "." + fn.Name.Name
}

// checkedPackage is a package of the module without its tests, with the types of what it uses.
type checkedPackage struct {
	folder string
	files  []*ast.File
	info   *types.Info
}

func newInfo() *types.Info {
	return &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
}

// typeChecked reads the packages of the module.
func typeChecked(t *testing.T, set *token.FileSet) (all []checkedPackage) {
	t.Helper()
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,GoFiles,Export", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	type listed struct {
		ImportPath, Dir, Export string
		GoFiles                 []string
	}
	var ours []listed
	exports := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var p listed
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if strings.HasPrefix(p.ImportPath+"/", module) {
			ours = append(ours, p)
		}
	}
	lookup := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	config := types.Config{Importer: importer.ForCompiler(set, "gc", lookup)}
	for _, p := range ours {
		c := checkedPackage{folder: strings.TrimSuffix(strings.TrimPrefix(p.ImportPath+"/", module), "/"), info: newInfo()}
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			c.files = append(c.files, f)
		}
		if _, err := config.Check(p.ImportPath, set, c.files, c.info); err != nil {
			t.Fatal(fmt.Errorf("%s: %w", p.ImportPath, err))
		}
		all = append(all, c)
	}
	return all
}
