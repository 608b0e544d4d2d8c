package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/retry"
	"github.com/slipway-gitops/slipway/engine/site"
)

// An inspection reads everything that a machine is made of, in tens of requests. It runs once a
// day, while the worker would only wait, and gives way to everything else.

// Limits and times for inspections.
const (
	maxInspections    = 32               // at once in a site
	maxAwaited        = 256              // at once, of those that an approval waits for
	inspectAtOnce     = 8                // begin without a pause between them
	inspectEvery      = time.Second      // between later ones
	longestInspection = 5 * time.Minute  // of one machine
	inspectLater      = 5 * time.Minute  // after one that gave way
	inspectSoon       = 15 * time.Second // the same, where an approval waits for it
	inspectFailed     = time.Hour        // after one that failed
	inspectNeeded     = time.Minute      // the same, where an approval waits for it
	freshDisks        = 15 * time.Minute // maximum age of the disk data for an installation
)

// inspectNever is the design's setting for a node whose BMC is harmed by inspections.
const inspectNever = "never"

// pace lets a number of things begin at once, and further ones at intervals.
type pace struct {
	mu   sync.Mutex
	next time.Time // when a full burst may begin again
}

// begin reports whether another may begin now.
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

// inspectMeanwhile inspects the machine if that is due, and reports whether something woke the
// worker meanwhile.
func (w *worker) inspectMeanwhile(ctx context.Context) (woken bool) {
	j := w.job()
	if !w.inspects(j, time.Now()) {
		return false
	}
	leave, woken := w.enterInspections(ctx)
	if leave == nil {
		return woken
	}
	defer leave()
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
		if err := <-done; err != nil && ctx.Err() != nil && !errors.Is(err, errors.ErrUnsupported) {
			w.uninspected = time.Now().Add(w.inspectAgain())
		} else {
			w.inspected(err)
		}
		return true
	}
}

// enterInspections takes a slot among the running inspections and returns a function to release
// it; nil if no slot is free. An inspection that an approval waits for queues for a slot until the
// next reconcile is due or something wakes the worker. A person asked to approve a thousand
// machines waits for all of them.
func (w *worker) enterInspections(ctx context.Context) (leave func(), woken bool) {
	if !w.awaitsDisks() {
		if !w.e.inspections.TryAcquire(1) {
			return nil, false
		}
		leave = func() { w.e.inspections.Release(1) }
		if !w.e.pace.begin(time.Now(), inspectAtOnce, inspectEvery) {
			leave()
			return nil, false
		}
		return leave, false
	}
	ctx, stop := context.WithDeadline(ctx, w.due)
	defer stop()
	entered := make(chan error, 1)
	go func() { entered <- w.e.awaited.Acquire(ctx, 1) }()
	var err error
	select {
	case err = <-entered:
	case <-w.wake:
		stop()
		err, woken = <-entered, true
	}
	leave = func() { w.e.awaited.Release(1) }
	switch {
	case err != nil:
		return nil, woken
	case woken:
		leave()
		return nil, true
	}
	return leave, false
}

// inspectAgain returns how long to wait after an inspection that gave way.
func (w *worker) inspectAgain() time.Duration {
	if w.awaitsDisks() {
		return inspectSoon
	}
	return inspectLater
}

// inspects reports whether to inspect the machine now: it is due, it is the node's own, and
// nothing is under way on it. If an approval waits for the disks, a stuck step does not prevent
// reading them.
func (w *worker) inspects(j job, now time.Time) bool {
	_, reachable := j.node.Endpoints[site.Manager]
	o, r := j.memory.Observed, j.memory.Recorded
	if soon := now.Add(inspectNeeded); w.awaitsDisks() && w.uninspected.After(soon) {
		w.uninspected = soon // it gave way, or failed, when nobody waited
	}
	known := o.Identity.Known() && j.node.Machine().Matches(o.Identity)
	still := (r.UnderWay() == 0 || w.awaitsDisks()) && len(o.Facets[site.FacetPower].Pending) == 0 && !w.isBlind()
	if !reachable || !known || !still || j.leaving || j.node.Inspect == inspectNever || !now.After(w.uninspected) {
		return false
	}
	if w.awaitsDisks() {
		return true
	}
	due := w.reinspect || o.Facets[site.FacetInventory].Seen.IsZero() || w.calendar.over(w.name, site.FacetInventory, now)
	return due && r.InFlight == nil && !w.expected && w.failures == 0
}

