package design

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/slipway-gitops/slipway/engine/design/rule"
	"github.com/slipway-gitops/slipway/engine/site"
)

// shared holds what the nodes of a site have in common: its sections, and its
// profiles in order.
type shared struct {
	// site has no nodes.
	site     *site.Site
	pedigree pedigree
	findings []site.Finding
	// lost says that parts of the design are missing because they did not
	// compile.
	lost bool
	// data are the nodes' layers from data files, weakest first.
	data map[string][]layer
	// pools are the allocated addresses.
	pools *tree
	// given is the digest of everything that nodes use of it.
	given digest
	// stacks are the stacks of profiles by their names, weakest first; mu
	// guards them.
	mu     sync.Mutex
	stacks map[string]stack
}

// sharedOf makes the effective site, without its nodes, from an extract. It
// leaves out and reports what is broken.
func sharedOf(name string, x *extract) *shared {
	sh := &shared{lost: x.lost, stacks: map[string]stack{}, pools: x.sections["allocations"], data: map[string][]layer{}, given: x.given()}
	for _, l := range x.data {
		sh.data[l.name] = append(sh.data[l.name], l)
	}
	found := findings{}
	found.add(x.findings...)
	whole := &tree{fields: map[string]*tree{}}
	var origins []site.OriginPart
	for _, s := range sections {
		t := x.sections[s.name]
		if t == nil {
			continue
		}
		origins = append(origins, t.originPart(s.name))
		if s.name == "data" {
			continue // not part of an effective design
		}
		if s.many {
			whole.fields[s.name] = t
			continue
		}
		for key, f := range t.fields {
			if key != "description" {
				whole.fields[key] = f
			}
		}
	}
	sh.site = &site.Site{}
	decode(whole, sh.site, site.Finding{}, &found)
	sh.site.Name, sh.site.SchemaVersion, sh.site.Origins = name, site.SchemaVersion, site.NewOrigins(origins...)
	sh.site.Profiles = map[string]site.Origin{}
	sh.pedigree = pedigree{profiles: map[string]*profile{}, lost: x.lost}
	for _, l := range x.profiles {
		sh.addProfile(l, &found)
	}
	slices.Sort(sh.pedigree.names)
	sh.pedigree.linearise()
	found.add(sh.pedigree.findings.list...)
	found.add(elsewhere(rule.OnSite(sh.site, !sh.lost), found.list)...)
	sh.findings = found.list
	return sh
}

// given returns the digest of everything that nodes use of what they share.
// Layers count with their places. The rest counts without, since only findings
// name those places.
func (x *extract) given() digest {
	e := newEncoder()
	e.bool(x.lost)
	e.layers(x.profiles)
	e.layers(x.data)
	if pools := x.sections["allocations"]; pools != nil {
		e.tree(pools)
	}
	e.unplaced = true
	for _, name := range sortedKeys(x.sections) {
		if t := x.sections[name]; t != nil {
			e.text(name)
			e.tree(t)
		}
	}
	return digestOf(e.out)
}

// gives reports whether both give nodes the same. It returns false if there are
// constraints, which are not in the trees.
func (sh *shared) gives(other *shared) bool {
	return sh != nil && sh.given == other.given && !sh.constrains() && !other.constrains()
}

// elsewhere drops the findings that share their place with one of others. A
// value that was not understood is reported once.
func elsewhere(all, others []site.Finding) []site.Finding {
	told := map[string]bool{}
	for _, f := range others {
		told[f.Place()] = true
	}
	return slices.DeleteFunc(all, func(f site.Finding) bool { return f.Place() != "" && told[f.Place()] })
}

func (sh *shared) addProfile(l layer, found *findings) {
	found.add(l.findings...)
	p := &profile{name: l.name, layer: l.tree, place: l.place, named: l.place}
	if parents := l.get("parents"); parents != nil {
		p.parents, p.named, p.bad = parents.strings(), parents.origin, parents.broken
		p.layer = l.without("parents")
	}
	if nodes := l.get("profiles"); nodes != nil {
		found.at(nodes.origin, site.Finding{
			Code: "profiles-in-profile", Path: "profiles." + l.name + ".profiles",
			Message: fmt.Sprintf("the profile %q names profiles under `profiles`", l.name),
			Why:     "`profiles` is what a node has; in a profile it would change nothing.",
			Fix:     "Name them under `parents`.",
		})
	}
	sh.pedigree.profiles[l.name] = p
	sh.site.Profiles[l.name] = l.place
	sh.pedigree.names = append(sh.pedigree.names, l.name)
}

