package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/retry"
	"github.com/slipway-gitops/slipway/engine/site"
)

// tenure is the engine's term. The zero value has none.
type tenure struct {
	*record.Term // nil until it is acquired
	// settled is when nothing of the previous term can be under way any more.
	settled time.Time
	// trouble is why the term could not be acquired or renewed last time.
	trouble error
	// before holds the sessions that earlier terms have left, by node.
	before map[string]record.Sessions
}

// beginTerm acquires the site's term.
func (e *Engine) beginTerm(ctx context.Context, left map[string]record.Sessions) error {
	return e.beginTermAbove(ctx, left, 0)
}

// beginTermAbove acquires the site's term with a number above the given one.
func (e *Engine) beginTermAbove(ctx context.Context, left map[string]record.Sessions, above uint64) error {
	t, err := e.Records.Acquire(ctx, Holder(), above)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.term.trouble = err
	if err != nil {
		e.term.before = left
		return err
	}
	e.term = tenure{Term: t, settled: t.Began}
	if t.Latest.After(e.latest) {
		e.latest, e.reckoned = t.Latest, time.Time{}
	}
	e.term.before = left
	if t.Clean {
		e.term.before = sessionsBefore(left, t.Last)
	} else {
		e.term.settled = t.Began.Add(e.leaseTimes().Length + driver.LongestWrite)
	}
	if wait := time.Until(e.term.settled); wait > 0 {
		time.AfterFunc(wait, e.wakeHeld)
	}
	e.Log.Info("term begun", "term", t.Number, "clean", t.Clean)
	return nil
}

// sessionsBefore returns the sessions of terms before a given one. A term that was released has ended its own,
// but maybe not those that it had found.
func sessionsBefore(all map[string]record.Sessions, term uint64) map[string]record.Sessions {
	before := map[string]record.Sessions{}
	for node, sessions := range all {
		for kind, those := range sessions {
			those = slices.DeleteFunc(slices.Clone(those), func(s record.Session) bool { return s.Term >= term })
			if len(those) == 0 {
				continue
			}
			if before[node] == nil {
				before[node] = record.Sessions{}
			}
			before[node][kind] = those
		}
	}
	return before
}

// Holder names this process.
func Holder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%s, process %d", host, os.Getpid())
}

// keepTerm renews the term, or tries to acquire it, as long as the engine runs.
func (e *Engine) keepTerm(ctx context.Context) {
	times := e.leaseTimes()
	for wait := times.RenewEvery; retry.Sleep(ctx, wait); {
		held := e.heldTerm() != nil
		err := e.renewTerm(ctx)
		if ctx.Err() != nil {
			return
		}
		if wait = times.RenewEvery; err != nil {
			wait = times.RetryEvery
		}
		e.setProblem("term", err)
		t, _ := e.lastTerm()
		e.keepWatched(ctx, t)
		if !held && err == nil {
			e.wakeHeld()
			e.touch() // what was not reported meanwhile is now
		}
	}
}

// leaseTimes returns the times of the site's lease.
func (e *Engine) leaseTimes() record.LeaseTimes { return e.Records.Store().LeaseTimes() }

// isSilent reports whether another controller may lead the site. Then this one reports nothing:
// two would contradict each other on the status branch.
func (e *Engine) isSilent() bool { return e.Records.Store().IsShared() && e.heldTerm() == nil }

// wakeHeld makes blocked nodes check whether they still have to wait.
func (e *Engine) wakeHeld() {
	for _, w := range e.workersThat(func(w *worker) bool { return w.status.State == site.Blocked }) {
		w.wakeUp()
	}
}

func (e *Engine) renewTerm(ctx context.Context) error {
	t, left := e.lastTerm()
	if t == nil {
		return e.beginTerm(ctx, left)
	}
	err := t.Renew(ctx)
	e.noteTermTrouble(err)
	return err
}

// lastTerm returns the term acquired last, or nil, and the sessions that earlier terms have
// left.
func (e *Engine) lastTerm() (*record.Term, map[string]record.Sessions) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.term.Term, e.term.before
}

// noteTermTrouble notes why the term could not be renewed; nil if it was renewed.
func (e *Engine) noteTermTrouble(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.term.trouble = err
}

// releaseTerm ends the term. Nothing of it may be under way any more. While something of the term
// before may be, the record stays as a crash leaves it, so that the next daemon waits for that too.
func (e *Engine) releaseTerm(ctx context.Context) error {
	e.mu.Lock()
	t, settled := e.term.Term, e.term.settled
	e.mu.Unlock()
	if t == nil || time.Now().Before(settled) {
		return nil
	}
	return t.Release(ctx)
}

// heldTerm returns the term if it is held now, else nil.
func (e *Engine) heldTerm() *record.Term {
	e.mu.Lock()
	defer e.mu.Unlock()
	if t := e.term.Term; t != nil && t.Holds(time.Now()) {
		return t
	}
	return nil
}

