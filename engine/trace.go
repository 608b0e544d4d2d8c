package engine

import (
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// trace reports a part of the work on a revision, if anybody traces it.
func (e *Engine) trace(w site.TracePart) {
	if e.Tracer != nil {
		e.Tracer.Trace(w)
	}
}

// until returns the span from a time to now.
func until(began time.Time) site.Span { return site.Span{From: began, To: time.Now()} }

// traceEvaluation reports that a revision was fetched and evaluated. An evaluation that fails is tried again at each
// poll, and reported once.
func (e *Engine) traceEvaluation(rev site.Revision, began, fetched time.Time, findings []site.Finding, err error) {
	failed := ""
	if err != nil {
		failed = rev.ID
	}
	if failed != "" && failed == e.unevaluated || errors.Is(err, context.Canceled) {
		return
	}
	e.unevaluated = failed
	e.trace(site.TracePart{Kind: site.TraceFetch, Revision: rev, Span: site.Span{From: began, To: fetched}, Outcome: "ok"})
	w := site.TracePart{Kind: site.TraceEvaluate, Revision: rev, Span: until(fetched), Outcome: "ok"}
	switch {
	case err != nil:
		w.Outcome, w.Failed, w.Why = "error", true, verdict(err)
	case site.HasErrors(findings):
		w.Outcome, w.Failed, w.Why = "refused", true, firstError(findings)
	}
	e.trace(w)
}

func firstError(findings []site.Finding) string {
	for _, f := range findings {
		if f.Severity == site.SeverityError {
			return f.String()
		}
	}
	return ""
}

func (e *Engine) traceRefused(rev site.Revision, began time.Time, findings []site.Finding) {
	e.trace(site.TracePart{Kind: site.TraceRevision, Revision: rev, Span: until(began), Outcome: "refused", Failed: true, Why: firstError(findings)})
}

// traceInForce reports that a revision came into force, unless it did not.
func (e *Engine) traceInForce(rev site.Revision, began time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.applied.ID == rev.ID {
		e.trace(site.TracePart{Kind: site.TraceRevision, Revision: rev, Span: until(began), Outcome: "in force"})
	}
}

func (e *Engine) tracePlanLocked(began time.Time) {
	e.trace(site.TracePart{Kind: site.TracePlan, Revision: e.applied, Span: until(began), Outcome: "ok", Nodes: len(e.workers)})
}

// How a rollout ended. traceContinued means that it goes on as that of a later revision which changes
// nothing for any node.
const (
	traceEnded      = ""
	traceSuperseded = "superseded"
	traceContinued  = "continued"
)

// traceRolloutLocked reports the end of the rollout under way, if there is one.
func (e *Engine) traceRolloutLocked(how string) {
	r := e.rollout
	if e.Tracer == nil || !r.running() {
		return
	}
	s := r.RolloutStatus
	s.Done = r.count[done]
	w := site.TracePart{Kind: site.TraceRollout, Revision: s.Revision, Rollout: s.Since, Span: until(s.Since), Outcome: how,
		Nodes: len(s.Nodes), Done: s.Done, Lost: len(s.Failed), Failed: len(s.Failed) > 0}
	if w.Failed {
		w.Why = s.Outcome()
	}
	if how == traceEnded {
		w.Outcome = "incomplete"
		if s.Done == len(s.Nodes) {
			w.Outcome = "converged"
		}
	}
	e.trace(w)
}

// traceLeftLocked reports the nodes that the rollout under way leaves behind, and what they wait
// for.
func (e *Engine) traceLeftLocked() {
	r := e.rollout
	if e.Tracer == nil || !r.running() {
		return
	}
	for _, name := range r.Nodes {
		w := e.workers[name]
		if w == nil || w.standing == aside || w.standing == done {
			continue
		}
		if isWait(w.status) {
			w.traceWaitLocked(w.status)
		}
		if why, lost := r.Failed[name]; lost {
			w.traceNodeLocked("failed", why)
		} else {
			w.traceNodeLocked("left", w.status.Reason)
		}
	}
}

// traced is what was reported of a node's part in a rollout.
type traced struct {
	rollout  time.Time
	revision string
	from     time.Time // of the first wait or step
	ended    bool
}

// tracedLocked returns what was reported of the node's part in the rollout under way; nil if it has
// none.
func (w *worker) tracedLocked() *traced {
	r := w.e.rollout
	if w.e.Tracer == nil || !r.running() || w.standing == aside {
		return nil
	}
	if t := &w.traced; !t.rollout.Equal(r.Since) || t.revision != r.Revision.ID {
		*t = traced{rollout: r.Since, revision: r.Revision.ID}
	}
	return &w.traced
}

// began notes when a wait or step began.
func (t *traced) began(at time.Time) {
	if t.from.IsZero() || at.Before(t.from) {
		t.from = at
	}
}

// traceStandLocked reports a node that was found in-sync in the rollout. Failed ones may recover, and
// are reported when the rollout ends.
func (w *worker) traceStandLocked(was standing) {
	if w.standing != done {
		return
	}
	b := w.memory.Recorded.Begun
	if b.In(&w.e.rollout.RolloutStatus) && !b.Ended.IsZero() && was != failed {
		return // an earlier daemon has reported it
	}
	w.traceNodeLocked("in-sync", "")
}

// traceNodeLocked reports the end of a node's part in the rollout under way, once. A node that
// neither waited nor was changed has none.
func (w *worker) traceNodeLocked(outcome, why string) {
	t := w.tracedLocked()
	if t == nil || t.ended {
		return
	}
	r := w.e.rollout
	if b := w.memory.Recorded.Begun; b.In(&r.RolloutStatus) {
		t.began(b.Since)
	}
	if t.from.IsZero() {
		return
	}
	t.ended = true
	w.e.trace(site.TracePart{Kind: site.TraceNode, Revision: r.Revision, Rollout: r.Since, Node: w.name, Span: until(t.from),
		Outcome: outcome, Failed: outcome == "failed", Why: why})
}

// traceWaitedLocked reports what the node has waited for, if its next status says something else.
// After a restart that is in the records.
func (w *worker) traceWaitedLocked(next site.NodeStatus) {
	last := w.status
	if last.State == site.Unknown {
		l := w.memory.Recorded.Last
		last = site.NodeStatus{State: l.State, Reason: l.Reason, Since: l.Since}
		if l.State == site.Progressing {
			return // it is not recorded whether a step was taken or something was waited for
		}
	}
	if (last.State != next.State || last.Reason != next.Reason) && isWait(last) {
		w.traceWaitLocked(last)
	}
}

// isWait reports whether a node waits for something while no step of it is taken.
func isWait(s site.NodeStatus) bool {
	switch s.State {
	case site.InSync, site.Unknown, "":
		return false
	case site.Progressing:
		return s.Next == "" && s.Reason != redesigned
	}
	return true
}

// traceWaitLocked reports a wait of a node in the rollout under way, as far as it was in that.
func (w *worker) traceWaitLocked(s site.NodeStatus) {
	t := w.tracedLocked()
	if t == nil {
		return
	}
	r := w.e.rollout
	span := until(later(s.Since, r.Since))
	if !span.From.Before(span.To) {
		return // such as after the clock was set back
	}
	t.began(span.From)
	w.e.trace(site.TracePart{Kind: site.TraceWait, Revision: r.Revision, Rollout: r.Since, Node: w.name, Span: span,
		Outcome: "over", State: s.State, Gate: s.Reason, Release: s.Release, Person: s.Person})
}

// tries counts the tries of one step in a row. Only the worker's own goroutine uses it.
type tries struct {
	step string
	n    int
}

// traceBegins returns what is known of a step's try when it begins.
func (w *worker) traceBegins(j job, s site.Step) site.TracePart {
	if w.e.Tracer == nil {
		return site.TracePart{}
	}
	if d := s.Digest(); w.tries.step != d {
		w.tries = tries{step: d}
	}
	w.tries.n++
	t := site.TracePart{Kind: site.TraceStep, Revision: j.revision, Node: w.name, Span: site.Span{From: time.Now()},
		Action: s.Action, Facet: s.Facet, Impact: s.Impact, Driver: driverOf(j.node, s.Endpoint()),
		Attempt: w.tries.n, Resumed: j.memory.Recorded.InFlight.Is(s)}
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	if in := w.tracedLocked(); in != nil {
		in.began(t.From)
		t.Revision, t.Rollout = w.e.rollout.Revision, w.e.rollout.Since
	}
	return t
}

// driverOf names the driver of an endpoint.
func driverOf(n *site.Node, kind site.EndpointKind) string {
	if kind == site.Agent {
		return string(site.Agent)
	}
	u, err := url.Parse(n.Endpoints[kind].URL)
	if err != nil {
		return ""
	}
	return driver.Protocol(u.Scheme)
}

// traceStep reports a try of a step.
func (w *worker) traceStep(t site.TracePart, err error) {
	if w.e.Tracer == nil {
		return
	}
	t.To, t.Outcome = time.Now(), driver.Class(err)
	switch {
	case err == nil:
		w.tries = tries{}
	case errors.Is(err, context.Canceled), errors.Is(err, errHeld):
		t.Outcome, t.Why = "stopped", "the daemon ended, or a person's order stopped it"
	case errors.Is(err, driver.ErrNotPermitted):
		t.Why = verdict(err)
	default:
		t.Failed, t.Why = true, verdict(err)
	}
	w.e.trace(t)
}
