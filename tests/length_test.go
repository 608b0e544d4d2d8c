package tests

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mostLines is how long a file may be that is not a test: a longer one holds more than its name says.
const mostLines = 500

// longFiles are those that are longer, with the reason.
var longFiles = map[string]string{}

// Files are short enough to be found by their name and read in one go.
func TestFilesAreShort(t *testing.T) {
	looked, long := 0, map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ".git":
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		looked++
		name := strings.TrimPrefix(filepath.ToSlash(path), "../")
		if lines := bytes.Count(text, []byte("\n")); lines > mostLines {
			long[name] = true
			if longFiles[name] == "" {
				t.Errorf("%s has %d lines, and may have %d: divide it into files whose names say what they hold", name, lines, mostLines)
			}
		}
		return nil
	})
	if err != nil || looked < 200 {
		t.Errorf("%d files: %v", looked, err)
	}
	for name := range longFiles {
		if !long[name] {
			t.Errorf("%s is not longer than %d lines: delete it from longFiles", name, mostLines)
		}
	}
}
