package design

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"

	"github.com/slipway-gitops/slipway/engine/design/rule"
	"github.com/slipway-gitops/slipway/engine/site"
)

// versionBefore is the version of the schema that sites are migrated from.
// Those sites did not state their version.
const versionBefore = "v1alpha1"

// gone are the fields that only the previous version has.
var gone = []string{".hardware.memoryGiB", ".hardware.processors"}

// outdated returns the finding about a site written for another version of the
// schema, or nil. It stands alone, because other mistakes may follow from it.
// The previous version was not stated, so outdated recognizes it by its fields.
func outdated(s *site.Site, all []site.Finding) []site.Finding {
	if s.Schema != "" && s.Schema != site.SchemaVersion {
		return slices.DeleteFunc(rule.OnSite(s, true), func(f site.Finding) bool { return f.Code != "schema-version" })
	}
	if s.Origins.Of("site.schema").LayerName() == "site" {
		return nil
	}
	old := slices.DeleteFunc(slices.Clone(all), func(f site.Finding) bool {
		return f.Code != "unknown-field" || !slices.ContainsFunc(gone, func(field string) bool { return strings.HasSuffix("."+f.Path, field) })
	})
	if len(old) == 0 {
		return nil
	}
	site.SortFindings(old)
	first := old[0]
	return []site.Finding{{
		Code: "schema-version", Severity: site.SeverityError, File: first.File, Line: first.Line, Col: first.Col, Path: first.Path,
		Message: fmt.Sprintf("the site is written for the schema %q, this slipway reads %q", versionBefore, site.SchemaVersion),
		Why:     "The meaning of a field may have changed, so Slipway does not apply the design.",
		Fix:     "Rewrite it with `slipway migrate`, or use a slipway of the site's version.",
	}}
}

// Migration is the change of a repository to the present schema.
type Migration struct {
	// Files are those that change. The files that state the new version come
	// last, so that an interrupted migration can be repeated.
	Files   []Rewritten `json:"files,omitempty"`
	Changes []Change    `json:"changes,omitempty"`
	// Findings are what a person has to do first. With any, nothing changes.
	Findings []site.Finding `json:"findings,omitempty"`
}

// Rewritten is a file with its new text.
type Rewritten struct {
	Name string `json:"name"`
	Text []byte `json:"text"`
}

// Change is one thing that a migration changes. Have is empty for what it adds
// after a line.
type Change struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Have string `json:"have,omitempty"`
	Want string `json:"want"`
}

// Migrate rewrites the sites of a repository from the previous version of the
// schema to the present one, and keeps comments and formatting. A repository of
// the present version needs no change. An error says nothing about the design.
func (e *Evaluator) Migrate(ctx context.Context, files fs.FS) (Migration, error) {
	c := collector{pack: pack{dir: ".", files: map[string][]byte{}, ids: map[string]string{}}, files: files, lim: e.Limits.withDefaults()}
	names, err := Sites(files)
	if err == nil {
		err = fs.WalkDir(files, ".", c.visit)
	}
	if err == nil {
		err = c.takeAll(c.designs, c.pack.files)
	}
	if err != nil {
		return Migration{}, fmt.Errorf("read design: %w", err)
	}
	if len(names) == 0 {
		f, err := noSite(files)
		c.findings.add(f)
		return Migration{Findings: c.findings.list}, err
	}
	if len(c.findings.list) > 0 {
		return Migration{Findings: c.findings.list}, nil
	}
	var m Migration
	broken, err := e.askText(ctx, request{ask: askMigrate, pack: c.pack}, &m)
	if broken != nil {
		m.Findings = []site.Finding{*broken}
	}
	return m, err
}

// migrateHere migrates the files of a repository.
func migrateHere(p pack) Migration {
	m := migrator{files: map[string]*ast.File{}, edits: map[string][]edit{}, pack: p}
	for _, name := range m.names() {
		f, findings := parse(name, p.files[name])
		m.findings.add(findings...)
		m.files[name] = f
	}
	if len(m.findings.list) == 0 {
		m.migrate()
	}
	return m.result()
}

// migrator rewrites texts at the places given by their syntax trees.
type migrator struct {
	pack     pack
	files    map[string]*ast.File
	edits    map[string][]edit
	changes  []Change
	changing []ast.Node
	findings findings
	// stating are the files that get the version.
	stating []string
	// models are the names of the fields that `hardware` refers to somewhere.
	models map[string]bool
}

