package engine

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/retry"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Times of the reporting loop.
const (
	firstReport   = 30 * time.Second // longest wait for the first look at every node
	reportEvery   = 10 * time.Second // until a design sets it
	reportTimeout = 5 * time.Minute
)

// show puts the outcome of a reconcile into the node's status.
func (w *worker) show(ctx context.Context, o outcome) {
	e := w.e
	e.mu.Lock()
	if w.outdated && o.state == site.InSync {
		o = outcome{state: site.Progressing, reason: redesigned, wait: o.wait} // with the design when the reconcile began
	}
	s := w.describeLocked(o)
	w.asks, s.Approve, s.Approval = question{}, "", ""
	if e.applied.ID == w.revision && !w.outdated && o.asks.standsLocked(w) { // what was decided is about what is so now
		w.asks, s.Approve, s.Approval = o.asks, o.asks.text, w.approvalLocked(o.asks)
	}
	shown := site.Shown{State: s.State, Reason: s.Reason, Since: s.Since}
	fresh := shown != w.memory.Recorded.Last
	changed := !sameStatus(s, w.status)
	w.traceWaitedLocked(s)
	w.status = s
	tell := e.note
	if s.Person && !w.blind { // a failed look was reported when it failed
		tell = e.warn
	}
	e.mu.Unlock()
	if fresh {
		tell(site.Event{Node: w.name, Kind: site.EventState, Text: told(o), State: s.State, Quarantined: s.Quarantined != nil})
	}
	if fresh && ctx.Err() == nil {
		if err := w.save(ctx, func(r *site.Recorded) { r.Last = shown }); err != nil {
			e.Log.Warn("state not recorded", "node", w.name, "err", err)
		}
	}
	if changed {
		e.touch()
	}
}

// told returns an outcome in the history's words.
func told(o outcome) string {
	if o.reason == "" {
		return string(o.state)
	}
	return string(o.state) + ": " + o.reason
}

