package plan_test

import (
	"slices"
	"testing"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A proposal answers for what it brings about, and for nothing else.
func TestBeyond(t *testing.T) {
	step := func(node string, a site.Action, want string) site.Step {
		return site.Step{Node: node, Action: a, Changes: []site.Change{{Field: "f", Have: "x", Want: want}}, Expect: 1}
	}
	moved := step("same", site.ActionBIOS, "a")
	moved.Changes[0].Origin = site.At("elsewhere.cue", 9, 9, "site")
	image := step("image", site.ActionInstall, "2")
	other := image
	image.Image, other.Image = &site.Image{URL: "one"}, &site.Image{URL: "other"}
	branch := site.Plan{Nodes: []site.NodePlan{
		{Node: "same", Steps: []site.Step{step("same", site.ActionBIOS, "a")}, Notes: []string{"note"}},
		{Node: "more", Steps: []site.Step{step("more", site.ActionBIOS, "a")}},
		{Node: "other", Steps: []site.Step{step("other", site.ActionBIOS, "a")}},
		{Node: "spared", Steps: []site.Step{step("spared", site.ActionBIOS, "a")}},
		{Node: "image", Steps: []site.Step{image}},
		{Node: "idle"},
	}, Removes: []site.Removal{{Node: "gone"}}}
	merged := site.Plan{Nodes: []site.NodePlan{
		{Node: "same", Steps: []site.Step{moved}, Notes: []string{"note"}},
		{Node: "more", Steps: []site.Step{step("more", site.ActionBIOS, "a"), step("more", site.ActionConfig, "b")}, Blocked: []string{"why"}},
		{Node: "other", Steps: []site.Step{step("other", site.ActionBIOS, "b")}},
		{Node: "spared"},
		{Node: "image", Steps: []site.Step{other}},
		{Node: "idle"},
		{Node: "new", Steps: []site.Step{step("new", site.ActionPowerOn, "on")}},
	}, Removes: []site.Removal{{Node: "gone"}, {Node: "leaving"}}}

	more, anyway, spared := plan.Beyond(&branch, &merged)
	if got, want := summary(more), []string{"more set apply-config: f x → b", "other set set-bios: f x → b", "image set install: f x → 2", "new set power-on: f x → on"}; !slices.Equal(got, want) {
		t.Errorf("it brings about %q, want %q", got, want)
	}
	if got, want := summary(anyway), []string{"same set set-bios: f x → a", "more set set-bios: f x → a"}; !slices.Equal(got, want) {
		t.Errorf("anyway %q, want %q", got, want)
	}
	if !slices.Equal(spared, []string{"spared"}) || len(more.Removes) != 1 || more.Removes[0].Node != "leaving" {
		t.Errorf("spared %v, removed %v", spared, more.Removes)
	}
	if n := more.Nodes[0]; n.Expect != 1 || !slices.Equal(n.Blocked, []string{"why"}) {
		t.Errorf("got %+v", n)
	}
}

func summary(p site.Plan) (all []string) {
	for _, n := range p.Nodes {
		for _, s := range n.Steps {
			all = append(all, n.Node+" set "+s.Summary())
		}
	}
	return all
}
