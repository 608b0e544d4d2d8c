package plan_test

import (
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// now is when every plan is read.
var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestDigestOfDestructionIsFreeOfRevisionAndObservation(t *testing.T) {
	design := &site.Site{
		Name:   "s",
		Images: map[string]*site.Image{"debian": {URL: "http://images.example/{node}/{generation}.iso", Digests: map[string]string{"n1": "aa"}}},
		Nodes: map[string]*site.Node{"n1": {Name: "n1", Identity: site.Identity{UUID: "u1"}, Power: "on",
			Image: "debian", Generation: 1}},
	}
	never := plan.Site(design, "r1", site.Known{})
	seen := plan.Site(design, "r2", site.Known{Nodes: map[string]site.Memory{"n1": {Observed: site.Observed{
		Identity: site.Identity{UUID: "u1", Serial: "s1"},
		Facets:   map[site.Facet]site.FacetState{site.FacetPower: {Have: site.Values{"state": "off"}, Seen: now}},
	}}}})
	if got, want := seen.Destroys().Digest(), never.Destroys().Digest(); got != want {
		t.Errorf("digest after observing = %s, before %s", got, want)
	}
	if i := never.Nodes[0].Steps[0].Image; i.URL != "http://images.example/n1/1.iso" || i.SHA256 != "aa" || i.Digests != nil {
		t.Errorf("the step's image is %+v, want the node's own", i)
	}
	design.Nodes["n1"].Generation = 2
	next := plan.Site(design, "r3", site.Known{})
	if next.Destroys().Digest() == never.Destroys().Digest() {
		t.Error("generation 2 has the digest of generation 1")
	}
}

// A machine seen for one design is planned for another: what the driver made of
// the old wish says nothing about the new one.
func TestSeenForAnotherDesign(t *testing.T) {
	was := &site.Node{Name: "n1", Power: "on", Identity: site.Identity{UUID: "5e1d0000-0000-4000-8000-000000000001"}}
	seen := site.Observed{Facets: map[site.Facet]site.FacetState{
		site.FacetPower: {Have: site.Values{"state": "on"}, Seen: now},
		site.FacetBoot:  {Have: site.Values{"order": "Hdd,Pxe"}, Seen: now},
	}}
	off, whatever := *was, *was
	off.Power, off.Boot.Order = "off", []string{"Pxe"}
	whatever.Power = ""
	for _, c := range []struct {
		node *site.Node
		want string
	}{
		{was, ""},
		{&whatever, ""},
		{&off, "boot.order: Hdd,Pxe -> Pxe; power.state: on -> off; "},
	} {
		got := ""
		for _, s := range plan.Node(&site.Site{}, c.node, site.Known{Nodes: map[string]site.Memory{"n1": {Observed: seen}}}).Steps {
			got += s.Changes[0].Field + ": " + s.Changes[0].Have + " -> " + s.Changes[0].Want + "; "
		}
		if got != c.want {
			t.Errorf("power %q: %q, want %q", c.node.Power, got, c.want)
		}
	}
}
