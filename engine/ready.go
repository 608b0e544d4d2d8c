package engine

import (
	"fmt"
	"time"
)

// stuckAfter is how far a loop may be behind, beyond two of its periods, before
// the engine counts as hung. It is longer than a fetch, an evaluation or a
// machine's own retry delay may take.
const stuckAfter = 30 * time.Minute

// began notes that a loop has started a round that was due.
func (e *Engine) began(loop string, due time.Time) {
	now := time.Now()
	e.mu.Lock()
	e.rounds[loop] = now
	e.mu.Unlock()
	e.Meter.Late(loop, max(0, now.Sub(due)))
}

// Unready returns, in sentences, why the engine does not keep its site; nothing
// if it does. A machine in trouble is no reason. Neither is a refused design
// while another is in force.
func (e *Engine) Unready() []string {
	select {
	case <-e.ready:
	default:
		return []string{"the records are not loaded yet"}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var why []string
	if p, failing := e.problems["records"]; failing {
		why = append(why, "the records cannot be written: "+p.What)
	} else if p, failing := e.problems["term"]; failing {
		why = append(why, "this daemon does not hold the site's term: "+p.What)
	}
	if e.design == nil {
		return append(why, "no design is in force: no revision has passed yet; see `slipway status`")
	}
	for _, l := range []struct {
		loop, what string
		every      time.Duration
	}{
		{LoopPoll, "Slipway has not looked for a new revision", e.pollEveryLocked()},
		{LoopTurn, "Slipway has not looked at any machine", observeEvery(e.design)},
	} {
		if silent := time.Since(e.rounds[l.loop]); silent > 2*l.every+stuckAfter && (l.loop == LoopPoll || len(e.workers) > 0) {
			why = append(why, fmt.Sprintf("%s for %s, although that is due every %s: keep the log, and restart slipway", l.what, silent.Round(time.Second), l.every))
		}
	}
	return why
}

// hasMetAll reports whether Slipway has looked at every machine, now or before
// a restart, or has tried and failed.
func (e *Engine) hasMetAll() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range e.workers {
		if !w.turned && len(w.memory.Observed.Facets) == 0 {
			return false
		}
	}
	return e.design != nil
}
