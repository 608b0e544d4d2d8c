// Package engine keeps one site as its design says. It follows a Source,
// evaluates revisions, and runs one worker per node. A worker observes, plans,
// passes the gates, applies the first step and looks again.
package engine

import (
	"context"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Source supplies the revisions of a site's design.
type Source interface {
	// Fetch returns the newest revision. If nothing has changed, it costs one
	// listing of remote references and returns the same ID with the Files of
	// the earlier call. An error never looks like an empty design.
	Fetch(ctx context.Context) (site.Revision, error)
}

// Reporter reports a site's state to people.
type Reporter interface {
	// Report is called on every semantic change, one call at a time, and
	// again after an error. It must not keep the report.
	Report(ctx context.Context, r site.Report) error
}

// Meter measures how well the engine keeps up. Its methods return at once and
// are called from many goroutines.
type Meter interface {
	// Late reports that a loop began a round later than due, by the given time.
	// The loop is a worker's look at its machine (LoopTurn, which includes
	// waiting for others) or the check for a new revision (LoopPoll).
	Late(loop string, by time.Duration)
	// Ended reports the end of a rollout, once for each. Ended is set in r, and
	// the rollout has converged if none of its nodes has Failed.
	Ended(r site.RolloutStatus)
}

// Tracer follows the work on revisions, for traces.
type Tracer interface {
	// Trace reports a part of the work that has ended. It returns at once, is called from many
	// goroutines and under locks of the engine, and must not call the engine.
	Trace(site.TracePart)
}

// The loops of an engine.
const (
	LoopTurn = "turn"
	LoopPoll = "poll"
)

// unmetered is the meter of an engine without one.
type unmetered struct{}

func (unmetered) Late(string, time.Duration) {}
func (unmetered) Ended(site.RolloutStatus)   {}