// node is a node while its layers are merged.
type node struct {
	layer
	// merged is the merged layers, with defaults of the node's style.
	merged *tree
	// allocation is the layer of allocated addresses, nil without any.
	allocation *tree
	// complete says that the layers have an order and none is broken, so that a
	// missing value is really missing.
	complete bool
	// size is the number of values, plus ten for the node itself.
	size int64
	// broken says that one of the node's layers, or a struct in it, has no value.
	broken    bool
	effective *site.Node
	findings  []site.Finding
	facts     rule.Facts
}

// shed drops what the effective node was made from.
func (n *node) shed() {
	n.tree, n.merged, n.allocation, n.layer.findings, n.facts = nil, nil, nil, nil, nil
}

// merge merges a node's layers. It may run for several nodes at once.
func (sh *shared) merge(own layer) *node {
	n := &node{layer: own, broken: own.broken}
	found := findings{}
	found.add(own.findings...)
	n.merged, n.complete = sh.layers(&found, n)
	if n.complete {
		r := reader{findings: &found, layer: "node/" + own.name, node: own.name, path: "nodes." + own.name, style: styleOf(n.merged)}
		r.layers = func() []*tree { return sh.layersOf(n) }
		n.merged = r.finish(n.merged, r.style.shape(), "", func() site.Origin { return own.place })
		n.merged = merge(n.derived(sh.site.Name), n.merged)
	}
	n.allocation = sh.allocation(own.name, n.merged)
	n.merged = merge(n.merged, n.allocation)
	n.merged = merge(n.merged, n.urls(&found))
	n.findings, n.size = found.list, 10+n.merged.size()
	return n
}

// check decodes a node and runs the rules on it. It may run for several nodes
// at once.
func (sh *shared) check(n *node) {
	found := findings{}
	found.add(n.findings...)
	n.effective = nodeOf(n.layer, n.merged, &found)
	n.effective.References = sh.references(n, &found)
	if sh.lost || n.broken {
		found.add(rule.OnPart(sh.site, n.effective)...)
	} else {
		more, facts := rule.OnNode(sh.site, n.effective)
		found.add(more...)
		n.facts = facts
	}
	n.findings = found.list
}

// nodeOf decodes an effective node.
func nodeOf(l layer, merged *tree, found *findings) *site.Node {
	n := &site.Node{}
	decode(withDecommission(merged), n, site.Finding{Node: l.name, File: l.place.File.Value(), Line: l.place.Line, Col: l.place.Col}, found)
	n.Name, n.Place = l.name, l.place
	n.Origins = merged.origins()
	return n
}

// withDecommission returns a node's tree with the decommission fields of the
// site's types. The schema has one value or a struct instead.
func withDecommission(t *tree) *tree {
	d := t.fields["decommission"]
	if d == nil || d.fields == nil {
		return t
	}
	own := *t
	own.fields = maps.Clone(t.fields)
	own.fields["decommission"] = &tree{value: true, origin: d.origin}
	if e := d.fields["erase"]; e != nil {
		own.fields["decommissionErase"] = e
	}
	return &own
}

