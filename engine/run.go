package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/retry"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Run keeps the site until the context ends. The design in force before a
// restart is in force again at once, even if the repository cannot be reached.
func (e *Engine) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := e.restore(ctx); err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return nil // stopped before it began
		}
		return fmt.Errorf("restore site %s: %w", e.Site, err)
	}
	_, inForce := e.Access()
	e.setProblem("records", e.narrowAccess(ctx, inForce)) // the process before may have ended before it did
	close(e.ready)
	var loops sync.WaitGroup
	for _, loop := range []func(context.Context){
		e.follow, e.report, e.keepAlive, e.flush, e.keepHistory, e.keepTerm, e.keepAnchor, e.keepLedger, e.discover, e.keepArtifacts, e.keepAgents, e.keepSaid, e.keepProposed, e.keepPredicted, e.keepIncidents, e.keepReplaced, e.keepLists,
	} {
		loops.Go(func() { loop(ctx) })
	}
	<-ctx.Done()
	loops.Wait()
	e.running.Wait()
	return e.saveLast(ctx)
}

// restore loads the records and puts the last good design in force.
func (e *Engine) restore(ctx context.Context) error {
	snap, err := e.Records.Load(ctx)
	if err != nil {
		return err
	}
	if err := e.openBook(ctx, snap); err != nil {
		return err
	}
	e.watch.restore(snap.Watched)
	e.setProblem("term", e.beginTerm(ctx, snap.Sessions))
	e.keepWatched(ctx, e.term.Term)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ctx = ctx
	e.rounds[LoopPoll], e.rounds[LoopTurn] = time.Now(), time.Now()
	e.paused = snap.Paused
	e.removals = snap.Removals
	e.proposals.Load(snap.Proposed)
	e.history = snap.History
	maps.Copy(e.incidents, snap.Incidents)
	maps.Copy(e.lists, snap.Revoked)
	e.restoreDeliveredLocked(snap.Delivered)
	e.granted = snap.Granted
	if snap.Accepted == nil {
		return nil
	}
	if v := snap.Accepted.SchemaVersion; v != site.SchemaVersion {
		e.readOnly = fmt.Sprintf("the design in force (%s) was evaluated with schema %s and this program reads %s; observing only until a revision passes",
			snap.Accepted.Revision.Short(), v, site.SchemaVersion)
	}
	e.applied = snap.Accepted.Revision
	e.design = snap.Accepted.Design
	e.tellSecrets(e.design)
	for _, name := range startOrder(e.design) {
		e.startLocked(e.design.Nodes[name], snap.Nodes[name], false)
	}
	for name, m := range snap.Nodes {
		if e.workers[name] == nil && m.Recorded.Departed != nil {
			e.startLocked(m.Recorded.Departed.Node, m, true)
		}
	}
	e.compareInstalledLocked()
	e.wouldGrant = e.design.Granted()
	e.countOthersLocked()
	e.planLocked()
	e.restoreRolloutLocked(snap.Rollout)
	e.restorePredictedLocked(snap.Rollout, snap.Forecast)
	return nil
}

// flush regularly writes observations to the records.
func (e *Engine) flush(ctx context.Context) {
	dice := e.dice("flush")
	for retry.Sleep(ctx, retry.Jitter(dice, flushEvery)) {
		e.setProblem("records", e.Records.Flush(ctx))
	}
}

// saveLast writes the last observations when the engine stops, and releases the
// term.
func (e *Engine) saveLast(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := errors.Join(e.Records.Flush(ctx), e.releaseTerm(ctx)); err != nil {
		return fmt.Errorf("save the last state of site %s: %w", e.Site, err)
	}
	return nil
}
