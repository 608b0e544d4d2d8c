package review

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/ledger"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/site"
)

// after returns the record of a proposal once a comment that names a new set
// replaces the last one. From here on no merge approves the old set, unless the
// new set contains all of it, for the same commit. So until the new comment is
// shown, both comments name the recorded set. A fork's permission for another
// commit ends too.
func after(is record.Proposed, p site.Proposal, now reviewed) record.Proposed {
	if s := is.Shown; s != nil && (s.Head != p.Head || !now.set.ContainsAll(s.Losses)) {
		is.Shown = nil
	}
	is.Waiting = now.waiting
	if is.Allowed != p.Head {
		is.Allowed, is.AllowedBy = "", ""
	}
	return is
}

// settle handles recorded proposals that are no longer open. It approves, once,
// what a merged proposal's comment named, and people are told what comes of it.
// All others are forgotten. A proposal that cannot be settled is retried in the
// next round, delays no other, and becomes a problem of the site if that lasts.
func (r *Reviews) settle(ctx context.Context, open []site.Proposal, base string) {
	r.deciding.Lock()
	defer r.deciding.Unlock()
	if r.site.Design() == nil {
		return // nothing can be approved before there is a design
	}
	if r.base != base {
		r.base, r.lineages = base, map[lineage]bool{}
	}
	var errs []error
	for _, is := range r.site.Recorded.All() {
		number := is.Number
		if is.Landed == nil {
			err := r.settleOne(ctx, is, open, base)
			errs = append(errs, r.lasting(question{number, "settled"}, err))
			if err == nil {
				maps.DeleteFunc(r.doubts, func(q question, _ time.Time) bool { return q.number == number })
			}
			is = r.site.Recorded.Of(number)
		}
		if is.Landed != nil {
			errs = append(errs, r.lasting(question{number, "followed"}, r.follow(ctx, is)))
		}
	}
	r.site.Problem("merges", errors.Join(errs...))
}

// settleOne asks what became of a proposal that is not among the open ones. It
// records the landed proposal together with what its comment named as pending
// approval.
func (r *Reviews) settleOne(ctx context.Context, is record.Proposed, open []site.Proposal, base string) error {
	if slices.ContainsFunc(open, func(p site.Proposal) bool { return p.Number == is.Number && p.Base == r.Branch }) {
		return nil
	}
	p, err := r.Proposals.Proposal(ctx, is.Number)
	lost := question{is.Number, "found"}
	switch {
	case errors.Is(err, site.ErrNotFound) && r.isCertain(lost, lostFor): // for example, the repository was replaced
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
		return nil // reopened since, or the list is late
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
	case !there && why == "": // the branch will have it soon; until then the comment stays as it was read
		return nil
	case !there: // the branch will have it once the repository catches up with the forge, or never
		return r.tellLanding(ctx, site.Review{Proposal: p, Landing: &site.Landing{Waits: "the branch does not have the commit yet"}})
	case why == "":
		by, no, err := r.decidedBy(ctx, is)
		if err != nil {
			return err
		}
		p.MergedBy, why = cmp.Or(by, p.MergedBy), no
	}
	if why == "" {
		return r.site.Recorded.Put(ctx, is, record.Proposed{Number: is.Number,
			Landed: &record.Landed{Proposal: p, Set: is.Shown.Digest, Pending: is.Shown.Losses, Waiting: is.Shown.Waiting}})
	}
	r.approvesNothing(p, is, why)
	return r.site.Recorded.Put(ctx, is, unapproved(p, is, why))
}

// drop forgets a proposal that approves nothing and of which there will be no
// news.
func (r *Reviews) drop(ctx context.Context, p site.Proposal, is record.Proposed, why string) error {
	r.approvesNothing(p, is, why)
	r.forgetTold(is.Number)
	r.site.Listing.drop(is.Number, p)
	return r.site.Recorded.Put(ctx, is, record.Proposed{Number: is.Number})
}

// isMerged reports whether a proposal that people were told of was merged into the
// branch.
func (r *Reviews) isMerged(p site.Proposal, is record.Proposed) bool {
	return p.Number == is.Number && p.State == site.ProposalMerged && p.Base == r.Branch && p.Merge != "" && (is.Told || is.Shown != nil)
}

// approvesNothing adds an event that says why nobody approves a set that a comment
// named.
func (r *Reviews) approvesNothing(p site.Proposal, is record.Proposed, why string) {
	if is.Shown != nil || is.ChangedAt(p.Head) != nil {
		r.site.Warn(site.Event{Kind: site.EventOrder, By: p.MergedBy,
			Text: fmt.Sprintf("merging pull request %d approves nothing: %s", is.Number, why)})
	}
}

// unapproved returns what to record of a merged proposal that approves nothing.
func unapproved(p site.Proposal, is record.Proposed, why string) record.Proposed {
	landed := record.Landed{Proposal: p, Waiting: is.Waiting}
	if is.Shown != nil || is.ChangedAt(p.Head) != nil {
		landed.Unapproved = why
	}
	return record.Proposed{Number: is.Number, Landed: &landed}
}

// notApproved returns why a proposal that is not open approves nothing; empty if
// it approves what its comment named.
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
