package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/site"
)

// approval is an approval with what it covers, found at once.
type approval struct {
	record.Approval
	covers map[site.Loss]bool
}

func newApproval(a record.Approval) approval { return approval{a, setOf(a.Losses)} }

func setOf(all site.Losses) map[site.Loss]bool {
	in := make(map[site.Loss]bool, len(all))
	for _, l := range all {
		in[l] = true
	}
	return in
}

// approvalLasts is how long an approval by command holds.
const approvalLasts = 7 * 24 * time.Hour

// maxSets bounds how many sets of destruction are remembered as shown.
const maxSets = 256

// approvalGate lets a destructive step pass only when what it destroys is in
// a set that a person approved.
func (e *Engine) approvalGate(s site.Step) *held {
	loss, destroys := s.Destroys()
	switch {
	case !destroys || e.isApprovedLocked(loss) && e.adoptedLocked(loss):
		return nil
	case !e.adoptedLocked(loss):
		return &held{state: site.Blocked, release: "the machine telling its UUID or serial",
			sentence: fmt.Sprintf("%s waits until the machine says that it is %s", loss.Action, s.Machine)}
	}
	_, digest := e.waitingLocked()
	return &held{state: site.Blocked, person: true, release: "`slipway approve " + digest + "`, or that digest in the design's approvals",
		sentence: fmt.Sprintf("%s of %s waits for approval: %s would be lost; see `slipway plan`, then `slipway approve`", loss.Action, s.Machine, loss.Lost)}
}

// adoptedLocked says whether the node was met as the machine that the loss is
// of.
func (e *Engine) adoptedLocked(loss site.Loss) bool {
	w := e.workers[loss.Node]
	return w != nil && w.memory.Recorded.Adopted != nil && loss.Machine.Matches(w.memory.Recorded.Adopted.Machine)
}

func (e *Engine) isApprovedLocked(loss site.Loss) bool {
	return slices.ContainsFunc(e.approved, func(a approval) bool { return a.covers[loss] && e.holdsLocked(a) })
}

// unapprove takes a node that is removed out of every approval: should the
// name and the machine come back, that is another life of the node.
func (e *Engine) unapprove(ctx context.Context, node string) error {
	e.mu.Lock()
	var changed []record.Approval
	for i, a := range e.approved {
		left := slices.DeleteFunc(slices.Clone(a.Losses), func(l site.Loss) bool { return l.Node == node })
		if len(left) < len(a.Losses) {
			a.Approval.Losses = left
			e.approved[i] = newApproval(a.Approval)
			changed = append(changed, a.Approval)
		}
	}
	for digest, set := range e.shown {
		if slices.ContainsFunc(set, func(l site.Loss) bool { return l.Node == node }) {
			delete(e.shown, digest)
			e.shownOrder = slices.DeleteFunc(e.shownOrder, func(d string) bool { return d == digest })
		}
	}
	e.undecided.known = false
	e.mu.Unlock()
	for _, a := range changed {
		if err := e.Records.Approve(ctx, a); err != nil {
			return err
		}
	}
	return e.forgetShown(ctx, node)
}

// holdsLocked says whether an approval still holds: one by command for some
// days, one in the design for as long as its line stands.
func (e *Engine) holdsLocked(a approval) bool {
	if a.Designed {
		_, stands := e.design.Approvals[a.Digest]
		return stands
	}
	return time.Since(a.When) < approvalLasts
}

// undecided is the set of destruction that is planned and not approved, with
// its digest, until something changes it or an approval ends.
type undecided struct {
	known  bool
	until  time.Time // the first end of an approval; zero for none
	losses site.Losses
	digest string
}

// waitingLocked is the set of destruction that is planned and not approved,
// with its digest, which is empty for none. It is remembered as shown.
func (e *Engine) waitingLocked() (site.Losses, string) {
	if u := e.undecided; u.known && (u.until.IsZero() || time.Now().Before(u.until)) {
		return e.undecided.losses, e.undecided.digest
	}
	var waiting site.Losses
	for _, name := range e.namesLocked() {
		for _, loss := range e.workers[name].destroysLocked() {
			if !e.isApprovedLocked(loss) {
				waiting = append(waiting, loss)
			}
		}
	}
	e.undecided = undecided{known: true, losses: waiting, until: e.firstEndLocked()}
	if len(waiting) > 0 {
		e.undecided.digest = waiting.Digest()
		e.shownLocked(waiting, e.undecided.digest)
	}
	return e.undecided.losses, e.undecided.digest
}

// firstEndLocked is when the next approval by command ends; zero for none.
func (e *Engine) firstEndLocked() (first time.Time) {
	for _, a := range e.approved {
		if ends := a.When.Add(approvalLasts); !a.Designed && ends.After(time.Now()) && (first.IsZero() || ends.Before(first)) {
			first = ends
		}
	}
	return first
}

// destroysLocked is what the node's plan destroys.
func (w *worker) destroysLocked() site.Losses {
	var losses site.Losses
	if w.leaving {
		return nil
	}
	for _, s := range w.plan.Steps {
		if loss, ok := s.Destroys(); ok {
			losses = append(losses, loss)
		}
	}
	return losses
}

// shownLocked remembers a set, so that it can be approved by its digest when a
// part of it is done or another set has taken its place: what is approved is
// what was read.
func (e *Engine) shownLocked(set site.Losses, digest string) {
	if _, known := e.shown[digest]; known {
		return
	}
	if len(e.shownOrder) == maxSets {
		delete(e.shown, e.shownOrder[0])
		e.shownOrder = e.shownOrder[1:]
	}
	e.shown[digest] = set
	e.shownOrder = append(e.shownOrder, digest)
}

