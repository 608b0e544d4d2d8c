package design

import (
	"slices"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/build"

	"github.com/slipway-gitops/slipway/engine/design/rule"
	"github.com/slipway-gitops/slipway/engine/site"
)

// extract is CUE's result for a package, or for a part of one: layers not
// merged yet, and sections, as trees.
type extract struct {
	sections map[string]*tree
	profiles []layer
	nodes    []layer
	// data are the nodes' layers from data files, weakest first.
	data []layer
	// findings are those that belong to no single node.
	findings []site.Finding
	// cutShared says that expressions outside of nodes did not compile. lost
	// says that whole declarations were cut with some, or that files with
	// layers could not be read. Either way, missing parts may still be
	// designed.
	cutShared, lost bool
	// unread says that there is nothing but findings.
	unread bool
}

// layer is one profile's or node's own layer.
type layer struct {
	name  string
	place site.Origin
	*tree
	findings []site.Finding
}

// extraction reads an extract from a package's value.
type extraction struct {
	*compiler
	out extract
	// alike are the classes of nodes of which only the models are evaluated.
	alike classes
}

// evaluate compiles and reads the package, and again with corrected names where
// fields are misspelt. It returns false when nothing can be evaluated.
func (x *extraction) evaluate(progress func(string)) (cue.Value, bool) {
	before, found := x.out, x.findings
	before.nodes, found.list = slices.Clip(before.nodes), slices.Clip(found.list)
	for range maxSpellings - 1 {
		x.spelling.fresh = false
		v, ok := x.compile(progress)
		if !ok {
			return v, false
		}
		progress("reading the values")
		x.read(v)
		x.browse(v)
		if !x.spelling.fresh {
			return v, true
		}
		x.out, x.findings, x.cutShared, x.lost = before, findings{}, false, false
		x.findings.add(found.list...)
	}
	v, ok := x.compile(progress)
	if ok {
		x.read(v)
	}
	return v, ok
}

// browse looks for misspelt fields in the sections that nodes may refer to, if
// the nodes have findings.
func (x *extraction) browse(v cue.Value) {
	good := len(x.findings.list) == 0 && !slices.ContainsFunc(x.out.nodes, func(l layer) bool { return len(l.findings) > 0 })
	if good || x.pack.sections == nil {
		return
	}
	defer func(found findings) { x.findings = found }(x.findings)
	x.findings = findings{}
	for _, s := range sections {
		if x.reads(s.name) && !x.toRead(s.name) {
			x.section(v, s)
		}
	}
}

// extractOf evaluates a pack. It calls progress before each stage, so that a
// parent can say where a worker died. ready may be a prepared basis.
func extractOf(p pack, ready *basis, progress func(string)) (out extract) {
	defer func() {
		if cause := recover(); cause != nil {
			out = extract{unread: true, findings: []site.Finding{rule.Panicked("the evaluation", cause)}}
		}
	}()
	l := newLoader(p)
	l.bare, l.ready = true, ready
	progress("parsing the files")
	l.readModule()
	x := extraction{compiler: &compiler{loader: l}}
	if p.divided && !x.toRead("site") {
		x.trim = x.leaveModels
	}
	v, ok := x.evaluate(progress)
	if !ok {
		return extract{unread: true, findings: l.findings.list}
	}
	if !x.follow(v, progress) {
		return extract{unread: true, findings: l.findings.list}
	}
	x.out.findings = l.findings.list
	x.out.cutShared, x.out.lost = x.cutShared || x.spelling.top, x.out.lost || x.lost
	return x.out
}

// leaveModels keeps only the models in a package when nodes are alike.
func (x *extraction) leaveModels(inst *build.Instance) {
	x.alike = nil
	if len(x.spelling.meant) == 0 && inert(inst, x.done) {
		x.alike = alike(plainNodes(inst.Files))
		followers := x.alike.followers()
		keepNodes(inst.Files, func(name string) bool { return !followers[name] })
	}
}

// follow adds the layers of the nodes that were left out. It returns false when
// they cannot be evaluated.
func (x *extraction) follow(v cue.Value, progress func(string)) bool {
	models := map[string]*layer{}
	for i := range x.out.nodes {
		models[x.out.nodes[i].name] = &x.out.nodes[i]
	}
	var followers []layer
	others := names{}
	for _, class := range x.alike {
		at := cue.MakePath(cue.Str(nodesSection), cue.Str(class[0].name))
		more, rest := follow(class, models[class[0].name], v.LookupPath(at))
		followers = append(followers, more...)
		for _, name := range rest {
			others[name] = true
		}
	}
	if len(others) > 0 {
		x.trim = func(inst *build.Instance) { keepNodes(inst.Files, func(name string) bool { return others[name] }) }
		if _, ok := x.evaluate(progress); !ok {
			return false
		}
	}
	x.out.nodes = append(x.out.nodes, followers...)
	return true
}

