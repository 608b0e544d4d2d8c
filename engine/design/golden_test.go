package design

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/load"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/schema"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// wantPrefix begins the names of what is expected, among the inputs.
const wantPrefix = "want/"

// golden is one case: a repository, and what is to be said of it. A line
// "site: NAME" in the comment says which site is meant.
type golden struct {
	path    string
	archive *txtar.Archive
}

func goldens(t *testing.T) []golden {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	var all []golden
	for _, p := range paths {
		a, err := txtar.ParseFile(p)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, golden{p, a})
	}
	return all
}

func (g golden) name() string { return strings.TrimSuffix(filepath.Base(g.path), ".txtar") }

func (g golden) site() string {
	for line := range strings.Lines(string(g.archive.Comment)) {
		if name, ok := strings.CutPrefix(line, "site: "); ok {
			return strings.TrimSpace(name)
		}
	}
	return ""
}

// files are the inputs. One that is named nowhere gets a module file.
func (g golden) files(t *testing.T) fs.FS {
	t.Helper()
	files := map[string]string{}
	for _, f := range g.archive.Files {
		if !strings.HasPrefix(f.Name, wantPrefix) {
			files[f.Name] = string(f.Data)
		}
	}
	repo := repository(files)
	if slices.ContainsFunc(g.archive.Files, func(f txtar.File) bool { return f.Name == "no-module" }) {
		delete(repo, moduleFile)
	}
	return repo
}

// TestGolden shows what is said of each design in testdata. Run it with
// -update to rewrite the files, and read the difference.
func TestGolden(t *testing.T) {
	hasOneGoroutine(t)
	for _, g := range goldens(t) {
		t.Run(g.name(), func(t *testing.T) {
			r := EvaluateHere(g.files(t), g.site())
			got := map[string]string{wantPrefix + "findings": describe(r.Findings)}
			if r.Site != nil {
				text, err := json.MarshalIndent(r.Site, "", "  ")
				if err != nil {
					t.Fatal(err)
				}
				got[wantPrefix+"site.json"] = string(text) + "\n"
			}
			g.compare(t, got)
		})
	}
}

func (g golden) compare(t *testing.T, got map[string]string) {
	t.Helper()
	var inputs []txtar.File
	want := map[string]string{}
	for _, f := range g.archive.Files {
		if strings.HasPrefix(f.Name, wantPrefix) {
			want[f.Name] = string(f.Data)
		} else {
			inputs = append(inputs, f)
		}
	}
	if !*update {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("want (-), got (+):\n%s", diff)
		}
		return
	}
	for _, name := range []string{wantPrefix + "findings", wantPrefix + "site.json"} {
		if text, ok := got[name]; ok {
			inputs = append(inputs, txtar.File{Name: name, Data: []byte(text)})
		}
	}
	text := txtar.Format(&txtar.Archive{Comment: g.archive.Comment, Files: inputs})
	if err := os.WriteFile(g.path, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// describe writes findings in full.
func describe(findings []site.Finding) string {
	var b strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&b, "%s [%s, %s]\n", f, f.Code, f.Severity)
		if f.Node != "" || f.Path != "" {
			fmt.Fprintf(&b, "\tof   %s", strings.TrimSpace(f.Node+" "+f.Path))
			if f.More > 0 {
				fmt.Fprintf(&b, " and %d more", f.More)
			}
			b.WriteByte('\n')
		}
		for _, part := range []struct{ what, text string }{
			{"why ", f.Why}, {"fix ", f.Fix}, {"also", strings.Join(f.Related, ", ")},
		} {
			if part.text != "" {
				fmt.Fprintf(&b, "\t%s %s\n", part.what, part.text)
			}
		}
	}
	return b.String()
}

// Every finding says what, why and what to do, and every golden case has its
// place unless the whole repository is meant.
func TestFindingsAreComplete(t *testing.T) {
	hasOneGoroutine(t)
	for _, g := range goldens(t) {
		for _, f := range EvaluateHere(g.files(t), g.site()).Findings {
			if f.Code == "" || f.Severity == "" || f.Message == "" || f.Why == "" && f.Code != "more-findings" || f.Fix == "" {
				t.Errorf("%s: finding lacks code, severity, message, why or fix: %+v", g.name(), f)
			}
			if f.File == "" && !slices.Contains([]string{"empty-repository", "unknown-site", "several-sites", "rules-not-checked", "more-findings"}, f.Code) {
				t.Errorf("%s: finding %s has no place", g.name(), f.Code)
			}
		}
	}
}

// The loader gives the values that cue/load gives, wherever cue/load can be
// asked: with the schema vendored and the binding written out.
func TestLoaderAgreesWithCueLoad(t *testing.T) {
	hasOneGoroutine(t)
	compared := 0
	for _, g := range goldens(t) {
		p, findings, err := collect(g.files(t), g.site(), Limits{}.withDefaults())
		if err != nil {
			t.Fatal(err)
		}
		if len(findings) > 0 {
			continue
		}
		l := newLoader(p)
		l.readModule()
		inst := l.load()
		if len(l.findings.list) > 0 || inst == nil {
			continue
		}
		t.Run(g.name(), func(t *testing.T) {
			got := cuecontext.New().BuildInstance(inst)
			want := loadByCue(t, p, l.mainPackage())
			if got, want := fields(got), fields(want); got != want {
				t.Errorf("own loader (+), cue/load (-):\n%s", cmp.Diff(want, got))
			}
		})
		compared++
	}
	if compared < 5 {
		t.Errorf("compared %d golden files, want more", compared)
	}
}

// loadByCue evaluates a site's package as the cue command does.
func loadByCue(t *testing.T, p pack, pkg string) cue.Value {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, data []byte) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range p.files {
		write(name, data)
	}
	names, _ := fs.Glob(schema.Files, "*.cue")
	for _, name := range names {
		data, _ := fs.ReadFile(schema.Files, name)
		write("cue.mod/pkg/"+schema.Path+"/"+name, data)
	}
	write(p.dir+"/zz_binding.cue", []byte(newLoader(p).bindingText(pkg)))
	insts := load.Instances([]string{"./" + p.dir + ":" + pkg}, &load.Config{Dir: dir, Env: []string{}})
	if len(insts) != 1 || insts[0].Err != nil {
		t.Fatalf("cue/load: %v", insts[0].Err)
	}
	return cuecontext.New().BuildInstance(insts[0])
}

// fields prints a value's fields, errors and all.
func fields(v cue.Value) string {
	var b bytes.Buffer
	it, err := v.Fields(cue.Hidden(true), cue.Definitions(true))
	if err != nil {
		return err.Error()
	}
	for it.Next() {
		fmt.Fprintf(&b, "%s: %v\n", it.Selector(), it.Value())
	}
	return b.String()
}
