package engine

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What waits for approval is kept until a plan changes, so a plan is set in one place alone: where that is noticed.
func TestPlansAreSetInOnePlace(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	sets, found := regexp.MustCompile(`\bw\.plan(, [\w.]+)* = `), 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		found += len(sets.FindAll(text, -1))
		if name != "approve.go" && sets.Match(text) {
			t.Errorf("%s sets the plan of a node: planIsLocked does", name)
		}
	}
	if found != 1 {
		t.Errorf("plans are set in %d places", found)
	}
}
