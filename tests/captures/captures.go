// Package captures finds what real BMCs answered, for the tests and figures that
// go by it. It is no part of the project: SLIPWAY_CAPTURES names the folder, and
// without it the folder is looked for beside the project, in shared/captures.
package captures

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Folder is where captures are, if there are any.
func Folder() string {
	if dir := os.Getenv("SLIPWAY_CAPTURES"); dir != "" {
		return dir
	}
	return filepath.Join(root(), "..", "shared", "captures")
}

// root is the project's folder, seen from the folder in which a test or a
// program of it runs.
func root() string {
	dir := "."
	for range 8 {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		dir = filepath.Join(dir, "..")
	}
	return "."
}

// Found are the files of the captures that there are.
func Found() []string {
	files, _ := filepath.Glob(filepath.Join(Folder(), "*.json.gz")) // a pattern of ours
	return files
}

// Files are those of the captures that there are. Without any the test is left
// out, which in CI is a failure.
func Files(t testing.TB) []string {
	t.Helper()
	files := Found()
	if len(files) == 0 {
		without(t, "no captures of real machines are in "+Folder())
	}
	return files
}

// Read is what one BMC answered, by path without a slash at the end.
func Read(t testing.TB, name string) map[string]json.RawMessage {
	t.Helper()
	if all, ok := known.Load(name); ok {
		return maps.Clone(all.(map[string]json.RawMessage))
	}
	all, err := read(filepath.Join(Folder(), name+".json.gz"))
	if os.IsNotExist(err) {
		without(t, err.Error())
	} else if err != nil {
		t.Fatal(err)
	}
	known.Store(name, all)
	return maps.Clone(all)
}

// known are the captures that were read, by name.
var known sync.Map

func read(file string) (map[string]json.RawMessage, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var all map[string]json.RawMessage
	if err := json.NewDecoder(z).Decode(&all); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	trimmed := make(map[string]json.RawMessage, len(all))
	for path, resource := range all {
		trimmed[strings.TrimRight(path, "/")] = resource
	}
	return trimmed, nil
}

func without(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("%s: they have to be there in CI; SLIPWAY_CAPTURES says where", why)
	}
	t.Skipf("%s: SLIPWAY_CAPTURES says where they are", why)
}
