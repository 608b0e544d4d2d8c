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

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/ledger"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/retry"
	"github.com/slipway-gitops/slipway/engine/site"
)

// maxSets bounds how many sets of destruction are remembered as shown.
const maxSets = 256

// tendEvery is how often approvals whose time has passed are ended.
const tendEvery = time.Minute

// accountLocked is a node's part of the ledger.
func (e *Engine) accountLocked(node string) site.Account {
	a := e.accounts[node]
	a.Records = e.book.Records
	return a
}

// setAccountLocked takes over an account that was recorded. What the node's plan
// destroys is numbered by it.
func (e *Engine) setAccountLocked(node string, a site.Account) {
	e.accounts[node] = a
	e.undecided.known = false
	w := e.workers[node]
	if w == nil {
		return
	}
	w.memory.Account = e.accountLocked(node)
	w.plan = plan.Renumbered(w.plan, w.node, w.memory)
	w.status.Sealed = w.sealLocked()
	w.wakeUp()
}

// ledgerNow is the time by which approvals end: it goes on when the clock is set
// back, so that this brings none of them back.
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

// clockSlack is how far the clock may be behind the latest time that was seen and
// still count as right.
const clockSlack = time.Hour

// setClockBack goes by the clock from now on where it was ahead before. Nobody
// knows how long ago open approvals were given, so they end. It is called with
// booking held, when somebody approves: an approval by a time that is still to come
// would last until then.
func (e *Engine) setClockBack(ctx context.Context) error {
	e.mu.Lock()
	now, term := time.Now().Round(0), e.term.Term
	ahead := e.ledgerNowLocked().Sub(now) > clockSlack
	names := slices.Collect(maps.Keys(e.accounts))
	e.mu.Unlock()
	if !ahead {
		return nil
	}
	because := func(site.LedgerEntry) string {
		return "the clock was set back, so Slipway cannot tell how old the approval is"
	}
	if err := e.end(ctx, names, func(string) ledger.Why { return because }); err != nil {
		return err
	}
	if term != nil {
		term.SetBack(now)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.latest, e.reckoned = now, time.Now()
	return nil
}

// used says whether a step has used its approval already and goes on.
func used(r site.Recorded, s site.Step) bool {
	f := r.InFlight
	return f.Is(s) && f.Consumed && f.Step.Attempt == s.Attempt && f.Step.Records == s.Records
}

// approvalGate lets a destructive step pass only when a person has approved what
// it destroys, and nobody has used that approval.
func (e *Engine) approvalGate(w *worker, s site.Step) *held {
	loss, destroys := s.Destroys()
	switch {
	case !destroys || used(w.memory.Recorded, s):
		return nil
	case !e.adoptedLocked(loss):
		return &held{state: site.Blocked, release: "the machine reporting its UUID or serial number",
			sentence: fmt.Sprintf("%s waits until the machine says that it is %s", loss.Action, s.Machine)}
	case loss.Disks == "":
		return &held{state: site.Blocked, release: "the BMC reporting the disks of the machine",
			sentence: fmt.Sprintf("%s waits until Slipway has read the disks of the machine: an approval names them", loss.Action)}
	}
	if open := w.memory.Account.Open(loss); open != nil && e.ledgerNowLocked().Before(open.Expires) {
		return nil
	}
	_, digest := e.waitingLocked()
	return &held{state: site.Blocked, person: true, release: "`slipway approve " + digest + "`, or that digest in the design's approvals",
		sentence: fmt.Sprintf("%s of %s waits for approval: %s would be lost; see `slipway plan`, then `slipway approve`", loss.Action, loss.Target(), loss.Lost)}
}

// adoptedLocked says whether the node was met as the machine that the loss is
// of.
func (e *Engine) adoptedLocked(loss site.Loss) bool {
	w := e.workers[loss.Node]
	return w != nil && w.memory.Recorded.Adopted != nil && loss.Machine.Matches(w.memory.Recorded.Adopted.Machine)
}

// permit lets a step destroy: it uses the approval, at the last moment before
// the first request after which data may be lost. Minutes have passed since the
// gates, so what they looked at is looked at again.
func (w *worker) permit(j job, s site.Step) driver.Permit {
	if s.Action == site.ActionStartAgent {
		return w.mayStart(j)
	}
	return func(ctx context.Context) error {
		used, err := w.consume(ctx, j, s)
		if err == nil && used {
			err = w.commit(ctx, j, s)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", driver.ErrNotPermitted, err)
		}
		return nil
	}
}

// commit lets a step that has just used its approval send what destroys. The use
// is published first, which takes a while, so it is looked again whether the step
// may. One that may not, or that was broken off before, is left, and its approval
// stays used.
func (w *worker) commit(ctx context.Context, j job, s site.Step) error {
	e := w.e
	if w.publishUse(ctx) {
		e.checkAnchor(ctx)
		e.mu.Lock()
		h := e.mayDestroyLocked(w, j, s, false)
		e.mu.Unlock()
		if h != nil {
			return fmt.Errorf("%w: %s", site.ErrRefused, h.sentence)
		}
	}
	held := false
	err := w.save(ctx, func(r *site.Recorded) {
		if held = !r.InFlight.Is(s) || r.Quarantined != nil; held {
			return
		}
		f := *r.InFlight
		f.Sent = true
		r.InFlight = &f
	})
	if err == nil && held {
		err = errHeld
	}
	return err
}

// publishUse publishes that an approval is used before anything is destroyed by
// it: from then on records that were set back, or a copy of them, are known to be
// older. It says whether something was published. Where Git does not answer, the
// records alone have it, and the status branch once Git answers.
func (w *worker) publishUse(ctx context.Context) bool {
	e := w.e
	e.mu.Lock()
	status := w.status
	e.mu.Unlock()
	if e.Anchor == nil || e.ObserveOnly || status.Sealed == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, anchorTimeout)
	defer cancel()
	if err := e.Anchor.Seal(ctx, status); err != nil {
		e.Log.Warn("use of an approval not published", "node", w.name, "err", err)
	}
	return true
}

