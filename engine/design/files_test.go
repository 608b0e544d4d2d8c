package design

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/slipway-gitops/slipway/engine/site"
)

func TestSites(t *testing.T) {
	for _, test := range []struct {
		name  string
		files []string
		want  []string
	}{
		{"nothing", nil, nil},
		{"the root", []string{"a.cue: package fra"}, []string{"fra"}},
		{"after a comment", []string{"a.cue: // package no\n\n@x()\npackage fra"}, []string{"fra"}},
		{"sites", []string{"sites/muc/a.cue: package x", "sites/fra/a.cue: package x", "a.cue: package y"}, []string{"fra", "muc"}},
		{"no sites in sites", []string{"sites/README.md: x", "sites/_old/a.cue: package x", "sites/docs/b.md: x", "a.cue: package y"}, []string{"y"}},
		{"no package", []string{"a.cue: x: 1", "_b.cue: package z", "c_tool.cue: package z"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			repo := fstest.MapFS{}
			for _, f := range test.files {
				name, text, _ := strings.Cut(f, ": ")
				repo[name] = &fstest.MapFile{Data: []byte(text)}
			}
			got, err := Sites(repo)
			if err != nil || !slices.Equal(got, test.want) {
				t.Errorf("got %v, %v, want %v", got, err, test.want)
			}
		})
	}
}

// A site at the root beside others is told of, whichever of the sites is meant.
func TestSiteAtTheRootIsNotLost(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		of    string
		want  string
	}{
		"beside a site":     {map[string]string{"a.cue": "package fra\nnodes: {}", "sites/muc/a.cue": "package muc"}, "", "a.cue: the site fra at the root is not read"},
		"itself":            {map[string]string{"a.cue": "package fra\nsite: {}", "sites/muc/a.cue": "package muc"}, "fra", "a.cue: the site fra at the root is not read"},
		"the other":         {map[string]string{"z.cue": "package fra\n\"nodes\": n1: {}", "sites/muc/a.cue": "package muc"}, "muc", "z.cue: the site fra at the root is not read"},
		"a part of a site":  {map[string]string{"a.cue": "package muc\nnodes: {}", "sites/muc/a.cue": "package muc"}, "", ""},
		"what sites share":  {map[string]string{"a.cue": "package lib\nx: nodes: {}", "sites/muc/a.cue": "package muc"}, "", ""},
		"no site beside it": {map[string]string{"a.cue": "package fra\nnodes: {}", "sites/muc/a.txt": ""}, "", ""},
		"and one not there": {map[string]string{"a.cue": "package lib", "sites/muc/a.cue": "package muc"}, "lib", ": there is no site \"lib\""},
	} {
		_, found, err := collect(repository(c.files), c.of, Limits{}.withDefaults())
		got := ""
		if len(found) > 0 {
			got = found[0].File + ": " + found[0].Message
		}
		if err != nil || (got == "") != (c.want == "") || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: got %q (%v), want %q", name, got, err, c.want)
		}
	}
}

// What is not a plain file, or too much, is a finding; the rest is read.
func TestCollectBounds(t *testing.T) {
	repo := repository(map[string]string{"a.cue": "package fra", "big.cue": strings.Repeat(" ", 100), "README.md": strings.Repeat(" ", 1000)})
	repo["link.cue"] = &fstest.MapFile{Mode: fs.ModeSymlink, Data: []byte("/etc/passwd")}
	repo["device.cue"] = &fstest.MapFile{Mode: fs.ModeDevice}
	repo[".git/x.cue"] = &fstest.MapFile{Data: []byte("package fra")}
	for _, test := range []struct {
		name string
		lim  Limits
		want []string
	}{
		{"a file", Limits{FileBytes: 90}, []string{"file-too-large big.cue", "not-regular-file device.cue", "not-regular-file link.cue"}},
		{"the package", Limits{PackageBytes: 90}, []string{"too-large big.cue"}},
		{"the number", Limits{Files: 2}, []string{"too-large cue.mod/module.cue"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, found, err := collect(repo, "", test.lim.withDefaults())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range found {
				got = append(got, f.Code+" "+f.File)
			}
			slices.Sort(got)
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			for name := range p.files {
				if !slices.Contains([]string{"a.cue", "big.cue", moduleFile}, name) {
					t.Errorf("read %s", name)
				}
			}
		})
	}
}

// brokenFS fails to read one file.
type brokenFS struct{ fs.FS }

func (b brokenFS) Open(name string) (fs.File, error) {
	if name == "b.cue" {
		return nil, errors.New("disk on fire")
	}
	return b.FS.Open(name)
}

// Files that cannot be read are an error, never an empty design.
func TestUnreadableFilesAreAnError(t *testing.T) {
	e := newEvaluator(t, Limits{})
	repo := repository(map[string]string{"a.cue": "package fra", "b.cue": "package fra"})
	r, err := e.Evaluate(t.Context(), brokenFS{repo}, "")
	if err == nil || r.Site != nil || len(r.Findings) > 0 {
		t.Errorf("got %v, site %v, findings %v, want an error alone", err, r.Site, r.Findings)
	}
}

