package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/ledger"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/site"
)

// proposed is what was done about a proposal.
func (e *Engine) proposed(number int) record.Proposed {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.proposals[number]
	p.Number = number
	return p
}

// putProposed records what was done about a proposal in the place of what was
// recorded before. Where that has become another meanwhile it changes nothing.
func (e *Engine) putProposed(ctx context.Context, was, is record.Proposed) error {
	e.proposing.Lock()
	defer e.proposing.Unlock()
	if !reflect.DeepEqual(was, e.proposed(was.Number)) {
		return nil
	}
	return e.putProposedLocked(ctx, is)
}

// putProposedLocked is called with proposing held.
func (e *Engine) putProposedLocked(ctx context.Context, is record.Proposed) error {
	if reflect.DeepEqual(is, e.proposed(is.Number)) {
		return nil
	}
	if err := e.Records.PutProposed(ctx, is); err != nil {
		return fmt.Errorf("record proposal %d: %w", is.Number, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if is.Empty() {
		delete(e.proposals, is.Number)
	} else {
		e.proposals[is.Number] = is
	}
	return nil
}

// after is what is recorded of a proposal once a comment that names a set takes
// the place of the last one. What that named is approved by no merge from here
// on, unless the new one names all of it, for the same commit; so whichever of
// the two is read until the new one is shown, it names that. What a fork was
// allowed for another commit is over, too.
func after(is record.Proposed, p site.Proposal, now reviewed) record.Proposed {
	if s := is.Shown; s != nil && (s.Head != p.Head || !containsAll(now.set, s.Losses)) {
		is.Shown = nil
	}
	is.Waiting = now.waiting
	if is.Allowed != p.Head {
		is.Allowed, is.AllowedBy = "", ""
	}
	return is
}

func containsAll(set, part site.Losses) bool {
	in := setOf(set)
	return !slices.ContainsFunc(part, func(l site.Loss) bool { return !in[l] })
}

// settle looks after proposals with a record that are not open any more: what
// the comment of a merged one named is approved, once, and people are told what
// comes of it. Every other is forgotten. One that cannot be settled is tried again
// in the next round, keeps no other back, and is a problem of the site when that
// lasts.
func (r *Reviews) settle(ctx context.Context, open []site.Proposal, base string) {
	r.turn.Lock()
	defer r.turn.Unlock()
	if !r.engine.hasDesign() {
		return // nothing can be approved before there is one
	}
	if r.base != base {
		r.base, r.lineages = base, map[lineage]bool{}
	}
	var errs []error
	for _, is := range r.engine.recorded() {
		number := is.Number
		if is.Landed == nil {
			err := r.settleOne(ctx, is, open, base)
			errs = append(errs, r.lasting(question{number, "settled"}, err))
			if err == nil {
				maps.DeleteFunc(r.doubts, func(q question, _ time.Time) bool { return q.number == number })
			}
			is = r.engine.proposed(number)
		}
		if is.Landed != nil {
			errs = append(errs, r.lasting(question{number, "followed"}, r.follow(ctx, is)))
		}
	}
	r.engine.setProblem("merges", errors.Join(errs...))
}

func (e *Engine) hasDesign() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.design != nil
}

func (e *Engine) recorded() []record.Proposed {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []record.Proposed
	for _, p := range e.proposals {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b record.Proposed) int { return a.Number - b.Number })
	return all
}

// settleOne asks what became of a proposal that is not among the open ones. The
// approval of what its comment named is recorded before that it has landed:
// after a death in between it is made once more, and is the same.
func (r *Reviews) settleOne(ctx context.Context, is record.Proposed, open []site.Proposal, base string) error {
	if slices.ContainsFunc(open, func(p site.Proposal) bool { return p.Number == is.Number && p.Base == r.Branch }) {
		return nil
	}
	p, err := r.Proposals.Proposal(ctx, is.Number)
	lost := question{is.Number, "found"}
	switch {
	case errors.Is(err, site.ErrNotFound) && r.isCertain(lost, lostFor): // as after the repository has become another one
		return r.drop(ctx, p, is, "the forge no longer has it")
	case errors.Is(err, site.ErrNotFound):
		return fmt.Errorf("pull request %d is not found, and the merged changes wait: Slipway asks for it until %s. "+
			"To approve it earlier, pass the digest that `slipway approve` shows: %w",
			is.Number, r.doubts[lost].Add(lostFor).UTC().Format("2006-01-02 15:04 MST"), err)
	case err != nil:
		return fmt.Errorf("ask what became of proposal %d: %w", is.Number, err)
	}
	delete(r.doubts, lost)
	if p.State == site.ProposalOpen && p.Base == r.Branch && p.Number == is.Number {
		return nil // it was opened again since, or the list is late
	}
	why := r.notApproved(p, is)
	if p.State == site.ProposalMerged && p.Merge == "" && !r.isCertain(question{is.Number, "commit"}, lateFor) {
		return fmt.Errorf("which commit the merge of proposal %d made: %w", is.Number, site.ErrNotYet)
	}
	if !r.isMerged(p, is) {
		return r.drop(ctx, p, is, why)
	}
	there, err := r.contains(ctx, base, p.Merge)
	switch {
	case err != nil:
		return err
	case !there && !p.MergedAt.IsZero() && time.Since(p.MergedAt) > ledger.Lasts:
		return r.drop(ctx, p, is, "the branch does not have its commit")
	case !there && why == "": // it is, soon; until then the comment stands as it was read
		return nil
	case !there: // it is, once the repository tells what the forge does, or never
		return r.tellLanding(ctx, site.Review{Proposal: p, Landing: &site.Landing{Waits: "the branch does not have the commit yet"}})
	case why == "":
		by, no, err := r.decidedBy(ctx, is)
		if err != nil {
			return err
		}
		p.MergedBy, why = cmp.Or(by, p.MergedBy), no
	}
	if why == "" {
		return r.engine.approveMerged(ctx, p, is)
	}
	r.approvesNothing(p, is, why)
	return r.engine.putProposed(ctx, is, unapproved(p, is, why))
}

