package engine

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Times of the reporting loop.
const (
	firstReport   = 30 * time.Second // longest wait for every node's first look
	reportEvery   = 10 * time.Second // until a design says how often
	reportTimeout = 5 * time.Minute
)

// show puts a turn's outcome into the node's status.
func (w *worker) show(ctx context.Context, o outcome) {
	e := w.e
	e.mu.Lock()
	if w.outdated && o.state == site.InSync {
		o = outcome{state: site.Progressing, reason: redesigned, wait: o.wait} // with what was designed when the turn began
	}
	s := w.describeLocked(o)
	shown := site.Shown{State: s.State, Reason: s.Reason, Since: s.Since}
	fresh := shown != w.memory.Recorded.Last
	changed := !sameStatus(s, w.status)
	w.status = s
	e.mu.Unlock()
	if fresh {
		w.note(site.EventState, "", told(o))
	}
	if fresh && ctx.Err() == nil {
		if err := w.save(ctx, func(r *site.Recorded) { r.Last = shown }); err != nil {
			e.Log.Warn("state not recorded", "node", w.name, "err", err)
		}
	}
	if changed {
		e.Log.Debug("node state", "node", w.name, "state", string(s.State), "reason", s.Reason)
		e.touch()
	}
}

// told is an outcome as history tells it.
func told(o outcome) string {
	if o.reason == "" {
		return string(o.state)
	}
	return string(o.state) + ": " + o.reason
}

func (w *worker) describeLocked(o outcome) site.NodeStatus {
	n, m := w.node, w.memory
	s := site.NodeStatus{
		Name: n.Name, Role: n.Role, Rack: n.Rack, Hypervisor: n.Virtual.Host.Hypervisor, State: o.state, Reason: o.reason, Next: o.next,
		Detail: o.detail, Release: o.release, Person: o.person || o.state == site.Stalled, Phase: w.plan.Phase, Model: plan.Model(m.Observed),
		Machine: m.Observed.Identity, Generation: m.Recorded.Generation(),
		Power:  m.Observed.Facets[site.FacetPower].Have["state"],
		Health: m.Observed.Facets[site.FacetHealth].Have["status"],
		OS:     m.Observed.Facets[site.FacetOS].Have["release"],
		Seen:   m.Observed.Seen(), Notes: w.plan.Notes, Findings: w.plan.Findings, Since: time.Now(),
		Stale: stale(n, m.Observed, observeEvery(w.e.design), time.Now()),
	}
	s.Quarantined = m.Recorded.Quarantined
	if p := m.Recorded.Paused; p.Holds(time.Now()) {
		s.Paused = p
	}
	switch p, q := s.Paused, s.Quarantined; {
	case o.state == site.Paused:
	case q != nil:
		s.Reason = fmt.Sprintf("quarantined by %s: %s; %s", q.By, q.Reason, o.reason)
	case p != nil:
		s.Reason = fmt.Sprintf("paused by %s: %s; %s", p.By, p.Reason, o.reason)
	}
	if l := m.Recorded.Last; l.State == s.State && l.Reason == s.Reason {
		s.Since = l.Since
	}
	if o.retry {
		s.Retry = time.Now().Add(o.wait)
	}
	return s
}

// sameStatus compares what is worth telling people.
func sameStatus(a, b site.NodeStatus) bool {
	a.Seen, b.Seen, a.Retry, b.Retry = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	a.Detail, b.Detail, a.Release, b.Release = "", "", "", ""
	a.Stale, b.Stale = nil, nil
	return reflect.DeepEqual(a, b)
}

