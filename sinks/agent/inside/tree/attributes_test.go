package tree

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// An account that puts a file of somebody else in the place of its own is not given it.
func TestAttributesOfAnotherFile(t *testing.T) {
	for name, swap := range map[string]func(own, others string) error{
		"nothing":                     func(string, string) error { return nil },
		"another file is moved there": func(own, others string) error { return os.Rename(others, own) },
		"another file is linked there": func(own, others string) error {
			return errors.Join(os.Remove(own), os.Link(others, own))
		},
		"the file has a further name": func(own, others string) error { return os.Link(own, others+"2") },
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			own, others := filepath.Join(root, "own"), filepath.Join(root, "others")
			for _, file := range []string{own, others} {
				if err := os.WriteFile(file, []byte("same"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			tree, err := Open(root)
			if err != nil {
				t.Fatal(err)
			}
			defer tree.Close()
			looked, err := tree.Look("/own")
			if err == nil {
				err = swap(own, others)
			}
			if err != nil {
				t.Fatal(err)
			}
			err = tree.SetMode("/own", looked, 0o644)
			is, lookErr := tree.Look("/own")
			switch {
			case lookErr != nil:
				t.Error(lookErr)
			case name == "nothing":
				if err != nil || is.Mode != 0o644 {
					t.Errorf("the mode is %o: %v", is.Mode, err)
				}
			case !errors.Is(err, ErrOther) || is.Mode != 0o600:
				t.Errorf("the mode is %o: %v", is.Mode, err)
			}
		})
	}
}
