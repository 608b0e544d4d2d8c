package engine

import (
	"context"
	"errors"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/retry"
	"github.com/slipway-gitops/slipway/engine/rollout"
	"github.com/slipway-gitops/slipway/engine/site"
)

// run reconciles until the context ends.
func (w *worker) run(ctx context.Context) {
	defer w.closeConnections()
	for w.untilDue(ctx) {
		wait := w.interruptible(ctx)
		w.due = time.Now().Add(wait)
		if w.inspectMeanwhile(ctx) || w.listenMeanwhile(ctx) {
			w.due = time.Now()
		}
	}
}

// untilDue waits until a reconcile is due or something wakes the worker, and reports
// whether to continue.
func (w *worker) untilDue(ctx context.Context) bool {
	t := time.NewTimer(time.Until(w.due))
	defer t.Stop()
	for {
		select {
		case <-w.ask:
			now := time.Now()
			if why := w.putsOff(now); why != "" {
				w.answerUnasked(why)
				continue
			}
			if w.failures > 0 && now.Before(w.due) {
				w.lookOnly(ctx)
				continue
			}
			w.due = now
		case <-ctx.Done():
		case <-w.wake:
			w.due = time.Now()
		case <-t.C:
		}
		return ctx.Err() == nil
	}
}

// interruptible runs a reconcile that a person's hold ends before its next request; the
// next reconcile then follows at once.
func (w *worker) interruptible(ctx context.Context) time.Duration {
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	w.setCut(cut)
	defer w.setCut(nil)
	return w.reconcile(ctx)
}

// reconcile looks at the machine once and takes at most one step. It returns how long to
// wait before the next reconcile.
func (w *worker) reconcile(ctx context.Context) time.Duration {
	j, err := w.begin(ctx)
	if err != nil {
		return w.finish(ctx, w.fail(j, err))
	}
	view, err := w.look(ctx, j)
	if ctx.Err() != nil {
		return 0
	}
	w.saw(view, err)
	w.endAsked(j, whyNotAsked(view, err))
	if err == nil {
		err = w.learn(ctx, &j, view)
	}
	if err == nil {
		err = w.letGo(ctx, j)
		j.memory = w.job().memory
	}
	if eerr := w.endStart(ctx, j); eerr != nil && err == nil {
		err = eerr
	}
	j.memory = w.job().memory
	if err == nil {
		err = w.tendPorts(ctx, j)
		j.memory = w.job().memory
	}
	p := plan.Node(j.site, j.node, w.e.knownOf(w.name, j.memory))
	if lerr := w.letGoOfUnplanned(ctx, j, p); lerr != nil && err == nil {
		err = lerr
	}
	p.Findings = w.findings(ctx, j)
	w.keep(j, &p, view)
	if terr := w.e.tend(ctx, w.name); terr != nil && err == nil {
		err = terr
	}
	o := w.decide(ctx, j, p, view, err)
	if ctx.Err() != nil {
		return 0
	}
	return w.finish(ctx, o)
}

// saw notes how much the look could see.
func (w *worker) saw(v view, err error) {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	f := w.e.factsLocked()
	w.unplanned = err == nil && (w.unplanned || !f.IsCertain(w.factsLocked(f.Now)))
	w.blind = err != nil
	if err != nil {
		return
	}
	w.looked = time.Now()
	switch _, seen := v.seen.Facets[site.FacetOS]; {
	case seen:
		w.blindInside, w.lookedInside, w.stranger = false, w.looked, ""
	case v.inside != nil || v.dark:
		w.blindInside, w.stranger = true, v.stranger
	}
}

// begin takes a consistent snapshot for the reconcile.
func (w *worker) begin(ctx context.Context) (job, error) {
	w.e.mu.Lock()
	fresh := w.fresh
	w.answers = w.asked
	if w.recheck || !w.answers.IsZero() {
		w.inside = time.Time{}
	}
	if w.thorough {
		w.reinspect, w.uninspected = true, time.Time{}
	}
	retried, singled := w.retried, w.singled
	w.oneTry, w.again = w.singled, w.again || w.singled
	w.fresh, w.retried, w.singled, w.recheck, w.thorough, w.awaits = false, false, false, false, false, ""
	w.e.mu.Unlock()
	var err error
	if fresh {
		w.failures, w.last, w.inside, w.notBefore = 0, "", time.Time{}, time.Time{}
		w.anew = true
		for _, d := range w.connections {
			d.denied = nil
		}
		j := w.job()
		err = w.save(ctx, func(r *site.Recorded) {
			r.NoEffect, r.Unhealthy = nil, time.Time{}
			if retried {
				r.Attempts = nil
				retryLogins(r)
				if r.Ports != nil && !r.Ports.Back.IsZero() {
					r.Ports = &site.PreparedPorts{Ports: r.Ports.Ports, Since: r.Ports.Since}
				}
				if b := r.Agent; b != nil {
					again := *b
					again.Failed, again.Why, again.Refused = 0, "", ""
					if !b.IsOn() {
						again.Tries = 0
					}
					r.Agent = &again
				}
			}
			if singled {
				plan.AgainOnce(j.node, r, j.memory.Observed)
			}
		})
	}
	j := w.job()
	w.revision = j.revision.ID
	return j, err
}

