package plan_test

import (
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/site"
)

// leaves is a virtual machine that the design takes away from a hypervisor.
func leaves(hypervisor string) (*site.Site, *site.Node, site.Memory) {
	n := webNode()
	n.Decommission = true
	n.Virtual.Host.Hypervisor = hypervisor
	n.Endpoints = map[site.EndpointKind]site.Endpoint{site.Manager: {URL: "libvirt+tls://" + hypervisor + "/system?domain=vm&site=test"}}
	m := site.Memory{Recorded: site.Recorded{Adopted: &site.Adoption{Machine: n.Machine(), Manager: "libvirt+tls://hv-1/system?domain=vm&site=test"}},
		Observed: site.Observed{Identity: n.Machine(), Facets: map[site.Facet]site.FacetState{
			site.FacetPower:      {Have: site.Values{"state": "on"}, Seen: now},
			site.FacetDefinition: {Have: site.Values{"state": "defined"}, Seen: now},
			site.FacetDisks:      {Have: site.Values{"root.size": "20GiB", "root.pool": "default"}, Seen: now},
		}}}
	return &site.Site{Name: "test", Nodes: map[string]*site.Node{n.Name: n}}, n, m
}

func knownOf(n *site.Node, m site.Memory) site.Known {
	return site.Known{Nodes: map[string]site.Memory{n.Name: m}}
}

// Two machines of one name on two hypervisors have the same UUID, and are two
// machines all the same: who approved that one goes has not approved the other.
func TestGuestOnAnotherHypervisorIsAnotherLoss(t *testing.T) {
	on := func(hypervisor string) site.Losses {
		s, n, m := leaves(hypervisor)
		known := knownOf(n, m)
		p := plan.Site(s, "r", known)
		reads := "(" + n.Machine().String() + " on " + hypervisor + ")"
		var text, comment strings.Builder
		present.Text(&text, &p, present.View{Site: s, Known: known, Now: now})
		present.Comment(&comment, &site.Review{Plan: p}, present.View{Site: s, Known: known, Now: now})
		if !strings.Contains(text.String(), n.Name+" "+reads+": zeroize loses") {
			t.Errorf("people read in the plan:\n%s", text.String())
		}
		if !strings.Contains(comment.String(), "**"+n.Name+"** "+reads) {
			t.Errorf("people read in the comment:\n%s", comment.String())
		}
		return p.Destroys()
	}
	one, other := on("hv-1"), on("hv-2")
	if len(one) != 1 || len(other) != 1 {
		t.Fatalf("the losses are %+v and %+v", one, other)
	}
	if one.Digest() == other.Digest() {
		t.Errorf("the digest %s approves both, the machine on hv-1 and that on hv-2: %+v", one.Digest(), one[0])
	}
}

// An approval that was used on one hypervisor does not go on on another.
func TestUsedApprovalStaysOnItsHypervisor(t *testing.T) {
	s, n, m := leaves("hv-1")
	begun := plan.Node(s, n, knownOf(n, m)).Steps[0]
	begun.Loses, begun.Disks = "what was lost then", "root default 20GiB, data default 4GiB"
	for hypervisor, goesOn := range map[string]bool{"hv-1": true, "hv-2": false} {
		s, n, m := leaves(hypervisor)
		m.Recorded.InFlight = &site.InFlight{Step: begun, Consumed: true}
		m.Account.Closed = begun.Attempt
		step := plan.Node(s, n, knownOf(n, m)).Steps[0]
		if keeps := step.Loses == begun.Loses; keeps != goesOn {
			t.Errorf("on %s it loses what was approved: %t, want %t: %+v", hypervisor, keeps, goesOn, step)
		}
		if same := step.Loses == begun.Loses && step.Attempt == begun.Attempt && m.Recorded.InFlight.Is(step); same != goesOn {
			t.Errorf("on %s it goes on: %t, want %t: %+v", hypervisor, same, goesOn, step)
		}
	}
}
