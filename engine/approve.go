package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/ledger"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// undecided caches the planned losses that nobody has approved, with their digest, until
// something changes them.
type undecided struct {
	known  bool
	losses site.Losses
	digest string
}

// waitingLosses returns the losses that wait for a person, and their digest, which is empty if
// there are none. Slipway remembers the set as shown.
func (e *Engine) waitingLosses() (site.Losses, string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.waitingLocked()
}

func (e *Engine) waitingLocked() (site.Losses, string) {
	if e.undecided.known {
		return e.undecided.losses, e.undecided.digest
	}
	known := site.Known{Nodes: map[string]site.Memory{}, Accounts: e.accounts}
	var planned site.Losses
	for _, name := range e.namesLocked() {
		losses := e.workers[name].destroysLocked()
		if len(losses) > 0 {
			known.Nodes[name] = e.workers[name].memory
			planned = append(planned, losses...)
		}
	}
	e.undecided = undecided{known: true, losses: plan.Unapproved(planned, known)}
	if len(e.undecided.losses) > 0 {
		e.undecided.digest = e.undecided.losses.Digest()
		e.shownLocked(e.undecided.losses, e.undecided.digest)
	}
	return e.undecided.losses, e.undecided.digest
}

// planIsLocked takes over the node's plan. What waits for approval follows from it.
func (w *worker) planIsLocked(p site.NodePlan) {
	was := w.destroysLocked()
	if w.plan = p; !slices.Equal(was, w.destroysLocked()) {
		w.e.undecided.known = false
	}
}

// destroysLocked returns the losses in the node's plan.
func (w *worker) destroysLocked() site.Losses {
	if w.leaving {
		return nil
	}
	return losses(w.plan)
}

func losses(p site.NodePlan) site.Losses {
	all := site.Plan{Nodes: []site.NodePlan{p}}
	return all.Destroys()
}

// shownLocked remembers a set, so a person can approve it by its digest after another set has
// replaced it. The approval covers what the person read, as far as it still waits.
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

// approveSet approves the set that a person read, named by its digest: those of its losses that
// still wait.
func (e *Engine) approveSet(ctx context.Context, o site.Order) (string, error) {
	e.booking.Lock()
	defer e.booking.Unlock()
	set, waiting, now := e.shownAndWaiting(o.Digest)
	switch {
	case len(waiting) == 0:
		return "", fmt.Errorf("%w: nothing waits for approval", site.ErrRefused)
	case len(set) == 0:
		return "", fmt.Errorf("%w: nothing of a set %s waits for approval; what waits now is %s: read it with `slipway plan`", site.ErrRefused, o.Digest, now)
	}
	source := site.ApprovalSource{Kind: site.ByCommand, By: o.By, When: time.Now()}
	if o.Source != nil {
		source = *o.Source
	}
	if err := e.openEntries(ctx, set, o.Digest, source, o.Reason); err != nil {
		return "", err
	}
	left, next := e.waitingLosses()
	done := "Approved: " + erased(set)
	if len(left) > 0 {
		done += fmt.Sprintf(". %d more wait for approval, as set %s", len(left), next)
	}
	return done, nil
}

// shownAndWaiting returns the losses of a shown set that still wait, all losses that wait, and
// the digest of the latter.
func (e *Engine) shownAndWaiting(digest string) (set, waiting site.Losses, now string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	waiting, now = e.waitingLocked()
	return e.shown[digest].Both(waiting), waiting, now
}

// erased returns words for what an approval lets happen.
func erased(set site.Losses) string {
	var names []string
	for _, l := range set {
		if text := l.Node + " (" + l.Action + ")"; !slices.Contains(names, text) {
			names = append(names, text)
		}
	}
	return "data will be erased on " + some(names)
}

