package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/ledger"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/retry"
	"github.com/slipway-gitops/slipway/engine/site"
)

// maxSets bounds how many sets of losses Slipway remembers as shown.
const maxSets = 256

// tendEvery is how often Slipway ends approvals that have expired.
const tendEvery = time.Minute

// account returns the node's account in the ledger.
func (e *Engine) account(node string) site.Account {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.accountLocked(node)
}

func (e *Engine) accountLocked(node string) site.Account {
	a := e.accounts[node]
	a.Records = e.book.Records
	return a
}

// setAccountLocked takes over an account after it was recorded. The losses in the node's plan get
// their numbers from the account.
func (e *Engine) setAccountLocked(node string, a site.Account) {
	e.accounts[node] = a
	e.undecided.known = false
	w := e.workers[node]
	if w == nil {
		return
	}
	w.memory.Account = e.accountLocked(node)
	w.planIsLocked(plan.Renumbered(w.plan, w.node, w.memory))
	w.status.Sealed = w.sealLocked()
	w.wakeUp()
}

// ledgerNow returns the time at which approvals are judged. It keeps running forward when the
// clock is set back, so setting the clock back revives no approval.
func (e *Engine) ledgerNow() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ledgerNowLocked()
}

func (e *Engine) ledgerNowLocked() time.Time {
	now := time.Now()
	if !e.reckoned.IsZero() {
		e.latest = e.latest.Add(now.Sub(e.reckoned))
	}
	if e.reckoned = now; now.Round(0).After(e.latest) {
		e.latest = now.Round(0)
	}
	return e.latest
}

// clockSlack is how far the clock may be behind the latest time seen and still count as right.
const clockSlack = time.Hour

// setClockBack adopts the clock's time if the ledger's time is ahead of it. Nobody knows how long
// ago the open approvals were given, so setClockBack ends them. Approving calls it, with booking
// held: an approval dated in the future would stay valid until then.
func (e *Engine) setClockBack(ctx context.Context) error {
	now, term, ahead := e.aheadOfClock()
	if !ahead {
		return nil
	}
	because := func(site.LedgerEntry) string {
		return "the clock was set back, so Slipway cannot tell how old the approval is"
	}
	if err := e.end(ctx, e.accountNames(), func(string) ledger.Why { return because }); err != nil {
		return err
	}
	if term != nil {
		term.SetBack(now)
	}
	e.reckonFrom(now)
	return nil
}

// aheadOfClock reports whether the ledger's time is ahead of the clock. It also returns the
// clock's time and the term, if any.
func (e *Engine) aheadOfClock() (now time.Time, term *record.Term, ahead bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now = time.Now().Round(0)
	return now, e.term.Term, e.ledgerNowLocked().Sub(now) > clockSlack
}

// reckonFrom continues the ledger's time from a given moment.
func (e *Engine) reckonFrom(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.latest, e.reckoned = now, time.Now()
}

// latestEntries is how long used or ended approvals are still shown.
const latestEntries = 7 * 24 * time.Hour

// ledgerLocked returns the open entries and those closed recently, oldest first.
func (e *Engine) ledgerLocked() []site.LedgerEntry {
	var all []site.LedgerEntry
	now := e.ledgerNowLocked()
	for _, a := range e.accounts {
		for _, x := range a.Entries {
			closed := x.Consumed
			if x.Ended.After(closed) {
				closed = x.Ended
			}
			if x.IsOpen() || now.Sub(closed) < latestEntries {
				all = append(all, x)
			}
		}
	}
	slices.SortFunc(all, func(a, b site.LedgerEntry) int {
		return cmp.Or(a.Opened.Compare(b.Opened), strings.Compare(a.Loss.Node, b.Loss.Node), strings.Compare(a.Loss.Action, b.Loss.Action))
	})
	return all
}

// putAccounts records accounts and takes them over. Call it with booking held.
func (e *Engine) putAccounts(ctx context.Context, changed map[string]site.Account) error {
	if len(changed) == 0 {
		return nil
	}
	if err := e.Records.PutAccounts(ctx, changed); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for node, a := range changed {
		e.setAccountLocked(node, a)
	}
	e.touch()
	return nil
}

