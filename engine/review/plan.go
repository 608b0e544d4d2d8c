package review

import (
	"context"
	"fmt"
	"slices"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/incident"
	"github.com/slipway-gitops/slipway/engine/placement"
	"github.com/slipway-gitops/slipway/engine/site"
)

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
	if err := on.ask(ctx); err != nil {
		return err
	}
	design, findings, err := r.Evaluate(ctx, m.Result)
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
	if err := r.judge(ctx, v, m.Result, on, design); err != nil || !v.Planned() {
		return err
	}
	on.merged = design
	on.differ(v)
	return r.drives(ctx, v, on)
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

// judge checks a proposal that changes policies or suppressions by those of the
// branch, which are in force until it is merged. It ignores findings that the
// branch has as well.
func (r *Reviews) judge(ctx context.Context, v *site.Review, merged site.Revision, on *baseline, design *site.Site) error {
	if !mayJudgeItself(on.design, design) {
		return nil
	}
	found, err := r.Judge(ctx, merged, on.base)
	if err != nil {
		return fmt.Errorf("check it against the rules of the branch: %w", err)
	}
	fresh, _ := newFindings(found, slices.Concat(v.Findings, on.findings))
	for i := range fresh {
		fresh[i].Message += "; by the rules of the branch, which this changes"
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

// drives adds what is known of the disks that are erased.
func (r *Reviews) drives(ctx context.Context, v *site.Review, on *baseline) (err error) {
	on.shown, err = r.site.WithDrives(ctx, on.known, v.Destroys())
	return err
}
