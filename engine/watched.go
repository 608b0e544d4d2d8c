package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/site"
)

// watch knows when Slipway looked at the machines of the site at all.
type watch struct {
	mu      sync.Mutex
	known   site.Watched
	fresh   bool      // the records lack some of it
	entered bool      // the time before this process is in known
	at      time.Time // by the clock, when it was last known that this process runs
}

// Watched returns when Slipway looked at the machines of the site at all.
func (e *Engine) Watched() site.Watched { return e.watch.now() }

func (w *watch) now() site.Watched {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known
}

func (w *watch) restore(known site.Watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known = known
}

// enter adds the time before this process, in which nobody acted since latest.
func (w *watch) enter(latest, began time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.entered {
		w.entered = true
		w.addLocked(site.Span{From: latest, To: began})
	}
}

// runs notes that this process runs. A host that was stopped meanwhile has looked at nothing.
func (w *watch) runs(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now = now.Round(0) // the monotonic clock stops with the host
	last := w.at
	w.at = now
	if !last.IsZero() && w.entered {
		w.addLocked(site.Span{From: last, To: now})
	}
}

func (w *watch) addLocked(s site.Span) {
	next := w.known.With(s)
	w.fresh = w.fresh || !next.Since.Equal(w.known.Since) || !slices.Equal(next.Absences, w.known.Absences)
	w.known = next
}

// unrecorded is what is known, and whether the records lack some of it.
func (w *watch) unrecorded() (site.Watched, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known, w.fresh
}

// recorded notes that the records have all that is known. It is called by the one who adds to it.
func (w *watch) recorded() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fresh = false
}

// keepWatched records when nobody looked at the machines. It is called once this process has its term, and each time it
// renews it; nil is no term. What could not be recorded is tried again with the next renewal: without it, the next daemon
// would show a state through a time in which nobody looked.
func (e *Engine) keepWatched(ctx context.Context, t *record.Term) {
	if t == nil {
		return
	}
	e.watch.enter(t.Latest, t.Began)
	e.watch.runs(time.Now())
	known, fresh := e.watch.unrecorded()
	if !fresh {
		return
	}
	err := e.Records.PutWatched(ctx, known)
	if err == nil {
		e.watch.recorded()
	} else {
		err = fmt.Errorf("could not record when no daemon looked at the machines; the next renewal of the term tries again: %w", err)
	}
	e.setProblem("timelines", err) // which says it once
}
