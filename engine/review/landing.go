package review

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/site"
)

// countEvery is how long people wait for news that is only a rollout's progress,
// for each merged proposal that has one. So all of them together do not keep the
// forge busy.
const countEvery = time.Minute

// news is what people were last told of a merged proposal.
type news struct {
	landing     site.Landing // without the progress of its rollout
	held        site.Losses
	done, nodes int // progress of the rollout
	begun       int
	when        time.Time
}

// willFollow notes that people are going to be told of a proposal.
func (r *Reviews) willFollow(ctx context.Context, number int) error {
	r.deciding.Lock()
	defer r.deciding.Unlock()
	was := r.site.Recorded.Of(number)
	next := was
	next.Told = true
	return r.site.Recorded.Put(ctx, was, next)
}

// follow reports what came of a landed proposal, until there is nothing more to
// report. It records before it reports, and deletes the record after the last
// report. If the daemon dies in between, it reports the same again.
func (r *Reviews) follow(ctx context.Context, is record.Proposed) error {
	is, err := r.approve(ctx, is)
	if err != nil {
		return err
	}
	v, next, err := r.landing(ctx, is)
	if err != nil {
		return err
	}
	if err := r.site.Recorded.Put(ctx, is, next); err != nil {
		return err
	}
	if err := r.tellLanding(ctx, v); err != nil || !v.Landing.Done {
		return err
	}
	r.forgetTold(is.Number)
	return r.site.Recorded.Put(ctx, next, record.Proposed{Number: is.Number})
}

// approve opens the entries that a merge approves, once the revision in force has
// the merge commit. Before that another design is in force, which does not plan
// these losses.
func (r *Reviews) approve(ctx context.Context, is record.Proposed) (record.Proposed, error) {
	if len(is.Landed.Pending) == 0 {
		return is, nil
	}
	there, err := r.contains(ctx, r.site.Situation().Applied.ID, is.Landed.Proposal.Merge)
	if err != nil || !there {
		return is, err
	}
	landed := *is.Landed
	p := landed.Proposal
	by := site.ApprovalSource{Kind: site.ByMerge, By: p.MergedBy, Proposal: p.Number, Commit: p.Merge, When: p.MergedAt}
	open, err := r.site.Open(ctx, landed.Pending, landed.Set, by)
	if err != nil {
		return is, err
	}
	landed.Approved, landed.Pending = append(landed.Approved, open...), nil
	opened := is
	opened.Landed = &landed
	return opened, r.site.Recorded.Put(ctx, is, opened)
}

// landing returns how far a landed proposal is, and what to record of it from here
// on.
func (r *Reviews) landing(ctx context.Context, is record.Proposed) (site.Review, record.Proposed, error) {
	now, landed := r.site.Situation(), *is.Landed
	there, err := r.contains(ctx, now.Applied.ID, landed.Proposal.Merge)
	if err != nil {
		return site.Review{}, is, err
	}
	first := there && landed.InForce.IsZero()
	if first {
		landed.Revision, landed.InForce = now.Applied.ID, now.When
	}
	if landed.Revision == now.Applied.ID { // losses of later revisions are not this proposal's
		landed.Held = landed.Held.With(now.Waiting.Without(landed.Waiting))
	}
	is.Landed = &landed
	approved := landed.Approved.With(landed.Pending)
	v := site.Review{Proposal: landed.Proposal, Base: landed.Revision, Approved: approved, Held: landed.Held.Both(now.Waiting), Landing: &site.Landing{
		Unapproved: landed.Unapproved, Revision: landed.Revision, InForce: landed.InForce, Asked: landed.Held, ObserveOnly: now.ReadOnly}}
	if landed.InForce.IsZero() {
		return v, is, r.waits(ctx, v.Landing, landed.Proposal.Merge, now)
	}
	return v, is, r.rollsOut(ctx, &v, &landed, first, now)
}

// waits sets what a landed proposal waits for before it is in force.
func (r *Reviews) waits(ctx context.Context, l *site.Landing, merge string, now Situation) (err error) {
	switch {
	case now.Queued != "":
		l.Waits = now.Queued
	case now.Broken != "":
		l.Waits = now.Broken
		l.Refused, err = r.contains(ctx, now.Attempted.ID, merge)
	default:
		l.Waits = "Slipway is about to evaluate the merged design"
	}
	return err
}

