package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/slipway-gitops/slipway/engine/placement"
	"github.com/slipway-gitops/slipway/engine/retry"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Notifier is a source that knows by itself when there may be a new revision.
type Notifier interface {
	// Changes gives a value after every change, until the context ends.
	Changes(ctx context.Context) <-chan struct{}
}

// follow asks the source for revisions for as long as the engine runs.
func (e *Engine) follow(ctx context.Context) {
	var news <-chan struct{}
	if n, ok := e.Source.(Notifier); ok {
		news = n.Changes(ctx)
	}
	dice := e.dice("follow")
	for due := time.Now(); ; {
		e.began(LoopPoll, due)
		e.poll(ctx)
		wait := retry.Jitter(dice, e.PollEvery())
		due = time.Now().Add(wait)
		select {
		case <-ctx.Done():
			return
		case <-news:
			due = time.Now()
		case <-e.poke:
			due = time.Now()
		case <-time.After(wait):
		}
	}
}

// PollEvery is how often the source is asked for news.
func (e *Engine) PollEvery() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pollEveryLocked()
}

func (e *Engine) pollEveryLocked() time.Duration {
	if e.design == nil || e.design.Rollout.PollEvery <= 0 {
		return firstPoll
	}
	return time.Duration(e.design.Rollout.PollEvery)
}

// poll fetches once and takes a new revision through evaluation. Whatever
// goes wrong, the design in force stays so.
func (e *Engine) poll(ctx context.Context) {
	fctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	rev, err := e.Source.Fetch(fctx)
	e.setProblem("source", err)
	if err != nil || !e.isNew(rev) || e.isQueued(rev) {
		return
	}
	design, findings, err := e.Evaluate(ctx, rev)
	e.setProblem("evaluation", err)
	if err != nil {
		return
	}
	design, findings = placement.PlaceEvaluated(design, findings, e.placed())
	named := rev
	named.Files = nil
	if site.HasErrors(findings) {
		e.refuse(named, findings)
		return
	}
	if e.queues(named) {
		return
	}
	e.setProblem("records", e.accept(ctx, named, design, findings))
}

func (e *Engine) isNew(rev site.Revision) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if rev.ID == e.applied.ID && e.readOnly == "" && e.attempted.ID == "" {
		// Back from a restart: what is in force is what there is.
		e.attempted = e.applied
		e.touch()
	}
	return rev.ID != e.attempted.ID
}

// isQueued says whether the revision is known to wait for the rollout under
// way.
func (e *Engine) isQueued(rev site.Revision) bool {
	e.mu.Lock()
	queued := e.rollout.running() && e.rollout.Queued != nil && e.rollout.Queued.ID == rev.ID
	e.mu.Unlock()
	return queued && e.queues(rev)
}

// refuse keeps the design in force and tells of the findings.
func (e *Engine) refuse(rev site.Revision, findings []site.Finding) {
	e.mu.Lock()
	e.attempted, e.findings = rev, findings
	inForce := "nothing is in force yet"
	if e.applied.ID != "" {
		inForce = e.applied.Short() + " stays in force"
	}
	e.mu.Unlock()
	first, n := findings[0], 0
	for _, f := range findings {
		if f.Severity == site.SeverityError {
			if n == 0 {
				first = f
			}
			n++
		}
	}
	more := ""
	if n > 1 {
		more = fmt.Sprintf(" (and %d more)", n-1)
	}
	e.setProblem("design", fmt.Errorf("revision %s is broken: %s%s; %s", rev.Short(), first, more, inForce))
	e.warn(site.Event{Kind: site.EventDesign, Revision: rev.ID, Text: fmt.Sprintf("revision %s is refused: %s%s", rev.Short(), first, more)})
}

