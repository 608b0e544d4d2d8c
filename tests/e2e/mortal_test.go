package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// writers are the functions by which the daemon writes something down that is
// there after its death, by file: records in etcd and beside it, its copy of
// the repository, the status branch, the site's name.
var writers = map[string][]string{
	"engine/record/migrate.go": {"func (s *Store) version("},
	"engine/record/site.go":    {"func (s *Store) txn("},
	"engine/record/term.go":    {"func (t *Term) write("},
	"engine/record/files.go":   {"func (s *Site) saveFile(", "func (s *Site) dropFile("},
	"engine/repo/fetch.go":     {"func (s *Store) store("},
	"engine/repo/store.go":     {"func (s *Store) addShallow(", "func (s *Store) Accept("},
	"engine/repo/push.go":      {"func (r Remote) Push("},
	"cmd/slipway/write.go":     {"func replaceFile("},
}

var buildMortal sync.Once

// mortal is the daemon in which each of the writers begins with a call to
// package crash. It is built from the sources with these lines put in.
func mortal(t *testing.T) string {
	t.Helper()
	path := filepath.Join(filepath.Dir(program), "slipway-mortal")
	buildMortal.Do(func() {
		dir := filepath.Join(filepath.Dir(program), "overlay")
		check(t, os.Mkdir(dir, 0o700))
		build := exec.Command("go", append(buildFlags, "-overlay", overlay(t, dir), "-o", path, "../../cmd/slipway")...)
		build.Env = append(os.Environ(), buildEnv)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
	})
	return path
}

// overlay writes the changed sources into dir, and what the go command wants to
// know of them.
func overlay(t *testing.T, dir string) string {
	t.Helper()
	replace := map[string]string{}
	for name, functions := range writers {
		from, err := filepath.Abs(filepath.Join("../..", name))
		check(t, err)
		replace[from] = filepath.Join(dir, strings.ReplaceAll(name, "/", "-"))
		source, err := os.ReadFile(from)
		check(t, err)
		check(t, os.WriteFile(replace[from], []byte(withCrashes(t, string(source), functions)), 0o600))
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	check(t, err)
	path := filepath.Join(dir, "overlay.json")
	check(t, os.WriteFile(path, text, 0o600))
	return path
}

// withCrashes is a source in which these functions begin with a call.
func withCrashes(t *testing.T, source string, functions []string) string {
	t.Helper()
	source = strings.Replace(source, "import (\n", "import (\n\t\"github.com/slipway-gitops/slipway/tests/e2e/crash\"\n", 1)
	for _, f := range functions {
		before, from, found := strings.Cut(source, "\n"+f)
		line, body, whole := strings.Cut(from, " {\n")
		if !found || !whole {
			t.Fatalf("there is no %s any more: say where the daemon writes now", f)
		}
		source = before + "\n" + f + line + " {\n\tdefer crash.Write()()\n" + body
	}
	return source
}
