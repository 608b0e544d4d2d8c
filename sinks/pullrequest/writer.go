package pullrequest

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/forge"
	"github.com/slipway-gitops/slipway/engine/site"
)

// attemptTimeout is how long one thing may take to be told; the forge's limits
// are waited for within it.
const attemptTimeout = 5 * time.Minute

// part is one of the things to be told of a proposal, in their order.
type part int

const (
	partCheck part = iota
	partCall
	partComment
	partFormer
)

// task is something to be told of a proposal.
type task struct {
	number int
	part   part
}

// Run tells the forge until the context ends. It is the only one that does.
func (r *Reporter) Run(ctx context.Context) error {
	r.mu.Lock()
	err := r.load(ctx)
	r.mu.Unlock()
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		w, t, wait := r.next(time.Now())
		r.complain()
		if wait == 0 {
			r.learn(ctx, w, t, r.tell(ctx, w, t))
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-r.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil
}

// idle is how long there is nothing to do unless there is news.
const idle = 24 * time.Hour

// next is what to tell now, or how long to wait.
func (r *Reporter) next(now time.Time) (w *wish, t task, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prune()
	var best *choice
	wait = idle
	for _, w := range r.wishes {
		for p := range w.parts() {
			c := choice{wish: w, task: task{w.Number, p}}
			rest := latest(w.notBefore(p), latest(r.forge.rest, r.lines[p.line()].rest))
			if x := r.tries[c.task]; x != nil {
				c.failures, rest = x.failures, latest(rest, x.rest)
			}
			if left := rest.Sub(now); left > 0 {
				wait = min(wait, left)
			} else if best == nil || c.before(best) {
				best = &c
			}
		}
	}
	if best == nil {
		return nil, task{}, wait
	}
	return r.touch(best.wish, best.part), best.task, 0
}

// soon is how long a review is waited for that is on its way.
const soon = 10 * time.Second

// notBefore is until when something waits that could be told: while a head is
// being planned, its former commits leave the turn to what comes of that.
func (w *wish) notBefore(p part) time.Time {
	if p == partFormer && w.Verdict == forge.Pending {
		return w.Changed.Add(soon)
	}
	return time.Time{}
}

// touch notes that something is about to be said of a wish's head.
func (r *Reporter) touch(w *wish, p part) *wish {
	if p != partCheck || w.Touched {
		return w
	}
	touched := *w
	touched.Touched = true
	r.wishes[w.Number] = &touched
	return &touched
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// parts are what is to be told of a proposal.
func (w *wish) parts() iter.Seq[part] {
	return func(yield func(part) bool) {
		_ = (w.Check == nil || yield(partCheck)) && (w.Call == nil || yield(partCall)) &&
			(w.Comment == nil || yield(partComment)) && (len(w.Former) == 0 || yield(partFormer))
	}
}

// content tells what is to be told now from what comes in its place.
func (w *wish) content(p part) any {
	switch {
	case p == partCheck:
		return w.Check
	case p == partCall:
		return w.Call
	case p == partComment:
		return w.Comment
	case len(w.Former) > 0:
		return w.Former[0]
	}
	return nil
}

// choice is something that could be told now.
type choice struct {
	*wish
	task
	failures int
}

// before orders what could be told: what has failed comes after all else. Then
// those who wait for a person come first, proposals that were pushed to, what
// has to be said anew since the branch has moved, what became of merged
// proposals, and commits that nobody looks at any more. Of pushes the latest
// comes first, as somebody waits for it, and of the others who waits longest.
func (c *choice) before(o *choice) bool {
	order := cmp.Or(cmp.Compare(c.failures, o.failures), cmp.Compare(c.rank(), o.rank()))
	if order == 0 && c.rank() == rankFresh {
		order = o.Changed.Compare(c.Changed)
	} else if order == 0 {
		order = c.Since.Compare(o.Since)
	}
	return cmp.Or(order, cmp.Compare(c.number, o.number), cmp.Compare(c.part, o.part)) < 0
}

const (
	rankCall = iota
	rankFresh
	rankOpen
	rankMerged
	rankFormer
)

func (c *choice) rank() int {
	switch {
	case c.part == partCall:
		return rankCall
	case c.part == partFormer:
		return rankFormer
	case c.Merged:
		return rankMerged
	case c.Fresh:
		return rankFresh
	}
	return rankOpen
}

// tell tells the forge one thing, and notes that it did.
func (r *Reporter) tell(ctx context.Context, w *wish, t task) error {
	sctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	var err error
	yields := t.part == partCheck && r.yields(w)
	if !yields {
		err = r.send(sctx, w, t.part)
	}
	hopeless := r.isHopeless(t, err)
	if hopeless {
		r.Log.Warn("the forge refused part of a report on a proposal", "proposal", w.Number, "revision", w.Head, "err", err)
		err = nil
	}
	if err != nil {
		return err
	}
	return r.told(ctx, w.Number, func(is *wish) {
		if t.part == partComment && is.Head == w.Comment.Head {
			is.reads(w.Comment, hopeless)
		}
		is.drop(w, t.part)
		if t.part == partCheck && !yields && is.Head == w.Head {
			is.Written++
		}
	})
}

func (r *Reporter) send(ctx context.Context, w *wish, p part) error {
	switch p {
	case partCheck:
		return r.sendCheck(ctx, w.Number, *w.Check)
	case partFormer:
		return r.sendFormer(ctx, w, w.Former[0])
	case partCall:
		_, _, err := r.Talk.Keep(ctx, w.Number, 0, r.marker("call-"+w.Call.Key), w.Call.Text)
		return err
	}
	return r.sendComment(ctx, w)
}

// sendComment writes the comment that is kept. Where it names something that is
// destroyed it is read again: that the forge took it does not say that people can
// read it.
func (r *Reporter) sendComment(ctx context.Context, w *wish) error {
	c, m := w.Comment, r.marker(kindPlan)
	before, is, err := r.Talk.Keep(ctx, w.Number, w.Kept, m, c.Text)
	if err != nil {
		return err
	}
	r.mu.Lock()
	if now := *r.wishes[w.Number]; now.Kept != is.ID {
		now.Kept = is.ID // it becomes durable with what was told
		r.wishes[w.Number] = &now
	}
	r.mu.Unlock()
	t := site.Told{Number: w.Number, Head: c.Head, Base: c.Base, Set: c.Set, Is: is.Reading()}
	if before != nil {
		was := before.Reading()
		t.Before, t.Lost = &was, was.Text == t.Is.Text || slices.Contains(w.Maybe, was.Text)
	}
	if c.Names != "" {
		there, err := r.Talk.Kept(ctx, w.Number, is.ID, m)
		if err != nil {
			return err
		}
		if there.Reading() != t.Is {
			return fmt.Errorf("the comment on proposal %d does not have the text that Slipway wrote: Slipway writes it again", w.Number)
		}
	}
	return r.Told(ctx, t)
}

// maxWritten is how many checks are written of a commit: GitHub takes a thousand
// statuses of one name, and then no more.
const maxWritten = 900

// affordable is a check, or the last of a commit: one that nobody merges by,
// when another could be the last that the forge takes.
func (r *Reporter) affordable(c forge.Check) forge.Check {
	r.mu.Lock()
	defer r.mu.Unlock()
	written := 0
	for _, w := range r.wishes {
		if w.Head == c.Commit {
			written += w.Written
		}
	}
	if written < maxWritten {
		return c
	}
	return spent(c)
}

// yields says whether a proposal without a verdict leaves its commit to another
// that has one, on the same base: a forge has one check of a commit for all that
// propose it, and anybody can propose another's from a fork.
func (r *Reporter) yields(w *wish) bool {
	o := r.other(w.Number, w.Head)
	return w.Check.Verdict == forge.Pending && o != nil && o.hasVerdict() && o.Base == w.Base && !o.Merged
}

// sendCheck says a check of a proposal. Where that goes, and another has the
// commit too, it is what the other stands for that is said, again.
func (r *Reporter) sendCheck(ctx context.Context, number int, c forge.Check) error {
	if o := r.other(number, c.Commit); o != nil && c.Verdict == forge.Superseded {
		if o.Last == nil {
			return nil
		}
		c = *o.Last
	}
	return r.Checks.Check(ctx, r.affordable(c))
}

// sendFormer says that a commit was superseded. The head was not: it was taken
// back, or merged, and after that it is for others to stand for it.
func (r *Reporter) sendFormer(ctx context.Context, w *wish, commit string) error {
	if commit == w.Head {
		if o := r.other(w.Number, commit); !w.Merged || o == nil || o.Merged {
			return nil
		}
	}
	return r.sendCheck(ctx, w.Number, superseded(r.check(), commit, w.Head))
}

// other is what is to be told of another proposal of a commit, nil for none: of
// one that is not merged, if there is, and of those of one with a verdict.
func (r *Reporter) other(number int, commit string) *wish {
	r.mu.Lock()
	defer r.mu.Unlock()
	var best *wish
	for _, w := range r.wishes {
		if w.Number != number && w.Head == commit && (best == nil || w.outranks(best)) {
			best = w
		}
	}
	return best
}

// outranks says whose check a commit has that two proposals share.
func (w *wish) outranks(o *wish) bool {
	switch {
	case w.Merged != o.Merged:
		return o.Merged
	case w.hasVerdict() != o.hasVerdict():
		return w.hasVerdict()
	}
	return w.Number < o.Number
}

// reads notes what people can read of a comment's head; where the comment could
// not be written, the check is not going to be good.
func (w *wish) reads(c *comment, hopeless bool) {
	switch {
	case !hopeless:
		w.Read = c.Names
	case w.Green != nil:
		never := unwritten(*w.Green)
		w.Green = &never
	}
}

// drop takes out of a wish what was told, unless something else has come in its
// place meanwhile.
func (w *wish) drop(was *wish, p part) {
	switch p {
	case partCheck:
		if w.Check == was.Check {
			w.Check = nil
		}
		if was.Check.Verdict == forge.Success && w.Head == was.Head && w.Comment == nil {
			w.Fresh = false
		}
	case partFormer:
		w.Former = slices.DeleteFunc(slices.Clone(w.Former), func(c string) bool { return c == was.Former[0] })
	case partCall:
		w.called(was.Call.Key)
		if w.Call != nil && w.Call.Key == was.Call.Key {
			w.Call = nil
		}
	case partComment:
		if w.Comment == was.Comment {
			w.Comment, w.Maybe = nil, nil
			if w.Green != nil {
				w.say(*w.Green)
				w.Green = nil
			}
		}
		if w.Head == was.Comment.Head && w.Check == nil {
			w.Fresh = false
		}
	}
}