// accept puts a design in force: durably first, then for every worker. Nodes
// that it drops are noted before, so that none can get lost in between.
func (e *Engine) accept(ctx context.Context, rev site.Revision, design *site.Site, findings []site.Finding) error {
	if err := errors.Join(e.noteDepartures(ctx, rev, design), e.noteHad(ctx, design), e.noteLines(ctx, design)); err != nil {
		return err
	}
	if err := e.Records.Accept(ctx, rev, design); err != nil {
		return fmt.Errorf("record revision %s: %w", rev.Short(), err)
	}
	e.setProblem("design", nil)
	e.note(site.Event{Kind: site.EventDesign, Revision: rev.ID, Text: fmt.Sprintf("revision %s is in force: %s", rev.Short(), rev.Subject)})
	e.mu.Lock()
	old := e.design
	e.applied, e.attempted, e.findings = rev, rev, findings
	e.design, e.readOnly = design, ""
	e.tellSecrets(design)
	same := old != nil && sameRules(old, design)
	for _, name := range startOrder(design) {
		if n, w := design.Nodes[name], e.workers[name]; w != nil {
			same = !w.redesignLocked(n, !sameMeaning(old.Images[n.Image], design.Images[n.Image])) && same
		} else {
			same = false
			e.startLocked(design.Nodes[name], site.Memory{}, false)
		}
	}
	for name, w := range e.workers {
		if design.Nodes[name] == nil {
			same = same && w.leaving
			w.leaving = true
			w.askNothingLocked()
			w.wakeUp()
		}
	}
	e.countOthersLocked()
	e.planLocked()
	if same {
		e.keepRolloutLocked()
	} else {
		e.rollOutLocked()
	}
	e.waitingLocked() // what the design destroys counts as shown from here on
	e.mu.Unlock()
	signal(e.inForce)
	if err := errors.Join(e.saveRollout(ctx), e.tendAll(ctx)); err != nil {
		return err
	}
	if err := e.approveFromDesign(ctx); err != nil {
		return err
	}
	if err := e.noteDecommissions(ctx); err != nil {
		return err
	}
	e.touch()
	return e.forgetDepartures(ctx)
}

// sameRules says whether two designs have nodes worked on by the same rules.
func sameRules(a, b *site.Site) bool {
	return sameMeaning(a.Rollout, b.Rollout) && sameMeaning(a.Roles, b.Roles) && sameMeaning(a.Racks, b.Racks) && sameMeaning(a.Windows, b.Windows)
}

// sameMeaning compares two parts of designs, one of which may have been read from the
// records: these leave out what is empty.
func sameMeaning[T any](a, b T) bool {
	if reflect.DeepEqual(a, b) {
		return true
	}
	type part struct {
		Value T `json:",omitempty"`
	}
	x, errX := json.Marshal(part{a})
	y, errY := json.Marshal(part{b})
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// redesigned is why a node is not said to be in-sync until it was looked at
// with its new design in mind.
const redesigned = "its design has changed"

// redesignLocked hands a worker its node's new design. A node whose effective
// design is another starts afresh: its backoff and its complaints are over. A
// node that is in-sync and whose design is the same is left alone, so that a
// commit does not set the whole site looking at once. It says whether the
// design is another.
func (w *worker) redesignLocked(n *site.Node, imageChanged bool) (changed bool) {
	changed = w.leaving || imageChanged || !sameDesign(w.node, n)
	w.fresh = w.fresh || changed || w.status.State == site.Retrying
	w.e.leaveRoleLocked(w)
	w.node = n
	w.e.enterRoleLocked(w)
	w.leaving = false
	w.askNothingLocked() // until it was looked at with this design in mind
	w.outdated = w.outdated || changed
	if changed && w.status.State == site.InSync {
		// In-sync with what was designed before; the next turn tells.
		w.status.State, w.status.Reason, w.status.Since = site.Progressing, redesigned, time.Now()
	}
	if changed || w.status.State != site.InSync {
		w.wakeUp()
	}
	return changed
}

// sameDesign compares two designs of a node without their origins.
func sameDesign(a, b *site.Node) bool {
	x, y := *a, *b
	x.Origins, y.Origins, x.Place, y.Place = nil, nil, site.Origin{}, site.Origin{}
	return sameMeaning(x, y)
}

// startEvery is how soon after one another machines are first looked at. All at
// once they would keep each other, and whom they need, from being done.
const startEvery = time.Millisecond

// startLocked starts the worker of a node.
func (e *Engine) startLocked(n *site.Node, m site.Memory, leaving bool) {
	ctx, stop := context.WithCancel(e.ctx)
	m.Account = e.accountLocked(n.Name)
	w := newWorker(e, n, m, leaving, stop)
	if e.nextStart.After(w.due) {
		w.due = e.nextStart
	}
	e.nextStart = w.due.Add(startEvery)
	e.workers[n.Name] = w
	e.enterRoleLocked(w)
	w.grantLocked()
	e.running.Go(func() { w.run(ctx) })
}