// keep publishes the plan that the reconcile uses.
func (w *worker) keep(j job, p *site.NodePlan, v view) {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	if v.inside != nil {
		p.Notes = append(p.Notes, verdict(v.inside))
	}
	if note := w.weaker(); note != "" {
		p.Notes = append(p.Notes, note)
	}
	w.binding = w.connections[site.Manager].binding()
	w.planIsLocked(*p)
	w.unplanned = false
	w.noteWantLocked()
	if note := w.startNoteLocked(); note != "" {
		w.plan.Notes = append(w.plan.Notes, note)
	}
	if note := w.artifactNoteLocked(); note != "" {
		w.plan.Notes = append(w.plan.Notes, note)
	}
	w.outdated = w.outdated && w.node != j.node
	if !w.disrupts {
		w.disrupts = j.memory.Recorded.InstallBegun() || j.memory.Recorded.Installing != nil || j.memory.Recorded.SentPassword()
	}
}

// finish publishes how the reconcile ended, and returns when the next is due.
func (w *worker) finish(ctx context.Context, o outcome) time.Duration {
	if o.state == site.InSync {
		w.failures = 0
	}
	w.show(ctx, o)
	w.settle(ctx)
	w.expected = o.retry || o.state == site.Progressing || !o.until.IsZero() && time.Until(o.until) < 2*longestInspection
	if o.wait == 0 {
		return 0
	}
	if o.state == site.InSync && !w.spread {
		// All machines are first looked at together; from then on their looks
		// are spread over the period.
		w.spread = true
		return time.Duration(w.dice.Float64() * float64(o.wait))
	}
	wait := retry.Jitter(w.dice, o.wait)
	if o.until.IsZero() {
		return wait
	}
	return max(time.Millisecond, min(wait, time.Until(o.until))) // a step with a start time must not be late
}

// settle tells the nodes that wait for this one how the reconcile left it.
func (w *worker) settle(ctx context.Context) {
	e := w.e
	e.mu.Lock()
	f := e.factsLocked()
	if out := f.IsLacking(w.factsLocked(f.Now)); out != w.wasOut {
		w.wasOut = out
		if !out {
			e.freePlacesLocked()
		}
	}
	if before := f.Before(w.factsLocked(f.Now)); before != w.wasBefore {
		w.wasBefore = before
		e.wakeLocked(rollout.RoleTopic(w.node.Role))
	}
	end := e.standLocked(w)
	e.mu.Unlock()
	err := e.saveRollout(ctx)
	if end != nil {
		err = errors.Join(err, w.save(ctx, func(r *site.Recorded) { r.Begun = end }))
	}
	if err != nil && ctx.Err() == nil {
		e.setProblem("records", err)
	}
}

// maxRetryAfter limits the delay that a machine may name for the next try.
const maxRetryAfter = 15 * time.Minute

// fail classifies an error into an outcome. Retries wait longer each time.
func (w *worker) fail(j job, err error) outcome {
	if errors.Is(err, driver.ErrNotPermitted) {
		return outcome{state: site.Progressing, reason: retry.Steady(err)} // the gates say at once what the step waits for
	}
	if unproven := (unprovenBMC{}); errors.As(err, &unproven) {
		return outcome{state: site.Blocked, reason: verdict(err), cause: cause(err), person: true, asks: w.asksCertificate(j), wait: observeEvery(j.site),
			release: "`slipway approve " + w.name + "`, once the certificate was compared on the BMC itself"}
	}
	if errors.Is(err, driver.ErrDenied) || errors.Is(err, driver.ErrRefused) || errors.Is(err, errors.ErrUnsupported) {
		return outcome{state: site.Stalled, reason: verdict(err), cause: cause(err), wait: observeEvery(j.site)}
	}
	w.failures++
	wait := max(retry.Backoff(w.failures), w.named(err))
	return outcome{state: site.Retrying, reason: verdict(err), cause: cause(err), wait: wait, retry: true}
}

// named is how long to wait that a machine named in an error; 0 for none. Until then it is not
// asked, also if somebody asks for a look.
func (w *worker) named(err error) time.Duration {
	var after driver.RetryAfter
	if !errors.As(err, &after) {
		return 0
	}
	wait := min(time.Duration(after.RetryAfterSeconds())*time.Second, maxRetryAfter)
	if until := time.Now().Add(wait); until.After(w.notBefore) {
		w.notBefore = until
	}
	return wait
}

func observeEvery(s *site.Site) time.Duration {
	if s == nil || s.Rollout.ObserveEvery <= 0 {
		return time.Minute
	}
	return time.Duration(s.Rollout.ObserveEvery)
}
