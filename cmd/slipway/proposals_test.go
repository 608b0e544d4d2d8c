package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/site"
)

// reviewing is a daemon that has looked at pull request 7, which erases n1, restarts 60 others and adds one that nobody has seen.
type reviewing struct {
	follower
	said string
}

func (r *reviewing) Sites() []string                    { return []string{"berlin"} }
func (r *reviewing) Report(string) (site.Report, error) { return site.Report{}, nil }
func (r *reviewing) Access(string) (site.GrantedState, site.Granted, error) {
	return site.GrantedState{}, site.Granted{}, nil
}

func (r *reviewing) Proposals(string) ([]site.ProposalBrief, error) {
	d, err := r.Proposal("", 7)
	return []site.ProposalBrief{d.ProposalBrief, {Proposal: site.Proposal{Number: 3, State: site.ProposalMerged}}}, err
}

func (r *reviewing) Proposal(_ string, number int) (site.ProposalDetail, error) {
	if number != 7 {
		return site.ProposalDetail{}, fmt.Errorf("%w: no pull request %d", site.ErrNotFound, number)
	}
	v := site.Review{Site: "berlin", Proposal: site.Proposal{Number: 7, Title: "Again " + r.said, Author: r.said, State: site.ProposalOpen, Base: "main", Head: "89abcdef0123456789ab", URL: "https://git.example/pull/7"}, Base: "0123456789ab", When: time.Now()}
	seen := time.Now()
	v.Plan.Nodes = []site.NodePlan{{Node: "n1", Seen: seen, Steps: []site.Step{{Node: "n1", Action: site.ActionInstall, Impact: site.ImpactDestructive, Loses: "everything on its disks", Disks: "S1", Reason: r.said}}}}
	for i := range 60 {
		v.Plan.Nodes = append(v.Plan.Nodes, site.NodePlan{Node: fmt.Sprintf("w%02d", i), Seen: seen, Steps: []site.Step{{Action: site.ActionRestart, Impact: site.ImpactReboot}}})
	}
	v.Set = v.Destroys().Digest()
	merged := &site.Site{Nodes: map[string]*site.Node{"new": {Name: "new", Rack: "r2"}}}
	for _, n := range v.Plan.Nodes {
		merged.Nodes[n.Node] = &site.Node{Name: n.Node, Rack: "r1", Position: site.Position{Unit: 3, Height: 2}}
	}
	before := &site.Site{Nodes: map[string]*site.Node{}}
	for name, n := range merged.Nodes {
		if name != "new" {
			before.Nodes[name] = n
		}
	}
	var b bytes.Buffer
	v.Whole = present.Comment(&b, &v, present.View{Site: merged, Before: before, Now: seen})
	v.Verdict, v.Comment = present.Verdict(&v), b.String()
	nodes := present.Consequences(&v, &site.Plan{Nodes: append(v.Plan.Nodes, site.NodePlan{Node: "new"})}, present.Designs{InForce: before, Branch: before, Merged: merged})
	return site.ProposalDetail{PlanDetail: site.PlanDetail{Review: v, Nodes: nodes, Counts: present.CountConsequences(nodes), Losses: v.Destroys()}, ProposalBrief: site.ProposalBrief{
		Proposal: v.Proposal, Verdict: site.PlainLine(v.Verdict), Waits: present.WaitsFor(&v), Planned: v.When, Set: v.Set, Erases: 1}}, nil
}

// reviewed runs a command against such a daemon.
func reviewed(t *testing.T, said string, args ...string) string {
	t.Helper()
	state := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- control.Serve(ctx, control.Socket(state), "", &reviewing{said: said}, slog.New(slog.DiscardHandler))
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	client := control.Dial(control.Socket(state))
	defer client.Close()
	for {
		if _, err := client.WhoAmI(ctx); err == nil { // it listens
			break
		}
		select {
		case err := <-ended:
			ended <- err // for the end of the test
			t.Fatalf("the daemon ended: %v", err)
		default:
		}
	}
	var out, errs bytes.Buffer
	if code := execute(ctx, append(args, "--state", state), &out, &errs); code != 0 {
		t.Fatalf("slipway %s: %d %s", strings.Join(args, " "), code, errs.String())
	}
	return out.String()
}

// The list and one pull request are told as the comment has them, by rack, with what is unknown said so; the same as JSON.
func TestProposals(t *testing.T) {
	list := reviewed(t, "quiet", "proposals")
	for _, part := range []string{"7", "Again quiet", "open", "1 machine is erased, 60 restart", "a merge, which approves erasing 1 machine", "merged", "not known"} {
		if !strings.Contains(list, part) {
			t.Errorf("the list has no %q:\n%s", part, list)
		}
	}
	if strings.Contains(list, "not planned yet") {
		t.Errorf("a merged pull request waits for a plan:\n%s", list)
	}
	if open := reviewed(t, "quiet", "proposals", "--only", "merged"); strings.Contains(open, "Again") || !strings.Contains(open, "3") {
		t.Errorf("only merged ones:\n%s", open)
	}
	one := reviewed(t, "quiet", "proposals", "7")
	for _, part := range []string{"Pull request 7: Again quiet\n", "  open, by quiet, commit 89abcdef0123\n", "https://git.example/pull/7", "  Approved: not yet (set ", "! Merging this erases 1 machine.", "n1 (no identity, rack r1); what is lost: 1 disk: S1",
		"rack r1  61 nodes, 1 is erased, 60 are out of service for a time", "3-4", "22 more machines: pass --all"} {
		if !strings.Contains(one, part) {
			t.Errorf("the pull request has no %q:\n%s", part, one)
		}
	}
	if all := reviewed(t, "quiet", "proposals", "#7", "--all"); strings.Contains(all, "pass --all") || !strings.Contains(all, "w59") || !strings.Contains(all, "unknown, new in the design") || !strings.Contains(all, "rack r2  1 node, 1 cannot be planned") {
		t.Errorf("all machines:\n%s", all)
	}
	var v control.ProposalView
	if err := json.Unmarshal([]byte(reviewed(t, "quiet", "proposals", "7", "--output", "json")), &v); err != nil || v.Set == "" || v.Total != 2 || v.Affected[0].Counts[site.MergeStops] != 60 {
		t.Errorf("as JSON: %v, %+v", err, v.ProposalBrief)
	}
}

// What others wrote is text on a terminal.
func TestProposalsAreText(t *testing.T) {
	for _, args := range [][]string{{"proposals"}, {"proposals", "7"}} {
		if got := reviewed(t, "\x1b[31mred\x1b[0m\u202egpj\nforged: line", args...); strings.ContainsAny(got, "\x1b\u202e") || strings.Contains(got, "\nforged") {
			t.Errorf("%v: %q", args, got)
		}
	}
}
