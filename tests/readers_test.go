package tests

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/design/rule"
	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent"
	"github.com/slipway-gitops/slipway/sinks/libvirt"
	"github.com/slipway-gitops/slipway/sinks/redfish"
)

// Who the schema says reads a field does: the value that the field becomes is read in
// the code of that reader. What a facet reads that no driver acts on is told to the
// author of the design by the rule not-acted-on, and listed in docs/model.md.
func TestEveryReaderReads(t *testing.T) {
	held := heldBy(t)
	reads := whoReads(t)
	codes := map[string]bool{}
	for _, r := range rule.All() {
		codes[r.Code] = true
	}
	serves := driver.Serves(map[string]driver.Driver{"redfish": redfish.New(redfish.Options{}), "libvirt": libvirt.New(libvirt.Options{}), "ssh": agent.New(agent.Options{Folder: "agents"})})
	model, err := os.ReadFile("../docs/model.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rulesOnly, _ := strings.Cut(string(model), "\n## What only has rules yet\n")
	rulesOnly, _, found := strings.Cut(rulesOnly, "\n## ")
	if !found {
		t.Fatal("docs/model.md does not list what only has rules")
	}
	in := func(field string, folders ...string) bool {
		return slices.ContainsFunc(reads[field], func(p string) bool {
			return slices.ContainsFunc(folders, func(f string) bool { return p == f || strings.HasPrefix(p, f+"/") })
		})
	}
	checked := 0
	for field, h := range held {
		for _, reader := range h.readers {
			checked++
			kind, name, _ := strings.Cut(reader, " ")
			ok := false
			switch kind {
			case "rule":
				ok = codes[name] && (ofTree[name] || in(h.field, "engine/design", "engine/site"))
			case "facet":
				_, known := site.Facets[site.Facet(name)]
				acted := serves[site.Facet(name)] || slices.Contains([]string{"power", "boot", "image", "inventory"}, name)
				ok = known && (acted && actsOn(reads[h.field]) || !acted && strings.Contains(rulesOnly, "`"+name+"`"))
			case "engine":
				ok = in(h.field, "engine", "sinks", "sources", "cmd") && !onlyIn(reads[h.field], "engine/design/rule")
			case "people":
				ok = true
			}
			if !ok {
				t.Errorf("%s (%s) is not read by %q, only in %q", field, h.field, reader, reads[h.field])
			}
		}
	}
	if checked < 300 {
		t.Errorf("only %d readers were looked at", checked)
	}
}

// actsOn says whether one of some packages brings about or compares what they read: what holds
// rules against a design, or writes one, does neither.
func actsOn(packages []string) bool {
	return slices.ContainsFunc(packages, func(p string) bool {
		ofEngine := p == "engine" || strings.HasPrefix(p, "engine/") || strings.HasPrefix(p, "sinks/")
		return ofEngine && p != "engine/design/rule" && p != "engine/design/author"
	})
}

func onlyIn(packages []string, folder string) bool {
	return len(packages) > 0 && !slices.ContainsFunc(packages, func(p string) bool { return p != folder })
}

// holder is the field of a Go type that a field of the schema becomes.
type holder struct {
	field   string // "Node.Power"
	readers []string
}

// heldBy finds the holder of each field of the schema that holds a value, by the names
// in JSON.
func heldBy(t *testing.T) map[string]holder {
	t.Helper()
	held, seen := map[string]holder{}, map[string]bool{}
	all := map[string]design.Definition{}
	for _, d := range design.Definitions() {
		all[d.Name] = d
	}
	var walk func(name string, in reflect.Type)
	walk = func(name string, in reflect.Type) {
		d, ok := all[name]
		if !ok || seen[name] {
			return
		}
		seen[name] = true
		for _, e := range d.Embeds {
			walk(e, in)
		}
		for _, f := range d.Fields {
			field, is := find(in, strings.Split(f.Path, "."))
			switch {
			case field == "":
				if len(f.Readers) > 0 && !slices.Equal(f.Readers, []string{"people"}) && !early[name+"."+f.Path] {
					t.Errorf("nothing holds %s.%s", name, f.Path)
				}
				continue
			case len(f.Readers) > 0:
				held[name+"."+f.Path] = holder{field, f.Readers}
			}
			if i := strings.Index(f.Type, "#"); i >= 0 {
				walk(strings.FieldsFunc(f.Type[i:], func(r rune) bool { return !strings.ContainsRune("#_", r) && (r < '0' || r > 'z') })[0], is)
			}
		}
	}
	root := reflect.TypeFor[site.Site]()
	for _, s := range design.Sections() {
		at := root
		if s.Name != "site" {
			_, at = find(root, []string{s.Name})
		}
		if at == nil {
			if !early[s.Name] {
				t.Errorf("no type holds the section %s", s.Name)
			}
			continue
		}
		if s.Many {
			at = bare(at).Elem()
		}
		walk(s.Definition, at)
	}
	return held
}

// early are what the evaluation of a design reads before there is a value of Go, and
// ofTree the rules that look at all that is written or at what is a site's own kind.
var (
	early  = map[string]bool{"data": true, "profiles": true, "#Allocation.NAME": true, "#Extension.item": true, "#Policy.require": true}
	ofTree = map[string]bool{"clear-secret": true, "unknown-extension": true, "extension-item": true}
)

// bare is a type without its pointers.
func bare(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// find follows a path in a type, and gives the field that it ends in.
func find(t reflect.Type, path []string) (field string, is reflect.Type) {
	for _, name := range path {
		t = bare(t)
		for t.Kind() == reflect.Slice || t.Kind() == reflect.Map && name != "NAME" {
			t = bare(t.Elem())
		}
		if t.Kind() == reflect.Map {
			t = t.Elem()
			continue
		}
		if t.Kind() != reflect.Struct {
			return "", nil
		}
		f, ok := byJSON(t, name)
		if !ok {
			return "", nil
		}
		field, t = owner(t, f)+"."+f.Name, f.Type
	}
	return field, t
}

func owner(t reflect.Type, f reflect.StructField) string {
	for len(f.Index) > 1 {
		t = bare(t.Field(f.Index[0]).Type)
		f.Index = f.Index[1:]
	}
	return t.Name()
}

func byJSON(t reflect.Type, name string) (reflect.StructField, bool) {
	for _, f := range reflect.VisibleFields(t) {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

// whoReads lists the packages in whose code, tests aside, a field of a type of
// engine/site is read, by "TYPE.FIELD".
func whoReads(t *testing.T) map[string][]string {
	t.Helper()
	out, err := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export,GoFiles,Dir", "../...").Output()
	if err != nil {
		t.Fatal(err)
	}
	type pkg struct {
		ImportPath, Export, Dir string
		GoFiles                 []string
	}
	exports := map[string]string{}
	var ours []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if strings.HasPrefix(p.ImportPath, module) && !strings.HasPrefix(p.ImportPath, module+"tests/") {
			ours = append(ours, p)
		}
	}
	files := token.NewFileSet()
	read := importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("%s was not built", path)
		}
		return os.Open(exports[path])
	})
	reads := map[string][]string{}
	for _, p := range ours {
		var parsed []*ast.File
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, f)
		}
		info := &types.Info{Selections: map[*ast.SelectorExpr]*types.Selection{}}
		if _, err := (&types.Config{Importer: read}).Check(p.ImportPath, files, parsed, info); err != nil {
			t.Fatal(err)
		}
		set := assigned(parsed)
		for at, s := range info.Selections {
			name := fieldOf(s)
			if from := strings.TrimPrefix(p.ImportPath, module); name != "" && !set[at] && !slices.Contains(reads[name], from) {
				reads[name] = append(reads[name], from)
			}
		}
	}
	return reads
}

// assigned are the fields that are set and so not read.
func assigned(files []*ast.File) map[*ast.SelectorExpr]bool {
	set := map[*ast.SelectorExpr]bool{}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if a, ok := n.(*ast.AssignStmt); ok && a.Tok == token.ASSIGN {
				for _, to := range a.Lhs {
					if s, ok := to.(*ast.SelectorExpr); ok {
						set[s] = true
					}
				}
			}
			return true
		})
	}
	return set
}

// fieldOf names the field of a type of engine/site that is selected.
func fieldOf(s *types.Selection) string {
	if s.Kind() != types.FieldVal || s.Obj().Pkg() == nil || s.Obj().Pkg().Path() != module+"engine/site" {
		return ""
	}
	t := s.Recv()
	for i, at := range s.Index() {
		if p, ok := t.Underlying().(*types.Pointer); ok {
			t = p.Elem()
		}
		if i == len(s.Index())-1 {
			break
		}
		t = t.Underlying().(*types.Struct).Field(at).Type()
	}
	named, ok := types.Unalias(t).(*types.Named)
	if !ok {
		return "." + s.Obj().Name()
	}
	return named.Obj().Name() + "." + s.Obj().Name()
}
