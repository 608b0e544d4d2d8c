package design

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/slipway-gitops/slipway/engine/design/rule"
	"github.com/slipway-gitops/slipway/engine/site"
)

// exampleSealed is the encrypted file of the rules' examples.
func exampleSealed(t *testing.T) []byte {
	t.Helper()
	for _, r := range rule.All() {
		if r.Code == "secret-without-file" {
			_, file, ok := strings.Cut(r.Right, "-- secrets/bmc.age --\n")
			if ok {
				return []byte(file)
			}
		}
	}
	t.Fatal("no rule has an encrypted file")
	return nil
}

// The design in force has the encrypted files that its credentials name, of its own
// site alone, as they are; evaluated as a whole and by an evaluator that remembers.
func TestSealedFilesOfADesign(t *testing.T) {
	file := exampleSealed(t)
	files := fstest.MapFS{
		"cue.mod/module.cue":        {Data: []byte(`module: "example.org/sites", language: version: "v0.17.0"`)},
		"sites/fra/site.cue":        {Data: []byte("package fra\n\ncredentials: {bmc: from: \"sealed\", os: {}}\n")},
		"sites/fra/secrets/bmc.age": {Data: file},
		"sites/fra/secrets/os.age":  {Data: file},
		"sites/muc/site.cue":        {Data: []byte("package muc\n\ncredentials: {bmc: from: \"sealed\"}\n")},
		"sites/muc/secrets/bmc.age": {Data: append(bytes.Clone(file), '\n')},
		"secrets/bmc.age":           {Data: []byte("of no site")},
	}
	for name, want := range map[string]string{"fra": "sites/fra/secrets/bmc.age", "muc": "sites/muc/secrets/bmc.age"} {
		r := EvaluateHere(files, name)
		if r.Site == nil || r.Site.Sealed == nil || r.Site.Sealed.Folder != "sites/"+name+"/secrets" {
			t.Fatalf("%s: got %+v, findings:\n%s", name, r.Site, describe(r.Findings))
		}
		if got := slices.Collect(maps.Keys(r.Site.Sealed.Files)); !slices.Equal(got, []string{want}) || !bytes.Equal(r.Site.Sealed.Files[want], files[want].Data) {
			t.Errorf("%s: got files %v", name, got)
		}
		for _, f := range []Format{CUE, YAML, JSON} {
			if text := rendered(t, r.Site, nil, f); strings.Contains(text, "secrets/bmc.age") {
				t.Errorf("%s: rendered as %s it has its encrypted files:\n%s", name, f, text)
			}
		}
	}
	codes := func(r Result) (codes []string) {
		for _, f := range r.Findings {
			if strings.HasPrefix(f.Code, "secret") || f.Code == "unused-secret" {
				codes = append(codes, f.Code+" "+f.File)
			}
		}
		return codes
	}
	if got := codes(EvaluateHere(files, "fra")); !slices.Equal(got, []string{"unused-secret sites/fra/secrets/os.age"}) {
		t.Errorf("findings %q", got)
	}
	delete(files, "sites/fra/secrets/bmc.age")
	r := EvaluateHere(files, "fra")
	if got := codes(r); r.Site != nil || !slices.Contains(got, "secret-without-file sites/fra/site.cue") {
		t.Errorf("without the file: site %v, findings %q", r.Site != nil, got)
	}
	for _, f := range r.Findings {
		if f.Code == "secret-without-file" && f.Line != 3 {
			t.Errorf("the finding is at line %d", f.Line)
		}
	}
	var none *site.SealedFiles
	if r := EvaluateHere(files, "muc"); r.Site.Sealed == none {
		t.Error("another site is affected")
	}
}
