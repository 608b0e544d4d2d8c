package inside

import (
	"os"
	"path/filepath"
	"testing"
)

// What a cut leaves of a write is gone after the next one.
func TestWriteFileTakesAwayWhatACutLeft(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "journal")
	if err := os.WriteFile(filepath.Join(dir, ".slipway-journal.new"), []byte("hal"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(path, []byte("whole"), 0o640); err != nil {
		t.Fatal(err)
	}
	all, err := os.ReadDir(dir)
	if err != nil || len(all) != 1 {
		t.Errorf("there are %v, %v", all, err)
	}
	info, err := os.Stat(path)
	if text, _ := os.ReadFile(path); err != nil || string(text) != "whole" || info.Mode() != 0o640 {
		t.Errorf("got %q, %v, %v", text, info, err)
	}
}
