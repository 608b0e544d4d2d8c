package review

import (
	"fmt"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// However many proposals there are, and however large the site, what is kept of them has bounds; the last ones are kept
// first, and what is left out is said.
func TestListingHasBounds(t *testing.T) {
	began := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	large := make([]site.NodeConsequence, 30_000)
	for i := range large {
		large[i] = site.NodeConsequence{Node: fmt.Sprint(i), What: site.MergeStops}
	}
	l := NewListing()
	put := func(number int, steps int, nodes []site.NodeConsequence) {
		v := site.Review{Proposal: site.Proposal{Number: number, State: site.ProposalOpen, Base: "main"}, When: began.Add(time.Duration(number) * time.Minute), Findings: make([]site.Finding, 600)}
		v.Plan.Nodes = make([]site.NodePlan, steps)
		for i := range v.Findings {
			v.Findings[i].Severity = site.SeverityNote
		}
		l.planned(v, nodes, nil)
	}
	for number := 1; number <= 5; number++ {
		put(number, 700, large)
	}
	for number := 1; number <= 5; number++ {
		d, _ := l.Of(number)
		if whole := len(d.Review.Plan.Nodes) == 700; whole != (number >= 4) || whole == (d.StepsLeftOut == 700) {
			t.Errorf("%d: steps of %d nodes, %d left out", number, len(d.Review.Plan.Nodes), d.StepsLeftOut)
		}
		if kept := len(d.Nodes) == 30_000; kept != (number >= 3) || kept == (d.NodesLeftOut == 30_000) || d.Counts[site.MergeStops] != 30_000 {
			t.Errorf("%d: %d nodes, %d left out, %v", number, len(d.Nodes), d.NodesLeftOut, d.Counts)
		}
		if len(d.Review.Findings) != 500 || d.FindingsLeftOut != 100 {
			t.Errorf("%d findings, %d left out", len(d.Review.Findings), d.FindingsLeftOut)
		}
	}
	merged := site.Proposal{Number: 1, State: site.ProposalMerged, Base: "main", MergedAt: began}
	l.landed(site.Review{Proposal: merged, Approved: make(site.Losses, 20_000), Landing: &site.Landing{}})
	if d, _ := l.Of(1); len(d.Nodes) != 0 || d.NodesLeftOut != 30_000 {
		t.Errorf("after its merge: %d nodes, %d left out", len(d.Nodes), d.NodesLeftOut)
	}
	for number := 6; number <= 105; number++ {
		put(number, 0, nil)
		l.drop(number, site.Proposal{Number: number, State: site.ProposalClosed, Base: "main"})
	}
	all := l.All()
	if len(all) != 5+mostEnded || all[0].Proposal.Number != 105 || all[mostEnded].Proposal.Number != 5 {
		t.Errorf("%d are kept, the first %d", len(all), all[0].Proposal.Number)
	}
	if all := NewListing().All(); all == nil || len(all) != 0 {
		t.Errorf("of none: %v", all)
	}
	NewListing().drop(1, site.Proposal{Number: 1})
	NewListing().isOpen([]site.Proposal{{Number: 1}})
}

// A proposal is listed with what is known of it now: not with what a commit that was pushed since would erase, and not with
// a set that merging has not approved.
func TestListingClaimsWhatIsSo(t *testing.T) {
	p := site.Proposal{Number: 7, State: site.ProposalOpen, Base: "main", Head: "4f2a51c0ffee"}
	l := NewListing()
	l.planned(site.Review{Proposal: p, Set: "read", When: time.Now()}, nil, nil)
	p.Head = "badc0ffee000"
	l.isOpen([]site.Proposal{p})
	if d, _ := l.Of(7); !d.Planning || d.Waits != "Slipway, which is planning "+(site.Revision{ID: p.Head}).Short() {
		t.Errorf("after a push: %+v", d.ProposalBrief)
	}
	p.State, p.MergedAt = site.ProposalMerged, time.Now()
	some := site.Losses{{Node: "n1"}}
	l.landed(site.Review{Proposal: p, Approved: some, Landing: &site.Landing{Machines: []site.MachineNow{{}}}})
	if d, _ := l.Of(7); d.Set != some.Digest() || d.ApprovedBy != "somebody" || d.Erases != 1 {
		t.Errorf("some of the set is approved: %+v", d.ProposalBrief)
	}
	l.landed(site.Review{Proposal: p, Approved: some, Held: site.Losses{{Node: "n2"}}, Landing: &site.Landing{}})
	if d, _ := l.Of(7); d.Set != some.Digest() || d.Erases != 2 {
		t.Errorf("one is approved, and one needs another approval: %+v", d.ProposalBrief)
	}
	told := &site.Landing{Machines: []site.MachineNow{{}}, Done: true}
	l.landed(site.Review{Proposal: p, Approved: some, Landing: told})
	if d, _ := l.Of(7); len(d.Review.Landing.Machines) != 0 || len(told.Machines) != 1 {
		t.Errorf("what machines did is kept: %+v", d.Review.Landing)
	}
	l = NewListing()
	l.planned(site.Review{Proposal: p, Set: "read", When: time.Now()}, nil, nil)
	l.landed(site.Review{Proposal: p, Landing: &site.Landing{Unapproved: "a commit was pushed"}})
	if d, _ := l.Of(7); d.Set != "" || d.ApprovedBy != "" {
		t.Errorf("merging has approved nothing: %+v", d.ProposalBrief)
	}
	l = NewListing()
	l.planned(site.Review{Proposal: p, Set: "not read yet", When: time.Now()}, nil, nil)
	l.landed(site.Review{Proposal: p, Held: some, Landing: &site.Landing{}})
	if d, _ := l.Of(7); d.Set != "" || d.Losses != nil || d.Erases != 1 || d.ApprovedBy != "" {
		t.Errorf("merged before its comment named anything: %+v, losses %v", d.ProposalBrief, d.Losses)
	}
}

// What is known of one commit is not told of another that was merged, or closed, before Slipway planned it.
func TestListingTellsOfTheCommitThatEnded(t *testing.T) {
	planned := site.Proposal{Number: 7, State: site.ProposalOpen, Base: "main", Head: "4f2a51c0ffee"}
	for name, end := range map[string]func(l *Listing, p site.Proposal){
		"merged": func(l *Listing, p site.Proposal) {
			p.State = site.ProposalMerged
			l.landed(site.Review{Proposal: p, Landing: &site.Landing{Unapproved: "a commit was pushed"}})
		},
		"closed": func(l *Listing, p site.Proposal) {
			p.State = site.ProposalClosed
			l.drop(7, p)
		},
	} {
		for head, known := range map[string]bool{planned.Head: true, "badc0ffee000": false} {
			l := NewListing()
			plan := site.Plan{Nodes: []site.NodePlan{{Node: "n1"}}}
			l.planned(site.Review{Proposal: planned, Comment: "c", When: time.Now(), Plan: plan}, []site.NodeConsequence{{Node: "n1", What: site.MergeStops}}, map[string]*site.Rack{"r1": {}})
			p := planned
			p.Head = head
			l.isOpen([]site.Proposal{p})
			end(l, p)
			d, _ := l.Of(7)
			for part, is := range map[string]bool{"nodes": d.Nodes != nil, "counts": d.Counts != nil, "racks": d.Racks != nil, "steps": d.Review.Plan.Nodes != nil, "the time of its plan": !d.Planned.IsZero()} {
				if is != known {
					t.Errorf("%s at %s: %s are told: %t", name, head, part, is)
				}
			}
			if d.Planning || d.Proposal.Head != head {
				t.Errorf("%s at %s: %+v", name, head, d.ProposalBrief)
			}
		}
	}
}