// mayWriteLocked returns why no write may be sent now; empty if it may. A destructive write must
// not meet a request of the previous term, unless the machine is fenced: no session of an
// earlier term is left there.
func (e *Engine) mayWriteLocked(now time.Time, destructive, fenced bool) string {
	t := e.term
	holds := t.Term != nil && t.Holds(now) // once: a lease may run out between two questions
	switch {
	case e.anchor.barred != "":
		return e.anchor.barred
	case e.anchoredLocked(destructive) != "":
		return e.anchoredLocked(destructive)
	case destructive && e.keyTroubleLocked() != "":
		return e.keyTroubleLocked() + "; until then nothing is destroyed"
	case t.Term == nil && t.trouble == nil:
		return "the site's term has not begun yet"
	case t.Term == nil:
		return fmt.Sprintf("the site's term could not begin, and without a record Slipway writes to no machine: %s", retry.Steady(t.trouble))
	case errors.Is(t.trouble, record.ErrLost):
		return fmt.Sprintf("another controller acts for the site: %s", retry.Steady(t.trouble))
	case !holds && t.trouble == nil:
		return "the site's lease has run out and is being renewed"
	case !holds:
		return fmt.Sprintf("the site's lease has run out and could not be renewed, and without a record Slipway writes to no machine: %s", retry.Steady(t.trouble))
	case destructive && !fenced && now.Before(t.settled):
		return fmt.Sprintf("the previous daemon did not shut down cleanly, and its last requests may take effect until %s; until then nothing is destroyed", t.settled.UTC().Format(time.RFC3339))
	}
	return ""
}

// isAlone reports whether nothing of the previous term can be under way any more.
func (e *Engine) isAlone() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !time.Now().Before(e.term.settled)
}

// termGate passes a write only while the site's term is held. A destructive step, and one that replaces derived
// passwords, also waits for what the previous term may have under way, unless that term's session on the machine is known
// to be over: then the machine accepts nothing of it any more.
func (e *Engine) termGate(w *worker, s site.Step) *held {
	now := time.Now()
	why := e.mayWriteLocked(now, s.Impact == site.ImpactDestructive, w.fenced)
	if why == "" && len(s.Rotates) > 0 && !w.fenced && now.Before(e.term.settled) {
		// A late request that sets the password before would undo the next one, of which alone the records know then.
		why = fmt.Sprintf("the previous daemon did not shut down cleanly, and its last requests may take effect until %s; until then no password is replaced", e.term.settled.UTC().Format(time.RFC3339))
	}
	if why != "" {
		return &held{state: site.Blocked, sentence: why, release: "this daemon holding the site's term"}
	}
	return nil
}

// whileHeld returns a context that ends when writes are no longer allowed. Drivers also ask the term
// immediately before each write.
func (e *Engine) whileHeld(ctx context.Context) (context.Context, context.CancelFunc) {
	if t := e.heldTerm(); t != nil {
		return t.Bound(driver.WhileAllowed(ctx, t.Allowed))
	}
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx, cancel
}

// fence records the session that a handle holds, and ends those that earlier terms left at the
// same endpoint. Nothing may be written before fence has succeeded. A handle without sessions
// needs none of this. A handle that was not looked through might log in only with its first
// write, and that session would not be recorded.
//
// Its error wraps driver.ErrOutranked if the machine has a session of a later term of the site.
func (w *worker) fence(ctx context.Context, kind site.EndpointKind) error {
	d := w.connections[kind]
	s, ok := driver.As[driver.Sessioner](d.machine)
	if !ok || w.e.ObserveOnly {
		return nil
	}
	if !d.looked {
		return fmt.Errorf("%w: the endpoint of %s was opened again since Slipway looked at the machine; Slipway looks again first", driver.ErrInterrupted, w.name)
	}
	id, t := s.Session(), w.e.heldTerm()
	if id == "" || id == d.session {
		return nil
	}
	if t == nil { // a renewal right after this would let the step write through a session that no later term knows of
		return fmt.Errorf("%w: the site's lease is not held, and the session on %s cannot be recorded; Slipway looks at the machine again first", driver.ErrInterrupted, w.name)
	}
	if err := w.outranked(ctx, d.machine, t); err != nil {
		if later, ok := errors.AsType[*driver.LaterTermError](err); ok {
			w.e.noteLaterTerm(w.name, later)
		}
		return fmt.Errorf("look for later terms on %s: %w", w.name, err)
	}
	now := record.Session{Term: t.Number, Endpoint: d.endpoint.URL, ID: id}
	left := slices.DeleteFunc(slices.Clone(w.recordedSessions()[kind]), func(s record.Session) bool { return s.Term == t.Number })
	if err := w.recordSessions(ctx, kind, append(left, now)); err != nil {
		return err
	}
	over := true
	for _, s := range left {
		ended, err := w.endSession(ctx, d, s)
		if err != nil {
			return err
		}
		over = over && ended
	}
	if len(left) > 0 {
		if err := w.recordSessions(ctx, kind, []record.Session{now}); err != nil {
			return err
		}
	}
	if s.Session() != id { // the session was over, and another was opened
		return fmt.Errorf("%w: the session on %s has ended; Slipway looks at the machine again first", driver.ErrInterrupted, w.name)
	}
	d.session = id
	if kind == site.Manager {
		w.fenced = over
	}
	return nil
}

