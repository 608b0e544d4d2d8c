package design

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/build"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/schema"
)

// assembly makes the effective site out of a package's value.
type assembly struct {
	name     string
	findings *findings
	pedigree pedigree
	// cut says that some expressions did not compile, lost that whole
	// declarations went with them, or files with layers could not be read: what
	// is not there may still be designed.
	cut, lost bool
	// kinds and policies are the site's own constraints.
	kinds    map[string]kind
	policies []policy
	// data is what data files say, layer the definition of a layer.
	data  []dataSet
	layer cue.Value
	pack  pack
	// schema is the schema's package.
	schema *build.Instance
	// explain names the node to explain.
	explain     string
	explanation *Explanation
}

func newAssembly(c *compiler) *assembly {
	return &assembly{
		name: c.site, findings: &c.findings, cut: c.edited, lost: c.lost, explain: c.pack.explain,
		pack: c.pack, schema: c.done[schema.Path],
		pedigree: pedigree{profiles: map[string]*profile{}, findings: &c.findings, lost: c.lost},
	}
}

// assemble reads every section, merges the layers and decodes the outcome.
// What is broken is left out of the site and reported.
func (a *assembly) assemble(v cue.Value) *site.Site {
	a.checkTop(v)
	whole := map[string]any{"name": a.name, "schemaVersion": site.SchemaVersion}
	origins := map[string]site.Origin{}
	for _, s := range sections {
		if s.name == profilesSection || s.name == nodesSection {
			continue
		}
		t := a.readSection(v, s.name, shapes()[s.definition], s.many)
		t.origins(s.name, origins)
		if s.many {
			whole[s.name] = t.plain()
		} else {
			maps.Copy(whole, t.plain().(map[string]any))
		}
	}
	var data map[string]dataEntry
	a.decode(whole["data"], &data, site.Finding{})
	delete(whole, "data")
	delete(whole, "description")
	st := &site.Site{}
	a.decode(whole, st, site.Finding{})
	st.Origins = origins
	a.kinds, a.policies = kindsOf(v, st.Extensions), policiesOf(v, st.Policies)
	a.readProfiles(v)
	a.pedigree.linearise()
	before := len(a.findings.list)
	a.data = dataReader{a.pack.data, a.findings}.read(data, st.Origins)
	a.lost = a.lost || len(a.findings.list) > before
	a.layer = v.Context().BuildInstance(a.schema).LookupPath(cue.ParsePath("#Layer"))
	st.Nodes = a.readNodes(v)
	if !a.lost {
		a.noteStrangers(st.Nodes)
	}
	return st
}

// checkTop reports top-level fields that no section has, and errors in what
// CUE keeps to itself: hidden fields and definitions.
func (a *assembly) checkTop(v cue.Value) {
	r := a.reader("site", "", "", false)
	top := &shape{kind: cue.StructKind, fields: map[string]*shape{}}
	for _, s := range sections {
		top.fields[s.name] = &shape{}
	}
	for it, _ := v.Fields(cue.Hidden(true), cue.Definitions(true)); it.Next(); {
		label := it.Selector()
		known := !label.IsString() || top.fields[label.Unquoted()] != nil
		if !known && ours(declared(it.Value(), label.String())) {
			r.unknown(it.Value(), top, label.Unquoted(), "")
		}
		if !label.IsString() {
			r.reportAll(it.Value())
		}
	}
}

func (a *assembly) reader(layer, node, path string, merged bool) *reader {
	return &reader{findings: a.findings, layer: layer, node: node, path: path, merged: merged, cut: a.cut}
}

// readSection reads a section that is no map of layers.
func (a *assembly) readSection(v cue.Value, name string, s *shape, many bool) *tree {
	if !many {
		return a.readAlone(a.reader("site", "", name, false), v.LookupPath(cue.MakePath(cue.Str(name))), s)
	}
	t := &tree{fields: map[string]*tree{}}
	a.each(v, name, func(key string, entry cue.Value) {
		t.fields[key] = a.readAlone(a.reader("site", "", name+"."+key, false), entry, s)
		t.fields[key].origin = origin(declared(entry, key), "site")
	})
	return t
}

// readAlone reads one entry and, where that found nothing, everything else
// that CUE finds wrong with it.
func (a *assembly) readAlone(r *reader, v cue.Value, s *shape) *tree {
	t := r.read(v, s, r.path)
	r.settle()
	if r.found == 0 {
		r.reportAll(v)
	}
	if t == nil || t.fields == nil {
		return &tree{fields: map[string]*tree{}, broken: true}
	}
	return t
}

// each calls f for every entry of a section.
func (a *assembly) each(v cue.Value, section string, f func(key string, entry cue.Value)) {
	in := v.LookupPath(cue.MakePath(cue.Str(section)))
	it, err := in.Fields()
	if err != nil {
		a.reader("site", "", section, false).invalid(in, &shape{kind: cue.StructKind}, section)
		return
	}
	for it.Next() {
		f(it.Selector().Unquoted(), it.Value())
	}
}

func (a *assembly) readProfiles(v cue.Value) {
	a.each(v, profilesSection, func(name string, entry cue.Value) {
		r := a.reader("profile/"+name, "", "profiles."+name, true)
		t := a.readAlone(r, entry, shapes()["#Profile"])
		p := &profile{name: name, layer: t, place: origin(declared(entry, name), r.layer)}
		p.named = p.place
		if parents := t.get("parents"); parents != nil {
			p.parents, p.named, p.bad = parents.strings(), parents.origin, parents.broken
			p.layer = t.without("parents")
		}
		if nodes := t.get("profiles"); nodes != nil {
			a.findings.at(nodes.origin, site.Finding{
				Code: "profiles-in-profile", Path: r.path + ".profiles",
				Message: fmt.Sprintf("the profile %q names profiles under `profiles`", name),
				Why:     "`profiles` is what a node has; in a profile it would change nothing.",
				Fix:     "Name them under `parents`.",
			})
		}
		a.pedigree.profiles[name] = p
		a.pedigree.names = append(a.pedigree.names, name)
	})
	slices.Sort(a.pedigree.names)
}