func (w *worker) describeLocked(o outcome) site.NodeStatus {
	n, m := w.node, w.memory
	s := site.NodeStatus{
		Name: n.Name, Role: n.Role, Rack: n.Rack, Position: n.Position, Hypervisor: n.Virtual.Host.Hypervisor, State: o.state, Reason: o.reason, Next: o.next,
		Detail: o.detail, Cause: o.cause, Release: o.release, Person: o.person || o.state == site.Stalled, Phase: w.plan.Phase, Model: plan.Model(m.Observed),
		Machine: m.Observed.Identity, Generation: m.Recorded.Generation(),
		Power:  m.Observed.Facets[site.FacetPower].Have["state"],
		Health: m.Observed.Facets[site.FacetHealth].Have["status"],
		OS:     m.Observed.Facets[site.FacetOS].Have["release"], Service: w.serviceLocked(), SystemHealth: w.healthLocked(), Links: w.linksLocked(), Binding: w.binding, Login: m.Observed.Login,
		Seen: m.Observed.Seen(), NotActedOn: w.plan.NotActedOn, Notes: w.plan.Notes, Erased: m.Recorded.LastErased(), Findings: w.plan.Findings, Since: time.Now(),
		Stale: stale(n, m.Observed, observeEvery(w.e.design), time.Now()),
	}
	if _, overdue := s.Stale[site.FacetPower]; w.blind || overdue {
		s.AsOf = m.Observed.Facets[site.FacetPower].Seen
	}
	s.Drafted = o.drafted
	s.Passwords = passwordsStatus(n, m.Recorded)
	s.Sealed = w.sealLocked()
	s.HostCertificates, s.Certificates = w.hostIdentityLocked(), w.tlsStatusLocked(time.Now())
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

// serviceLocked returns whether the system answered when it was last asked. While
// an installer runs, it is unknown.
func (w *worker) serviceLocked() site.Service {
	_, asked := w.node.Endpoints[site.OS]
	switch {
	case !asked:
		return ""
	case w.blind, w.memory.Recorded.UnderWay() > 0:
		return site.ServiceUnknown
	case w.memory.Observed.Facets[site.FacetPower].Have["state"] == "off":
		return site.ServiceOff
	case w.blindInside:
		return site.ServiceSilent
	case w.lookedInside.IsZero():
		return site.ServiceUnknown
	}
	return site.ServiceAnswers
}

// sameStatus compares the parts of two statuses that are worth reporting.
func sameStatus(a, b site.NodeStatus) bool {
	a.Seen, b.Seen, a.Retry, b.Retry = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	a.Detail, b.Detail, a.Cause, b.Cause, a.Release, b.Release = "", "", "", "", "", ""
	a.Stale, b.Stale = nil, nil
	a.Login, b.Login = a.Login.Steady(), b.Login.Steady()
	return reflect.DeepEqual(a, b)
}

// Report returns the site's present status and plan.
func (e *Engine) Report() site.Report {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.reportLocked()
}

func (e *Engine) reportLocked() site.Report {
	waiting, digest := e.waitingLocked()
	st := site.Status{
		Site: e.Site, Applied: e.applied, Attempted: e.attempted,
		ObserveOnly: e.whyReadOnlyLocked(), Waiting: waiting, Approve: digest,
		Rollout: e.rolloutLocked(), Term: e.termNumberLocked(), Swept: e.swept,
		Proposals: e.reviews,
		Commits:   e.commits != nil,
	}
	if e.Files != nil && e.applied.ID != "" {
		st.Files = e.Files(e.applied.ID)
	}
	if e.design != nil {
		st.Unacted = e.design.NotActedOn(e.serves)
	}
	if e.Config.Notes != nil {
		st.Notes = e.Config.Notes()
	}
	if why := e.authorityTroubleLocked(); why != "" {
		st.Notes = append(st.Notes, why)
	}
	if e.accessNote != "" {
		st.Notes = append(st.Notes, e.accessNote)
	}
	if e.Served != nil {
		st.Served = e.Served()
	}
	if e.paused.Holds(time.Now()) {
		st.Paused = e.paused
	}
	st.Ledger = e.ledgerLocked()
	st.Incidents = e.incidentsLocked()
	st.RevocationLists = e.listStatesLocked()
	st.Problems = e.problemsLocked()
	st.Nodes = make([]site.NodeStatus, 0, len(e.workers))
	p := site.Plan{Version: site.PlanVersion, Site: e.Site, Revision: e.applied.ID}
	for _, name := range e.namesLocked() {
		w := e.workers[name]
		st.Nodes = append(st.Nodes, w.refreshLocked())
		if w.leaving {
			p.Removes = append(p.Removes, site.Removal{Node: name, Machine: w.memory.Observed.Identity, Held: w.status.Reason})
		} else if !w.plan.IsEmpty() {
			p.Nodes = append(p.Nodes, w.plan)
		}
	}
	return site.Report{Status: st, Plan: p, Findings: slices.Clone(e.findings), RevocationLists: e.listsLocked()}
}

// problemsLocked returns what is wrong with the site as a whole.
func (e *Engine) problemsLocked() (all []site.Problem) {
	for _, key := range slices.Sorted(maps.Keys(e.problems)) {
		all = append(all, e.problems[key])
	}
	return slices.Concat(all, e.withheldLocked(), e.lateLocked(time.Now()), e.lateListsLocked(time.Now()), e.endingLocked(time.Now()))
}

// namesLocked returns the names of all nodes, sorted.
func (e *Engine) namesLocked() []string { return slices.Sorted(maps.Keys(e.workers)) }

// knownOf returns what a plan of one node is based on.
func (e *Engine) knownOf(node string, m site.Memory) site.Known {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.knownOfLocked(node, m)
}

func (e *Engine) knownOfLocked(node string, m site.Memory) site.Known {
	return site.Known{Nodes: map[string]site.Memory{node: m}, History: e.history, Serves: e.serves,
		Accounts: map[string]site.Account{node: e.accounts[node]}, Records: e.book.Records, Reach: e.others}
}

// Known returns everything known besides the design.
func (e *Engine) Known() site.Known {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.allKnownLocked()
}

func (e *Engine) allKnownLocked() site.Known {
	k := site.Known{Nodes: make(map[string]site.Memory, len(e.workers)), History: e.history, Serves: e.serves, Paused: e.paused, Rollout: e.rolloutLocked(),
		Accounts: maps.Clone(e.accounts), Records: e.book.Records, Delivered: e.deliveredLocked(),
		Reach: make(map[string]site.Reach, len(e.workers)), Placed: e.placedLocked(), Unseen: map[string]bool{}}
	for name, w := range e.workers {
		k.Nodes[name] = w.memory
		if w.turned && w.blind {
			k.Unseen[name] = true
		}
		reach, own := e.reachLocked(w), site.ReachOf(w.node)
		reach.Manager, reach.Machine, reach.Hypervisor = own.Manager, own.Machine, own.Hypervisor // how it is reached now
		reach.Manager = pinned(reach.Manager, w.memory.Recorded.Certificate)
		k.Reach[name] = reach
	}
	return k
}

// report sends every change to the reporters, at most as often as the design says,
// and again after an error.
func (e *Engine) report(ctx context.Context) {
	e.awaitFirstLooks(ctx)
	tick, stop := e.aliveTicks()
	defer stop()
	for failures := 0; ; {
		tell := e.tell
		select {
		case <-ctx.Done():
			return
		case <-e.changed:
		case <-tick:
			tell = e.tellBranch // nothing is new for the others
		}
		wait := e.reportInterval()
		if tell(ctx) {
			failures = 0
		} else {
			failures++
			wait = max(wait, retry.Backoff(failures))
			e.touch()
		}
		if !retry.Sleep(ctx, wait) {
			return
		}
	}
}

// tell runs every reporter once and reports whether all succeeded. A daemon that
// does not act for the site leaves reporting to the one that does.
func (e *Engine) tell(ctx context.Context) bool {
	if e.isBarred() || e.isSilent() {
		return true
	}
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
	return e.tellBranch(ctx) && ok
}

// branchProblem is what a status branch that cannot be written is reported as.
const branchProblem = "status branch"

// tellBranch is tell for the status branch alone.
func (e *Engine) tellBranch(ctx context.Context) bool {
	if e.Branch == nil || e.isBarred() || e.isSilent() {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	err := e.publishStatus(ctx)
	if err != nil {
		err = fmt.Errorf("the status cannot be written: %w", err)
	}
	e.setProblem(branchProblem, err)
	return err == nil
}

// publishStatus writes the status to the branch, after comparing the published
// status with the records. Only the published status shows that the records are out
// of date, and writing would overwrite it.
func (e *Engine) publishStatus(ctx context.Context) error {
	if e.Anchor != nil {
		if err := e.compareWithPublished(ctx); err != nil {
			return err
		}
		if e.isBarred() {
			return nil
		}
	}
	return e.writeBranch(ctx)
}

// writeBranch writes the status to the branch. One write happens at a time.
func (e *Engine) writeBranch(ctx context.Context) error {
	e.branching.Lock()
	defer e.branching.Unlock()
	r := e.toBranch()
	if err := e.Branch.Report(ctx, r); err != nil {
		return err
	}
	e.noteBranch(r.Status.Nodes...)
	e.noteWritten(time.Now())
	return nil
}

// noteWritten notes when the status was written to the branch, for those who wait for it.
func (e *Engine) noteWritten(now time.Time) {
	e.mu.Lock()
	e.written = now
	e.mu.Unlock()
	e.isWritten(now)
}

func (e *Engine) reportInterval() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.design == nil || e.design.Rollout.ReportEvery <= 0 {
		return reportEvery
	}
	return time.Duration(e.design.Rollout.ReportEvery)
}

// awaitFirstLooks delays the first report until Slipway has looked at every node,
// so that a restart does not report all nodes as "unknown".
func (e *Engine) awaitFirstLooks(ctx context.Context) {
	deadline := time.Now().Add(firstReport)
	for time.Now().Before(deadline) && !e.lookedOnce() {
		if !retry.Sleep(ctx, 250*time.Millisecond) {
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