// outranked returns an error if a later term of the site acts on the machine.
func (w *worker) outranked(ctx context.Context, m driver.Machine, t *record.Term) error {
	namer, ok := driver.As[driver.Namer](m)
	if !ok {
		return nil
	}
	namer.Name(w.job().site.Name, t.Number)
	return namer.Outranked(ctx)
}

// bequeath prepares a handle that has not logged in yet. It passes the present term, and the
// sessions that earlier terms left at the endpoint, in case the machine has no room for another.
// While the term is not held, bequeath does nothing: those sessions may belong to the controller
// that acts.
func (w *worker) bequeath(d *connection, kind site.EndpointKind) {
	t := w.e.heldTerm()
	if t == nil || d.session != "" || w.e.ObserveOnly {
		return
	}
	if namer, ok := driver.As[driver.Namer](d.machine); ok {
		namer.Name(w.job().site.Name, t.Number)
	}
	heir, ok := driver.As[driver.Heir](d.machine)
	if !ok {
		return
	}
	var left []string
	for _, s := range w.recordedSessions()[kind] {
		if s.Term != t.Number && s.Endpoint == d.endpoint.URL {
			left = append(left, s.ID)
		}
	}
	heir.Inherit(left)
}

// weaker returns what is missing on a machine without sessions.
func (w *worker) weaker() string {
	d := w.connections[site.Manager]
	switch binding := d.binding(); {
	case binding == site.BindingConnection, binding == site.BindingUnknown && d.sessionless():
		return "its BMC has no sessions, so Slipway cannot tell a late request of a killed daemon from one of the next daemon: after a daemon was killed, destructive steps wait"
	case binding == site.BindingNone:
		if d.endpoint.Unbound == site.UnboundAccept {
			return "its BMC has no sessions and closes each connection after one answer: if its address goes to another machine at the wrong moment, a request reaches that one; the design accepts this for destructive steps (endpoints.manager.unbound)"
		}
		return "its BMC has no sessions and closes each connection after one answer: if its address goes to another machine at the wrong moment, a request reaches that one; destructive steps are refused until the design accepts this (endpoints.manager.unbound)"
	}
	return ""
}

// recordedSessions returns the sessions recorded for the node's machine.
func (w *worker) recordedSessions() record.Sessions {
	if w.logins == nil {
		w.e.mu.Lock()
		defer w.e.mu.Unlock()
		w.logins = record.Sessions{}
		maps.Copy(w.logins, w.e.term.before[w.name])
	}
	return w.logins
}

func (w *worker) recordSessions(ctx context.Context, kind site.EndpointKind, all []record.Session) error {
	now := maps.Clone(w.recordedSessions())
	now[kind] = all
	if err := w.e.Records.PutSessions(ctx, w.name, now); err != nil {
		return fmt.Errorf("record the session on %s: %w", w.name, err)
	}
	w.logins = now
	return nil
}

// endSession ends a session that an earlier term left, and reports whether it is over. If the
// machine refuses, the session expires by itself; destructive steps wait meanwhile.
func (w *worker) endSession(ctx context.Context, d *connection, left record.Session) (over bool, err error) {
	ender, ok := driver.As[driver.Ender](d.machine)
	if !ok || left.Endpoint != d.endpoint.URL {
		return false, nil
	}
	switch err := ender.End(ctx, left.ID); {
	case err == nil:
		return true, nil
	case isDenied(err), errors.Is(err, driver.ErrRefused), errors.Is(err, errors.ErrUnsupported):
		w.e.Log.Warn("session of an earlier term not ended", "node", w.name, "term", left.Term, "err", err)
		return false, nil
	default:
		return false, fmt.Errorf("end the session that term %d left on %s: %w", left.Term, w.name, err)
	}
}

// raiseTerm goes on with a term whose number is above the given one. What the terms before this one may
// have under way is waited for as before, and their sessions are still known.
func (e *Engine) raiseTerm(ctx context.Context, above uint64) error {
	t, left := e.lastTerm()
	if t == nil {
		return e.beginTermAbove(ctx, left, above)
	}
	next, err := t.Raise(ctx, above)
	if errors.Is(err, record.ErrLost) {
		return e.beginTermAbove(ctx, left, above)
	} else if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.term.Term, e.term.trouble = next, nil
	e.Log.Info("term begun", "term", next.Number, "clean", next.Clean)
	return nil
}

// termNumberLocked returns the number of the term, or 0 before there is one.
func (e *Engine) termNumberLocked() uint64 {
	if e.term.Term == nil {
		return 0
	}
	return e.term.Number
}

func (e *Engine) termNumber() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.termNumberLocked()
}
