package design

import (
	"context"

	"github.com/slipway-gitops/slipway/engine/design/rule"
	"github.com/slipway-gitops/slipway/engine/site"
)

// constrains reports whether the site has its own constraints on nodes.
func (sh *shared) constrains() bool {
	return len(sh.site.Policies) > 0 || len(sh.site.Extensions) > 0
}

// judge has workers check nodes against a site's own constraints, which are the
// CUE of a pack. It passes the results to take one at a time.
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

// constrained takes the result of the site's own constraints for a node.
func (e *evaluation) constrained(n *node, l layer) {
	n.merged = l.tree
	for _, f := range l.findings {
		if e.by == nil || !isPolicy(f.Code) {
			n.findings = append(n.findings, f)
		}
	}
}

// judgeHere checks nodes against the constraints of a pack. In the result, the
// findings are those of the constraints, and the trees have the values that
// constraints add.
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
		return nil // the extract has reported it
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
