package tests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// revealing are the files that may read a secret of any kind: to find it in texts, or because it is a document. Others
// say what they need, a password or a key, and are refused the other kind.
var revealing = []string{
	"engine/driver/drivertest/virtual.go", "engine/secret/digest.go", "engine/secret/kind.go", "engine/secret/secret.go", "engine/secret/version.go",
	"sinks/libvirt/iso.go", "sinks/redfish/capture.go", "sinks/redfish/client.go",
}

func TestSecretsAreAskedForByKind(t *testing.T) {
	var met []string
	files(t, func(path string, f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Reveal" && !slices.Contains(met, path) {
				met = append(met, path)
			}
			return true
		})
	})
	for _, path := range met {
		if !slices.Contains(revealing, path) {
			t.Errorf("%s calls Reveal: use Password or PEM, which refuse a secret of another kind", path)
		}
	}
	if len(met) < len(revealing)-1 {
		t.Errorf("only %q call Reveal: what was searched?", met)
	}
}

// files goes through the Go files of the product, without tests and what they use.
func files(t *testing.T, do func(path string, f *ast.File)) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(filepath.ToSlash(path), "../")
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "tests" || strings.HasPrefix(d.Name(), ".git")):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err == nil {
			do(name, f)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// asking are the files of the engine that read values of secrets from their source. A value that is sent has to be
// recorded before, which delivered.go does: the others only compare values, or keep the source.
var asking = map[string]string{
	"engine/delivered.go":   "records each value before it is sent",
	"engine/bmcaccounts.go": "compares values; Begin and Prove record those that are sent",
	"engine/discover.go":    "a search, which sends to machines without a name: see docs/compromise.md",
	"engine/engine.go":      "tells the source which design is in force",
	"engine/replaced.go":    "compares versions",
}

func TestSecretsAreSentByWayOfTheirRecords(t *testing.T) {
	met := map[string]bool{}
	files(t, func(path string, f *ast.File) {
		if filepath.ToSlash(filepath.Dir(strings.TrimPrefix(path, "../"))) != "engine" && filepath.Dir(path) != "engine" {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Secrets" {
				met[filepath.ToSlash(strings.TrimPrefix(path, "../"))] = true
			}
			return true
		})
	})
	for path := range met {
		if asking[path] == "" {
			t.Errorf("%s reads secrets from their source: what it sends would be in no record. Use loginsTo, lend or deliver of engine/delivered.go", path)
		}
	}
	if len(met) != len(asking) {
		t.Errorf("only %v read secrets: what was searched?", met)
	}
}
