package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// healthLocked is how the node's system is, by the probes of its role and as far as
// that is known now: what was seen too long ago, or before a look that failed, is
// unknown.
func (w *worker) healthLocked() site.SystemHealth {
	if w.node.Health() == nil {
		return site.SystemHealth{}
	}
	seen := w.memory.Observed.Facets[site.FacetProbes]
	if w.probed.node != w.node || !w.probed.at.Equal(seen.Seen) {
		w.probed = probed{w.node, seen.Seen, plan.Health(w.node, w.memory.Observed, w.e.serves)}
	}
	h := w.probed.health
	if h.State != site.Healthy && h.State != site.Unhealthy {
		return h
	}
	switch {
	case w.blind:
		return site.SystemHealth{State: site.HealthUnknown, Why: "the machine does not answer"}
	case w.memory.Observed.Facets[site.FacetPower].Have["state"] == "off":
		return site.SystemHealth{State: site.HealthUnknown, Why: "the machine is off"}
	case w.blindInside:
		return site.SystemHealth{State: site.HealthUnknown, Why: "its system did not answer"}
	case !w.turned || time.Since(w.lookedInside) > 2*systemEvery+observeEvery(w.e.design):
		return site.SystemHealth{State: site.HealthUnknown, Why: "it was not looked at for too long"}
	}
	return h
}

// probed is what the probes of a node's design last came to: many ask for it.
type probed struct {
	node   *site.Node
	at     time.Time
	health site.SystemHealth
}

// isLackingLocked says whether the node is missing to others: its machine is out of
// service, or its system was healthy and is not known to be so now.
func (w *worker) isLackingLocked() bool {
	return w.outLocked() || w.hasLostHealthLocked()
}

func (w *worker) hasLostHealthLocked() bool {
	r := w.memory.Recorded
	return !r.Healthy.IsZero() && r.HasLost(w.healthLocked())
}

// looksAtHealth says whether every look at the node asks for its health: others begin
// because of what is known of it, at any time.
func (w *worker) looksAtHealth(j job) bool {
	return j.node.Health() != nil && w.e.serves[site.FacetProbes]
}

// noteHealth records that the system was seen healthy.
func noteHealth(r *site.Recorded, h site.SystemHealth) {
	if h.State != site.Healthy {
		return
	}
	r.Unhealthy = time.Time{}
	if r.Healthy.IsZero() {
		r.Healthy = time.Now()
	}
}

// awaitHealth is the outcome for a node that is as designed and whose system is not
// healthy, or not known to be. It has some time for that; then it has failed.
func (w *worker) awaitHealth(ctx context.Context, j job, h site.SystemHealth) outcome {
	if err := w.save(ctx, func(r *site.Recorded) {
		if r.Unhealthy.IsZero() {
			r.Unhealthy = time.Now()
		}
	}); err != nil {
		return w.fail(j, err)
	}
	limit := j.node.Health().Wait()
	waited := w.waitedFor("health", w.job().memory.Recorded.Unhealthy)
	what := "not healthy"
	if h.State == site.HealthUnknown {
		what = "not known to be healthy"
	}
	if waited >= limit {
		return outcome{state: site.Stalled, wait: observeEvery(j.site),
			reason:  fmt.Sprintf("it is %s, for longer than %s: %s", what, plan.Brief(site.Duration(limit)), h.Why),
			release: fmt.Sprintf("the system becoming healthy, a commit that changes the node or its role's health, or `slipway retry %s`", w.name)}
	}
	return outcome{state: site.Progressing, wait: min(soonEnough(j, waited), limit-waited),
		reason: fmt.Sprintf("waiting for its system, which is %s: %s", what, h.Why)}
}

// withHealth names a node, and what its health lacks.
func (w *worker) withHealthLocked() string {
	if h := w.healthLocked(); !h.IsFit() {
		return fmt.Sprintf("%s (%s)", w.name, cmp.Or(h.Why, string(h.State)))
	}
	return w.name
}

// withHealthLocked names nodes, and what the health of each lacks.
func (e *Engine) withHealthLocked(names []string) []string {
	all := slices.Clone(names)
	for i, name := range names {
		if x := e.workers[name]; x != nil {
			all[i] = x.withHealthLocked()
		}
	}
	return all
}
