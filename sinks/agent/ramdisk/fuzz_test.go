package ramdisk

import (
	"os"
	"strings"
	"testing"
)

// Whatever a program of a package is, to look for what it needs ends with an error or without.
func FuzzProgram(f *testing.F) {
	f.Add([]byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x03\x00\x3e\x00\x01\x00\x00\x00"))
	if real, err := os.ReadFile("/bin/true"); err == nil {
		f.Add(real)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		box := &toolbox{opened: map[string]*parts{"mount": {deb: &deb{file: os.Stdin}}}, files: map[string][]byte{}, from: map[string]bool{}, loaders: map[string]bool{}}
		needs, err := box.add(programFolder+"mount", content, "mount")
		if err == nil && box.files[programFolder+"mount"] == nil {
			t.Error("it is not in the archive")
		}
		for _, n := range needs {
			if n.library == "" || n.library == ".." || strings.Contains(n.library, "/") {
				t.Errorf("it needs the library %q", n.library)
			}
		}
	})
}