// rollsOut sets how a proposal in force reaches the machines: by the first rollout
// that has it. A later rollout is not its own, unless it replaced that one before
// all nodes were done, or is of the same revision.
func (r *Reviews) rollsOut(ctx context.Context, v *site.Review, landed *record.Landed, first bool, now Situation) error {
	own := landed.Rollout
	if own != nil {
		if i := slices.IndexFunc(now.Ended, func(o site.RolloutStatus) bool { return o.Since.Equal(own.Since) }); i >= 0 {
			own = &now.Ended[i]
		}
	}
	last := now.Rollout
	if last != nil {
		has, err := r.contains(ctx, last.Revision.ID, v.Proposal.Merge)
		if err != nil {
			return err
		}
		same := own != nil && (own.Since.Equal(last.Since) || own.Ended.IsZero())
		if has && (first || same || last.Revision.ID == landed.Revision) {
			own = last
			v.Landing.Stuck = now.Stuck
			v.Landing.Machines = now.Machines
		}
	}
	v.Landing.Rollout = own
	v.Landing.Done = (own == nil || !own.Ended.IsZero()) && len(v.Held) == 0
	if own != nil && own.Ended.IsZero() { // its progress changes all the time
		own = &site.RolloutStatus{Revision: own.Revision, Since: own.Since}
	}
	landed.Rollout = own
	return nil
}

// contains asks the branch whether a revision has a commit in its history, once for
// each state of the branch: a new state may know more commits. Call it with
// deciding held.
func (r *Reviews) contains(ctx context.Context, revision, commit string) (bool, error) {
	if revision == "" || commit == "" {
		return false, nil
	}
	k := lineage{revision, commit}
	if has, known := r.lineages[k]; known {
		return has, nil
	}
	has, err := r.Merger.Contains(ctx, revision, commit)
	if err != nil {
		return false, fmt.Errorf("look for commit %s in %s: %w", commit, revision, err)
	}
	r.lineages[k] = has
	return has, nil
}

// lineage is the question whether a revision has a commit in its history.
type lineage struct{ revision, commit string }

// tellLanding reports on a merged proposal, if there is news.
func (r *Reviews) tellLanding(ctx context.Context, v site.Review) error {
	v.Site, v.When = r.site.Name, time.Now()
	is, fresh := r.newsOf(&v)
	if !fresh {
		return nil
	}
	detail, err := r.site.Detail(ctx, v.Held, v.Approved)
	if err != nil {
		return err
	}
	if v.Landing.Machines != nil {
		v.Landing.Expected = r.site.Ends(v.When)
	}
	v.Landing.Lines = detail.Lines
	view := present.View{Known: detail.Known, Now: v.When}
	if r.Pages != nil && v.Landing.Revision != "" {
		view.Pages = r.Pages(v.Landing.Revision)
	}
	var w bytes.Buffer
	v.Whole = present.Landed(&w, &v, view)
	v.Verdict, v.Comment, v.Call = present.Verdict(&v), w.String(), present.Call(&v)
	if v.Whole {
		r.site.Show(v.Held)
	}
	if err := r.Announce.Announce(ctx, v); err != nil {
		return fmt.Errorf("report on proposal %d: %w", v.Proposal.Number, err)
	}
	r.site.Listing.landed(v)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told[v.Proposal.Number] = is
	return nil
}

// newsOf returns the news of a merged proposal, and whether to report it.
func (r *Reviews) newsOf(v *site.Review) (is news, fresh bool) {
	is = news{landing: *v.Landing, held: v.Held, when: v.When}
	if o := v.Landing.Rollout; o != nil {
		quiet := *o
		is.done, is.nodes = o.Done, len(o.Nodes)
		quiet.Done, quiet.Nodes = 0, nil
		is.landing.Rollout = &quiet
	}
	is.landing.Machines = nil
	for _, m := range v.Landing.Machines {
		if m.State != site.MachineWaiting {
			is.begun++
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	was, known := r.told[v.Proposal.Number]
	if !known || !reflect.DeepEqual(was.landing, is.landing) || !slices.Equal(was.held, is.held) {
		return is, true
	}
	soon := is.when.Sub(was.when) < time.Duration(len(r.told))*countEvery
	return is, !soon && (was.done != is.done || was.nodes != is.nodes || was.begun != is.begun)
}

func (r *Reviews) forgetTold(number int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.told, number)
}