// Report is the site's status and plan as they are now.
func (e *Engine) Report() site.Report {
	e.mu.Lock()
	defer e.mu.Unlock()
	waiting, digest := e.waitingLocked()
	st := site.Status{
		Site: e.Site, Applied: e.applied, Attempted: e.attempted,
		ObserveOnly: e.whyReadOnlyLocked(), Waiting: waiting, Approve: digest,
		Rollout: e.rolloutLocked(), Term: e.termNumberLocked(), Swept: e.swept,
	}
	if e.paused.Holds(time.Now()) {
		st.Paused = e.paused
	}
	for _, key := range slices.Sorted(maps.Keys(e.problems)) {
		st.Problems = append(st.Problems, e.problems[key])
	}
	st.Nodes = make([]site.NodeStatus, 0, len(e.workers))
	p := site.Plan{Version: site.PlanVersion, Site: e.Site, Revision: e.applied.ID}
	for _, name := range e.namesLocked() {
		w := e.workers[name]
		st.Nodes = append(st.Nodes, w.status)
		if w.leaving {
			p.Removes = append(p.Removes, site.Removal{Node: name, Machine: w.memory.Observed.Identity, Held: w.status.Reason})
		} else if len(w.plan.Steps)+len(w.plan.Blocked)+len(w.plan.Notes)+len(w.plan.Findings) > 0 || w.plan.Waiting != "" {
			p.Nodes = append(p.Nodes, w.plan)
		}
	}
	return site.Report{Status: st, Plan: p, Findings: slices.Clone(e.findings)}
}

// namesLocked are the names of all nodes in order.
func (e *Engine) namesLocked() []string { return slices.Sorted(maps.Keys(e.workers)) }

// knownOf is what a plan of one node rests on.
func (e *Engine) knownOf(node string, m site.Memory) site.Known {
	e.mu.Lock()
	defer e.mu.Unlock()
	return site.Known{Nodes: map[string]site.Memory{node: m}, History: e.history, Serves: e.serves}
}

// Known is what is known beside the design.
func (e *Engine) Known() site.Known {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := site.Known{Nodes: make(map[string]site.Memory, len(e.workers)), History: e.history, Serves: e.serves, Paused: e.paused, Rollout: e.rolloutLocked(),
		Reach: make(map[string]site.Reach, len(e.workers)), Placed: e.placedLocked()}
	for name, w := range e.workers {
		k.Nodes[name] = w.memory
		k.Reach[name] = site.Reach{BMC: Pinned(w.node.Endpoints[site.BMC], w.memory.Recorded.Certificate), Machine: w.node.Machine(),
			Hypervisor: w.node.Virtual.Host.Hypervisor}
	}
	return k
}

// report tells the reporters of every change, at most as often as the design
// says, and again after an error.
func (e *Engine) report(ctx context.Context) {
	e.awaitFirstLooks(ctx)
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-e.changed:
		}
		wait := e.reportInterval()
		if e.tell(ctx) {
			failures = 0
		} else {
			failures++
			wait = max(wait, backoff(failures))
			e.touch()
		}
		if !sleep(ctx, wait) {
			return
		}
	}
}

// tell runs every reporter once and says whether all of them succeeded.
func (e *Engine) tell(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	r, ok := e.Report(), true
	for i, rep := range e.Reporters {
		err := rep.Report(ctx, r)
		if err != nil {
			err, ok = fmt.Errorf("the status cannot be written: %w", err), false
		}
		e.setProblem(fmt.Sprintf("report %d", i), err)
	}
	return ok
}

func (e *Engine) reportInterval() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.design == nil || e.design.Rollout.ReportEvery <= 0 {
		return reportEvery
	}
	return time.Duration(e.design.Rollout.ReportEvery)
}

// awaitFirstLooks holds the first report back until every node was looked at,
// so that a restart is not told as "unknown" of all of them.
func (e *Engine) awaitFirstLooks(ctx context.Context) {
	deadline := time.Now().Add(firstReport)
	for time.Now().Before(deadline) && !e.lookedOnce() {
		if !sleep(ctx, 250*time.Millisecond) {
			return
		}
	}
}

func (e *Engine) lookedOnce() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.attempted.ID == "" && len(e.problems) == 0 {
		return false
	}
	for _, w := range e.workers {
		if w.status.State == site.Unknown {
			return false
		}
	}
	return true
}
