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

// attemptTimeout bounds one report, including the wait for the forge's limits.
const attemptTimeout = 5 * time.Minute

// part is a kind of report on a proposal, in their order.
type part int

const (
	partCheck part = iota
	partCall
	partComment
	partFormer
)

// task is one report on a proposal.
type task struct {
	number int
	part   part
}

// Run reports to the forge until the context ends. Nothing else reports to it.
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
			r.mute(ctx, w, t)
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

// idle is the wait without news or work.
const idle = 24 * time.Hour

// next is the next report, or the time to wait for one.
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

// soon is how long to wait for a review that is being made.
const soon = 10 * time.Second

// notBefore is the time before which a report waits. While a head is being planned, its former commits wait for the
// result.
func (w *wish) notBefore(p part) time.Time {
	if p == partFormer && w.Verdict == forge.Pending {
		return w.Changed.Add(soon)
	}
	return time.Time{}
}

// touch records that a check of a wish's head is about to be written.
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

// parts are the pending reports on a proposal.
func (w *wish) parts() iter.Seq[part] {
	return func(yield func(part) bool) {
		_ = (w.Check == nil || yield(partCheck)) && (w.Call == nil || yield(partCall)) &&
			(w.Comment == nil || yield(partComment)) && (len(w.Former) == 0 || yield(partFormer))
	}
}

// content identifies the current report, as opposed to its replacement.
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

// choice is a report that could be made now.
type choice struct {
	*wish
	task
	failures int
}

// before orders the possible reports. Those that have failed come last. The others come in this order: calls for
// people, fresh heads, other open proposals (as when the branch has moved), merged proposals, and former commits.
// Among fresh heads the latest comes first, because somebody waits for it. Otherwise the longest wait comes first.
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

// tell makes one report, and records that.
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

// sendComment writes the kept comment. If it names destruction, sendComment reads it again: the forge may accept a
// comment that people cannot read.
func (r *Reporter) sendComment(ctx context.Context, w *wish) error {
	c, m := w.Comment, r.marker(kindPlan)
	before, is, err := r.Talk.Keep(ctx, w.Number, w.Kept, m, c.Text)
	if err != nil {
		return err
	}
	r.mu.Lock()
	if now := *r.wishes[w.Number]; now.Kept != is.ID {
		now.Kept = is.ID // it becomes durable with the report
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

// maxWritten bounds the checks that are written for a commit. GitHub accepts a thousand statuses of one name.
const maxWritten = 900

// mute has the check say that a comment cannot be written until a person acts.
func (r *Reporter) mute(ctx context.Context, w *wish, t task) {
	x := r.tries[t]
	if t.part != partComment || x == nil || x.problem == nil {
		return
	}
	why := site.Shorten(x.problem.Error(), maxLine)
	if w.Unsaid == why {
		return
	}
	err := r.told(ctx, w.Number, func(is *wish) {
		if is.Comment == w.Comment {
			is.mute(why)
		}
	})
	if err != nil {
		r.Log.Warn("the check does not say yet that the comment cannot be written", "proposal", w.Number, "err", err)
	}
}

// affordable is the check itself, or near the forge's limit an error check. That one is the last, and nobody merges
// by it.
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

// yields reports whether a proposal without a verdict leaves its commit to another proposal with one, on the same
// base. A forge has one check per commit for all its proposals, and anybody can propose another's commit from a
// fork.
func (r *Reporter) yields(w *wish) bool {
	o := r.other(w.Number, w.Head)
	return w.Check.Verdict == forge.Pending && o != nil && o.hasVerdict() && o.Base == w.Base && !o.Merged
}

// sendCheck writes a check of a proposal. If the check is superseded and another proposal has the commit too,
// sendCheck writes the other's last check again.
func (r *Reporter) sendCheck(ctx context.Context, number int, c forge.Check) error {
	if o := r.other(number, c.Commit); o != nil && c.Verdict == forge.Superseded {
		if o.Last == nil {
			return nil
		}
		c = *o.Last
	}
	return r.Checks.Check(ctx, r.affordable(c))
}

// sendFormer reports that a commit was superseded. A head that was taken back or merged is not superseded: its
// check may then belong to another proposal.
func (r *Reporter) sendFormer(ctx context.Context, w *wish, commit string) error {
	if commit == w.Head {
		if o := r.other(w.Number, commit); !w.Merged || o == nil || o.Merged {
			return nil
		}
	}
	return r.sendCheck(ctx, w.Number, superseded(r.check(), commit, w.Head))
}

// other is the wish of another proposal with this commit; nil for none. It prefers proposals that are not merged,
// and among those one with a verdict.
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

// outranks decides which of two proposals with the same commit has its check.
func (w *wish) outranks(o *wish) bool {
	switch {
	case w.Merged != o.Merged:
		return o.Merged
	case w.hasVerdict() != o.hasVerdict():
		return w.hasVerdict()
	}
	return w.Number < o.Number
}

// reads records what people can read about a comment's head. If Slipway no longer tries to write a comment that
// names destruction, the check fails; any other check goes on saying that there is no comment.
func (w *wish) reads(c *comment, hopeless bool) {
	switch {
	case !hopeless:
		w.Read, w.Unsaid = c.Names, ""
	case w.Green != nil && c.isUnread(w):
		never := unwritten(*w.Green, forge.Error, w.Unsaid)
		w.Green = &never
	default:
		w.Green = nil
	}
}

// drop removes a finished report from a wish, unless another one has replaced it meanwhile.
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
