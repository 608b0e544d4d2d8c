package design

import (
	"context"

	"github.com/slipway-gitops/slipway/engine/design/rule"
	"github.com/slipway-gitops/slipway/engine/site"
)

// constrains says whether the site has constraints of its own on nodes.
func (sh *shared) constrains() bool {
	return len(sh.site.Policies) > 0 || len(sh.site.Extensions) > 0
}

// judge has workers hold nodes against the site's own constraints, which are
// CUE, in a pack. What they say of a node is taken one after the other.
func (e *evaluation) judge(ctx context.Context, p pack, nodes []*node, take func(*node, layer)) error {
	byName := map[string]*node{}
	var names []string
	for _, n := range nodes {
		if n.complete {
			byName[n.name] = n
			names = append(names, n.name)
		}
	}
	return e.eachPart(names, 2*chunkSize, func(part []string) (func(), error) {
		r := request{ask: askJudge, pack: p, nodes: []layer{}}
		for _, name := range part {
			r.nodes = append(r.nodes, layer{name: name, place: byName[name].place, tree: byName[name].merged})
		}
		text, err := e.ask(ctx, r)
		d := newDecoder(text)
		if err == nil {
			r.nodes = d.layers()
			err = d.err
		}
		return func() {
			for _, l := range r.nodes {
				take(byName[l.name], l)
			}
		}, err
	})
}

// constrained takes what a site's own constraints make of a node.
func (e *evaluation) constrained(n *node, l layer) {
	n.merged = l.tree
	for _, f := range l.findings {
		if e.by == nil || !isPolicy(f.Code) {
			n.findings = append(n.findings, f)
		}
	}
}

// judgeHere holds nodes against the constraints of a pack. Their findings are
// what it says of them, their trees have what the constraints add.
func judgeHere(p pack, nodes []layer, progress func(string)) (out []layer) {
	defer func() {
		if cause := recover(); cause != nil {
			out = []layer{{name: nodes[0].name, place: nodes[0].place, tree: nodes[0].tree,
				findings: []site.Finding{rule.Panicked("the site's own constraints", cause)}}}
		}
	}()
	l := newLoader(p)
	l.readModule()
	x := extraction{compiler: &compiler{loader: l}}
	v, ok := x.compile(progress)
	if !ok {
		return nil // which the extract has said
	}
	progress("checking the nodes against the site's own constraints")
	var scratch findings
	var own site.Site
	for _, s := range sections {
		switch s.name {
		case "extensions":
			decode(x.section(v, s), &own.Extensions, site.Finding{}, &scratch)
		case "policies":
			decode(x.section(v, s), &own.Policies, site.Finding{}, &scratch)
		}
	}
	kinds, policies := kindsOf(v, own.Extensions), policiesOf(v, own.Policies)
	for _, n := range nodes {
		found := findings{}
		n.tree = finishItems(n.name, n.tree, kinds, &found)
		found.add(checkPolicies(policies, nodeOf(n, n.tree, &scratch), n.tree)...)
		n.findings = found.list
		out = append(out, n)
	}
	return out
}
