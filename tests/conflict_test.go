package tests

import (
	"bufio"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// No file has the markers of a merge that was not solved, but for the page that shows what they
// look like.
func TestNoMergeIsUnsolved(t *testing.T) {
	looked := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "bin" || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		name := strings.TrimPrefix(path, "../")
		if ext := filepath.Ext(name); d.IsDir() || ext != ".md" && ext != ".go" && ext != ".cue" && ext != ".sh" && ext != ".txtar" && d.Name() != "Makefile" {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		looked++
		marks := map[string]int{}
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 16<<20)
		for n := 1; lines.Scan(); n++ {
			first, _, _ := strings.Cut(lines.Text(), " ")
			if first == "<<<<<<<" || first == ">>>>>>>" {
				marks[first] = n
			}
		}
		if len(marks) == 2 && name != "docs/rules.md" {
			t.Errorf("%s:%d: a merge was not solved", name, marks["<<<<<<<"])
		}
		return lines.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	if looked < 500 {
		t.Errorf("looked at %d files", looked)
	}
}
