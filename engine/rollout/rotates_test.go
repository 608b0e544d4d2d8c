package rollout_test

import (
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/rollout"
	"github.com/slipway-gitops/slipway/engine/site"
)

// rotates is a step that replaces a derived password.
var rotates = site.Step{Facet: site.FacetAccounts, Action: site.ActionAccounts, Impact: site.ImpactOnline, Rotates: []string{"slipway"}}

// Where derived passwords are replaced, one machine goes first, also where the design has no canaries; then the other
// canaries, then the rest, each within the bounds.
func TestOneMachineGetsItsPasswordFirst(t *testing.T) {
	online := site.Step{Facet: site.FacetAccounts, Action: site.ActionAccounts, Impact: site.ImpactOnline}
	f, all := rolling()
	for _, n := range all {
		n.Rotates, n.Seen = true, true
	}
	all["a1"].Blind = true // it does not answer, and must not keep the others waiting
	f.Site.Rollout.Canaries = nil
	f.Rollout.Canaries = f.ChooseCanaries(f.Rollout.Nodes)
	if got := strings.Join(f.Rollout.Canaries, " "); got != "a2" {
		t.Fatalf("%q goes first", got)
	}
	if r := f.Order(try(all["a2"], rotates)); r != nil {
		t.Errorf("the first waits: %+v", r)
	}
	r, waits := f.Order(try(all["b1"], rotates)).(*rollout.Canaries)
	if !waits || r.Verdict(f).Sentence != "it waits for a2, which goes first, to be in-sync" {
		t.Fatalf("the others: %+v", r)
	}
	if r := f.Order(try(all["b1"], online)); r != nil {
		t.Errorf("another change waits: %+v", r)
	}
	all["a2"].State = site.InSync
	f.Rollout.Proven = f.Now
	if r := f.Order(try(all["b1"], rotates)); r != nil {
		t.Errorf("once the first has it: %+v", r)
	}

	// Of designed canaries the first goes first.
	f, all = rolling()
	for _, n := range all {
		n.Rotates, n.Seen = true, true
	}
	f.Site.Rollout.Canaries.Count = 2
	f.Rollout.Canaries = f.ChooseCanaries(f.Rollout.Nodes)
	first, second := f.Rollout.Canaries[0], f.Rollout.Canaries[1]
	if r := f.Order(try(all[first], rotates)); r != nil {
		t.Errorf("the first canary waits: %+v", r)
	}
	if r, waits := f.Order(try(all[second], rotates)).(*rollout.Canaries); !waits || len(r.Names) != 1 || r.Names[0] != first {
		t.Errorf("the second canary: %+v", r)
	}
	if r := f.Order(try(all[second], online)); r != nil {
		t.Errorf("another change of the second canary waits: %+v", r)
	}
	all[first].State = site.InSync
	if r := f.Order(try(all[second], rotates)); r != nil {
		t.Errorf("the second canary, once the first has it: %+v", r)
	}

	// It takes a place like a disruption does.
	f, all = world()
	all["b1"].Disrupts, all["b2"].Disrupts = true, true
	if f.Room(try(all["a1"], rotates)) == nil || f.Room(try(all["a1"], online)) != nil {
		t.Error("a password is replaced without a place, or another change of accounts takes one")
	}
}
