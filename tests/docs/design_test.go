package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/site"
)

// generated are the pages that are made of the code, whose blocks its own tests hold.
var generated = []string{"docs/rules.md", "docs/schema.md", "docs/messages.md", "docs/changelog.md"}

// unknown is what a page leaves out because only its reader knows it, and what this test
// puts there.
var unknown = strings.NewReplacer(
	`ssh-ed25519 BBBB…`, `ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g`,
	`ssh-ed25519 AAAA…`, `ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIBBm1mpvrHf/9iO37CQJknwJxtCPRt4cudOEkEbbXV6`,
	`ed25519:…`, `ed25519:J/fcCahgPKEcN7y2HcgfyiS5GltwDVG2U1IRfw5dg/k=`,
	`sha256: "…"`, `sha256: "`+strings.Repeat("0123456789abcdef", 4)+`"`,
	`sha256: "6809dd0b…"`, `sha256: "`+strings.Repeat("6809dd0b", 8)+`"`,
)

// withoutFiles are the findings about files that a page names and does not show.
var withoutFiles = []string{"secret-without-file", "data-without-file"}

// Every block of CUE on a page that a person wrote is part of a site: laid over the site
// in testdata/base, or over site-example on its own page, it is evaluated without an
// error. A comment <!-- test: with CUE --> adds to the base what the blocks after it need.
func TestDesignsOfPages(t *testing.T) {
	files, err := filepath.Glob(folder + "/docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, file := range append(files, folder+"/README.md", folder+"/site-example/README.md") {
		name, err := filepath.Rel(folder, file)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(generated, name) {
			continue
		}
		p := readPage(t, name)
		for _, b := range p.cue {
			tried++
			for _, f := range evaluate(t, p, b) {
				t.Errorf("%s:%d: %s:%d: %s [%s]", name, b.line, f.File, f.Line, f.Message, f.Code)
			}
		}
	}
	if tried < 25 {
		t.Errorf("only %d blocks were tried", tried)
	}
}

// evaluate lays a block over the base, and gives the errors.
func evaluate(t *testing.T, p *page, b block) (errors []site.Finding) {
	t.Helper()
	dir, pkg := "testdata/base", "base"
	if strings.HasPrefix(p.name, "site-example/") {
		dir, pkg = folder+"/site-example", "example"
	}
	files := fstest.MapFS{"block.cue": {Data: []byte(inPackage(pkg, unknown.Replace(b.text)))}}
	for _, pattern := range []string{"*.cue", "*/*.cue"} {
		names, err := fs.Glob(os.DirFS(dir), pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			files[name] = &fstest.MapFile{Data: text}
		}
	}
	var with strings.Builder
	for _, s := range p.steps {
		if text, ok := s.with(); ok && s.line < b.line {
			with.WriteString(text + "\n")
		}
	}
	if with.Len() > 0 {
		files["with.cue"] = &fstest.MapFile{Data: []byte(inPackage(pkg, with.String()))}
	}
	for _, f := range design.EvaluateHere(files, "").Findings {
		if f.Severity == site.SeverityError && !slices.Contains(withoutFiles, f.Code) {
			errors = append(errors, f)
		}
	}
	return errors
}

// with is the CUE of a step that adds to the base.
func (s step) with() (cue string, ok bool) {
	cue, ok = strings.CutPrefix(s.hidden, "with")
	return cue, ok && strings.HasPrefix(cue, "\n")
}

var uses = regexp.MustCompile(`\b(list|regexp|strings|schema)\.`)

// inPackage makes a file of a part of one.
func inPackage(pkg, text string) string {
	var paths []string
	for _, m := range uses.FindAllStringSubmatch(text, -1) {
		path := m[1]
		if path == "schema" {
			path = "github.com/slipway-gitops/slipway/schema"
		}
		paths = append(paths, "import \""+path+"\"\n")
	}
	slices.Sort(paths)
	return "package " + pkg + "\n" + strings.Join(slices.Compact(paths), "") + text
}
