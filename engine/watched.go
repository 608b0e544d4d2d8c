package engine

import (
	"context"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/site"
)

// watch knows when Slipway looked at the machines of the site at all.
type watch struct {
	mu      sync.Mutex
	known   site.Watched
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

// enter adds the time before this process, in which nobody acted since latest. It reports whether that is news.
func (w *watch) enter(latest, began time.Time) (now site.Watched, fresh bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.entered {
		return w.known, false
	}
	w.entered = true
	return w.addLocked(site.Span{From: latest, To: began})
}

// runs notes that this process runs. A host that was stopped meanwhile has looked at nothing.
func (w *watch) runs(now time.Time) (known site.Watched, fresh bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now = now.Round(0) // the monotonic clock stops with the host
	last := w.at
	w.at = now
	if last.IsZero() || !w.entered {
		return w.known, false
	}
	return w.addLocked(site.Span{From: last, To: now})
}

func (w *watch) addLocked(s site.Span) (site.Watched, bool) {
	next := w.known.With(s)
	fresh := !next.Since.Equal(w.known.Since) || len(next.Absences) != len(w.known.Absences) || len(next.Absences) > 0 && next.Absences[len(next.Absences)-1] != w.known.Absences[len(w.known.Absences)-1]
	w.known = next
	return next, fresh
}

// keepWatched records when nobody looked at the machines. It is called once this process has its term, and while it renews
// it; nil is no term. What cannot be recorded is written with the next absence.
func (e *Engine) keepWatched(ctx context.Context, t *record.Term) {
	if t == nil {
		return
	}
	_, entered := e.watch.enter(t.Latest, t.Began)
	known, stopped := e.watch.runs(time.Now())
	if !entered && !stopped {
		return
	}
	if err := e.Records.PutWatched(ctx, known); err != nil {
		e.Log.Warn("not recorded when nobody looked at the machines", "err", err)
	}
}
