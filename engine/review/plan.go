package review

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/incident"
	"github.com/slipway-gitops/slipway/engine/placement"
	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/site"
)

// planner plans designs as if they were in force: those of proposals as merged, and those of commits. It touches no machine.
type planner struct {
	site     Site
	evaluate func(context.Context, site.Revision) (*site.Site, []site.Finding, error)
	judges   func(ctx context.Context, revision, by site.Revision) ([]site.Finding, error)
	pages    func(commit string) string // may be nil
}

// plan plans a proposal as if it were merged.
func (r *Reviews) plan(ctx context.Context, v *site.Review, on *baseline) error {
	m, err := r.Merger.Merge(ctx, v.Proposal)
	switch {
	case err != nil:
		return err
	case m.Done:
		return errDone
	}
	v.Result, v.Conflicts, v.More, v.Problem = m.Result.ID, m.Conflicts, m.More, m.Problem
	if len(m.Conflicts) > 0 || m.Problem != "" {
		return nil
	}
	return r.planner().compare(ctx, v, m.Result, on)
}

// compare adds to a review what putting a revision in force does beside its baseline.
func (p planner) compare(ctx context.Context, v *site.Review, result site.Revision, on *baseline) error {
	if err := on.ask(ctx); err != nil {
		return err
	}
	design, findings, err := p.evaluate(ctx, result)
	if err != nil {
		return fmt.Errorf("evaluate: %w", err)
	}
	design, findings = placement.PlaceEvaluated(design, findings, on.placed)
	v.Findings, v.Before = newFindings(findings, on.findings)
	if design == nil || site.HasErrors(findings) {
		v.Findings, v.Before = hindrances(findings, on.findings)
		return nil
	}
	v.Rules = changedRules(on.design, design)
	v.Incidents = incident.New(on.design, design, on.known.Delivered)
	v.Access, v.Restrictions = changedAccess(on.design, design)
	if err := p.judge(ctx, v, result, on, design); err != nil || !v.Planned() {
		return err
	}
	on.merged = design
	on.differ(v)
	on.shown, err = p.site.WithDrives(ctx, on.known, v.Destroys())
	return err
}

// changedAccess says who may do more and who less once a proposal is merged, also where only nodes come into or leave
// what a role is about.
func changedAccess(branch, merged *site.Site) (more, less []string) {
	var before site.Granted
	if branch != nil {
		before = branch.Granted()
	}
	return access.Summary(before, merged.Granted())
}

// judge checks a design that changes policies or suppressions by those of the
// baseline, which are in force until then. It ignores findings that the
// baseline has as well.
func (p planner) judge(ctx context.Context, v *site.Review, merged site.Revision, on *baseline, design *site.Site) error {
	if !mayJudgeItself(on.design, design) {
		return nil
	}
	if on.unread {
		return fmt.Errorf("check it against the rules of %s: the repository no longer has %s", on.name, on.base.Short())
	}
	found, err := p.judges(ctx, merged, on.base)
	if err != nil {
		return fmt.Errorf("check it against the rules of %s: %w", on.name, err)
	}
	fresh, _ := newFindings(found, slices.Concat(v.Findings, on.findings))
	for i := range fresh {
		fresh[i].Message += "; by the rules of " + on.name + ", which this changes"
	}
	v.Findings = append(v.Findings, fresh...)
	return nil
}

// mayJudgeItself reports whether a merged design may be checked by other
// policies and suppressions than the branch's.
func mayJudgeItself(branch, merged *site.Site) bool {
	if branch == nil || len(branch.Policies)+len(branch.Suppressions)+len(merged.Suppressions) == 0 {
		return false
	}
	return branch.Ruling == "" || branch.Ruling != merged.Ruling
}

// write writes the comment.
func (p planner) write(v *site.Review, on *baseline) {
	view := present.View{Site: on.merged, Before: p.site.Design(), Known: on.shown, Now: v.When}
	if p.pages != nil {
		view.Pages = p.pages(v.Proposal.Head)
	}
	var w bytes.Buffer
	v.Whole = present.Comment(&w, v, view)
	v.Verdict, v.Comment = present.Verdict(v), w.String()
}
