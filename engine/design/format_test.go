package design

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// cueCommand builds the cue command of the version that go.mod names.
func cueCommand(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cue")
	if out, err := exec.Command("go", "build", "-o", path, "cuelang.org/go/cmd/cue").CombinedOutput(); err != nil {
		t.Fatalf("build cue: %v\n%s", err, out)
	}
	return path
}

// Format is what `cue fmt` makes of a file, comments and all.
func TestFormatIsThatOfCUE(t *testing.T) {
	hasOneGoroutine(t)
	texts := map[string]string{
		"spaces":   "package a\n\nx:   1   // one\nlonger :  2\n",
		"comments": "// Of the package.\npackage a\n// Of x.\nx: {// beside\n a: 1 // one\n\n\n\n  // Below.\n}\n// At the end.\n",
		"imports":  "package a\nimport \"strings\"\nimport \"list\"\nx: strings.ToUpper(\"a\")\ny: list.Sum([1,2 , 3])\n",
		"unset":    "package a\nnodes: \"n1\": image: _ @unset( )\n",
		"lines":    "package a\nx: [1,\n2,\n 3]\ny: {a:1,b:2}\nz: \"\"\"\n\ta\n\tb\n\t\"\"\"\n",
		"empty":    "",
		"clause":   "package a",
	}
	cue, dir := cueCommand(t), t.TempDir()
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, name+".cue"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	fmtAll := exec.Command(cue, "fmt", "--files", ".")
	fmtAll.Dir = dir
	if out, err := fmtAll.CombinedOutput(); err != nil {
		t.Fatalf("cue fmt: %v\n%s", err, out)
	}
	e := newEvaluator(t, Limits{})
	for name, text := range texts {
		want, err := os.ReadFile(filepath.Join(dir, name+".cue"))
		if err != nil {
			t.Fatal(err)
		}
		got, findings, err := e.Format(t.Context(), name+".cue", []byte(text))
		if err != nil || findings != nil || string(got) != string(want) {
			t.Errorf("%s: %q, %v, %v; cue fmt says %q", name, got, findings, err, want)
		}
		again, _, err := e.Format(t.Context(), name+".cue", got)
		if err != nil || string(again) != string(got) {
			t.Errorf("%s: formatted again it is %q, %v; want %q", name, again, err, got)
		}
	}
}

// What cannot be formatted is said with its place, whatever it is.
func TestFormatRefuses(t *testing.T) {
	hasOneGoroutine(t)
	e := newEvaluator(t, Limits{FileBytes: 4 << 20})
	for _, c := range []struct{ name, text, code, place string }{
		{"syntax", "package a\nx: {\n", "syntax", "a/b.cue:2:6"},
		{"deep", strings.Repeat("a: ", 1<<20) + "1\n", "too-deep", "a/b.cue:1:602"},
		{"large", strings.Repeat("x", 4<<20+1), "file-too-large", "a/b.cue"},
	} {
		text, findings, err := e.Format(t.Context(), "a/b.cue", []byte(c.text))
		if err != nil || text != nil || len(findings) != 1 || findings[0].Code != c.code || findings[0].Place() != c.place {
			t.Errorf("%s: %q, %v, %v", c.name, text, findings, err)
		}
	}
}