func (w *worker) isBlind() bool {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	return w.blind
}

// inspectRetry returns how long to wait after an inspection that failed.
func (w *worker) inspectRetry() time.Duration {
	if w.awaitsDisks() {
		return inspectNeeded
	}
	return inspectFailed
}

// awaitsDisks reports whether an approval waits for the machine's disks to be read, or an approved
// step waits for them to be read again.
func (w *worker) awaitsDisks() bool {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	return w.waitsForDisks || slices.ContainsFunc(w.destroysLocked(), func(l site.Loss) bool { return l.Disks == "" })
}

// freshDisksGate lets a step erase disks only if they were read a short time ago: somebody may
// have added one since the approval.
func freshDisksGate(w *worker, s site.Step) *held {
	o := w.memory.Observed
	if _, destroys := s.Destroys(); !destroys || w.node.IsVirtual() || s.ByAgent() && o.Agent.IsConnected() ||
		o.Disks == nil || len(o.Disks.Serials) == 0 || passedLess(w.disksRead, freshDisks) {
		return nil
	}
	h := &held{state: site.Blocked, disks: true, release: "the BMC reporting the disks of the machine",
		sentence: fmt.Sprintf("%s waits until Slipway reads the disks of the machine again", s.Action)}
	switch {
	case w.disksUntold == 0:
	case o.Facets[site.FacetPower].Have["state"] == "off":
		h.person, h.release = true, "the machine being switched on, or its BMC reporting its disks while it is off"
		h.sentence += ": the machine is off, and its BMC does not report all that it reported before"
	default:
		h.person = true
		h.sentence += ": its BMC does not report all that it reported before"
	}
	return h
}

// passedLess reports whether less than the given time has passed since a time of this process, by
// both clocks. The monotonic clock stands still while the host sleeps, and the wall clock may be
// set back. It is false for the zero time.
func passedLess(since time.Time, than time.Duration) bool {
	return !since.IsZero() && lately(since, than) && lately(since.Round(0), than)
}

// lately reports whether less than the given time has passed since at. A time in the future was
// long ago: the clock was set back since.
func lately(at time.Time, than time.Duration) bool {
	ago := time.Since(at)
	return ago >= 0 && ago < than
}

// mostUntold is how often Slipway asks a machine again that reports only some of its disks after
// it has reported all.
const mostUntold = 3

// disksOf returns the machine's disks by an inventory, and whether the inventory reported them.
// Many BMCs report no disks while the machine is off, and some lack an answer now and then. In
// that case the disks seen before still count, and nothing is known of the present ones.
func disksOf(before *site.Disks, inv *site.Inventory, untold int) (disks *site.Disks, told bool) {
	now := inv.Disks()
	switch {
	case before == nil || len(before.Serials) == 0:
		return now, true
	case len(now.Serials) == 0, now.Partly && !before.Partly && untold < mostUntold:
		return before, false
	}
	return now, true
}

// inspected notes how an inspection ended. A failed inspection tells nothing about the disks.
func (w *worker) inspected(err error) {
	if err != nil {
		w.noDisks()
	}
	w.calendar.begun([]site.Facet{site.FacetInventory}, time.Now())
	w.reinspect = false
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		w.uninspected = time.Now().Add(period(w.name, site.FacetInventory))
	case err != nil:
		w.e.Log.Info("machine not inspected", "node", w.name, "err", err)
		w.uninspected, w.reinspect = time.Now().Add(retry.Jitter(w.dice, w.inspectRetry())), true
	}
}

// noDisks notes that the machine was asked for its disks and did not answer.
func (w *worker) noDisks() {
	w.e.mu.Lock()
	known := w.memory.Observed.Disks != nil
	if !known {
		w.memory.Observed.Disks = &site.Disks{}
		w.wakeUp()
	}
	observed := w.memory.Observed
	w.e.mu.Unlock()
	if !known {
		w.e.Records.Observe(w.name, observed)
	}
}

