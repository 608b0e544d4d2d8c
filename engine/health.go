package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// probed caches the last result of a node's probes, since many ask for it.
type probed struct {
	node   *site.Node
	at     time.Time
	health site.SystemHealth
}

// looksAtHealth reports whether every look at the node asks for its health. Other
// nodes may begin at any time because of what is known of it.
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
	if r.EverHealthy.IsZero() {
		r.EverHealthy = r.Healthy
	}
}

// awaitHealth returns the outcome for a node that is as designed but whose system is
// not known to be healthy. It gives the system some time; then the node has failed.
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
			reason:  fmt.Sprintf("it is %s, for longer than %s: %s", what, say.Brief(site.Duration(limit)), h.Why),
			release: fmt.Sprintf("the system becoming healthy, a commit that changes the node or its role's health, or `slipway retry %s`", w.name)}
	}
	return outcome{state: site.Progressing, wait: min(soonEnough(j, waited), limit-waited),
		reason: fmt.Sprintf("waiting for its system, which is %s: %s", what, h.Why)}
}