// drop forgets a proposal that approves nothing and of which there will be no
// news.
func (r *Reviews) drop(ctx context.Context, p site.Proposal, is record.Proposed, why string) error {
	r.approvesNothing(p, is, why)
	r.forgetTold(is.Number)
	return r.engine.putProposed(ctx, is, record.Proposed{Number: is.Number})
}

// isMerged says whether a proposal of which people were told was merged into the
// branch.
func (r *Reviews) isMerged(p site.Proposal, is record.Proposed) bool {
	return p.Number == is.Number && p.State == site.ProposalMerged && p.Base == r.Branch && p.Merge != "" && (is.Told || is.Shown != nil)
}

// approvesNothing has history tell why a set that a comment named is approved by
// nobody.
func (r *Reviews) approvesNothing(p site.Proposal, is record.Proposed, why string) {
	if is.Shown != nil || is.ChangedAt(p.Head) != nil {
		r.engine.warn(site.Event{Kind: site.EventOrder, By: p.MergedBy,
			Text: fmt.Sprintf("merging pull request %d approves nothing: %s", is.Number, why)})
	}
}

// unapproved is what is recorded of a merged proposal that approves nothing.
func unapproved(p site.Proposal, is record.Proposed, why string) record.Proposed {
	landed := record.Landed{Proposal: p, Waiting: is.Waiting}
	if is.Shown != nil || is.ChangedAt(p.Head) != nil {
		landed.Unapproved = why
	}
	return record.Proposed{Number: is.Number, Landed: &landed}
}

// approveMerged records that what a merged proposal's comment named is approved
// once the merge is in force.
func (e *Engine) approveMerged(ctx context.Context, p site.Proposal, is record.Proposed) error {
	e.proposing.Lock()
	defer e.proposing.Unlock()
	if !reflect.DeepEqual(is, e.proposed(is.Number)) {
		return nil
	}
	return e.putProposedLocked(ctx, record.Proposed{Number: is.Number,
		Landed: &record.Landed{Proposal: p, Set: is.Shown.Digest, Pending: is.Shown.Losses, Waiting: is.Shown.Waiting}})
}

// openMerged opens the entries for what a merge approves, now that the merge
// commit is in force: for those of the losses that are planned and that nobody
// has approved. What has become another loss since it was read waits for a
// person.
func (e *Engine) openMerged(ctx context.Context, is record.Proposed) (record.Proposed, error) {
	e.booking.Lock()
	defer e.booking.Unlock()
	landed := *is.Landed
	p := landed.Proposal
	e.mu.Lock()
	waiting, _ := e.waitingLocked()
	set := common(landed.Pending, waiting)
	e.mu.Unlock()
	if len(set) > 0 {
		source := site.ApprovalSource{Kind: site.ByMerge, By: p.MergedBy, Proposal: p.Number, Commit: p.Merge, When: p.MergedAt}
		if err := e.openEntries(ctx, set, landed.Set, source, ""); err != nil {
			return is, err
		}
	}
	e.mu.Lock()
	for _, l := range landed.Pending {
		if slices.ContainsFunc(e.accounts[l.Node].Entries, func(x site.LedgerEntry) bool { return x.Loss == l }) {
			landed.Approved = append(landed.Approved, l)
		}
	}
	e.mu.Unlock()
	landed.Pending = nil
	is.Landed = &landed
	return is, nil
}

// disapprovePending takes back what merges have approved that are not in force
// yet, by the digest of the set or for one node. It says whether there was any.
func (e *Engine) disapprovePending(ctx context.Context, w *worker, o site.Order) (bool, error) {
	e.proposing.Lock()
	defer e.proposing.Unlock()
	any := false
	for _, is := range e.recorded() {
		if is.Landed == nil || len(is.Landed.Pending) == 0 {
			continue
		}
		landed := *is.Landed
		landed.Pending = slices.DeleteFunc(slices.Clone(landed.Pending), func(l site.Loss) bool {
			return w == nil && landed.Set == o.Digest || w != nil && l.Node == w.name
		})
		if len(landed.Pending) == len(is.Landed.Pending) {
			continue
		}
		any = true
		if len(landed.Pending) == 0 {
			landed.Unapproved = "it was taken back by " + o.By
		}
		is.Landed = &landed
		if err := e.putProposedLocked(ctx, is); err != nil {
			return any, err
		}
	}
	return any, nil
}

// notApproved says why a proposal that is not open approves nothing; empty
// when it approves what its comment named.
func (r *Reviews) notApproved(p site.Proposal, is record.Proposed) string {
	switch s := is.Shown; {
	case p.Number != is.Number:
		return fmt.Sprintf("Slipway asked the forge for proposal %d and got %d", is.Number, p.Number)
	case s == nil && is.ChangedAt(p.Head) != nil:
		return "others had changed its comment, and Slipway had not restored it yet: " + is.ChangedAt(p.Head).What
	case s == nil:
		return "its comment named nothing"
	case p.State != site.ProposalMerged:
		return "it was not merged"
	case p.Base != r.Branch:
		return "it was merged into another branch"
	case p.Head != s.Head:
		return fmt.Sprintf("its comment was about %s, and %s was merged", site.Revision{ID: s.Head}.Short(), site.Revision{ID: p.Head}.Short())
	case p.Merge == "":
		return "the forge does not say which commit the merge made"
	case s.Losses.Digest() != s.Digest:
		return "the record of its comment does not match its digest"
	}
	return ""
}