// consume uses the approval of a step, and says whether it was not used before.
// One that was begun goes on.
func (w *worker) consume(ctx context.Context, j job, s site.Step) (used bool, err error) {
	e := w.e
	e.checkAnchor(ctx)
	e.booking.Lock()
	defer e.booking.Unlock()
	w.saving.Lock()
	defer w.saving.Unlock()
	account, recorded, err := w.consumption(j, s)
	if err != nil || account == nil {
		return false, err
	}
	if err := e.Records.Consume(ctx, w.name, *account, *recorded); err != nil {
		return false, fmt.Errorf("record that an approval is used: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	w.memory.Recorded = *recorded
	e.setAccountLocked(w.name, *account)
	e.touch()
	return true, nil
}

// consumption is what is to be recorded when the step uses its approval; nil
// where it has done so before and goes on.
func (w *worker) consumption(j job, s site.Step) (*site.Account, *site.Recorded, error) {
	e := w.e
	e.mu.Lock()
	defer e.mu.Unlock()
	begun := used(w.memory.Recorded, s) && w.memory.Recorded.InFlight.Sent
	if h := e.mayDestroyLocked(w, j, s, begun); h != nil {
		return nil, nil, fmt.Errorf("%w: %s", site.ErrRefused, h.sentence)
	}
	if begun {
		return nil, nil, nil
	}
	loss, _ := s.Destroys()
	account, err := ledger.Consume(e.accountLocked(w.name), loss, e.ledgerNowLocked(), e.termNumberLocked())
	if err != nil {
		return nil, nil, err
	}
	recorded := w.memory.Recorded
	if !recorded.InFlight.Is(s) {
		return nil, nil, fmt.Errorf("%w: the step is not recorded as begun", site.ErrRefused)
	}
	f := *recorded.InFlight
	f.Step, f.Consumed = s, true
	f.Step.Resumed = false
	recorded.InFlight = &f
	return &account, &recorded, nil
}

// mayDestroyLocked says why a step that passed the gates may not destroy now. An
// installation that has used its approval is finished whatever the design says
// by now.
func (e *Engine) mayDestroyLocked(w *worker, j job, s site.Step, begun bool) *held {
	return first(
		func() *held {
			if begun {
				return nil
			}
			return w.supersededLocked(j, e.sameRulesLocked(w, j))
		},
		func() *held { return e.readOnlyGate(s) },
		func() *held { return e.termGate(w, s) },
		func() *held {
			if w.memory.Recorded.Quarantined != nil {
				return &held{sentence: "the node was quarantined in the meantime"}
			}
			return e.pausedLocked(w, j)
		},
		func() *held { return e.approvalGate(w, s) },
		func() *held { return e.artifactGate(w, s) },
	)
}

// latestEntries is for how long approvals are shown that were used or have ended.
const latestEntries = 7 * 24 * time.Hour

// ledgerLocked are the open entries and the latest others, oldest first.
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

// undecided is the set of destruction that is planned and that nobody has
// approved, with its digest, until something changes it.
type undecided struct {
	known  bool
	losses site.Losses
	digest string
}

// waitingLocked is the set of destruction that waits for a person, with its
// digest, which is empty for none. It is remembered as shown.
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

// destroysLocked is what the node's plan destroys.
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

// shownLocked remembers a set, so that it can be approved by its digest when
// another set has taken its place: what is approved is what was read, as far as
// it still waits.
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

// approveSet approves what a person has read, named by its digest: those of its
// losses that still wait.
func (e *Engine) approveSet(ctx context.Context, o site.Order) (string, error) {
	e.booking.Lock()
	defer e.booking.Unlock()
	e.mu.Lock()
	waiting, now := e.waitingLocked()
	set := e.shown[o.Digest].Both(waiting)
	e.mu.Unlock()
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
	e.mu.Lock()
	left, next := e.waitingLocked()
	e.mu.Unlock()
	done := "Approved: " + erased(set)
	if len(left) > 0 {
		done += fmt.Sprintf(". %d more wait for approval, as set %s", len(left), next)
	}
	return done, nil
}

// erased says what an approval lets happen.
func erased(set site.Losses) string {
	var names []string
	for _, l := range set {
		if text := l.Node + " (" + l.Action + ")"; !slices.Contains(names, text) {
			names = append(names, text)
		}
	}
	return "data will be erased on " + some(names)
}

// openEntries opens an entry for each loss of a set. It is called with booking
// held.
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
	// What was seen of the machines is a part of what is approved.
	if err := errors.Join(e.Records.Flush(ctx), e.putAccounts(ctx, changed)); err != nil {
		return fmt.Errorf("record approval: %w", err)
	}
	for _, l := range set {
		e.note(site.Event{Node: l.Node, Kind: site.EventOrder, By: source.By, Text: fmt.Sprintf("%s approved by %s", l.Action, source)})
	}
	e.note(site.Event{Kind: site.EventOrder, By: source.By, Text: fmt.Sprintf("set %s approved by %s: %s", digest, source, erased(set))})
	return nil
}

// putAccounts records accounts and takes them over. It is called with booking
// held.
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

// approveFromDesign approves what waits where a line of the design has the
// digest of a set that was shown. Its approval is used once like any other: when
// it has ended, the same loss has another digest.
func (e *Engine) approveFromDesign(ctx context.Context) error {
	e.booking.Lock()
	defer e.booking.Unlock()
	for {
		e.mu.Lock()
		set, digest, line := e.designedSetLocked()
		source := site.ApprovalSource{Kind: site.ByDesign, By: line.By, Commit: e.applied.ID, When: time.Now()}
		e.mu.Unlock()
		if len(set) == 0 {
			return nil
		}
		if err := e.openEntries(ctx, set, digest, source, line.Note); err != nil {
			return err
		}
	}
}

// designedSetLocked is what waits and a line of the design approves that counts,
// see noteLines.
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

// tend ends the approvals of some nodes that the design in force does not plan
// any more, whose machine has changed, or whose time has passed.
func (e *Engine) tend(ctx context.Context, nodes ...string) error {
	e.mu.Lock()
	open := slices.ContainsFunc(nodes, func(name string) bool { return e.accounts[name].HasOpen() })
	e.mu.Unlock()
	if !open {
		return nil
	}
	e.booking.Lock()
	defer e.booking.Unlock()
	return e.end(ctx, nodes, func(name string) ledger.Why { return e.situationLocked(name).Ends })
}

// tendAll is tend for all nodes.
func (e *Engine) tendAll(ctx context.Context) error {
	e.mu.Lock()
	names := slices.Collect(maps.Keys(e.accounts))
	e.mu.Unlock()
	return e.tend(ctx, names...)
}

// keepLedger ends approvals whose time has passed.
func (e *Engine) keepLedger(ctx context.Context) {
	for retry.Sleep(ctx, tendEvery) {
		if err := errors.Join(e.tendAll(ctx), e.fillBook(ctx)); err != nil && ctx.Err() == nil {
			e.setProblem("records", err)
		}
	}
}

// situationLocked is what decides whether the approvals of a node go on. A
// quarantine is no reason to end one.
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

// end ends the open entries of some nodes for which there is a reason. It is
// called with booking held.
func (e *Engine) end(ctx context.Context, nodes []string, why func(node string) ledger.Why) error {
	changed := map[string]site.Account{}
	var over []site.LedgerEntry
	e.mu.Lock()
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
	e.mu.Unlock()
	if err := e.putAccounts(ctx, changed); err != nil {
		return fmt.Errorf("record the end of approvals: %w", err)
	}
	for _, x := range over {
		e.note(site.Event{Node: x.Loss.Node, Kind: site.EventOrder, Text: fmt.Sprintf("the approval of %s by %s has ended: %s", x.Loss.Action, x.Source, x.Why)})
	}
	return nil
}

// disapprove ends what was approved and not used, by the digest of its set or
// for one node.
func (e *Engine) disapprove(ctx context.Context, w *worker, o site.Order) (string, error) {
	e.booking.Lock()
	defer e.booking.Unlock()
	e.mu.Lock()
	nodes, only := slices.Sorted(maps.Keys(e.accounts)), ""
	if w != nil {
		nodes, only = []string{w.name}, w.name
	}
	var ended []string
	e.mu.Unlock()
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

// closeAccount ends the life of a node in the ledger: its open entries end, and
// whatever was shown of it before can be approved no more. Should the name and
// the machine come back, that is another life.
func (e *Engine) closeAccount(ctx context.Context, node, why string) error {
	e.booking.Lock()
	defer e.booking.Unlock()
	if err := e.end(ctx, []string{node}, func(string) ledger.Why { return func(site.LedgerEntry) string { return why } }); err != nil {
		return err
	}
	e.mu.Lock()
	a := e.accountLocked(node)
	e.mu.Unlock()
	a.Closed++
	return e.putAccounts(ctx, map[string]site.Account{node: a})
}

// approveNode lets a node's first disruption or its removal from the design go
// on, or takes a system on its machine for the one that was installed.
func (e *Engine) approveNode(ctx context.Context, w *worker, o site.Order) (string, error) {
	e.mu.Lock()
	leaving, a, p := w.leaving, w.memory.Recorded.Adopted, w.plan
	digest, disowned := plan.Disowned(w.memory)
	// What a person approves inside a system is what the plan shows there.
	inside := !w.memory.Recorded.Installed.ByUs() && slices.ContainsFunc(p.Steps, func(s site.Step) bool { return site.IsInside(s.Facet) })
	e.mu.Unlock()
	switch {
	case leaving && w.busy():
		return "", fmt.Errorf("%w: a step on %s was begun and not finished; it is not removed until then", site.ErrRefused, w.name)
	case leaving:
		e.mu.Lock()
		e.removals = append(e.removals, record.Removal{Node: w.name, When: time.Now()})
		e.mu.Unlock()
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

// acceptSystem takes the system that answers for the one that was installed on
// the node, because a person says so.
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
		if r.Adopted != nil { // what is inside this system nobody has seen as designed
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
