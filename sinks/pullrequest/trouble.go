package pullrequest

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/slipway-gitops/slipway/engine/forge"
)

// Times of trying again.
const (
	// After a failure nothing of its kind is told for a while, which doubles as
	// long as everything of the kind fails.
	firstBackoff, maxBackoff = 5 * time.Second, 2 * time.Minute
	// slowly is how often something is tried at last that the forge does not take,
	// or that a person has to make possible.
	slowly = 15 * time.Minute
	// goneFor is how long something has to be gone, or refused, before it is
	// believed: a forge says the same to who may not see it, and when it is in
	// trouble.
	goneFor = 24 * time.Hour
	// People are told of a silence that the forge wants for longer, and of so
	// many failures in a row.
	longSilence     = 5 * time.Minute
	lastingFailures = 3
)

// line is what things are told through, which may fail while others do not: a
// token may have the right to one and not to another.
type line struct {
	failures int       // in a row
	rest     time.Time // until when nothing is told
	problem  error     // that lasts
}

const lineChecks, lineComments, lines = 0, 1, 2

func (p part) line() int {
	if p == partCheck || p == partFormer {
		return lineChecks
	}
	return lineComments
}

// try is what became of a task so far.
type try struct {
	of       any // what was to be told
	failures int
	rest     time.Time // until when it is not tried
	gone     time.Time // since when the forge knows nothing of it, or does not take it
	problem  error     // that a person has to see to
}

// isHopeless says whether something is not tried any more: for long the forge has
// not taken it, or known nothing of it. Until then it is tried, and people hear of
// it: one answer of a forge in trouble proves nothing, and what is not said leaves
// what was said before in its place.
func (r *Reporter) isHopeless(t task, err error) bool {
	x := r.tries[t]
	return isGone(err) && x != nil && !x.gone.IsZero() && time.Since(x.gone) >= goneFor
}

func isGone(err error) bool { return errors.Is(err, forge.ErrGone) || errors.Is(err, forge.ErrRefused) }

// learn takes in what became of an attempt.
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
		r.failed(w, t, err)
	}
}

// silent has everything rest until the forge wants requests again.
func (r *Reporter) silent(l *forge.Limited) {
	r.forge.rest = latest(l.Until, time.Now().Add(time.Second))
	if time.Until(l.Until) > longSilence {
		r.forge.problem = l
	}
}

// failed has a line rest, and for longer what a person has to make possible.
func (r *Reporter) failed(w *wish, t task, err error) {
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
	r.Log.Warn("a proposal could not be reported on; trying again", "proposal", t.number, "revision", w.Head, "err", err)
}

func (x *try) failed(err error) {
	now := time.Now()
	x.failures++
	gone, denied := isGone(err), errors.Is(err, forge.ErrDenied)
	if denied || gone && x.failures >= lastingFailures {
		x.rest, x.problem = now.Add(slowly), err
	}
	if gone { // most often that passes within minutes
		x.rest = now.Add(min(firstBackoff<<min(x.failures, 10), slowly))
	}
	switch {
	case !gone:
		x.gone = time.Time{}
	case x.gone.IsZero():
		x.gone = now
	}
}

// complain says what keeps the forge from being told, when that has changed.
func (r *Reporter) complain() {
	err := cmp.Or(r.forge.problem, r.lines[lineChecks].problem, r.lines[lineComments].problem, r.refused())
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != r.said {
		r.said = text
		r.Problem(err)
	}
}

// refused is what a person has to make possible, of the first proposal.
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

// prune forgets what became of what is not to be told any more.
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
