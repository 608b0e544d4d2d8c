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
	"github.com/slipway-gitops/slipway/engine/record"
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
	known := site.Known{Nodes: map[string]site.Memory{}, Accounts: e.accounts, Records: e.book.Records}
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

// approveNode allows a node's removal, its first disruption, or the first changes inside its
// system. It also accepts the system on the machine as the installed one, or the list of what
// Slipway made there.
func (e *Engine) approveNode(ctx context.Context, w *worker, o site.Order) (string, error) {
	e.mu.Lock()
	leaving, a, p := w.leaving, w.memory.Recorded.Adopted, w.plan
	digest, disowned := plan.Disowned(w.memory)
	// A person approves the changes inside a system that the plan shows.
	inside := !w.memory.Recorded.Installed.ByUs() && slices.ContainsFunc(p.Steps, func(s site.Step) bool { return site.IsInside(s.Facet) })
	e.mu.Unlock()
	switch {
	case leaving && w.busy():
		return "", fmt.Errorf("%w: a step on %s was begun and not finished; it is not removed until then", site.ErrRefused, w.name)
	case leaving:
		e.countRemoval(w.name)
		return "removed " + w.name + " from the records; its machine was not changed", e.remove(ctx, w)
	case p.Foreign != "" || p.Unproven != "":
		return w.acceptSystem(ctx, o)
	case a != nil && a.Settled.IsZero():
		defer w.wakeUp()
		return w.name + " may be disrupted to be as designed", w.save(ctx, settled(inside))
	case a != nil && a.Inside.IsZero() && inside:
		defer w.wakeUp()
		return "the system of " + w.name + " may be changed to be as designed", w.save(ctx, settled(true))
	case disowned:
		defer w.wakeUp()
		what := "the list on " + w.name + " of what Slipway made is accepted; Slipway removes what left the design"
		if digest == "" {
			what = "a new list of what Slipway makes begins on " + w.name + "; what it made before stays there even when it leaves the design"
		}
		return what,
			w.save(ctx, func(r *site.Recorded) { r.Owned = site.Owned{Digest: digest} })
	}
	return "", fmt.Errorf("%w: nothing to approve for %s. To approve destructive steps, pass the digest that `slipway approve` shows", site.ErrRefused, w.name)
}

// countRemoval counts the removal of a node against the budget of removals.
func (e *Engine) countRemoval(node string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.removals = append(e.removals, record.Removal{Node: node, When: time.Now()})
}

// acceptSystem takes the system that answers as the one installed on the node, because a person
// says so.
func (w *worker) acceptSystem(ctx context.Context, o site.Order) (string, error) {
	j := w.job()
	mk := j.memory.Observed.Marker
	generation, image := plan.AcceptedGeneration(j.node, j.memory), ""
	if mk != nil {
		image = mk.Image
	}
	given := site.FirstBoot{HostKeys: w.e.publishedKeys(w.name)}
	err := w.save(ctx, func(r *site.Recorded) {
		if r.Installed != nil {
			given = r.Installed.FirstBoot
		}
		r.Installed = &site.Installation{Generation: generation, Image: image, Since: time.Now(), Proven: true, Reported: mk != nil, Accepted: mk.Digest(), FirstBoot: given}
		r.Owned = site.Owned{}
		if r.Adopted != nil { // nobody has seen the inside of this system as designed
			a := *r.Adopted
			a.Inside = time.Time{}
			r.Adopted = &a
		}
	})
	if err != nil {
		return "", err
	}
	w.wakeUp()
	return fmt.Sprintf("the system on %s is accepted and counts as generation %d", w.name, generation), nil
}
