package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

func (f *fake) Proposals(string) ([]site.ProposalBrief, error) {
	all := []site.ProposalBrief{}
	for number := f.pulls; number > 0; number-- {
		p := site.Proposal{Number: number, State: site.ProposalOpen, Head: fmt.Sprintf("%08x", number)}
		if number%3 == 0 {
			p.State, p.Merge = site.ProposalMerged, fmt.Sprintf("a%07x", number)
		}
		all = append(all, site.ProposalBrief{Proposal: p})
	}
	return all, nil
}

func (f *fake) Proposal(_ string, number int) (site.ProposalDetail, error) {
	if number > f.pulls {
		return site.ProposalDetail{}, fmt.Errorf("%w: no pull request %d", site.ErrNotFound, number)
	}
	return f.pull, nil
}

func (f *fake) ProposalsOf(_, node string) ([]site.NodeProposal, error) {
	return []site.NodeProposal{{Number: 7, Title: "of " + node, What: site.MergeStops}}, nil
}

// pulling has 2,500 pull requests, whose plan erases a machine in each of 250 racks, and 150 without one.
func pulling() *fake {
	f := &fake{pulls: 2500}
	f.pull = site.ProposalDetail{PlanDetail: site.PlanDetail{Counts: map[site.Consequence]int{}, Racks: map[string]*site.Rack{}}}
	f.pull.Planned = time.Now()
	for i := range 300 { // 50 racks without a machine that changes
		rack := fmt.Sprintf("r%d", i+1)
		f.pull.Racks[rack] = &site.Rack{Units: 42}
		if i < 250 {
			f.pull.Nodes = append(f.pull.Nodes, site.NodeConsequence{Node: fmt.Sprintf("m%03d", i), Rack: rack, What: site.MergeErases})
		}
	}
	f.pull.Nodes = append(f.pull.Nodes, site.NodeConsequence{Node: "moved", Rack: "r300", What: site.MergeLeaves}, site.NodeConsequence{Node: "n1", Rack: "r9", What: site.MergeStops})
	for i := range 150 {
		f.pull.Nodes = append(f.pull.Nodes, site.NodeConsequence{Node: fmt.Sprintf("v%03d", i), Rack: "r1", Hypervisor: "h1", What: site.MergeChanges})
	}
	return f
}

// pulledByAll is a pull request that has something in each part.
func pulledByAll() site.ProposalDetail {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	d := pulling().pull
	d.ProposalBrief = site.ProposalBrief{Proposal: site.Proposal{Number: 7, Title: "t", State: site.ProposalMerged, Head: "4f2a51c09d3e", Changed: now}, Verdict: "v", Waits: "w", Planned: now, Shown: now, Set: digestOfAll, Erases: 1, ApprovedBy: "ana", ApprovedAt: now}
	loss := site.Loss{Node: "n1", Action: "install"}
	d.Losses, d.Review = site.Losses{loss}, site.Review{Site: "berlin", Proposal: d.Proposal, When: now, Comment: "c", Approved: site.Losses{loss}, Findings: []site.Finding{{Code: "x", Severity: site.SeverityWarning, Message: "m"}},
		Landing: &site.Landing{Revision: "4f2a51c09d3e", InForce: now, Rollout: &site.RolloutStatus{Since: now}, Machines: []site.MachineNow{{Node: "n1", State: site.MachineRunning, Since: now}}}, Call: &site.Call{Key: "k", Text: "t"},
		Plan: site.Plan{Nodes: []site.NodePlan{{Node: "n1", Steps: []site.Step{{Node: "n1", Action: site.ActionPowerOff}}}}, Forecast: &site.Forecast{}}}
	return d
}

// Lists of pull requests and of what they do come in pages of bounded size, and a client gets all of them.
func TestProposalsComeInPages(t *testing.T) {
	socket, _ := serving(t, pulling())
	c := Dial(socket)
	defer c.Close()
	ctx := context.Background()
	all, err := c.Proposals(ctx, "berlin")
	if err != nil || len(all) != 2500 || all[0].Proposal.Number != 2500 || all[2499].Proposal.Number != 1 {
		t.Fatalf("%d pull requests, %v", len(all), err)
	}
	var page ProposalPage
	for query, want := range map[string]ProposalPage{"": {Next: 2401, Total: 2500}, "?state=merged&limit=3": {Next: 2493, Total: 833}, "?after=2": {Total: 2500},
		"?commit=00000003": {Total: 1}, "?commit=a0000003": {Total: 1}, "?commit=a00000": {Total: 85}, "?commit=ffff": {}} {
		page = ProposalPage{}
		if _, err := c.get(ctx, "/sites/berlin/proposals"+query, "", &page); err != nil || page.Next != want.Next || page.Total != want.Total || page.Open != 1667 {
			t.Errorf("%s: next %d, %d of %d open, %v", query, page.Next, page.Open, page.Total, err)
		}
	}
	v, err := c.Proposal(ctx, "berlin", 7)
	if err != nil || len(v.Affected) != 250 || len(v.Outside) != 150 || v.Total != 250 || v.OutsideTotal != 150 || v.Untouched != 50 {
		t.Fatalf("%d racks, %d outside of %d, %d untouched, %v", len(v.Affected), len(v.Outside), v.OutsideTotal, v.Untouched, err)
	}
	if names := []string{v.Affected[0].Name, v.Affected[1].Name, v.Affected[9].Name}; !slices.Equal(names, []string{"r1", "r2", "r10"}) || v.Affected[0].Rack == nil {
		t.Errorf("racks %v", names)
	}
	if r := v.Affected[8]; r.All != 2 || r.Counts[site.MergeStops] != 1 || r.Counts[site.MergeErases] != 1 || len(r.Nodes) != 2 { // where the plan has n1, and not where it is now
		t.Errorf("rack %+v", r)
	}
	var some ProposalView
	if _, err := c.get(ctx, "/sites/berlin/proposals/7", "", &some); err != nil || len(some.Affected) != 24 || some.Next != "r24" || len(some.Outside) != 100 || some.OutsideNext != "v099" {
		t.Errorf("%d racks, next %q, %d outside, %v", len(some.Affected), some.Next, len(some.Outside), err)
	}
}

