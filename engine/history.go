package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/retry"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Bounds of the journal.
const (
	latestEvents = 4096            // kept in memory for followers
	writeEvents  = 2 * time.Second // how often the history is written
)

// journal holds the latest events in memory, and those still to be written to the
// records. Orders are written before they are answered. If the daemon is killed,
// the last seconds of other events may be lost.
type journal struct {
	mu      sync.Mutex
	seq     uint64
	latest  []site.Event
	pending []site.Event
	writing []site.Event // taken from pending, and not known to be in the records yet
}

// add adds an event.
func (j *journal) add(ev site.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.seq == 0 {
		j.seq = uint64(time.Now().UnixMicro()) // above the Seq of every earlier daemon
	}
	j.seq++
	ev.Seq = j.seq
	if ev.When.IsZero() {
		ev.When = time.Now()
	}
	if len(j.latest) == latestEvents {
		j.latest = append(j.latest[:0], j.latest[latestEvents/4:]...)
	}
	j.latest = append(j.latest, ev)
	j.pending = append(makeRoom(j.pending, latestEvents-1), ev)
}

// makeRoom drops the oldest state changes, which others follow, until at most most
// events are left. People's orders go last.
func makeRoom(events []site.Event, most int) []site.Event {
	over := len(events) - most
	if over <= 0 {
		return events
	}
	events = slices.DeleteFunc(events, func(ev site.Event) bool {
		drop := over > 0 && ev.Kind == site.EventState
		if drop {
			over--
		}
		return drop
	})
	return events[over:]
}

// since returns the events after the given one.
func (j *journal) since(after uint64) []site.Event {
	j.mu.Lock()
	defer j.mu.Unlock()
	var events []site.Event
	for _, ev := range j.latest {
		if ev.Seq > after {
			events = append(events, ev)
		}
	}
	return events
}

// take returns the events to be written. It is followed by written or putBack.
func (j *journal) take() []site.Event {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.writing, j.pending = j.pending, nil
	return j.writing
}

// written notes that what was taken is in the records.
func (j *journal) written() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.writing = nil
}

// putBack keeps events that could not be written for the next time, as far as
// there is room.
func (j *journal) putBack() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.pending, j.writing = makeRoom(append(j.writing, j.pending...), latestEvents), nil
}

// unwritten are the events of a node that may not be in the records yet, oldest first; for an empty node
// those of the site itself, with all orders.
func (j *journal) unwritten(node string) []site.Event {
	j.mu.Lock()
	defer j.mu.Unlock()
	var events []site.Event
	for _, ev := range slices.Concat(j.writing, j.pending) {
		if ev.Node == node || node == "" && ev.Kind == site.EventOrder {
			events = append(events, ev)
		}
	}
	return events
}

// note reports and records an event: it is once in the history and once in the
// log.
func (e *Engine) note(ev site.Event) { e.happened(slog.LevelInfo, ev) }

// warn is note for events that somebody on duty has to know: the log's warnings
// alone are enough to work from.
func (e *Engine) warn(ev site.Event) { e.happened(slog.LevelWarn, ev) }

func (e *Engine) happened(level slog.Level, ev site.Event) {
	e.journal.add(ev)
	var attrs []any
	for _, a := range [][2]string{{"node", ev.Node}, {"what", ev.Text}, {"by", ev.By}, {"revision", site.Revision{ID: ev.Revision}.Short()}} {
		if a[1] != "" {
			attrs = append(attrs, a[0], a[1])
		}
	}
	if ev.Took > 0 {
		attrs = append(attrs, "took", time.Duration(ev.Took).Round(time.Second).String())
	}
	e.Log.Log(context.Background(), level, inLog[ev.Kind], attrs...)
}

// inLog is the log's name for each kind of event.
var inLog = map[site.EventKind]string{
	site.EventDesign: "design", site.EventState: "node state", site.EventBegun: "step begun", site.EventDone: "step done", site.EventFailed: "step failed", site.EventDropped: "step dropped",
	site.EventOrder: "order", site.EventRollout: "rollout", site.EventMachine: "machine",
}

// note is Engine.note for a node.
func (w *worker) note(kind site.EventKind, revision, text string) {
	w.e.note(site.Event{Node: w.name, Kind: kind, Revision: revision, Text: text})
}

// warn is Engine.warn for a node.
func (w *worker) warn(kind site.EventKind, revision, text string) {
	w.e.warn(site.Event{Node: w.name, Kind: kind, Revision: revision, Text: text})
}

// Events returns the latest events with a Seq above after, oldest first.
func (e *Engine) Events(after uint64) []site.Event { return e.journal.since(after) }

// History returns the last events of a node, oldest first; for an empty node,
// those of the site itself. It writes nothing: what is not in the records yet comes from memory.
func (e *Engine) History(ctx context.Context, node string) ([]site.Event, error) {
	e.mu.Lock()
	known := node == "" || e.workers[node] != nil
	e.mu.Unlock()
	newest := e.journal.unwritten(node) // before the records are read: an event may be in both, and not in neither
	events, err := e.Records.Events(ctx, node)
	if err != nil {
		return nil, err
	}
	recorded := map[uint64]bool{}
	for _, ev := range events {
		recorded[ev.Seq] = true
	}
	for _, ev := range newest {
		if !recorded[ev.Seq] {
			events = append(events, ev)
		}
	}
	if !known && len(events) == 0 {
		return nil, fmt.Errorf("%w: site %s has no node %q", site.ErrNotFound, e.Site, node)
	}
	return events, nil
}

// keepHistory writes events into the records, many at a time.
func (e *Engine) keepHistory(ctx context.Context) {
	for retry.Sleep(ctx, writeEvents) {
		if err := errors.Join(e.writeHistory(ctx), e.writeLearnt(ctx)); err != nil && ctx.Err() == nil {
			e.Log.Warn("history not recorded", "err", err)
		}
	}
}

func (e *Engine) writeHistory(ctx context.Context) error {
	e.writing.Lock()
	defer e.writing.Unlock()
	events := e.journal.take()
	if len(events) == 0 {
		return nil
	}
	if err := e.Records.AppendEvents(ctx, events); err != nil {
		e.journal.putBack()
		return fmt.Errorf("record history: %w", err)
	}
	e.journal.written()
	return nil
}

// writeLearnt records how long steps have been found to take.
func (e *Engine) writeLearnt(ctx context.Context) error {
	e.mu.Lock()
	learnt, history := e.learnt, e.history
	e.learnt = map[string]bool{}
	e.mu.Unlock()
	for like := range learnt {
		if err := e.Records.PutTook(ctx, like, history[like]); err != nil {
			return fmt.Errorf("record how long %s took: %w", like, err)
		}
	}
	return nil
}
