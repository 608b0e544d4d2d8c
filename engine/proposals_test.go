package engine_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// proposal is one as the engine tells it to those who ask.
func (f *forge) proposal(number int) site.ProposalDetail {
	f.w.t.Helper()
	d, err := f.w.engine.Proposal(number)
	if err != nil {
		f.w.t.Fatal(err)
	}
	return d
}

// Whoever asks the daemon for a proposal is told what its comment says, from the first look to its end.
func TestProposalIsToldAsItsComment(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		f := w.inSync("n1", "n2", "n3")
		if _, err := w.engine.Proposals(); !errors.Is(err, site.ErrNotFound) || w.engine.Report().Status.Proposals {
			t.Errorf("without reviews: %v", err)
		}
		r := f.reviews()
		if all, err := w.engine.Proposals(); err != nil || len(all) != 0 || !w.engine.Report().Status.Proposals {
			t.Errorf("before the first: %v, %v", all, err)
		}
		f.propose(7, w.wiping([]string{"n1", "n2", "n3"}, "n1"))
		f.change(7, func(p *site.Proposal) { p.Title = strings.Repeat("long ", 10_000) })
		f.round(r)
		v, d := f.last(7), f.proposal(7)
		if d.Review.Comment != v.Comment || d.Set != v.Set || d.Losses.Digest() != v.Set || d.Erases != 1 || d.Verdict != site.PlainLine(v.Verdict) || !d.Planned.Equal(v.When) {
			t.Errorf("told is %+v", d.ProposalBrief)
		}
		if d.Waits != "its comment to appear on the forge; until then, merging does not approve erasing 1 machine" || len(d.Nodes) != 1 || d.Nodes[0].Node != "n1" || d.Counts[site.MergeErases] != 1 || len(d.Review.Plan.Nodes) != 1 || !d.Shown.IsZero() {
			t.Errorf("told is %+v of %+v", d.ProposalBrief, d.Nodes)
		}
		if len(d.Proposal.Title) > 400 {
			t.Errorf("a title of %d bytes", len(d.Proposal.Title))
		}
		f.show(r, 7)
		f.change(7, func(p *site.Proposal) { p.Title = "other" })
		f.round(r)
		if d = f.proposal(7); d.Proposal.Title != "other" || d.Shown.IsZero() || d.Waits != "a merge, which approves erasing 1 machine" {
			t.Errorf("told is %+v", d.ProposalBrief)
		}
		f.merge(7)
		f.keep(r, "it is approved", time.Minute, func() bool { return f.proposal(7).ApprovedBy == "ann" })
		if d = f.proposal(7); d.Set != v.Set || d.ApprovedAt.IsZero() || len(d.Nodes) != 1 || d.Ended || d.Review.Comment != f.last(7).Comment || !d.Planned.Equal(v.When) {
			t.Errorf("told is %+v of %+v", d.ProposalBrief, d.Nodes)
		}
		f.keep(r, "it is done", 3*time.Hour, func() bool { return f.proposal(7).Ended })
		if d = f.proposal(7); d.Waits != "" || d.Proposal.State != site.ProposalMerged || !strings.HasPrefix(d.Verdict, "done") {
			t.Errorf("told is %+v", d.ProposalBrief)
		}
		if _, err := w.engine.Proposal(8); !errors.Is(err, site.ErrNotFound) {
			t.Errorf("of none: %v", err)
		}
	}, "n1", "n2", "n3")
}

// What is not planned has no machines: not those of another proposal, and not those of its last commit.
func TestUnplannedProposalTellsOfNoMachine(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		f := w.inSync("n1", "n2")
		r := f.reviews()
		f.propose(7, w.wiping([]string{"n1", "n2"}, "n1"))
		f.propose(8, w.wiping([]string{"n1", "n2"}, "n2"))
		f.propose(9, w.wiping([]string{"n1", "n2"}, "n2"))
		for _, number := range []int{8, 9} {
			f.change(number, func(p *site.Proposal) { p.Fork = true })
		}
		f.round(r)
		for _, number := range []int{8, 9} {
			if d := f.proposal(number); d.Counts != nil || d.Nodes != nil || d.Set != "" || !strings.HasPrefix(d.Waits, "somebody with write access") {
				t.Errorf("a fork: %+v of %+v", d.ProposalBrief, d.Nodes)
			}
		}
		f.propose(7, w.wiping([]string{"n1", "n2"}, "n1"), site.Finding{Severity: site.SeverityError, Code: "broken", Message: "broken"})
		f.round(r)
		if d := f.proposal(7); d.Counts != nil || d.Nodes != nil || d.Losses != nil || d.Waits != "a correction that is pushed" || len(d.Review.Findings) != 1 {
			t.Errorf("broken: %+v of %+v", d.ProposalBrief, d.Nodes)
		}
		f.change(7, func(p *site.Proposal) { p.State = site.ProposalClosed })
		f.round(r)
		if d := f.proposal(7); !d.Ended || d.Waits != "" || d.Proposal.State != site.ProposalClosed {
			t.Errorf("closed: %+v", d.ProposalBrief)
		}
		f.change(8, func(p *site.Proposal) { p.Base = "other" })
		f.round(r)
		if _, err := w.engine.Proposal(8); !errors.Is(err, site.ErrNotFound) {
			t.Errorf("one of another branch: %v", err)
		}
		f.change(7, func(p *site.Proposal) { p.State = site.ProposalOpen })
		f.propose(7, w.wiping([]string{"n1", "n2"}, "n1"))
		f.round(r)
		if d := f.proposal(7); d.Ended || d.Erases != 1 {
			t.Errorf("opened again: %+v", d.ProposalBrief)
		}
	}, "n1", "n2")
}

// While people may read one comment and another is being made, the list says so.
func TestProposalSaysThatItIsPlanned(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		f := w.inSync("n1")
		r := f.reviews()
		p := f.propose(7, w.wiping([]string{"n1"}, "n1"))
		var seen []site.ProposalBrief
		f.each = func() {
			if all, err := w.engine.Proposals(); err == nil && len(all) == 1 {
				seen = append(seen, all[0])
			}
		}
		f.round(r)
		f.each = nil
		if len(seen) == 0 || !seen[0].Planning || seen[0].Proposal.Head != p.Head || seen[0].Verdict != "" || !strings.HasPrefix(seen[0].Waits, "Slipway, which is planning ") {
			t.Errorf("meanwhile: %+v", seen)
		}
		if f.proposal(7).Planning {
			t.Error("it says that it is planned still")
		}
	}, "n1")
}
