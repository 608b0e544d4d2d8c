package inside_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every pattern of the helper is valid, and none is compiled when the helper starts.
func TestPatterns(t *testing.T) {
	lazy, eager := regexp.MustCompile("Pattern\\(`([^`]*)`\\)"), regexp.MustCompile("(?m)^(var |\t)[A-Za-z]+ += regexp\\.MustCompile")
	found := 0
	err := filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if line := eager.FindString(string(text)); line != "" {
			t.Errorf("%s compiles a pattern at each start: %s", path, line)
		}
		for _, is := range lazy.FindAllStringSubmatch(string(text), -1) {
			found++
			if _, err := regexp.Compile(is[1]); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		return nil
	})
	if err != nil || found < 30 {
		t.Errorf("%d patterns: %v", found, err)
	}
}