// tend ends approvals of the given nodes if the design in force no longer plans the loss, the
// machine has changed, or the approval has expired.
func (e *Engine) tend(ctx context.Context, nodes ...string) error {
	if !e.anyOpen(nodes) {
		return nil
	}
	e.booking.Lock()
	defer e.booking.Unlock()
	return e.end(ctx, nodes, func(name string) ledger.Why { return e.situationLocked(name).Ends })
}

// anyOpen reports whether any of the nodes has an open approval.
func (e *Engine) anyOpen(nodes []string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(nodes, func(name string) bool { return e.accounts[name].HasOpen() })
}

// tendAll runs tend for all nodes.
func (e *Engine) tendAll(ctx context.Context) error {
	return e.tend(ctx, e.accountNames()...)
}

// accountNames returns the names of all nodes with an account in the ledger, sorted.
func (e *Engine) accountNames() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Sorted(maps.Keys(e.accounts))
}

// keepLedger regularly ends approvals that are no longer valid, until ctx ends.
func (e *Engine) keepLedger(ctx context.Context) {
	for retry.Sleep(ctx, tendEvery) {
		if err := errors.Join(e.tendAll(ctx), e.fillBook(ctx)); err != nil && ctx.Err() == nil {
			e.setProblem("records", err)
		}
	}
}

// situationLocked returns what decides whether a node's approvals stay open. A quarantine ends
// none.
func (e *Engine) situationLocked(node string) ledger.Situation {
	s := ledger.Situation{Now: e.ledgerNowLocked(), Line: func(set string) bool {
		_, stands := e.design.Approvals[set]
		return stands
	}}
	w := e.workers[node]
	switch {
	case w == nil || w.leaving:
		s.Gone = "the node left the design"
	case w.memory.Recorded.Quarantined != nil:
		m := w.memory
		m.Recorded.Quarantined = nil
		s.Planned = losses(e.planOfLocked(w, m))
	default:
		s.Planned = losses(w.plan)
	}
	return s
}

// end ends the open entries of some nodes for which why gives a reason. Call it with booking
// held.
func (e *Engine) end(ctx context.Context, nodes []string, why func(node string) ledger.Why) error {
	changed, over := e.endedOf(nodes, why)
	return e.putEnded(ctx, changed, over)
}

// endedOf returns the accounts of some nodes without the open entries for which why gives a reason, and
// those entries.
func (e *Engine) endedOf(nodes []string, why func(node string) ledger.Why) (changed map[string]site.Account, over []site.LedgerEntry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	changed = map[string]site.Account{}
	for _, name := range nodes {
		a := e.accountLocked(name)
		if !a.HasOpen() {
			continue
		}
		if a, ended := ledger.End(a, e.ledgerNowLocked(), why(name)); len(ended) > 0 {
			changed[name] = a
			over = append(over, ended...)
		}
	}
	return changed, over
}

// putEnded records accounts in which entries have ended, and tells of those.
func (e *Engine) putEnded(ctx context.Context, changed map[string]site.Account, over []site.LedgerEntry) error {
	if err := e.putAccounts(ctx, changed); err != nil {
		return fmt.Errorf("record the end of approvals: %w", err)
	}
	for _, x := range over {
		e.note(site.Event{Node: x.Loss.Node, Kind: site.EventOrder, Text: fmt.Sprintf("the approval of %s by %s has ended: %s", x.Loss.Action, x.Source, x.Why)})
	}
	return nil
}

// closeAccount ends a node's open entries. Losses shown before can no longer be approved, even if
// the same name and machine come back later.
func (e *Engine) closeAccount(ctx context.Context, node, why string) error {
	e.booking.Lock()
	defer e.booking.Unlock()
	changed, over := e.endedOf([]string{node}, func(string) ledger.Why { return func(site.LedgerEntry) string { return why } })
	a, open := changed[node]
	if !open {
		a = e.account(node)
	}
	a.Closed++
	changed[node] = a
	return e.putEnded(ctx, changed, over)
}
