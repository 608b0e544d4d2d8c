package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

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
// comes of it. Every other is forgotten.
func (r *Reviews) settle(ctx context.Context, open []site.Proposal, base string) error {
	r.turn.Lock()
	defer r.turn.Unlock()
	if !r.engine.hasDesign() {
		return nil // nothing can be approved before there is one
	}
	if r.base != base {
		r.base, r.lineages = base, map[lineage]bool{}
	}
	var errs []error
	for _, is := range r.engine.recorded() {
		if is.Landed == nil {
			errs = append(errs, r.settleOne(ctx, is, open, base))
			is = r.engine.proposed(is.Number)
			if is.Landed != nil && len(is.Landed.Approved) > 0 {
				continue // its machines take notice of that meanwhile
			}
		}
		if is.Landed != nil {
			errs = append(errs, r.follow(ctx, is))
		}
	}
	return errors.Join(errs...)
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
	switch {
	case errors.Is(err, site.ErrNotFound): // as after the repository has become another one
		return r.drop(ctx, p, is, "the forge does not have it any more")
	case err != nil:
		return fmt.Errorf("ask what became of proposal %d: %w", is.Number, err)
	case p.State == site.ProposalOpen && p.Base == r.Branch && p.Number == is.Number:
		return nil // it was opened again since
	}
	why := r.notApproved(p, is)
	if !r.isMerged(p, is) {
		return r.drop(ctx, p, is, why)
	}
	there, err := r.contains(ctx, base, p.Merge)
	switch {
	case err != nil:
		return err
	case !there && !p.MergedAt.IsZero() && time.Since(p.MergedAt) > approvalLasts:
		return r.drop(ctx, p, is, "the branch does not have its commit")
	case !there && why == "": // it is, soon; until then the comment stands as it was read
		return nil
	case !there: // it is, once the repository tells what the forge does, or never
		return r.tellLanding(ctx, site.Review{Proposal: p, Landing: &site.Landing{Waits: "the branch does not have the commit yet"}})
	case why == "":
		if why, err = r.isGone(ctx, is); err != nil {
			return err
		}
	}
	if why == "" {
		return r.engine.approveMerged(ctx, p, is)
	}
	r.approvesNothing(p, is, why)
	return r.engine.putProposed(ctx, is, unapproved(p, is, why))
}

// isGone says why what a comment named is not approved although it was merged:
// that it is not to be read any more. It is empty when it is.
func (r *Reviews) isGone(ctx context.Context, is record.Proposed) (string, error) {
	stands, err := r.Announce.Stands(ctx, is.Number, is.Shown.Digest)
	if err != nil {
		return "", fmt.Errorf("look for the comment on proposal %d: %w", is.Number, err)
	}
	if !stands {
		return "its comment was deleted, or edited so that it does not name the set", nil
	}
	return "", nil
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
	if is.Shown != nil {
		r.engine.note(site.Event{Kind: site.EventOrder, By: p.MergedBy, Text: fmt.Sprintf("proposal %d approves nothing: %s", is.Number, why)})
	}
}

// unapproved is what is recorded of a merged proposal that approves nothing.
func unapproved(p site.Proposal, is record.Proposed, why string) record.Proposed {
	landed := record.Landed{Proposal: p, Waiting: is.Waiting}
	if is.Shown != nil {
		landed.Unapproved = why
	}
	return record.Proposed{Number: is.Number, Landed: &landed}
}

// approveMerged approves what a merged proposal's comment named, unless a node
// of it was removed meanwhile.
func (e *Engine) approveMerged(ctx context.Context, p site.Proposal, is record.Proposed) error {
	e.proposing.Lock()
	defer e.proposing.Unlock()
	if !reflect.DeepEqual(is, e.proposed(is.Number)) {
		return nil
	}
	err := e.addApproval(ctx, is.Shown.Losses, record.Approval{By: p.MergedBy,
		Note: fmt.Sprintf("by merging proposal %d at %s", p.Number, site.Revision{ID: p.Head}.Short())})
	if err != nil {
		return err
	}
	return e.putProposedLocked(ctx, record.Proposed{Number: is.Number,
		Landed: &record.Landed{Proposal: p, Approved: is.Shown.Losses, Waiting: is.Shown.Waiting}})
}

// notApproved says why a proposal that is not open approves nothing; empty
// when it approves what its comment named.
func (r *Reviews) notApproved(p site.Proposal, is record.Proposed) string {
	switch s := is.Shown; {
	case p.Number != is.Number:
		return fmt.Sprintf("the forge tells of proposal %d in its place", p.Number)
	case s == nil:
		return "its comment named nothing"
	case p.State != site.ProposalMerged:
		return "it was not merged"
	case p.Base != r.Branch:
		return "it was merged into another branch"
	case p.Head != s.Head:
		return fmt.Sprintf("its comment was about %s, and %s was merged", site.Revision{ID: s.Head}.Short(), site.Revision{ID: p.Head}.Short())
	case p.Merge == "" || p.MergedBy == "":
		return "the forge does not say who merged it, and as which commit"
	case s.Losses.Digest() != s.Digest:
		return "what is recorded of its comment is not what its digest says"
	}
	return ""
}

// forgetShown drops what comments named where a node that is removed is in it.
func (e *Engine) forgetShown(ctx context.Context, node string) error {
	e.proposing.Lock()
	defer e.proposing.Unlock()
	for _, p := range e.recorded() {
		if p.Shown == nil || !slices.ContainsFunc(p.Shown.Losses, func(l site.Loss) bool { return l.Node == node }) {
			continue
		}
		p.Shown = nil
		if err := e.putProposedLocked(ctx, p); err != nil {
			return err
		}
	}
	return nil
}
