package design

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/errors"
	"cuelang.org/go/cue/token"
	"cuelang.org/go/encoding/json"
	"cuelang.org/go/encoding/yaml"

	"github.com/slipway-gitops/slipway/engine/design/rule"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/schema"
)

// dataText finds the texts in a CUE file that may be the path of data files.
// Only files that such a text names are read: Slipway must know them before a
// worker evaluates anything, and the design does not include the repository's
// other files.
var dataText = regexp.MustCompile(`"([^"\\\n]+\.(?:json|yaml|yml))"`)

// isData reports whether a data file may have this name.
func isData(base string) bool {
	return slices.Contains(dataExtensions, path.Ext(base)) && !hidden(base)
}

var dataExtensions = []string{".json", ".yaml", ".yml"}

// dataPaths lists the paths of data files that a pack's CUE files may name.
func (p pack) dataPaths() []string {
	var paths []string
	for _, src := range p.files {
		if !mayName(src) {
			continue
		}
		for _, m := range dataText.FindAllSubmatch(src, -1) {
			paths = append(paths, string(m[1]))
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// mayName reports whether a CUE file may name data files. It is much cheaper
// than the search for their names.
func mayName(src []byte) bool {
	return slices.ContainsFunc(dataExtensions, func(ext string) bool { return bytes.Contains(src, []byte(ext+`"`)) })
}

// named lists the repository's JSON and YAML files that the design may name.
func (c *collector) named() []foundFile {
	if len(c.found) == 0 {
		return nil
	}
	paths := c.dataPaths()
	return slices.DeleteFunc(c.found, func(d foundFile) bool {
		return !slices.ContainsFunc(paths, func(p string) bool { return matches(p, d.name) })
	})
}

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// dataEntry is an entry of the section `data`. It is not part of an effective
// design, which has its files merged in.
type dataEntry struct {
	Description string `json:"description"`
	// Path is a file's path, or a pattern with "*".
	Path string `json:"path"`
	// Key is where in a file the object with the nodes is; empty for the whole
	// file.
	Key string `json:"key"`
}

// dataSet is the content of the files of one `data` entry, by node. Together
// they are one layer, in which nothing overrides.
type dataSet struct {
	name  string
	nodes map[string][]ast.Expr
	// places are where nodes are named.
	places map[string]site.Origin
}

func (s dataSet) layer() string { return "data/" + s.name }

// dataReader parses data files.
type dataReader struct {
	files    map[string][]byte
	findings *findings
}

// read parses the files of every entry, in the order of the entries' names.
func (r dataReader) read(declared map[string]dataEntry, section *tree) []dataSet {
	var sets []dataSet
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		if d := declared[name]; d.Path != "" { // otherwise it is broken, and already reported
			sets = append(sets, r.readSet(name, d, section.place([]string{name, "path"})))
		}
	}
	return sets
}

func (r dataReader) readSet(name string, d dataEntry, at site.Origin) dataSet {
	s := dataSet{name, map[string][]ast.Expr{}, map[string]site.Origin{}}
	none := true
	for _, file := range slices.Sorted(maps.Keys(r.files)) {
		if matches(d.Path, file) {
			none = false
			r.readFile(file, d.Key, s)
		}
	}
	if none {
		r.findings.at(at, site.Finding{
			Code: "data-without-file", Path: "data." + name + ".path",
			Message: fmt.Sprintf("there is no file %s", d.Path),
			Why:     "What it says about the nodes would be missing, without any message.",
			Fix:     "Add the file, or correct the path: one text in quotes, from the root of the repository.",
		})
	}
	return s
}

// readFile adds a file's values for each node.
func (r dataReader) readFile(file, key string, s dataSet) {
	nodes, ok := r.object(file, key, s.layer())
	if !ok {
		return
	}
	for _, d := range nodes.Elts {
		f, ok := d.(*ast.Field)
		if !ok {
			continue
		}
		node, _, _ := ast.LabelName(f.Label)
		if s.places[node].IsZero() {
			s.places[node] = origin(f.Label.Pos(), s.layer())
		}
		switch _, isObject := f.Value.(*ast.StructLit); {
		case isNull(f.Value):
		case !isObject:
			r.unreadable(origin(f.Value.Pos(), s.layer()), file, fmt.Sprintf("has no object for the node %q", node))
		default:
			nullsAway(f.Value)
			s.nodes[node] = append(s.nodes[node], f.Value)
		}
	}
}

// object returns the object of a file that has nodes as its keys.
func (r dataReader) object(file, key, layer string) (*ast.StructLit, bool) {
	src := bytes.TrimPrefix(r.files[file], []byte(byteOrderMark))
	expr, err := parseData(file, src)
	if err != nil {
		e := errors.Errors(err)[0]
		at, what := or(origin(position(e), layer), file), message(e)
		var syntax *stdjson.SyntaxError
		if errors.As(err, &syntax) {
			what = jsonFault(src, syntax)
		}
		if m := yamlLine.FindStringSubmatch(what); m != nil {
			line, _ := strconv.Atoi(m[1]) // digits
			at, what = site.At(file, line, 1, layer), m[2]
		}
		r.unreadable(at, file, "cannot be read: "+what)
		return nil, false
	}
	whole, ok := expr.(*ast.StructLit)
	switch {
	case !ok && documents(src) > 1 && path.Ext(file) != ".json":
		r.unreadable(or(origin(expr.Pos(), layer), file), file, "holds several documents, separated by `---`")
		return nil, false
	case !ok:
		r.unreadable(or(origin(expr.Pos(), layer), file), file, "does not hold an object")
		return nil, false
	case r.repeats(file, layer, whole):
		return nil, false
	}
	if key == "" {
		return whole, true
	}
	nodes, ok := fieldOf(whole, key).(*ast.StructLit)
	if !ok {
		r.unreadable(or(origin(whole.Pos(), layer), file), file, fmt.Sprintf("has no object under the key %q", key))
	}
	return nodes, ok
}

// yamlLine matches the place of an error in a message of the YAML parser.
var yamlLine = regexp.MustCompile(`^[^:]+:([0-9]+): (.*)$`)

// jsonFault says what is wrong with JSON at the place of a syntax error.
func jsonFault(src []byte, e *stdjson.SyntaxError) string {
	before := bytes.TrimSpace(src[:max(0, min(int(e.Offset)-1, len(src)))])
	if i := int(e.Offset) - 1; bytes.HasSuffix(before, []byte(",")) && i < len(src) && (src[i] == '}' || src[i] == ']') {
		return fmt.Sprintf("there is a comma before %q, and nothing after the comma", src[i])
	}
	return e.Error()
}

// documentMark separates the documents of a YAML file (YAML 1.2, 9.2).
var documentMark = regexp.MustCompile(`(?m)^---(?:[ \t].*)?$`)

// remark matches a YAML comment on a line of its own.
var remark = regexp.MustCompile(`(?m)^[ \t]*#.*$`)

// documents counts the YAML documents of a file that have content.
func documents(src []byte) int {
	n := 0
	for _, part := range documentMark.Split(string(src), -1) {
		if strings.TrimSpace(remark.ReplaceAllString(part, "")) != "" {
			n++
		}
	}
	return n
}

// repeats reports keys that occur twice in an object of a file.
func (r dataReader) repeats(file, layer string, whole ast.Node) bool {
	before := len(r.findings.list)
	ast.Walk(whole, func(n ast.Node) bool {
		s, ok := n.(*ast.StructLit)
		if !ok {
			return true
		}
		first := map[string]token.Pos{}
		for _, d := range s.Elts {
			f, ok := d.(*ast.Field)
			if !ok {
				continue
			}
			name, _, _ := ast.LabelName(f.Label)
			if at, twice := first[name]; twice {
				r.findings.at(or(origin(f.Label.Pos(), layer), file), site.Finding{
					Code: "data-file", Message: fmt.Sprintf("%s has the key %q twice in one object", file, name),
					Why:     "Programs that read JSON take one of the two, and do not agree on which (RFC 8259, section 4).",
					Fix:     "Remove one of them, or put both together.",
					Related: []string{where(at)},
				})
				continue
			}
			first[name] = f.Label.Pos()
		}
		return true
	}, nil)
	return len(r.findings.list) > before
}

func (r dataReader) unreadable(at site.Origin, file, what string) {
	r.findings.at(at, site.Finding{
		Code: "data-file", Message: file + " " + what,
		Why: "Slipway cannot tell what it says about the nodes.",
		Fix: "Let it hold one object with the names of nodes as its keys, as JSON or YAML.",
	})
}

// data reads what data files say of each node: one layer for each `data` entry
// that names it, weakest first, checked against the definition of a layer. It
// returns false when a file could not be read.
func (x *extraction) data(v cue.Value) bool {
	var found findings
	var declared map[string]dataEntry
	decode(x.out.sections["data"], &declared, site.Finding{}, &found)
	found = findings{}
	section := x.out.sections["data"]
	x.findings.add(rule.EntryNames("data", declared, site.NewOrigins(section.originPart("data")))...)
	sets := dataReader{x.pack.data, &found}.read(declared, section)
	definition := x.basis.evaluating.BuildInstance(x.done[schema.Path]).LookupPath(cue.ParsePath("#Layer"))
	for _, s := range sets {
		for _, node := range slices.Sorted(maps.Keys(s.places)) {
			x.out.data = append(x.out.data, x.dataLayer(s, node, definition))
		}
	}
	x.findings.add(found.list...)
	return len(found.list) == 0
}

// dataLayer reads the values that the files of one entry have for a node.
func (x *extraction) dataLayer(s dataSet, node string, v cue.Value) layer {
	l := layer{name: node, place: s.places[node], tree: &tree{fields: map[string]*tree{}}}
	if len(s.nodes[node]) == 0 {
		return l
	}
	for _, said := range s.nodes[node] {
		x.spelling.correct(said)
		v = v.Unify(x.basis.evaluating.BuildExpr(said))
	}
	r := x.reader(s.layer(), node, node, true)
	own := findings{}
	r.findings = &own
	l.tree = readAlone(r, v, shapes()["#Layer"])
	l.findings = own.list
	return l
}

// parseData parses a JSON or YAML file.
func parseData(name string, src []byte) (ast.Expr, error) {
	if path.Ext(name) == ".json" {
		return json.Extract(name, src)
	}
	f, err := yaml.Extract(name, src)
	if err != nil {
		return nil, err
	}
	all := &ast.StructLit{}
	for _, d := range f.Decls {
		if e, ok := d.(*ast.EmbedDecl); ok {
			return e.Expr, nil
		}
		all.Elts = append(all.Elts, d)
	}
	return all, nil
}

// fieldOf returns a field's value, or nil without one.
func fieldOf(s *ast.StructLit, name string) ast.Expr {
	for _, d := range s.Elts {
		if f, ok := d.(*ast.Field); ok && labelled(f, name) {
			return f.Value
		}
	}
	return nil
}

func isNull(e ast.Expr) bool {
	b, ok := e.(*ast.BasicLit)
	return ok && b.Kind == token.NULL
}

// nullsAway replaces each null by `@unset()`, which removes a value in CUE
// layers.
func nullsAway(e ast.Expr) {
	s, ok := e.(*ast.StructLit)
	if !ok {
		return
	}
	for _, d := range s.Elts {
		f, ok := d.(*ast.Field)
		if !ok {
			continue
		}
		if isNull(f.Value) {
			anything := ast.NewIdent("_")
			anything.NamePos = f.Value.Pos()
			f.Value = anything
			f.Attrs = append(f.Attrs, &ast.Attribute{At: anything.NamePos, Text: "@unset()"})
		}
		nullsAway(f.Value)
	}
}

// strangers notes the entries of data files for nodes that the design does not
// have.
func (sh *shared) strangers(nodes map[string]*site.Node, known []string) []site.Finding {
	var all []site.Finding
	for _, name := range slices.Sorted(maps.Keys(sh.data)) {
		if nodes[name] != nil {
			continue
		}
		for _, l := range sh.data[name] {
			set := strings.TrimPrefix(l.place.LayerName(), "data/")
			all = append(all, site.Finding{
				Code: "data-without-node", Severity: site.SeverityNote,
				File: l.place.File.Value(), Line: l.place.Line, Col: l.place.Col,
				Message: fmt.Sprintf("data %s has a layer for %q, which is not a node%s", set, name, rule.DidYouMean(name, known)),
				Why:     "A data file cannot create a node, so Slipway does not use this entry.",
				Fix:     fmt.Sprintf("Declare the node under `nodes`, or remove %q from the file.", name),
			})
		}
	}
	return all
}