// What is not there, and what makes no sense, is said as such.
func TestProposalsThatAreNot(t *testing.T) {
	socket, _ := serving(t, pulling())
	c := Dial(socket)
	defer c.Close()
	for path, want := range map[string]error{
		"proposals/2501": site.ErrNotFound, "proposals/0": site.ErrNotFound, "proposals/-1": site.ErrNotFound, "proposals/x": site.ErrNotFound, "proposals/99999999999999999999": site.ErrNotFound,
		"proposals?state=no": ErrBadRequest, "proposals?after=x": ErrBadRequest, "proposals?limit=0": ErrBadRequest, "proposals?commit=xyz1": ErrBadRequest, "proposals?commit=abc": ErrBadRequest, "proposals/7?limit=101": ErrBadRequest,
	} {
		var v any
		if _, err := c.get(context.Background(), "/sites/berlin/"+path, "", &v); !errors.Is(err, want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// Whoever shows the comment and the racks alone gets no steps, which are many megabytes of a large plan.
func TestProposalWithoutSteps(t *testing.T) {
	f := pulling()
	f.pull = pulledByAll()
	socket, _ := serving(t, f)
	c := Dial(socket)
	defer c.Close()
	for query, steps := range map[string]int{"": 1, "?steps=false": 0} {
		var v ProposalView
		if _, err := c.get(context.Background(), "/sites/berlin/proposals/7"+query, "", &v); err != nil || len(v.Review.Plan.Nodes) != steps || len(v.Review.Findings) != steps || v.Review.Comment == "" {
			t.Errorf("%q: %d nodes, %d findings, %v", query, len(v.Review.Plan.Nodes), len(v.Review.Findings), err)
		}
	}
}

// A pull request without a plan has no racks, and says nothing of machines.
func TestProposalWithoutPlan(t *testing.T) {
	f := pulling()
	f.pull = site.ProposalDetail{}
	socket, _ := serving(t, f)
	c := Dial(socket)
	defer c.Close()
	if v, err := c.Proposal(context.Background(), "", 7); err != nil || len(v.Affected)+len(v.Outside)+v.Untouched != 0 {
		t.Errorf("%+v, %v", v, err)
	}
}

// Where it is not kept what merging does to each machine, no rack is said to stay as it is.
func TestProposalOfWhichMachinesAreNotKept(t *testing.T) {
	f := pulling()
	f.pull.NodesLeftOut, f.pull.Nodes, f.pull.Racks = len(f.pull.Nodes), nil, nil
	socket, _ := serving(t, f)
	c := Dial(socket)
	defer c.Close()
	if v, err := c.Proposal(context.Background(), "", 7); err != nil || v.NodesLeftOut == 0 || v.Untouched != 0 || len(v.Affected) != 0 {
		t.Errorf("%d untouched, %d affected, %v", v.Untouched, len(v.Affected), err)
	}
}

// Whoever may read some nodes alone sees no pull request: its comment names all of them.
func TestProposalsAreForWhoMayReadTheSite(t *testing.T) {
	o := listening(t, pulling(), nil)
	for who, want := range map[string]int{"bob": 200, "carol": 403, "zoe": 403} {
		for _, path := range []string{"", "/7"} {
			if got, answer := o.ask(o.as(o.people.client(t, mail(who+"@example.org"))), http.MethodGet, "/api/v1/sites/berlin/proposals"+path, "", ""); got != want || got == 403 && strings.Contains(answer, "m001") {
				t.Errorf("%s, %s: %d %.200s", who, path, got, answer)
			}
		}
	}
	for who, want := range map[string]bool{"bob": true, "carol": false} {
		if _, answer := o.ask(o.as(o.people.client(t, mail(who+"@example.org"))), http.MethodGet, "/api/v1/sites/berlin/nodes/n1", "", ""); strings.Contains(answer, "of n1") != want {
			t.Errorf("%s is told of the pull requests of n1: %t\n%s", who, !want, answer)
		}
	}
}
