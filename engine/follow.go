package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/placement"
	"github.com/slipway-gitops/slipway/engine/retry"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Notifier is a source that knows when there may be a new revision.
type Notifier interface {
	// Changes sends a value after every change, until the context ends.
	Changes(ctx context.Context) <-chan struct{}
}

// follow polls the source for revisions as long as the engine runs.
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

// PollEvery returns how often the source is polled.
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

// poll fetches once and evaluates a new revision. If anything fails, the design in
// force stays.
func (e *Engine) poll(ctx context.Context) {
	fctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	began := time.Now()
	rev, err := e.Source.Fetch(fctx)
	fetched := time.Now()
	e.setProblem("source", err)
	if err == nil {
		e.mu.Lock()
		e.fetched = time.Now()
		e.mu.Unlock()
	}
	if err != nil || !e.isNew(rev) || e.isQueued(rev) {
		return
	}
	design, findings, err := e.Evaluate(ctx, rev)
	e.setProblem("evaluation", err)
	named := rev
	named.Files = nil
	e.traceEvaluation(named, began, fetched, findings, err)
	if err != nil {
		return
	}
	design, findings = placement.PlaceEvaluated(design, findings, e.placed())
	if site.HasErrors(findings) {
		e.refuse(named, findings)
		e.traceRefused(named, began, findings)
		return
	}
	if err := e.narrowAccess(ctx, design.Granted()); err != nil { // also where the revision waits for a rollout
		e.setProblem("records", err)
		return
	}
	if e.queues(named) {
		return
	}
	e.setProblem("records", e.accept(ctx, named, design, findings))
	e.traceInForce(named, began)
}

func (e *Engine) isNew(rev site.Revision) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if rev.ID == e.applied.ID && e.readOnly == "" && e.attempted.ID == "" {
		// After a restart: the newest revision is already in force.
		e.attempted = e.applied
		e.touch()
	}
	return rev.ID != e.attempted.ID
}

// isQueued reports whether the revision already waits for the rollout under way.
func (e *Engine) isQueued(rev site.Revision) bool {
	e.mu.Lock()
	queued := e.rollout.running() && e.rollout.Queued != nil && e.rollout.Queued.ID == rev.ID
	e.mu.Unlock()
	return queued && e.queues(rev)
}

// refuse keeps the design in force and reports the findings. If the repository has the site no more, its machines are only
// observed until another revision comes into force: another site of the repository may have them now.
func (e *Engine) refuse(rev site.Revision, findings []site.Finding) {
	e.mu.Lock()
	e.attempted, e.findings = rev, findings
	if e.readOnly == "" && slices.ContainsFunc(findings, func(f site.Finding) bool { return f.Code == "unknown-site" }) {
		e.readOnly = fmt.Sprintf("site %s is not in the repository since revision %s, and its machines may be in another site now", e.Site, rev.Short())
	}
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

// accept puts a design in force: first durably, then for every worker. It notes
// dropped nodes before, so that none can get lost in between.
func (e *Engine) accept(ctx context.Context, rev site.Revision, design *site.Site, findings []site.Finding) error {
	if err := errors.Join(e.noteDepartures(ctx, rev, design), e.noteHad(ctx, design), e.noteLines(ctx, design)); err != nil {
		return err
	}
	if err := e.Records.Accept(ctx, rev, design); err != nil {
		return fmt.Errorf("record revision %s: %w", rev.Short(), err)
	}
	e.setProblem("design", nil)
	e.note(site.Event{Kind: site.EventDesign, Revision: rev.ID, Text: fmt.Sprintf("revision %s is in force: %s", rev.Short(), rev.Subject)})
	e.putInForce(rev, design, findings)
	signal(e.inForce)
	signal(e.acted) // a node may have the machine of an incident now
	_, inForce := e.Access()
	if err := errors.Join(e.saveRollout(ctx), e.tendAll(ctx), e.narrowAccess(ctx, inForce)); err != nil {
		return err
	}
	if err := e.approveFromDesign(ctx); err != nil {
		return err
	}
	if err := e.noteIncidents(ctx); err != nil {
		return err
	}
	if err := e.noteDecommissions(ctx); err != nil {
		return err
	}
	e.touch()
	return e.forgetDepartures(ctx)
}

// putInForce gives each worker its part of a design, and begins the rollout of what differs.
func (e *Engine) putInForce(rev site.Revision, design *site.Site, findings []site.Finding) {
	granted := design.Granted()
	e.mu.Lock()
	defer e.mu.Unlock()
	old := e.design
	e.applied, e.attempted, e.findings = rev, rev, findings
	e.design, e.readOnly = design, ""
	e.tellSecrets(design)
	e.wouldGrant = granted
	same := old != nil && sameRules(old, design)
	for _, name := range startOrder(design) {
		if n, w := design.Nodes[name], e.workers[name]; w != nil {
			same = !w.redesignLocked(n, !sameMeaning(old.Images[n.Image], design.Images[n.Image]) || w.isResigned(n, old, design)) && same
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
	planned := time.Now()
	e.planLocked()
	e.tracePlanLocked(planned)
	if same {
		e.keepRolloutLocked()
	} else {
		e.rollOutLocked()
	}
	e.waitingLocked() // the design's losses count as shown from here on
}

// sameRules reports whether two designs have the same rules for working on nodes.
func sameRules(a, b *site.Site) bool {
	return sameMeaning(a.Rollout, b.Rollout) && sameMeaning(a.Roles, b.Roles) && sameMeaning(a.Racks, b.Racks) && sameMeaning(a.Windows, b.Windows)
}

// sameMeaning compares two parts of designs, one of which may come from the records,
// which omit empty values.
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

// redesigned is the reason shown for a node that was not looked at yet with its new
// design.
const redesigned = "its design has changed"

// redesignLocked gives a worker its node's new design. If the effective design has
// changed, the node starts afresh, without backoff and complaints. An in-sync node
// with an unchanged design is left alone, so that a commit does not make Slipway look
// at the whole site at once. Elsewhere means that what the node is to have has changed in another part of the
// design: its image, or who signs its certificates. It reports whether the design has changed.
func (w *worker) redesignLocked(n *site.Node, elsewhere bool) (changed bool) {
	changed = w.leaving || elsewhere || !sameDesign(w.node, n)
	w.fresh = w.fresh || changed || w.status.State == site.Retrying
	w.e.leaveRoleLocked(w)
	w.node = n
	w.e.enterRoleLocked(w)
	w.leaving = false
	w.askNothingLocked() // until it was looked at with this design in mind
	w.outdated = w.outdated || changed
	if changed && w.status.State == site.InSync {
		// It was in-sync with the previous design; the next reconcile decides.
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

// startEvery is the interval between the first looks at two machines. All at once
// they would delay each other and the nodes that they need.
const startEvery = time.Millisecond

// startLocked starts the worker of a node.
func (e *Engine) startLocked(n *site.Node, m site.Memory, leaving bool) {
	ctx, stop := context.WithCancel(e.ctx)
	m.Account = e.accountLocked(n.Name)
	inherited := e.inheritLocked(n, &m)
	w := newWorker(e, n, m, leaving, stop)
	w.inherited = inherited
	if e.nextStart.After(w.due) {
		w.due = e.nextStart
	}
	e.nextStart = w.due.Add(startEvery)
	e.workers[n.Name] = w
	e.enterRoleLocked(w)
	w.grantLocked()
	e.running.Go(func() { w.run(ctx) })
}