// names lists the repository's own files, in order.
func (m *migrator) names() []string {
	var names []string
	for name := range m.pack.files {
		if !strings.HasPrefix(name, "cue.mod/") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (m *migrator) migrate() {
	var old [][]string
	for _, dir := range m.siteDirs() {
		if files := m.packageIn(dir); !m.states(files) {
			old = append(old, files)
		}
	}
	if len(m.findings.list) > 0 {
		return
	}
	for _, name := range m.names() {
		m.kinds(m.files[name])
	}
	m.managers()
	if len(old) == 0 {
		return
	}
	m.models = m.modelsOf("hardware")
	for _, name := range m.names() {
		m.rewrite(name)
	}
	if len(m.findings.list) > 0 {
		return
	}
	for _, files := range old {
		m.state(files)
	}
}

// kinds rewrites the format of media: `format: "iso"` of an image becomes
// `kind: "installer"`. This change came without a new version of the schema.
func (m *migrator) kinds(f *ast.File) {
	for _, images := range topFields(f, "images") {
		for _, entries := range structs(images) {
			for _, d := range entries.Elts {
				image, ok := d.(*ast.Field)
				if !ok {
					continue
				}
				for _, s := range structs(image.Value) {
					for _, d := range s.Elts {
						if field, ok := d.(*ast.Field); ok && labelled(field, "format") {
							m.kind(field)
						}
					}
				}
			}
		}
	}
}

func (m *migrator) kind(f *ast.Field) {
	lit, ok := f.Value.(*ast.BasicLit)
	if !ok || lit.Value != `"iso"` {
		return
	}
	m.replace(f.Label, "kind")
	m.replace(lit, `"installer"`)
	m.changed(f)
}

// rewrite rewrites the hardware in a file, and references to it.
func (m *migrator) rewrite(name string) {
	f := m.files[name]
	done := map[*ast.Field]bool{}
	eachNamed(f, m.models, func(e ast.Expr) {
		for _, s := range structs(e) {
			m.hardware(s, done)
		}
	})
	labels := map[ast.Node]bool{}
	ast.Walk(f, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.Field:
			labels[x.Label] = true
		case *ast.SelectorExpr:
			labels[x.Sel] = true
			m.selector(x, done)
		case *ast.Ident:
			if (x.Name == "memoryGiB" || x.Name == "processors") && !labels[x] {
				m.byHand(x, "a field of hardware that has another name now is referred to here", renamed)
			}
		}
		return true
	}, nil)
}

const renamed = "Write what it stands for: `memoryGiB: 64` is `memory: \"64GiB\"` now, `processors` is `sockets`."

// hardware rewrites the fields of hardware.
func (m *migrator) hardware(s *ast.StructLit, done map[*ast.Field]bool) {
	for _, d := range s.Elts {
		switch x := d.(type) {
		case *ast.Comprehension:
			for _, s := range structs(x.Value) {
				m.hardware(s, done)
			}
		case *ast.Field:
			if done[x] {
				continue
			}
			done[x] = true
			switch {
			case labelled(x, "memoryGiB"):
				m.memory(x)
			case labelled(x, "processors"):
				m.replace(x.Label, "sockets")
				m.changed(x)
			}
		}
	}
}

// decimal matches a number that becomes a size with a unit after it.
var decimal = regexp.MustCompile(`^[1-9][0-9]*$`)

// memory rewrites a number of GiB to a size.
func (m *migrator) memory(f *ast.Field) {
	switch was := m.text(f.Value); {
	case was == "_", refersTo(f.Value, "memoryGiB"): // unset, or renamed where it is declared
	case decimal.MatchString(was):
		m.replace(f.Value, `"`+was+`GiB"`)
	case !isNumber(f.Value) || strings.Contains(was, "memoryGiB"):
		m.byHand(f, "this memory is not a number", "Write a size: `memory: \"64GiB\"`.")
		return
	default:
		m.insert(f.Value.Pos().Offset(), `"\(`, f)
		m.insert(f.Value.End().Offset(), `)GiB"`, f)
	}
	m.replace(f.Label, "memory")
	m.changed(f)
}

// refersTo reports whether an expression is a reference to a field of this
// name.
func refersTo(e ast.Expr, name string) bool {
	x, ok := e.(*ast.SelectorExpr)
	return ok && slices.Equal(parts(x), []string{name})
}

