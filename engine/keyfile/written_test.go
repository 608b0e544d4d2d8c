package keyfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A file that cannot be given to its owner is not left behind, and is nobody's key.
func TestWhatCannotBeGivenAway(t *testing.T) {
	folder, why := t.TempDir(), errors.New("no such user")
	path, err := written(folder, []byte("secret"), func(*os.File) error { return why })
	if !errors.Is(err, why) || path != "" {
		t.Errorf("got %q, %v", path, err)
	}
	if left, _ := filepath.Glob(filepath.Join(folder, "*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}
