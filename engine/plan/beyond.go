package plan

import (
	"reflect"
	"slices"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Beyond compares the plan after merging a proposal with the plan of the
// branch. It returns what the proposal adds, what happens anyway, and the nodes
// with pending changes that the proposal cancels.
func Beyond(branch, merged *site.Plan) (more, anyway site.Plan, spared []string) {
	before := make(map[string]*site.NodePlan, len(branch.Nodes))
	for i := range branch.Nodes {
		before[branch.Nodes[i].Node] = &branch.Nodes[i]
	}
	more, anyway = *merged, *branch
	more.Nodes, anyway.Nodes, more.Removes, anyway.Removes = nil, nil, nil, nil
	more.NotActedOn = unsaid(merged.NotActedOn, branch.NotActedOn)
	for _, n := range merged.Nodes {
		was := before[n.Node]
		if was == nil {
			was = &site.NodePlan{}
		}
		fresh, old := partNode(*was, n)
		if !fresh.IsEmpty() {
			more.Nodes = append(more.Nodes, fresh)
		}
		if len(old.Steps) > 0 {
			anyway.Nodes = append(anyway.Nodes, old)
		}
		if len(was.Steps) > 0 && len(n.Steps)+len(n.Blocked) == 0 {
			spared = append(spared, n.Node)
		}
	}
	for _, r := range merged.Removes {
		if !slices.Contains(branch.Removes, r) {
			more.Removes = append(more.Removes, r)
		}
	}
	return more, anyway, spared
}

// partNode splits a node's plan into steps that are new and steps that were planned before.
func partNode(was, n site.NodePlan) (fresh, old site.NodePlan) {
	fresh, old = n, n
	fresh.Steps, old.Steps = nil, nil
	fresh.Expect, old.Expect = 0, 0
	for _, s := range n.Steps {
		part := &fresh
		if slices.ContainsFunc(was.Steps, func(x site.Step) bool { return alike(x, s) }) {
			part = &old
		}
		part.Steps = append(part.Steps, s)
		part.Expect += s.Expect
	}
	fresh.Blocked = unsaid(n.Blocked, was.Blocked)
	fresh.Reported = unsaid(n.Reported, was.Reported)
	fresh.Notes = unsaid(n.Notes, was.Notes)
	fresh.NotActedOn = unsaid(n.NotActedOn, was.NotActedOn)
	fresh.Findings = slices.DeleteFunc(slices.Clone(n.Findings), func(f site.Finding) bool {
		return slices.ContainsFunc(was.Findings, func(x site.Finding) bool { return x.Code == f.Code && x.Message == f.Message })
	})
	if n.Waiting == was.Waiting {
		fresh.Waiting = ""
	}
	if n.Foreign == was.Foreign {
		fresh.Foreign = ""
	}
	if n.Unproven == was.Unproven {
		fresh.Unproven = ""
	}
	return fresh, old
}

func unsaid(all, known []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(known, s) })
}

// alike reports whether two steps do the same to the same machine, whatever
// place in the design asks for it.
func alike(a, b site.Step) bool {
	return a.Digest() == b.Digest() && a.Machine == b.Machine && a.Hypervisor == b.Hypervisor && a.Impact == b.Impact && a.Loses == b.Loses && a.Layout == b.Layout &&
		a.Generation == b.Generation && reflect.DeepEqual(a.Image, b.Image)
}
