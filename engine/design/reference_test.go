package design

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What documentation says of the schema is all that CUE knows of it: every
// field is there, in a form that a person can read.
func TestDefinitionsAreTheSchema(t *testing.T) {
	names := map[string]bool{}
	for _, d := range Definitions() {
		names[d.Name] = true
		if d.Doc == "" || !strings.Contains(d.Text, "\n"+d.Name+":") || strings.Contains(d.Text, "@form") {
			t.Errorf("%s: doc %q, text\n%s", d.Name, d.Doc, d.Text)
		}
		s := shapes()[d.Name]
		if s == nil {
			t.Errorf("%s is no definition of the schema", d.Name)
			continue
		}
		for _, f := range d.Fields {
			isKey := f.Path == "NAME" || strings.HasSuffix(f.Path, ".NAME")
			if f.Doc == "" && !isKey || f.Type == "" {
				t.Errorf("%s.%s: doc %q, type %q", d.Name, f.Path, f.Doc, f.Type)
			}
			if !s.has(strings.Split(f.Path, ".")) {
				t.Errorf("%s.%s is no field of the schema", d.Name, f.Path)
			}
		}
	}
	for name, s := range shapes() {
		if !names[name] {
			t.Errorf("%s is not described", name)
		}
		for field := range s.fields {
			if !describes(name, field) {
				t.Errorf("%s.%s is not described", name, field)
			}
		}
	}
	for _, s := range Sections() {
		if !names[s.Definition] {
			t.Errorf("%s holds %s, which is not described", s.Name, s.Definition)
		}
	}
}

// has says whether a shape has a field; NAME is any key.
func (s *shape) has(path []string) bool {
	if len(path) == 0 {
		return true
	}
	if f := s.fields[path[0]]; f != nil {
		return f.has(path[1:])
	}
	return path[0] == "NAME" && slices.ContainsFunc(s.entries, func(e entry) bool { return e.has(path[1:]) })
}

// describes says whether a definition has a field of its own or from one that
// it embeds.
func describes(definition, field string) bool {
	all := Definitions()
	i := slices.IndexFunc(all, func(d Definition) bool { return d.Name == definition })
	if i < 0 {
		return false
	}
	return slices.ContainsFunc(all[i].Fields, func(f Field) bool {
		return f.Path == field || strings.HasPrefix(f.Path, field+".")
	}) || slices.ContainsFunc(all[i].Embeds, func(e string) bool { return describes(e, field) })
}

// A field enters the schema together with what reads it: testdata/readers.txt
// has every field that holds a value, with its readers. -update rewrites it.
func TestEveryFieldHasAReader(t *testing.T) {
	const file = "testdata/readers.txt"
	var b strings.Builder
	for _, d := range Definitions() {
		for _, f := range d.Fields {
			if f.Holds && len(f.Readers) == 0 || slices.Contains(effectives, d.Name) { // which says more of fields of #Layer
				continue
			}
			fmt.Fprintf(&b, "%s.%s: %s\n", d.Name, f.Path, strings.Join(f.Readers, ", "))
			if len(f.Readers) == 0 {
				t.Errorf("nothing reads %s.%s", d.Name, f.Path)
			}
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("%s is not current (-update makes it so): want (-), got (+):\n%s", file, diff)
	}
}
