package review

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/retry"
	"github.com/slipway-gitops/slipway/engine/site"
)

// review plans one proposal and reports on it.
func (r *Reviews) review(ctx context.Context, p site.Proposal, on *baseline) error {
	on.merged, on.shown, on.nodes = nil, on.known, nil
	v := site.Review{Site: r.site.Name, Proposal: p, Base: on.base.ID, When: time.Now()}
	allowed, early, asks := r.mayPlan(p), !r.site.HasMetAll(), r.asksFor(p.Number)
	var err error
	if allowed {
		err = r.planWithin(ctx, &v, on)
	} else {
		v.Problem = "it comes from a fork; Slipway plans it after somebody with write access allows this commit"
		v.Allow = p.Head
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, site.ErrMoved), errors.Is(err, errDone):
		r.pass(p, v.Base, allowed) // the next listing shows what became of it
		return nil
	}
	is := r.tried(p, v.Base, allowed, err)
	is.waiting, is.early, is.asks = on.waiting, early, asks
	if on.merged != nil {
		is.files = on.merged.FileDigests()
	}
	if err != nil {
		v.Problem, v.Ours = "it could not be planned: "+retry.Steady(err)+"; Slipway tries again", true
		r.site.Log.Warn("proposal not planned", "proposal", p.Number, "revision", p.Head, "err", err)
	}
	if is.problem = v.Problem; r.failsAlike(p, is) {
		return nil // people know already
	}
	v.Grown = r.grown(&v, asks)
	if c := r.site.Recorded.Of(p.Number).ChangedAt(p.Head); c != nil {
		v.Call = present.ChangedCall(&v, c.What, c.When)
	}
	r.planner().write(&v, on)
	if is.named = v.Planned() && v.Whole; is.named {
		is.set = v.Approves()
	}
	if len(is.set) > 0 {
		v.Set = is.set.Digest()
	}
	if r.waitsForDisks(p, &is) {
		return nil // people know already
	}
	return r.tell(ctx, v, is, on)
}

// waitsForDisks lets a proposal be planned again soon while it erases disks that Slipway has
// not read yet, which nobody can approve. It reports whether people were told the same before.
func (r *Reviews) waitsForDisks(p site.Proposal, is *reviewed) (told bool) {
	if !slices.ContainsFunc(is.set, func(l site.Loss) bool { return l.Disks == "" }) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.done[p.Number]
	is.unread = was.unread + 1
	is.again = time.Now().Add(retry.Backoff(is.unread))
	if was.unread == 0 || was.head != is.head || was.base != is.base || was.asks != is.asks || was.early != is.early || was.set.Digest() != is.set.Digest() {
		return false
	}
	r.done[p.Number] = *is
	return true
}

// planWithin is plan with a timeout.
func (r *Reviews) planWithin(ctx context.Context, v *site.Review, on *baseline) error {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	return r.plan(ctx, v, on)
}

// failsAlike reports whether a review of the same commits has failed again for
// the same reason, and notes it.
func (r *Reviews) failsAlike(p site.Proposal, is reviewed) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.done[p.Number]
	if is.failures < 2 || was.head != is.head || was.base != is.base || was.problem != is.problem {
		return false
	}
	r.done[p.Number] = is
	return true
}

// tried returns a review of a proposal. After an error it is due again after a
// backoff.
func (r *Reviews) tried(p site.Proposal, base string, allowed bool, err error) reviewed {
	is := reviewed{head: p.Head, base: base, allowed: allowed}
	if err != nil {
		r.mu.Lock()
		is.failures = r.done[p.Number].failures + 1
		r.mu.Unlock()
		is.again = time.Now().Add(retry.Backoff(is.failures))
	}
	return is
}

// pass skips a proposal for a while: it has changed since the open proposals
// were listed.
func (r *Reviews) pass(p site.Proposal, base string, allowed bool) {
	is := r.tried(p, base, allowed, site.ErrMoved)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done[p.Number] = is
}

// tell announces a review. From now on no merge approves what the comment named
// so far, unless this review names all of it too.
func (r *Reviews) tell(ctx context.Context, v site.Review, is reviewed, on *baseline) error {
	open, err := r.replace(ctx, v.Proposal, is)
	if err != nil || !open {
		return err
	}
	if err := r.Announce.Announce(ctx, v); err != nil {
		r.mu.Lock()
		delete(r.done, v.Proposal.Number)
		r.mu.Unlock()
		return fmt.Errorf("report on proposal %d: %w", v.Proposal.Number, err)
	}
	r.site.Listing.planned(v, on.nodes, on.racks())
	return nil
}

// replace records a review in place of the last one. It reports whether the
// proposal is still open, if that matters: a merged proposal is approved as it
// was read.
func (r *Reviews) replace(ctx context.Context, p site.Proposal, is reviewed) (open bool, err error) {
	r.deciding.Lock()
	defer r.deciding.Unlock()
	was := r.site.Recorded.Of(p.Number)
	next := after(was, p, is)
	if is.named && r.namesAnew(was, p, is.asks) {
		next.Named = &record.Named{Head: p.Head, Losses: is.set}
	}
	if next.Shown == nil && was.Shown != nil {
		if open, err := r.stillOpen(ctx, p.Number, ""); err != nil || !open {
			return false, err
		}
	}
	if err := r.site.Recorded.Put(ctx, was, next); err != nil {
		return false, err
	}
	r.setDone(p.Number, is)
	return true, nil
}

// setDone notes a recorded review as the last one of a proposal.
func (r *Reviews) setDone(number int, is reviewed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if is.named {
		r.answered[number] = is.asks
	}
	if r.asks[number] == is.asks { // nobody has asked for another plan meanwhile
		r.done[number] = is
	}
}

func (r *Reviews) asksFor(number int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asks[number]
}

// namesAnew reports whether a plan is the first of a proposal's commit, or one
// that somebody asked for: nothing in it counts as added later.
func (r *Reviews) namesAnew(was record.Proposed, p site.Proposal, asks int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return was.Named == nil || was.Named.Head != p.Head || r.answered[p.Number] != asks
}

// grown returns the losses of a review that its comment did not name at first.
func (r *Reviews) grown(v *site.Review, asks int) site.Losses {
	was := r.site.Recorded.Of(v.Proposal.Number)
	if !v.Planned() || r.namesAnew(was, v.Proposal, asks) {
		return nil
	}
	return v.Destroys().Without(was.Named.Losses)
}

// stillOpen asks whether a proposal is open, and at a commit if head is not
// empty.
func (r *Reviews) stillOpen(ctx context.Context, number int, head string) (bool, error) {
	p, err := r.Proposals.Proposal(ctx, number)
	if err != nil {
		return false, fmt.Errorf("ask what became of proposal %d: %w", number, err)
	}
	return p.Number == number && p.State == site.ProposalOpen && p.Base == r.Branch && (head == "" || p.Head == head), nil
}

var errDone = errors.New("the branch has it already")
