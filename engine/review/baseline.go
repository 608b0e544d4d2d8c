package review

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/placement"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/rollout"
	"github.com/slipway-gitops/slipway/engine/site"
)

// baseline is what the reviews of a round rest on: the branch without any
// proposal, and what is known of the machines.
type baseline struct {
	reviews *Reviews
	base    site.Revision

	asked    bool
	known    site.Known
	design   *site.Site // of the branch
	findings []site.Finding
	plan     site.Plan
	waiting  site.Losses // what the branch destroys
	// placed are the machines that have a place, by the design in force or by
	// the branch.
	placed map[string]site.Placed

	merged *site.Site // of the last proposal; nil when it has none
	shown  site.Known // what its comment is written with
}

// ask evaluates and plans the branch, once. Where its newest commit is broken
// the design in force stands for it.
func (f *baseline) ask(ctx context.Context) error {
	if f.asked {
		return nil
	}
	f.known = f.reviews.site.Known()
	design, findings, err := f.reviews.Evaluate(ctx, f.base)
	if err != nil {
		return fmt.Errorf("evaluate branch %s: %w", f.reviews.Branch, err)
	}
	design, findings = placement.PlaceEvaluated(design, findings, f.known.Placed)
	if site.HasErrors(findings) || design == nil {
		design, _ = f.reviews.site.Design()
	}
	f.design, f.findings, f.asked, f.placed = design, findings, true, f.known.Placed
	if design != nil {
		f.placed = placement.With(design, f.known.Placed)
		f.plan = plan.Site(design, f.base.ID, f.known)
		f.waiting = f.plan.Destroys()
	}
	return nil
}

// plan plans a proposal as if it were merged.
func (r *Reviews) plan(ctx context.Context, v *site.Review, on *baseline) error {
	on.merged, on.shown = nil, on.known
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
	if err := r.judge(ctx, v, m.Result, on, design); err != nil || !v.Planned() {
		return err
	}
	on.merged = design
	on.differ(v)
	return r.drives(ctx, v, on)
}

// judge holds a proposal that changes policies or suppressions against those of
// the branch, which are in force until it is merged. What the branch is found
// to have as well is nothing of the proposal's.
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

// mayJudgeItself says whether a merged design may be held against other policies
// and suppressions than the branch's.
func mayJudgeItself(branch, merged *site.Site) bool {
	if branch == nil || len(branch.Policies)+len(branch.Suppressions)+len(merged.Suppressions) == 0 {
		return false
	}
	return branch.Ruling == "" || branch.Ruling != merged.Ruling
}

// differ puts into a review what its merged design brings about.
func (f *baseline) differ(v *site.Review) {
	all := plan.Site(f.merged, v.Proposal.Head, f.known)
	v.Plan, v.Pending, v.Spared = plan.Beyond(&f.plan, &all)
	v.Waiting = f.waiting
	v.Plan.Forecast = rollout.Forecast(f.merged, &v.Plan, f.known, v.When)
}

// drives adds what is known of the disks that are erased.
func (r *Reviews) drives(ctx context.Context, v *site.Review, on *baseline) (err error) {
	on.shown, err = r.site.WithDrives(ctx, on.known, v.Destroys())
	return err
}

// hindrances are the findings to be told of a design that cannot be planned: its
// own, and the errors of the branch, which keep it from being planned as well.
func hindrances(all, before []site.Finding) (told []site.Finding, common int) {
	var others []site.Finding
	for _, f := range all {
		if f.Severity == site.SeverityError {
			told = append(told, f)
		} else {
			others = append(others, f)
		}
	}
	fresh, common := newFindings(others, before)
	return append(told, fresh...), common
}

// newFindings are those that others do not have, wherever their lines have
// moved to, and how many they have in common.
func newFindings(all, before []site.Finding) (fresh []site.Finding, common int) {
	type key struct {
		code, file, path, node, message string
		severity                        site.Severity // a warning excuses no error
	}
	keyOf := func(f site.Finding) key { return key{f.Code, f.File, f.Path, f.Node, f.Message, f.Severity} }
	had := map[key]bool{}
	for _, f := range before {
		had[keyOf(f)] = true
	}
	for _, f := range all {
		if had[keyOf(f)] {
			common++
		} else {
			fresh = append(fresh, f)
		}
	}
	return fresh, common
}

// changedRules says what of the rules that designs and rollouts are held to is
// not as on the branch.
func changedRules(branch, merged *site.Site) []string {
	if branch == nil {
		return nil
	}
	var all []string
	if !reflect.DeepEqual(branch.Rollout, merged.Rollout) {
		all = append(all, "rollout")
	}
	if was, is := branch.Install, merged.Install; was != is {
		text := "how machines are installed (site.install)"
		if is.Allows(site.TrustNetwork) && !was.Allows(site.TrustNetwork) {
			text += `, also at the trust "network", where whoever controls their network could pose as the daemon`
		}
		all = append(all, text)
	}
	for _, part := range []struct {
		name    string
		changed []string
	}{
		{"policies", changedKeys(branch.Policies, merged.Policies)},
		{"suppressions", changedKeys(branch.Suppressions, merged.Suppressions)},
		{"approvals", changedKeys(branch.Approvals, merged.Approvals)},
		{"site keys", changedItems(branch.Keys, merged.Keys)},
		{"credentials", changedKeys(branch.Credentials, merged.Credentials)},
		{"roles", changedKeys(branch.Roles, merged.Roles)},
		{"racks", changedKeys(branch.Racks, merged.Racks)},
		{"windows", changedKeys(branch.Windows, merged.Windows)},
	} {
		if len(part.changed) > 0 {
			all = append(all, part.name+": "+strings.Join(part.changed, ", "))
		}
	}
	if reworded := len(branch.Policies) > 0 && branch.Ruling != "" && branch.Ruling != merged.Ruling; reworded {
		all = append(all, "the text of policies or suppressions, or what they refer to")
	}
	return all
}

// changedItems are those of two lists that only one of them has.
func changedItems(a, b []string) (changed []string) {
	for _, x := range slices.Concat(a, b) {
		if slices.Contains(a, x) != slices.Contains(b, x) {
			changed = append(changed, x)
		}
	}
	return changed
}

func changedKeys[V any](a, b map[string]V) (changed []string) {
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if v, ok := b[name]; !ok || !reflect.DeepEqual(a[name], v) {
			changed = append(changed, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if _, ok := a[name]; !ok {
			changed = append(changed, name)
		}
	}
	return changed
}
