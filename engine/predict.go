package engine

import (
	"context"
	"maps"
	"time"

	"github.com/slipway-gitops/slipway/engine/retry"
	"github.com/slipway-gitops/slipway/engine/site"
)

// predictEvery is the least time from one forecast of joining nodes to the next. Nodes of a site
// that is seen for the first time join one by one, and one forecast serves those of some seconds.
const predictEvery = 10 * time.Second

// keepPredicted records what is expected of nodes when they become part of the rollout, to compare
// with what comes of them.
func (e *Engine) keepPredicted(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.joined:
		}
		if at := e.predict(time.Now()); at != nil {
			if err := e.Records.PutForecast(ctx, at); err != nil && ctx.Err() == nil {
				e.Log.Warn("forecast not recorded", "err", err)
			}
		}
		if !retry.Sleep(ctx, predictEvery) {
			return
		}
	}
}

// predict forecasts the nodes of the rollout under way that have no forecast yet, and returns those
// of all nodes; nil for nothing new.
func (e *Engine) predict(now time.Time) *site.ForecastAtStart {
	l := e.remains(now)
	if l == nil {
		return nil
	}
	expected := map[string]site.Span{}
	for _, o := range l.forecast(now).Order {
		s := spanOf(o, now)
		expected[o.Node] = site.Span{From: s.From.UTC(), To: s.To.UTC()}
	}
	return e.addPredicted(l.under, expected)
}

// addPredicted adds what is expected of the nodes that have no forecast yet.
func (e *Engine) addPredicted(r site.RolloutStatus, expected map[string]site.Span) *site.ForecastAtStart {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := site.ForecastAtStart{Rollout: r.Since, Nodes: make(map[string]site.Span, len(r.Nodes))}
	if e.atStart.Rollout.Equal(r.Since) {
		maps.Copy(at.Nodes, e.atStart.Nodes)
	}
	had := len(at.Nodes)
	for _, name := range r.Nodes {
		if _, has := at.Nodes[name]; !has {
			at.Nodes[name] = expected[name]
		}
	}
	if len(at.Nodes) == had || !e.rollout.Since.Equal(r.Since) {
		return nil
	}
	e.atStart = at
	return &at
}

// restorePredictedLocked takes over the recorded forecasts. What was expected of a node without one
// stays unknown: it was not recorded in time.
func (e *Engine) restorePredictedLocked(r *site.RolloutStatus, at *site.ForecastAtStart) {
	if r == nil || !r.Since.Equal(e.rollout.Since) {
		return // another one begins now
	}
	e.atStart = site.ForecastAtStart{Rollout: r.Since, Nodes: map[string]site.Span{}}
	if at != nil && at.Rollout.Equal(r.Since) {
		maps.Copy(e.atStart.Nodes, at.Nodes)
	}
	for _, name := range r.Nodes {
		if _, has := e.atStart.Nodes[name]; !has {
			e.atStart.Nodes[name] = site.Span{}
		}
	}
}