// layers merges a node's profiles, its layers from data files, and its own
// layer, weakest first. It returns false when the profiles have no order, and the
// result is then only the own layer, or when one of the layers is broken.
func (sh *shared) layers(found *findings, n *node) (*tree, bool) {
	own := n.layer
	if own.broken {
		return own.tree, false
	}
	layers := []*tree{}
	for _, l := range sh.data[own.name] {
		found.add(l.findings...)
		layers = append(layers, l.tree)
		n.broken = n.broken || l.broken
	}
	layers = append(layers, own.tree)
	named := namedProfiles(layers)
	if named == nil || named.unset {
		named = &tree{origin: own.place}
	}
	list := named.strings()
	order, ok := sh.pedigree.order(found, list, "the node "+own.name, named.origin, own.name)
	if !ok || named.broken {
		return own.settled().orEmpty(), false
	}
	if len(order) == 0 && !sh.lost {
		found.at(named.origin, site.Finding{
			Code: "node-without-profile", Node: own.name, Path: "profiles",
			Message: fmt.Sprintf("the node %s has no profile", own.name),
			Why:     "Profiles hold what the nodes of a site have in common; a node without a profile has none of it.",
			Fix:     "Name at least one under `profiles`.",
		})
	}
	sh.checkKinds(found, own.name, order, layers)
	profiles := sh.stackOf(order)
	n.broken = n.broken || profiles.broken
	for _, f := range profiles.beaten {
		f.Node = own.name
		found.add(f)
	}
	merged := profiles.folded
	for _, l := range layers {
		for _, f := range beats(l, merged, "") {
			f.Node = own.name
			found.add(f)
		}
		if l == own.tree {
			sh.vainUnsets(found, own, merged)
		}
		merged = merge(merged, l)
	}
	merged = merged.orEmpty()
	done := &tree{fields: maps.Clone(merged.fields), origin: merged.origin}
	done.fields["profiles"] = &tree{value: anys(order), origin: named.origin}
	return done, len(order) > 0 && !sh.lost && !n.broken
}

// namedProfiles returns the profiles that the last of some layers names.
func namedProfiles(layers []*tree) *tree {
	for _, l := range slices.Backward(layers) {
		if named := l.get("profiles"); named != nil {
			return named
		}
	}
	return nil
}

// finish fills in defaults under s and reports missing values. place gives the
// place for these findings.
func (r *reader) finish(t *tree, s *shape, path string, place func() site.Origin) *tree {
	if t.fields == nil || !s.isStruct() {
		return t
	}
	return t.common.finishedOf(r, func() *tree { return r.fill(t, s, path, place) })
}

// fill does the work of finish for a tree that is not cached.
func (r *reader) fill(t *tree, s *shape, path string, place func() site.Origin) *tree {
	done := t
	change := func(name string, to *tree) {
		if done == t {
			done = &tree{fields: maps.Clone(t.fields), origin: t.origin}
		}
		done.fields[name] = to
	}
	for name, f := range t.fields {
		if sub := s.sub(name); sub != nil && f.fields != nil {
			if x := r.finish(f, sub, join(path, name), func() site.Origin { return nearest(f, place()) }); x != f {
				change(name, x)
			}
		}
	}
	for name, f := range s.fields {
		if t.fields[name] != nil {
			continue
		}
		if f.fallback != nil && !f.optional {
			change(name, f.fallback)
		}
		if f.required {
			m := missingField(join(path, name), f)
			m.Node, m.Path = r.node, join(path, name)
			m.Message = fmt.Sprintf("the node %s has no %s, and none of its profiles sets it", r.node, m.Path)
			m.Fix = fmt.Sprintf("Set it, in the node or a profile, to %s.", f.fits())
			at := place()
			if o := r.takenAway(m.Path); !o.IsZero() {
				at = o
				m.Message = fmt.Sprintf("the node %s has no %s, which is removed here", r.node, m.Path)
				m.Fix = fmt.Sprintf("Keep it, or set it, in the node or a nearer profile, to %s.", f.fits())
			}
			r.findings.at(at, m)
		}
	}
	return done
}

// takenAway returns where the nearest layer that unsets a path does so.
func (r *reader) takenAway(path string) site.Origin {
	if r.layers == nil {
		return site.Origin{}
	}
	for _, l := range r.layers() {
		if said, ok := l.says(strings.Split(path, ".")); ok && said.Unset {
			return said.Origin
		}
	}
	return site.Origin{}
}

// nearest returns a place inside t to report what t lacks.
func nearest(t *tree, otherwise site.Origin) site.Origin {
	if len(t.fields) == 0 {
		return cmp.Or(t.origin, otherwise)
	}
	for _, key := range t.keys() {
		if o := nearest(t.fields[key], site.Origin{}); !o.IsZero() {
			return o
		}
	}
	return otherwise
}

func anys(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}