// openEntries opens an entry for each loss of a set. Call it with booking held.
func (e *Engine) openEntries(ctx context.Context, set site.Losses, digest string, source site.ApprovalSource, note string) error {
	if err := e.setClockBack(ctx); err != nil {
		return err
	}
	by := ledger.Approval{Set: digest, Source: source, Note: note, When: e.ledgerNow()}
	changed := map[string]site.Account{}
	e.mu.Lock()
	for _, l := range set {
		a, known := changed[l.Node]
		if !known {
			a = e.accountLocked(l.Node)
		}
		a, err := ledger.Open(a, l, by)
		if err != nil {
			e.mu.Unlock()
			return err
		}
		changed[l.Node] = a
	}
	e.mu.Unlock()
	// What Slipway saw of the machines is part of what is approved.
	if err := errors.Join(e.Records.Flush(ctx), e.putAccounts(ctx, changed)); err != nil {
		return fmt.Errorf("record approval: %w", err)
	}
	for _, l := range set {
		e.note(site.Event{Node: l.Node, Kind: site.EventOrder, By: source.By, Text: fmt.Sprintf("%s approved by %s", l.Action, source)})
	}
	e.note(site.Event{Kind: site.EventOrder, By: source.By, Text: fmt.Sprintf("set %s approved by %s: %s", digest, source, erased(set))})
	return nil
}

// approveFromDesign approves waiting losses if a line of the design has the digest of a set that
// was shown. Such an approval is used once, like any other: once it has ended, the same loss has
// another digest.
func (e *Engine) approveFromDesign(ctx context.Context) error {
	e.booking.Lock()
	defer e.booking.Unlock()
	for {
		set, digest, source, note := e.designedSet()
		if len(set) == 0 {
			return nil
		}
		if err := e.openEntries(ctx, set, digest, source, note); err != nil {
			return err
		}
	}
}

// designedSet returns waiting losses that a line of the design approves, with the approval's
// source and note. Only lines that count are used, see noteLines.
func (e *Engine) designedSet() (set site.Losses, digest string, source site.ApprovalSource, note string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	set, digest, line := e.designedSetLocked()
	return set, digest, site.ApprovalSource{Kind: site.ByDesign, By: line.By, Commit: e.applied.ID, When: time.Now()}, line.Note
}

func (e *Engine) designedSetLocked() (site.Losses, string, site.Approval) {
	if e.design == nil || len(e.design.Approvals) == 0 {
		return nil, "", site.Approval{}
	}
	waiting, _ := e.waitingLocked()
	for _, digest := range e.book.Lines {
		line, stands := e.design.Approvals[digest]
		if set := e.shown[digest].Both(waiting); stands && len(set) > 0 {
			return set, digest, line
		}
	}
	return nil, "", site.Approval{}
}

// disapprove ends approvals that were not used, by the digest of their set or for one node.
func (e *Engine) disapprove(ctx context.Context, w *worker, o site.Order) (string, error) {
	e.booking.Lock()
	defer e.booking.Unlock()
	nodes, only := e.accountNames(), ""
	if w != nil {
		nodes, only = []string{w.name}, w.name
	}
	var ended []string
	text := "taken back by " + o.By
	if o.Reason != "" {
		text += ": " + o.Reason
	}
	err := e.end(ctx, nodes, func(node string) ledger.Why {
		return func(x site.LedgerEntry) string {
			if w == nil && x.Set != o.Digest {
				return ""
			}
			if !slices.Contains(ended, node) {
				ended = append(ended, node)
			}
			return text
		}
	})
	if err != nil {
		return "", err
	}
	pending, err := e.proposals.TakeBack(ctx, o.Digest, only, o.By)
	switch {
	case err != nil:
		return "", err
	case len(ended) == 0 && !pending && w != nil:
		return "", fmt.Errorf("%w: nothing on %s is approved and not used", site.ErrRefused, w.name)
	case len(ended) == 0 && !pending:
		return "", fmt.Errorf("%w: nothing that is approved and not used has the digest %s: see `slipway approve`", site.ErrRefused, o.Digest)
	case len(ended) == 0 && w != nil:
		return "taken back: the merge approves nothing on " + w.name, nil
	case len(ended) == 0:
		return "taken back: the merge approves nothing", nil
	}
	return "taken back: the approval for " + strings.Join(ended, ", "), nil
}
