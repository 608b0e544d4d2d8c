package tests

import (
	"bufio"
	"encoding/json"
	"errors"
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

// backwards is which part of the references between the files of a package may point to a
// file further down in the order of order.txt, in per cent.
var backwards = map[string]int{
	"engine":               5,
	"engine/design":        10,
	"engine/design/author": 10,
	"engine/design/rule":   10,
}

// The files of the packages that hold most can be read from the top of a list down: each
// refers to those above it.
func TestOrderOfFiles(t *testing.T) {
	orders := readOrders(t)
	for pkg, most := range backwards {
		t.Run(pkg, func(t *testing.T) {
			order := orders[pkg]
			down, all := 0, 0
			for _, r := range references(t, pkg) {
				from, to := slices.Index(order, r.from), slices.Index(order, r.to)
				if from < 0 || to < 0 {
					continue
				}
				all++
				if to > from {
					down++
				}
			}
			if all == 0 {
				t.Fatal("no references: the package was not read")
			}
			t.Logf("%d of %d references point down, %.1f %%", down, all, 100*float64(down)/float64(all))
			if 100*down > most*all {
				t.Errorf("%d of %d references point down, more than %d %%: move what the upper files need up, or the file down in tests/order.txt", down, all, most)
			}
		})
	}
}

// readOrders reads order.txt: the name of a package, and behind it its files. Each file
// is in it once, and no other.
func readOrders(t *testing.T) map[string][]string {
	t.Helper()
	f, err := os.Open("order.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	orders := map[string][]string{}
	pkg := ""
	for lines := bufio.NewScanner(f); lines.Scan(); {
		switch line := strings.TrimSpace(lines.Text()); {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasSuffix(line, ":"):
			pkg = strings.TrimSuffix(line, ":")
		default:
			orders[pkg] = append(orders[pkg], strings.Fields(line)...)
		}
	}
	for pkg := range backwards {
		listed := slices.Sorted(slices.Values(orders[pkg]))
		if there := sources(t, pkg); !slices.Equal(listed, there) {
			t.Errorf("tests/order.txt has the files %s of %s; there are %s", listed, pkg, there)
		}
	}
	return orders
}

// sources are the files of a package without its tests.
func sources(t *testing.T, pkg string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join("..", pkg, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range all {
		if !strings.HasSuffix(f, "_test.go") {
			names = append(names, filepath.Base(f))
		}
	}
	return names
}

// reference is that one file of a package uses something that another declares.
type reference struct{ from, to string }

// references are those between the files of a package: each use counts.
func references(t *testing.T, pkg string) []reference {
	t.Helper()
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range sources(t, pkg) {
		f, err := parser.ParseFile(set, filepath.Join("..", pkg, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: importer.ForCompiler(set, "gc", exported(t, pkg))}
	if _, err := config.Check(pkg, set, files, info); err != nil {
		t.Fatal(err)
	}
	var all []reference
	in := filepath.Join("..", pkg)
	for id, o := range info.Uses {
		_, isPackage := o.(*types.PkgName)
		from, to := set.Position(id.Pos()).Filename, set.Position(o.Pos()).Filename
		if !isPackage && from != to && filepath.Dir(to) == in {
			all = append(all, reference{filepath.Base(from), filepath.Base(to)})
		}
	}
	return all
}

// exported gives what the compiler knows of the packages that one imports.
func exported(t *testing.T, pkg string) importer.Lookup {
	t.Helper()
	out, err := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export", "../"+pkg).Output()
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]string{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct{ ImportPath, Export string }
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		at[p.ImportPath] = p.Export
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(at[path]) }
}
