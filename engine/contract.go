// Package engine keeps one site as its design says: it follows a Source,
// evaluates, and has one worker per node that observes, plans, passes the
// gates, applies the first step and looks again.
package engine

import (
	"context"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Source gives the revisions of a site's design.
type Source interface {
	// Fetch returns the newest revision. A fetch without change costs one
	// listing of remote references and returns the same ID with the Files of
	// the earlier call. An error never looks like an empty design.
	Fetch(ctx context.Context) (site.Revision, error)
}

// Reporter tells people how a site is.
type Reporter interface {
	// Report is called on every semantic change, one call at a time, and
	// again after an error. It must not keep the report.
	Report(ctx context.Context, r site.Report) error
}

// Meter is told how well the engine keeps up. Its methods return at once and
// are called from many goroutines.
type Meter interface {
	// Late says that a loop has begun a round later by than it was due: a
	// worker's look at its machine (LoopTurn), waits for others included, or
	// the question for a new revision (LoopPoll).
	Late(loop string, by time.Duration)
	// Ended says that a rollout has come to its end, once for each: Ended is
	// set, and it has converged when none of its nodes has Failed.
	Ended(r site.RolloutStatus)
}

// The loops of an engine.
const (
	LoopTurn = "turn"
	LoopPoll = "poll"
)

// unmetered is the meter of an engine that has none.
type unmetered struct{}

func (unmetered) Late(string, time.Duration) {}
func (unmetered) Ended(site.RolloutStatus)   {}