func (x *extraction) read(v cue.Value) {
	if x.reads("site") {
		x.checkTop(v)
	}
	x.out.sections = map[string]*tree{}
	for _, s := range sections {
		switch {
		case !x.toRead(s.name):
		case s.name == profilesSection:
			x.out.profiles = x.layers(v, s, "profile/")
		case s.name == nodesSection:
			x.out.nodes = append(x.out.nodes, x.layers(v, s, "node/")...)
		default:
			x.out.sections[s.name] = x.section(v, s)
		}
	}
	if x.toRead(policiesSection) {
		x.demands(v)
	}
	if x.toRead("data") {
		x.out.lost = !x.data(v)
	}
}

// toRead reports whether a section is read. In a pack of nodes, other sections
// serve only as targets of references.
func (x *extraction) toRead(name string) bool {
	return x.pack.sections == nil || name == nodesSection
}

// checkTop reports top-level fields that are no section, and errors in hidden
// fields and definitions.
func (x *extraction) checkTop(v cue.Value) {
	r := x.reader("site", "", "", false)
	top := &shape{kind: cue.StructKind, fields: map[string]*shape{}}
	for _, s := range sections {
		top.fields[s.name] = &shape{kind: cue.StructKind}
	}
	x.spelling.retell(r)
	for it, _ := v.Fields(cue.Hidden(true), cue.Definitions(true)); it.Next(); {
		label := it.Selector()
		known := !label.IsString() || top.fields[label.Unquoted()] != nil
		if !known && ours(declared(it.Value(), label.String())) {
			r.unknown(v, it.Value(), top, label.Unquoted(), "")
		}
		if !label.IsString() {
			r.reportAll(it.Value())
		}
	}
}

func (x *extraction) reader(layer, node, path string, merged bool) *reader {
	cut := x.cutShared || node != "" && x.cutNodes[node]
	return &reader{findings: &x.findings, layer: layer, node: node, path: path, merged: merged, cut: cut, spelling: &x.spelling}
}

// section reads a section whose entries are not layers.
func (x *extraction) section(v cue.Value, s section) *tree {
	in := shapes()[s.definition]
	if !s.many {
		t := readAlone(x.reader("site", "", s.name, false), v.LookupPath(cue.MakePath(cue.Str(s.name))), in)
		x.lost = x.lost || t.broken
		return t
	}
	t := &tree{fields: map[string]*tree{}}
	x.each(v, s.name, func(key string, entry cue.Value) {
		t.fields[key] = readAlone(x.reader("site", "", s.name+"."+key, false), entry, in)
		x.lost = x.lost || t.fields[key].broken
		t.fields[key].origin = origin(x.named.of(s.name, key, entry), "site")
	})
	return t
}

// layers reads a section of layers. Each layer has its own findings.
func (x *extraction) layers(v cue.Value, s section, prefix string) []layer {
	var all []layer
	x.each(v, s.name, func(name string, entry cue.Value) {
		node := ""
		if s.name == nodesSection {
			node = name
		}
		own := findings{}
		r := x.reader(prefix+name, node, s.name+"."+name, true)
		r.findings = &own
		l := layer{name: name, place: origin(x.named.of(s.name, name, entry), r.layer)}
		l.tree = readAlone(r, entry, shapes()[s.definition])
		l.findings = own.list
		all = append(all, l)
	})
	return all
}

// readAlone reads one entry. If that found nothing wrong, it reports everything
// else that CUE finds wrong. The result is broken when the entry, or a struct in
// it, has no value.
func readAlone(r *reader, v cue.Value, s *shape) *tree {
	r.spelling.retell(r)
	t := r.read(v, s, r.path)
	r.settle()
	if r.found == 0 {
		r.reportAll(v)
	}
	if t == nil || t.fields == nil {
		return &tree{fields: map[string]*tree{}, broken: true}
	}
	t.broken = t.broken || r.hollow
	return t
}

// each calls f for every entry of a section.
func (x *extraction) each(v cue.Value, section string, f func(key string, entry cue.Value)) {
	in := v.LookupPath(cue.MakePath(cue.Str(section)))
	it, err := in.Fields()
	if err != nil {
		x.reader("site", "", section, false).invalid(in, &shape{kind: cue.StructKind}, section)
		x.lost = true
		return
	}
	if slices.ContainsFunc(in.Attributes(cue.ValueAttr), func(a cue.Attribute) bool { return a.Name() == "unset" }) {
		r := x.reader("site", "", section, false)
		r.report(place(in), section, unsetOutside(section))
	}
	for it.Next() {
		f(it.Selector().Unquoted(), it.Value())
	}
}
