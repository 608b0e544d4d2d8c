package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/design"
)

// What init writes has nothing to find fault with, not even a note, and is
// formatted.
func TestNewSiteIsCleanAndFormatted(t *testing.T) {
	const dir = "template"
	r := design.EvaluateHere(os.DirFS(dir), "")
	if len(r.Findings) > 0 || r.Site == nil || r.Site.Name != templateSite || len(r.Site.Nodes) != 2 {
		t.Errorf("%s: %v", dir, r.Findings)
	}
	files, err := cueFilesAt(dir)
	if err != nil || len(files) != 5 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		got, findings := design.FormatHere(name, text)
		if len(findings) > 0 || !bytes.Equal(got, text) {
			t.Errorf("%s is not formatted: %v", name, findings)
		}
	}
}

// The same by another name, with no trace of the first.
func TestNewSiteHasItsName(t *testing.T) {
	files, err := newSite("berlin_2")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := writeNew(dir, files); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if bytes.Contains(f.text, []byte(templateSite)) {
			t.Errorf("%s still says %s", f.name, templateSite)
		}
	}
	r := design.EvaluateHere(os.DirFS(dir), "")
	if r.Site == nil || r.Site.Name != "berlin_2" {
		t.Errorf("site %v, findings %v", r.Site, r.Findings)
	}
}

func TestNewSiteName(t *testing.T) {
	for _, c := range []struct{ dir, name, want string }{
		{"/srv/my-site", "", "my_site"},
		{"/srv/a.b", "", "a_b"},
		{"/srv/1", "fra", "fra"},
		{"/srv/1", "", ""},
		{"/srv/größe", "", ""},
		{"/srv/let", "", ""},
		{"/", "", ""},
		{"/srv/x", "my-site", ""},
		{"/srv/x", "let", ""},
		{"/srv/x", strings.Repeat("x", 64), ""},
	} {
		if got, err := newSiteName(c.dir, c.name); got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s, --name %q: %q, %v; want %q", c.dir, c.name, got, err, c.want)
		}
	}
}

// Every name that is taken makes a site, also where it is a word of CUE's.
func TestWordsOfCUEAsNames(t *testing.T) {
	words := strings.Fields("true false null for in if let import package try else func otherwise error string schema nodes _")
	for _, word := range words {
		name, err := newSiteName("/srv/x", word)
		if err != nil {
			continue
		}
		files, err := newSite(name)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := writeNew(dir, files); err != nil {
			t.Fatal(err)
		}
		if r := design.EvaluateHere(os.DirFS(dir), ""); r.Site == nil {
			t.Errorf("%s: %v", word, r.Findings)
		}
	}
}

// What is in the way is named, and nothing is written.
func TestInitOverwritesNothing(t *testing.T) {
	files, err := newSite("fra")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"site.cue", "README.md", "cue.mod/module.cue", "other.cue"} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		if err := writeNew(dir, []newFile{{name, []byte("mine")}}); err != nil {
			t.Fatal(err)
		}
		if err := writeNew(dir, files); err == nil || !strings.HasPrefix(err.Error(), path+" exists already") {
			t.Errorf("%s: %v", name, err)
		}
		if text, err := os.ReadFile(path); err != nil || string(text) != "mine" {
			t.Errorf("%s is %q now, %v", name, text, err)
		}
		if there, err := os.ReadDir(dir); err != nil || len(there) != 1 {
			t.Errorf("%s: there is %v, %v", name, there, err)
		}
	}
}