func (a *assembly) readNodes(v cue.Value) map[string]*site.Node {
	nodes := map[string]*site.Node{}
	a.each(v, nodesSection, func(name string, entry cue.Value) {
		nodes[name] = a.readNode(name, entry)
	})
	return nodes
}

// readNode reads a node's own layer and makes it effective.
func (a *assembly) readNode(name string, v cue.Value) *site.Node {
	r := a.reader("node/"+name, name, "nodes."+name, true)
	own := a.readAlone(r, v, shapes()["#Layer"])
	n := &site.Node{}
	place := origin(declared(v, name), r.layer)
	layers := append(a.dataLayers(name), own)
	merged, ok := a.effective(name, layers, place)
	if ok {
		merged = finishItems(name, a.finish(name, merged, place), a.kinds, a.findings)
		a.explainNode(name, layers, merged)
	}
	a.decode(merged.plain(), n, site.Finding{Node: name, File: place.File.Value(), Line: place.Line, Col: place.Col})
	n.Name, n.Place = name, place
	n.Origins = map[string]site.Origin{}
	merged.origins("", n.Origins)
	if ok {
		a.findings.add(checkPolicies(a.policies, n, merged)...)
	}
	return n
}

// effective folds a node's profiles and then its layers, the last of which is
// its own, weakest first. It is false when the profiles have no order; the own
// layer is then all there is.
func (a *assembly) effective(name string, layers []*tree, place site.Origin) (*tree, bool) {
	own := layers[len(layers)-1]
	if own.broken {
		return own, false
	}
	named := namedProfiles(layers)
	if named == nil || named.unset {
		named = &tree{origin: place}
	}
	list := named.strings()
	order, ok := a.pedigree.order(list, "the node "+name, named.origin, name)
	if !ok || named.broken {
		return own.settled().orEmpty(), false
	}
	if len(order) == 0 && !a.lost {
		a.findings.at(named.origin, site.Finding{
			Code: "node-without-profile", Node: name, Path: "profiles",
			Message: fmt.Sprintf("the node %s has no profile", name),
			Why:     "What the nodes of a site have in common is in profiles; a node without one has silently none of it.",
			Fix:     "Name at least one under `profiles`.",
		})
	}
	var merged *tree
	for _, p := range order {
		merged = merge(merged, a.pedigree.profiles[p].layer)
	}
	for _, l := range layers {
		merged = merge(merged, l)
	}
	merged = merged.orEmpty()
	merged.fields["profiles"] = &tree{value: anys(order), origin: named.origin}
	return merged, len(order) > 0 && !a.lost
}

// namedProfiles are the profiles that the last of some layers names.
func namedProfiles(layers []*tree) *tree {
	for _, l := range slices.Backward(layers) {
		if named := l.get("profiles"); named != nil {
			return named
		}
	}
	return nil
}

// finish applies #Node: defaults where no layer spoke, and findings where a
// required field is missing.
func (a *assembly) finish(name string, t *tree, place site.Origin) *tree {
	r := a.reader("node/"+name, name, "nodes."+name, false)
	return r.finish(t, shapes()["#Node"], "", place)
}

// finish fills in defaults under s and reports what is missing.
func (r *reader) finish(t *tree, s *shape, path string, place site.Origin) *tree {
	if t.fields == nil || !s.isStruct() {
		return t
	}
	done := &tree{fields: maps.Clone(t.fields), origin: t.origin}
	for name, f := range t.fields {
		if sub := s.sub(name); sub != nil {
			done.fields[name] = r.finish(f, sub, join(path, name), nearest(f, place))
		}
	}
	for name, f := range s.fields {
		if t.fields[name] != nil {
			continue
		}
		if f.fallback != nil && !f.optional {
			done.fields[name] = f.fallback
		}
		if f.required {
			m := missingField(join(path, name), f)
			m.Node, m.Path = r.node, join(path, name)
			m.Message = fmt.Sprintf("the node %s has no %s, and none of its profiles sets it", r.node, m.Path)
			m.Fix = fmt.Sprintf("Set it, in the node or a profile, to %s.", f.fits())
			r.findings.at(place, m)
		}
	}
	return done
}

// nearest is a place inside t, for what t lacks.
func nearest(t *tree, otherwise site.Origin) site.Origin {
	if t.fields == nil {
		return t.origin
	}
	for _, key := range t.keys() {
		if o := nearest(t.fields[key], site.Origin{}); !o.IsZero() {
			return o
		}
	}
	return otherwise
}

// decode turns plain values into the site's types. That it fails means that
// the schema allows what the types do not.
func (a *assembly) decode(plain any, into any, at site.Finding) {
	text, err := json.Marshal(plain)
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		err = d.Decode(into)
	}
	if err == nil {
		return
	}
	at.Code, at.Severity = "undecodable", site.SeverityError
	at.Message = "a value passes the schema and cannot be used: " + err.Error()
	at.Why = "Nothing is done with a design that is not understood in full."
	at.Fix = "Change the value that the message names."
	a.findings.add(at)
}

func anys(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}