// A design that tries to read the host learns nothing of it.
func TestNothingOfTheHostIsRead(t *testing.T) {
	const secret = "canary-7f3a"
	host := t.TempDir()
	for name, text := range map[string]string{
		"secret.txt": secret, "secret.cue": "package secret\nx: \"" + secret + "\"\n",
		"cue.mod/module.cue": "module: \"example.org/secret\"\nlanguage: version: \"v0.17.0\"\n",
	} {
		path := filepath.Join(host, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(host, filepath.Join(host, "link")); err != nil {
		t.Fatal(err)
	}
	for name, files := range map[string]map[string]string{
		"embed":       {"a.cue": "@extern(embed)\npackage fra\nroles: x: description: _ @embed(file=" + host + "/secret.txt,type=text)\n"},
		"replacement": {"a.cue": "package fra\nimport \"example.org/secret\"\nroles: x: description: secret.x\n", "cue.mod/local-module.cue": "deps: \"example.org/secret@v0\": replaceWith: \"" + host + "\"\n"},
		"dependency": {"a.cue": "package fra\nimport \"example.org/secret\"\nroles: x: description: secret.x\n",
			moduleFile: "module: \"example.org/site\"\nlanguage: version: \"v0.17.0\"\ndeps: \"example.org/secret@v0\": {v: \"v0.0.1\", replaceWith: \"" + host + "\"}\n"},
		"relative import": {"a.cue": "package fra\nimport s \"../../../../../.." + host + ":secret\"\nroles: x: description: s.x\n"},
		"dots":            {"a.cue": "package fra\nimport s \"example.org/site/../../../../.." + host + ":secret\"\nroles: x: description: s.x\n"},
		"tool":            {"a.cue": "package fra\nimport \"tool/file\"\nroles: x: description: (file.Read & {filename: \"" + host + "/secret.txt\"}).contents\n"},
		"environment":     {"a.cue": "package fra\nimport \"tool/os\"\nroles: x: description: os.Environ.HOME\n"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEvaluator(t, Limits{})
			r := evaluateIn(t, e, files)
			if r.Site != nil || len(r.Findings) == 0 {
				t.Error("it is a design like any other")
			}
			if text := describe(r.Findings); strings.Contains(text, secret) {
				t.Errorf("the findings tell of the host:\n%s", text)
			}
		})
	}
}

// What evaluates designs has no code in it to load them from the host or a
// registry.
func TestLoaderOfCueIsNotLinked(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range strings.Lines(string(out)) {
		switch strings.TrimSpace(pkg) {
		case "cuelang.org/go/cue/load", "cuelang.org/go/mod/modconfig", "cuelang.org/go/mod/modregistry", "cuelang.org/go/cue/interpreter/embed":
			t.Errorf("engine/design depends on %s", pkg)
		}
	}
}

// FuzzEvaluate looks for designs that break the evaluation.
func FuzzEvaluate(f *testing.F) {
	paths, _ := filepath.Glob("testdata/*.txtar")
	for _, p := range paths[:many(len(paths), len(paths))] {
		text, err := os.ReadFile(p)
		if err != nil {
			f.Fatal(err)
		}
		for part := range strings.SplitSeq(string(text), "\n-- ") {
			if name, body, _ := strings.Cut(part, " --\n"); strings.HasSuffix(name, "site.cue") {
				f.Add(body)
			}
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4<<10 {
			return
		}
		repo := repository(map[string]string{"site.cue": text, "base.cue": "package fra\n"})
		r := EvaluateHere(repo, "")
		if (r.Site != nil) == site.HasErrors(r.Findings) {
			t.Errorf("got site %v with findings %v", r.Site != nil, r.Findings)
		}
		for _, f := range r.Findings {
			if f.Code == "panic" || f.Code == "undecodable" || f.Code == "" || f.Message == "" {
				t.Errorf("got the finding %+v", f)
			}
		}
		if again := EvaluateHere(repo, ""); describe(again.Findings) != describe(r.Findings) {
			t.Errorf("the same design gave\n%s\nand then\n%s", describe(r.Findings), describe(again.Findings))
		}
	})
}

// gitLike is a file system whose files have ids, and counts what is opened.
type gitLike struct {
	fstest.MapFS
	opened *atomic.Int64
}

func (g gitLike) Open(name string) (fs.File, error) {
	if strings.HasSuffix(name, ".cue") {
		g.opened.Add(1)
	}
	return g.MapFS.Open(name)
}

func (g gitLike) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := g.MapFS.ReadDir(name)
	for i, d := range entries {
		text, _ := g.MapFS.ReadFile(path.Join(name, d.Name()))
		entries[i] = withID{d, fmt.Sprintf("%x", digestOf(text))}
	}
	return entries, err
}

type withID struct {
	fs.DirEntry
	id string
}

func (d withID) ContentID() string { return d.id }

// A file whose content has the id that it had is not read again; one with
// another is.
func TestKnownContentIsNotReadAgain(t *testing.T) {
	files := gitLike{repository(map[string]string{"a.cue": "package fra", "b.cue": "package fra // 1"}), &atomic.Int64{}}
	m := newMemory()
	collected := func() string {
		files.opened.Store(0)
		p, found, err := collectAnew(files, "fra", Limits{}.withDefaults(), func(string) map[string]text { return m.texts })
		if err != nil || len(found) > 0 {
			t.Fatal(err, found)
		}
		m.read(p)
		return string(p.files["a.cue"]) + string(p.files["b.cue"])
	}
	collected()
	choosing := int64(1) // which site it is, is read each time
	if collected(); files.opened.Load() != choosing {
		t.Errorf("%d files were opened again", files.opened.Load()-choosing)
	}
	files.MapFS["b.cue"].Data = []byte("package fra // 2")
	if text := collected(); !strings.HasSuffix(text, "2") || files.opened.Load() != choosing+1 {
		t.Errorf("read %q from %d files", text, files.opened.Load()-choosing)
	}
}
