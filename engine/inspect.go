package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// An inspection reads all that a machine is made of, in tens of requests. It
// is made once a day, in the time in which the worker would only wait, and
// gives way to everything.

// Bounds on inspections.
const (
	maxInspections    = 32              // at once in a site
	inspectAtOnce     = 8               // that begin without a pause between them
	inspectEvery      = time.Second     // between two that begin, later
	longestInspection = 5 * time.Minute // of one machine
	inspectAgain      = 5 * time.Minute // after one that had to give way
	inspectRetry      = time.Hour       // after one that failed
)

// inspectNever is what a node says whose BMC takes harm from inspections.
const inspectNever = "never"

// pace lets some things begin at once, and further ones one after another.
type pace struct {
	mu   sync.Mutex
	next time.Time // when all of those at once may begin again
}

// begin says whether one may begin now.
func (p *pace) begin(now time.Time, atOnce int, every time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next.Before(now) {
		p.next = now
	}
	if p.next.Sub(now) >= time.Duration(atOnce)*every {
		return false
	}
	p.next = p.next.Add(every)
	return true
}

// inspectMeanwhile inspects the machine if that is due, and says whether
// something woke the worker before it was done.
func (w *worker) inspectMeanwhile(ctx context.Context) (woken bool) {
	j := w.job()
	if !w.inspects(j, time.Now()) || !w.e.inspections.TryAcquire(1) {
		return false
	}
	defer w.e.inspections.Release(1)
	if !w.e.pace.begin(time.Now(), inspectAtOnce, inspectEvery) {
		return false
	}
	ctx, stop := context.WithTimeout(ctx, longestInspection)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- w.inspect(ctx, j) }()
	select {
	case err := <-done:
		w.inspected(err)
		return false
	case <-w.wake:
		stop()
		if err := <-done; err != nil {
			w.uninspected = time.Now().Add(inspectAgain)
		} else {
			w.inspected(nil)
		}
		return true
	}
}

// inspects says whether the machine is to be inspected now: it is due, it is
// the node's own, and nothing is under way on it.
func (w *worker) inspects(j job, now time.Time) bool {
	_, reachable := j.node.Endpoints[site.BMC]
	o, r := j.memory.Observed, j.memory.Recorded
	known := o.Identity.Known() && j.node.Machine().Matches(o.Identity)
	still := r.InFlight == nil && !underWay(r) && len(o.Facets[site.FacetPower].Pending) == 0
	return reachable && known && still && !w.expected && w.failures == 0 && !w.isBlind() && !j.leaving && j.node.Inspect != inspectNever &&
		now.After(w.uninspected) && (w.reinspect || o.Facets[site.FacetInventory].Seen.IsZero() || w.calendar.over(w.name, site.FacetInventory, now))
}

func (w *worker) isBlind() bool {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	return w.blind
}

// inspected notes how an inspection has ended.
func (w *worker) inspected(err error) {
	w.calendar.begun([]site.Facet{site.FacetInventory}, time.Now())
	w.reinspect = false
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		w.uninspected = time.Now().Add(period(w.name, site.FacetInventory))
	case err != nil:
		w.e.Log.Info("machine not inspected", "node", w.name, "err", err)
		w.uninspected, w.reinspect = time.Now().Add(jitter(w.dice, inspectRetry)), true
	}
}

// inspect reads the inventory and records it.
func (w *worker) inspect(ctx context.Context, j job) error {
	m, err := w.open(ctx, j.node, site.BMC)
	if err != nil {
		return err
	}
	able, ok := driver.As[driver.Inspector](m)
	if !ok {
		return errors.ErrUnsupported
	}
	inv, err := able.Inspect(ctx, j.node)
	if err != nil {
		return w.remember(site.BMC, fmt.Errorf("inspect %s: %w", w.name, err))
	}
	if was, err := w.e.Records.Inventory(ctx, w.name); err == nil {
		for _, text := range plan.Exchanged(was, inv) {
			w.note(site.EventMachine, "", text)
		}
	}
	if err := w.e.Records.PutInventory(ctx, w.name, inv); err != nil {
		return fmt.Errorf("record inventory of %s: %w", w.name, err)
	}
	w.madeOf(j, inv)
	return nil
}

// madeOf takes in what the machine is made of; all of it is in the records
// only, of 10,000 machines it would fill the memory.
func (w *worker) madeOf(j job, inv *site.Inventory) {
	seen := site.Observed{Facets: map[site.Facet]site.FacetState{site.FacetInventory: {Seen: time.Now()}}}
	w.found, w.compared = plan.Hardware(j.node, inv), j.node
	w.e.mu.Lock()
	w.memory.Observed = w.memory.Observed.Merge(seen)
	w.plan.Findings, w.status.Findings = w.found, w.found
	observed := w.memory.Observed
	w.e.mu.Unlock()
	w.e.Records.Observe(w.name, observed)
	w.e.touch()
}

// findings compares the machine with the design where either is new. Before
// the first inspection there is only what a look tells, in brief.
func (w *worker) findings(ctx context.Context, j job, brief []site.Finding) []site.Finding {
	if j.memory.Observed.Facets[site.FacetInventory].Seen.IsZero() {
		return brief
	}
	if w.compared == j.node {
		return w.found
	}
	inv, err := w.e.Records.Inventory(ctx, w.name)
	if err != nil || inv == nil {
		w.reinspect = true
		return brief
	}
	w.found, w.compared = plan.Hardware(j.node, inv), j.node
	return w.found
}

// alike says whether two looks tell the same of what the machine is made of.
func alike(a, b *site.Inventory) bool {
	return a == nil || b == nil || a.Manufacturer == b.Manufacturer && a.Model == b.Model && a.SKU == b.SKU && a.BIOS == b.BIOS &&
		a.Processors == b.Processors && a.MemoryGiB == b.MemoryGiB
}

// Closeup is all that is known of one node.
func (e *Engine) Closeup(ctx context.Context, node string) (site.Closeup, error) {
	e.mu.Lock()
	w := e.workers[node]
	e.mu.Unlock()
	if w == nil {
		return site.Closeup{}, fmt.Errorf("%w: site %s has no node %q", site.ErrNotFound, e.Site, node)
	}
	inv, err := e.Records.Inventory(ctx, node)
	if err != nil {
		return site.Closeup{}, fmt.Errorf("read inventory of %s: %w", node, err)
	}
	return site.Closeup{Memory: w.job().memory, Inventory: inv}, nil
}