// isNumber reports whether an expression may be one number and is not a
// constraint.
func isNumber(e ast.Expr) bool {
	switch x := e.(type) {
	case *ast.BasicLit:
		return x.Kind == token.INT
	case *ast.Ident:
		return x.Name != "int" && x.Name != "number" && !strings.HasPrefix(x.Name, "uint")
	case *ast.ParenExpr:
		return isNumber(x.X)
	case *ast.BinaryExpr:
		return slices.Contains([]token.Token{token.ADD, token.SUB, token.MUL, token.QUO}, x.Op)
	case *ast.SelectorExpr, *ast.IndexExpr, *ast.CallExpr:
		return true
	}
	return false
}

// selector rewrites a reference to a field of hardware.
func (m *migrator) selector(x *ast.SelectorExpr, done map[*ast.Field]bool) {
	of := parts(x.X)
	isHardware := len(of) == 1 && m.models[of[0]]
	switch name := parts(x); {
	case slices.Equal(name, []string{"processors"}) && isHardware:
		m.replace(x.Sel, "sockets")
	case slices.Equal(name, []string{"memoryGiB"}) && m.isMemory(x, done):
		m.replace(x.Sel, "memory")
	case slices.Equal(name, []string{"memoryGiB"}):
		m.byHand(x, "memory is a size now, and this counts with it", renamed)
	}
}

// isMemory reports whether an expression is the whole value of a field
// memoryGiB.
func (m *migrator) isMemory(x ast.Expr, done map[*ast.Field]bool) bool {
	for f := range done {
		if f.Value == x && labelled(f, "memoryGiB") {
			return true
		}
	}
	return false
}

// state makes a site state its version, where it sets fields of `site`.
func (m *migrator) state(files []string) {
	stated := fmt.Sprintf("schema: %q", site.SchemaVersion)
	for _, name := range files {
		for _, v := range under(topFields(m.files[name], "site"), "schema") {
			m.replace(v, fmt.Sprintf("%q", site.SchemaVersion))
			m.changes = append(m.changes, Change{name, v.Pos().Line(), "schema: " + m.text(v), stated})
			m.stating = append(m.stating, name)
		}
	}
	if slices.ContainsFunc(m.stating, func(name string) bool { return slices.Contains(files, name) }) {
		return
	}
	name, at, text := m.whereToState(files, stated)
	m.edits[name] = append(m.edits[name], edit{at, at, text})
	m.changes = append(m.changes, Change{File: name, Line: bytes.Count(m.pack.files[name][:at], []byte("\n")) + 1, Want: "site: " + stated})
	m.stating = append(m.stating, name)
}

// whereToState returns where a site states its version, and the text to insert:
// first in the braces of `site`, after its last line, or at the end of a file.
func (m *migrator) whereToState(files []string, stated string) (name string, at int, text string) {
	for _, name := range files {
		values := topFields(m.files[name], "site")
		for _, v := range values {
			if at, text, ok := m.inBraces(name, v, stated); ok {
				return name, at, text
			}
		}
		if len(values) > 0 {
			return name, m.lineEnd(name, values[len(values)-1].End().Offset()), "\nsite: " + stated
		}
	}
	name = files[0]
	if i := slices.IndexFunc(files, func(f string) bool { return path.Base(f) == "site.cue" }); i >= 0 {
		name = files[i]
	}
	src := bytes.TrimRight(m.pack.files[name], "\n")
	return name, len(src), "\n\nsite: " + stated
}

// mentions reports whether a name occurs anywhere in a node.
func mentions(n ast.Node, name string) bool {
	found := false
	ast.Walk(n, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && id.Name == name
		return !found
	}, nil)
	return found
}

// result applies the edits. A formatted file stays formatted.
func (m *migrator) result() Migration {
	r := Migration{Changes: m.changes}
	for _, n := range m.changing {
		r.Changes = append(r.Changes, m.change(n))
	}
	for _, name := range m.names() {
		if len(m.edits[name]) == 0 {
			continue
		}
		text := apply(m.pack.files[name], m.edits[name])
		formatted, findings := FormatHere(name, text)
		m.findings.add(findings...)
		if before, _ := FormatHere(name, m.pack.files[name]); bytes.Equal(before, m.pack.files[name]) {
			text = formatted
		}
		r.Files = append(r.Files, Rewritten{name, text})
	}
	if len(m.findings.list) > 0 {
		site.SortFindings(m.findings.list)
		return Migration{Findings: m.findings.list}
	}
	slices.SortStableFunc(r.Files, func(a, b Rewritten) int { return m.order(a.Name) - m.order(b.Name) })
	slices.SortStableFunc(r.Changes, func(a, b Change) int { return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line) })
	return r
}

// order puts the files that state the version last.
func (m *migrator) order(name string) int {
	if slices.Contains(m.stating, name) {
		return 1
	}
	return 0
}