// inspect reads the inventory and records it.
func (w *worker) inspect(ctx context.Context, j job) error {
	m, err := w.open(ctx, j.node, site.Manager)
	if err != nil {
		return err
	}
	able, ok := driver.As[driver.Inspector](m)
	if !ok {
		return errors.ErrUnsupported
	}
	inv, err := able.Inspect(w.guarded(ctx, site.Manager), j.node)
	if err != nil {
		return w.remember(site.Manager, fmt.Errorf("inspect %s: %w", w.name, err))
	}
	if was, err := w.e.Records.Inventory(ctx, w.name); err == nil {
		for _, text := range plan.Exchanged(was, inv) {
			w.warn(site.EventMachine, "", text)
		}
	}
	if err := w.e.Records.PutInventory(ctx, w.name, inv); err != nil {
		return fmt.Errorf("record inventory of %s: %w", w.name, err)
	}
	w.madeOf(j, inv)
	return nil
}

// madeOf takes over the parts of the machine. The full inventory is only in the records: for
// 10,000 machines it would fill the memory.
func (w *worker) madeOf(j job, inv *site.Inventory) {
	disks, told := disksOf(w.job().memory.Observed.Disks, inv, w.disksUntold)
	seen := site.Observed{Disks: disks, Lacks: inv.Lacks, Facets: map[site.Facet]site.FacetState{site.FacetInventory: {Seen: time.Now()}}}
	w.found, w.compared = plan.Hardware(j.node, inv), j.node
	w.e.mu.Lock()
	if was := w.memory.Observed; w.waitsForDisks || !reflect.DeepEqual(was.Disks, disks) || !reflect.DeepEqual(was.Lacks, inv.Lacks) {
		w.wakeUp() // the loss may be another, or impossible
	}
	w.waitsForDisks = false
	if told {
		w.disksRead, w.disksUntold = time.Now(), 0
	} else {
		w.disksUntold++
		w.uninspected = time.Now().Add(inspectNeeded)
	}
	w.memory.Observed = w.memory.Observed.Merge(seen)
	w.findingsLocked(j, w.found)
	observed := w.memory.Observed
	w.e.mu.Unlock()
	w.e.Records.Observe(w.name, observed)
	w.e.touch()
}

// findings returns where the machine and its links differ from the design.
func (w *worker) findings(ctx context.Context, j job) []site.Finding {
	_, links := plan.Links(j.site, j.node, j.memory.Observed, w.e.serves)
	return slices.Concat(w.hardware(ctx, j), links)
}

// findingsLocked updates the shown findings, with those of the links, between two reconciles.
func (w *worker) findingsLocked(j job, hardware []site.Finding) {
	_, links := plan.Links(j.site, j.node, w.memory.Observed, w.e.serves)
	all := slices.Concat(hardware, links)
	w.plan.Findings, w.status.Findings, w.status.Links = all, all, w.linksLocked()
}

// hardware compares the machine with the design if either is new. Before the first inspection
// there is only the brief result of a look.
func (w *worker) hardware(ctx context.Context, j job) []site.Finding {
	brief := plan.Hardware(j.node, j.memory.Observed.Inventory)
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

// alike reports whether two looks say the same about the machine's parts.
func alike(a, b *site.Inventory) bool {
	return a == nil || b == nil || a.Manufacturer == b.Manufacturer && a.Model == b.Model && a.SKU == b.SKU && a.BIOS == b.BIOS &&
		a.Processors == b.Processors && a.MemoryGiB == b.MemoryGiB
}

// File returns the content of a file on a node's system, by its key ("files./etc/motd"), as it was
// last seen and as far as it may be shown.
func (e *Engine) File(node, key string) (item.Content, error) {
	e.mu.Lock()
	w, inForce := e.workers[node], e.design
	e.mu.Unlock()
	if w == nil {
		return item.Content{}, fmt.Errorf("%w: site %s has no node %q", site.ErrNotFound, e.Site, node)
	}
	return present.Present(inForce, node, w.job().memory.Observed.Facets[site.FacetConfig], key), nil
}

// Closeup returns all that is known of one node.
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