// approveSet approves a set of destruction that was shown, named by its digest
// so that what is approved is what was read.
func (e *Engine) approveSet(ctx context.Context, o site.Order) (string, error) {
	e.mu.Lock()
	waiting, now := e.waitingLocked()
	set, shown := e.shown[o.Digest]
	e.mu.Unlock()
	switch {
	case len(waiting) == 0:
		return "", fmt.Errorf("%w: nothing waits for approval", site.ErrRefused)
	case !shown || !slices.ContainsFunc(set, waiting.Contains):
		return "", fmt.Errorf("%w: no set %s waits for approval; what waits now is %s: read it with `slipway plan`", site.ErrRefused, o.Digest, now)
	}
	if err := e.addApproval(ctx, set, record.Approval{By: o.By, Note: o.Reason}); err != nil {
		return "", err
	}
	e.mu.Lock()
	left, next := e.waitingLocked()
	e.mu.Unlock()
	done := fmt.Sprintf("approved %s: %d to destroy", o.Digest, len(set))
	if len(left) > 0 {
		done += fmt.Sprintf("; %d more wait, as set %s", len(left), next)
	}
	return done, nil
}

func (e *Engine) addApproval(ctx context.Context, set site.Losses, a record.Approval) error {
	a.Losses, a.Digest, a.When = set, set.Digest(), time.Now()
	e.forgetApprovals(ctx)
	if err := e.Records.Approve(ctx, a); err != nil {
		return fmt.Errorf("record approval: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.approved = append(slices.DeleteFunc(e.approved, func(b approval) bool { return b.Digest == a.Digest }), newApproval(a))
	e.undecided.known = false
	for _, loss := range set {
		if w := e.workers[loss.Node]; w != nil {
			w.wakeUp()
		}
	}
	e.Log.Info("destruction approved", "digest", set.Digest(), "by", a.By, "losses", len(set))
	e.note(site.Event{Kind: site.EventOrder, By: a.By, Text: fmt.Sprintf("destruction %s approved: %d to destroy", set.Digest(), len(set))})
	e.touch()
	return nil
}

// forgetApprovals takes approvals that have ended out of the records.
func (e *Engine) forgetApprovals(ctx context.Context) {
	e.mu.Lock()
	var kept, ended []approval
	for _, a := range e.approved {
		if _, stands := e.design.Approvals[a.Digest]; stands || e.holdsLocked(a) {
			kept = append(kept, a)
		} else {
			ended = append(ended, a)
		}
	}
	e.approved = kept
	e.mu.Unlock()
	for _, a := range ended {
		if err := e.Records.Disapprove(ctx, a.Digest); err != nil {
			e.Log.Warn("approval that has ended not forgotten", "digest", a.Digest, "err", err)
		}
	}
}

// approveFromDesign approves what the step is a part of, when the design names
// the digest of a set that was shown.
func (e *Engine) approveFromDesign(ctx context.Context, s site.Step) error {
	loss, destroys := s.Destroys()
	if !destroys {
		return nil
	}
	e.mu.Lock()
	set, a := e.designedSetLocked(loss)
	e.mu.Unlock()
	if set == nil {
		return nil
	}
	return e.addApproval(ctx, set, record.Approval{By: a.By + " in the design", Note: a.Note, Designed: true})
}

// designedSetLocked is a set with the loss that the design approves and that is
// not approved yet.
func (e *Engine) designedSetLocked(loss site.Loss) (site.Losses, site.Approval) {
	if e.design == nil || e.isApprovedLocked(loss) {
		return nil, site.Approval{}
	}
	e.waitingLocked() // what waits now counts as shown
	for digest, a := range e.design.Approvals {
		if set := e.setLocked(digest); set.Contains(loss) && !e.spentLocked(digest, loss) {
			return set, a
		}
	}
	return nil, site.Approval{}
}

// spentLocked says whether a set was approved for an earlier life of a node, as
// unapprove leaves it: the same words mean another machine by now, and a line of
// the design that has them approves that no more.
func (e *Engine) spentLocked(digest string, loss site.Loss) bool {
	return slices.ContainsFunc(e.approved, func(a approval) bool { return a.Digest == digest && !a.covers[loss] })
}

// setLocked is the set of a digest that was shown, or approved once.
func (e *Engine) setLocked(digest string) site.Losses {
	if set, shown := e.shown[digest]; shown {
		return set
	}
	for _, a := range e.approved {
		if a.Digest == digest {
			return a.Losses
		}
	}
	return nil
}

// approveNode ends a node's first contact, or lets its held removal go.
func (e *Engine) approveNode(ctx context.Context, w *worker, o site.Order) (string, error) {
	e.mu.Lock()
	leaving, a := w.leaving, w.memory.Recorded.Adopted
	e.mu.Unlock()
	switch {
	case leaving && w.busy():
		return "", fmt.Errorf("%w: a step on %s was begun and not finished; it is not removed before", site.ErrRefused, w.name)
	case leaving:
		e.mu.Lock()
		e.removals = append(e.removals, record.Removal{Node: w.name, When: time.Now()})
		e.mu.Unlock()
		return "removed " + w.name + " from the records; its machine is left as it is", e.remove(ctx, w)
	case a != nil && a.Settled.IsZero():
		e.Log.Info("first contact approved", "node", w.name, "by", o.By)
		defer w.wakeUp()
		return w.name + " may be disrupted to be as designed", w.save(ctx, settle)
	}
	return "", fmt.Errorf("%w: neither first contact nor a removal of %s waits for approval; a set of destruction is approved by its digest", site.ErrRefused, w.name)
}
