package pullrequest

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/slipway-gitops/slipway/engine/forge"
)

// These are the times and numbers for retries.
const (
	// After a failure, nothing of its kind is reported for a while. The time doubles as long as everything of the
	// kind fails.
	firstBackoff, maxBackoff = 5 * time.Second, 2 * time.Minute
	// slowly is the longest interval for retrying what the forge rejects, or what a person must make possible.
	slowly = 15 * time.Minute
	// goneFor is how long "gone" or "refused" must last before it is believed. A forge answers the same to a token
	// without permission, and when it has trouble itself.
	goneFor = 24 * time.Hour
	// People hear of a silence that the forge wants for longer than this, and of so many failures in a row.
	longSilence     = 5 * time.Minute
	lastingFailures = 3
)

// line is a kind of report. One kind may fail while the other works: a token may only have the right to one.
type line struct {
	failures int       // in a row
	rest     time.Time // no report until then
	problem  error     // a lasting one
}

const lineChecks, lineComments, lines = 0, 1, 2

func (p part) line() int {
	if p == partCheck || p == partFormer {
		return lineChecks
	}
	return lineComments
}

// try records the attempts at a task.
type try struct {
	of       any // what was to be reported
	failures int
	rest     time.Time // no attempt until then
	gone     time.Time // since when the forge does not find it or rejects it
	problem  error     // one that a person must solve
	logged   string    // what was logged last
}

// isHopeless reports whether to give up on a task: the forge has rejected it, or not found its target, for goneFor.
// Until then it is retried, and people hear of it. One answer of a forge in trouble proves nothing, and giving up
// leaves an older report in place.
func (r *Reporter) isHopeless(t task, err error) bool {
	x := r.tries[t]
	return isGone(err) && x != nil && !x.gone.IsZero() && time.Since(x.gone) >= goneFor
}

func isGone(err error) bool { return errors.Is(err, forge.ErrGone) || errors.Is(err, forge.ErrRefused) }

// learn records the outcome of an attempt.
func (r *Reporter) learn(ctx context.Context, w *wish, t task, err error) {
	if ctx.Err() != nil {
		return
	}
	var limited *forge.Limited
	switch {
	case err == nil:
		r.forge, r.lines[t.part.line()] = line{}, line{}
		delete(r.tries, t)
	case errors.As(err, &limited):
		r.silent(limited)
	default:
		r.failed(ctx, w, t, err)
	}
}

// silent stops all requests until the forge wants them again.
func (r *Reporter) silent(l *forge.Limited) {
	r.forge.rest = latest(l.Until, time.Now().Add(time.Second))
	if time.Until(l.Until) > longSilence {
		r.forge.problem = l
	}
}

// failed makes a line rest. A task that needs a person rests longer. The same trouble of a task is logged once.
func (r *Reporter) failed(ctx context.Context, w *wish, t task, err error) {
	l := &r.lines[t.part.line()]
	wait := min(firstBackoff<<min(l.failures, 10), maxBackoff)
	wait = time.Duration(float64(wait) * (0.8 + 0.4*rand.Float64()))
	l.failures++
	l.rest = time.Now().Add(wait)
	if l.failures >= lastingFailures {
		l.problem = err
	}
	x := r.tries[t]
	if x == nil {
		x = &try{of: w.content(t.part)}
		r.tries[t] = x
	}
	x.failed(err)
	if text := err.Error(); text != x.logged {
		x.logged = text
		level := slog.LevelWarn
		if r.problem() == err { // who receives it logs it
			level = slog.LevelInfo
		}
		r.Log.Log(ctx, level, "a proposal could not be reported on; trying again", "proposal", t.number, "revision", w.Head, "err", err)
	}
}

func (x *try) failed(err error) {
	now := time.Now()
	x.failures++
	gone, denied := isGone(err), errors.Is(err, forge.ErrDenied)
	if denied || gone && x.failures >= lastingFailures {
		x.rest, x.problem = now.Add(slowly), err
	}
	if gone { // usually that passes within minutes
		x.rest = now.Add(min(firstBackoff<<min(x.failures, 10), slowly))
	}
	switch {
	case !gone:
		x.gone = time.Time{}
	case x.gone.IsZero():
		x.gone = now
	}
}

// complain tells Problem what prevents reporting, if that has changed.
func (r *Reporter) complain() {
	err := r.problem()
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != r.said {
		r.said = text
		r.Problem(err)
	}
}

// problem is the most important one that prevents reporting; nil for none.
func (r *Reporter) problem() error {
	return cmp.Or(r.forge.problem, r.lines[lineChecks].problem, r.lines[lineComments].problem, r.refused())
}

// refused is the first proposal's problem that a person must solve.
func (r *Reporter) refused() error {
	var first task
	var err error
	for t, x := range r.tries {
		if x.problem != nil && (err == nil || t.number < first.number || t.number == first.number && t.part < first.part) {
			first, err = t, x.problem
		}
	}
	return err
}

// prune forgets attempts at tasks that no longer exist.
func (r *Reporter) prune() {
	for t, x := range r.tries {
		if w := r.wishes[t.number]; w == nil || w.content(t.part) != x.of {
			delete(r.tries, t)
		}
	}
	var busy [lines]bool
	for _, w := range r.wishes {
		for p := range w.parts() {
			busy[p.line()] = true
		}
	}
	for i, b := range busy {
		if !b {
			r.lines[i] = line{}
		}
	}
	if busy == [lines]bool{} {
		r.forge.problem = nil
	}
}
