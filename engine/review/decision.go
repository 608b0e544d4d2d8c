package review

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A merge counts as a person's approval of its losses if a person decided to merge
// after Slipway's comment had named all of them, and nobody but Slipway changed the
// comment before. Anything uncertain approves nothing.

// question is an open question about a proposal: the forge does not answer, or not
// reliably.
type question struct {
	number int
	about  string
}

// How long something is in doubt. A forge in trouble gives some answers wrong, and
// others late.
const (
	// lostFor is how long a proposal must be gone before Slipway believes it.
	lostFor = 24 * time.Hour
	// lateFor is how long Slipway waits for what a forge reports late.
	lateFor = 10 * time.Minute
	// quietFor is how long a question stays unanswered before people hear of it.
	quietFor = time.Minute
)

// isCertain reports whether something was in doubt for long enough, and notes since
// when it is. Call isCertain and lasting with deciding held.
func (r *Reviews) isCertain(d question, most time.Duration) bool {
	since, noted := r.doubts[d]
	if !noted {
		since = time.Now()
		r.doubts[d] = since
	}
	return time.Since(since) >= most
}

// lasting returns an error only once it has lasted so long that people have to hear
// of it.
func (r *Reviews) lasting(d question, err error) error {
	if err == nil {
		delete(r.doubts, d)
		return nil
	}
	if !r.isCertain(d, quietFor) {
		return nil
	}
	return err
}

// Told receives how the comment on a proposal was found, and how it is now. From now
// on merging the proposal approves the set that the comment names. It does not if
// another review was made since, or if the proposal is no longer open: the person
// who merged it may not have read the comment. Told first records what others did to
// the comment: on a later call nothing of that is left to see.
func (r *Reviews) Told(ctx context.Context, t site.Told) error {
	r.deciding.Lock()
	defer r.deciding.Unlock()
	was := r.site.Recorded.Of(t.Number)
	if was.Empty() || was.Landed != nil {
		return nil // it approves nothing more
	}
	found := was
	found.Comment = &t.Is
	what := replaced(was.Comment, t)
	switch {
	case what != "":
		found.Shown, found.Changed = nil, &record.Changed{Head: t.Head, What: what, When: time.Now()}
	case t.Lost && was.Shown != nil:
		again := *was.Shown
		again.Since = t.Is.Written // nobody knows what was read in between
		found.Shown = &again
	}
	if err := r.site.Recorded.Put(ctx, was, found); err != nil {
		return err
	}
	next := found
	var err error
	next.Shown, err = r.shows(ctx, found.Shown, t)
	if what != "" {
		r.noteChanged(t.Number, what)
	}
	if err != nil {
		return err
	}
	return r.site.Recorded.Put(ctx, found, next)
}

// shows returns the set that a comment shows from now on.
func (r *Reviews) shows(ctx context.Context, was *record.Shown, t site.Told) (*record.Shown, error) {
	r.mu.Lock()
	is := r.done[t.Number]
	r.mu.Unlock()
	if t.Is.Hidden != "" {
		return nil, nil
	}
	if len(is.set) == 0 || is.head != t.Head || is.base != t.Base || is.set.Digest() != t.Set {
		return was, nil
	}
	if open, err := r.stillOpen(ctx, t.Number, t.Head); err != nil || !open {
		return was, err
	}
	next := &record.Shown{
		Head: t.Head, Base: t.Base, Digest: t.Set, Losses: is.set, Waiting: is.waiting, When: time.Now(), Since: t.Is.Written,
	}
	if was != nil && was.Head == t.Head && !was.Since.IsZero() && was.Losses.ContainsAll(is.set) {
		next.Since = was.Since // the comment has named this all along
	}
	return next, nil
}

// replaced returns what others did to a comment before a newer text replaced it.
func replaced(own *site.Reading, t site.Told) string {
	if own == nil || t.Lost && t.Before.Text != own.Text {
		return ""
	}
	return changed(own, t.Before)
}

// changed returns what others did to a comment since Slipway's last write; empty for
// nothing. A forge reports the time of the last edit, so Slipway also notices an
// edit that was undone.
func changed(own, now *site.Reading) string {
	switch {
	case now == nil || now.Comment != own.Comment:
		return "it was deleted"
	case now.Text != own.Text:
		return "it was edited at " + now.Written.UTC().Format(time.TimeOnly+" MST")
	case !now.Written.Equal(own.Written):
		return "it was edited at " + now.Written.UTC().Format(time.TimeOnly+" MST") + ", or before, and put back"
	case now.Hidden != own.Hidden && now.Hidden != "":
		return "it was hidden, as " + now.Hidden
	}
	return ""
}

// noteChanged adds an event that others have changed a comment, and has the proposal
// reported again: the comment is restored, and people are called.
func (r *Reviews) noteChanged(number int, what string) {
	r.site.Warn(site.Event{Kind: site.EventOrder, Text: fmt.Sprintf("others have changed Slipway's comment on pull request %d: %s. "+
		"Slipway rewrites it; merging approves only what the new text names", number, what)})
	r.mu.Lock()
	delete(r.done, number)
	r.mu.Unlock()
	r.Look()
}

// watchedPerRound is how many comments are read in a round.
const watchedPerRound = 50

// watch reads the comments on open proposals that name a set. A comment that others
// have changed names nothing until it is restored.
func (r *Reviews) watch(ctx context.Context, open []site.Proposal) {
	var wrong error
	var named []record.Proposed
	for _, is := range r.site.Recorded.All() {
		if is.Shown != nil && slices.ContainsFunc(open, func(p site.Proposal) bool { return p.Number == is.Number }) {
			named = append(named, is)
		}
	}
	slices.SortStableFunc(named, func(a, b record.Proposed) int { return r.turnOf(a.Number) - r.turnOf(b.Number) })
	for _, is := range named[:min(len(named), watchedPerRound)] {
		r.watched = is.Number
		err := r.watchOne(ctx, is.Number)
		if wrong == nil && !errors.Is(err, site.ErrNotYet) {
			wrong = err
		}
	}
	r.deciding.Lock()
	defer r.deciding.Unlock()
	r.site.Problem("comment", r.lasting(question{0, "watched"}, wrong))
}

// turnOf orders proposals: those after the last one read come first.
func (r *Reviews) turnOf(number int) int {
	if number > r.watched {
		return 0
	}
	return 1
}

func (r *Reviews) watchOne(ctx context.Context, number int) error {
	r.deciding.Lock()
	defer r.deciding.Unlock()
	was := r.site.Recorded.Of(number)
	if was.Shown == nil || was.Comment == nil {
		return nil
	}
	now, err := r.reads(ctx, was)
	if err != nil {
		return err
	}
	what := changed(was.Comment, now)
	if what == "" {
		return nil
	}
	next := was
	next.Shown, next.Comment = nil, now
	next.Changed = &record.Changed{Head: was.Shown.Head, What: what, When: time.Now()}
	if err := r.site.Recorded.Put(ctx, was, next); err != nil {
		return err
	}
	r.noteChanged(number, what)
	return nil
}

// reads returns the present comment on a proposal; nil if there is none.
func (r *Reviews) reads(ctx context.Context, is record.Proposed) (*site.Reading, error) {
	now, err := r.Announce.Reads(ctx, is.Number, is.Comment.Comment)
	switch {
	case errors.Is(err, site.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the comment on proposal %d: %w", is.Number, err)
	}
	return &now, nil
}

// decidedBy returns who approves, by merging a proposal, what its comment named, or
// why nobody does. After an error it is called again.
func (r *Reviews) decidedBy(ctx context.Context, is record.Proposed) (by, why string, err error) {
	if is.Comment == nil {
		return "", "what its comment said is not in the records", nil
	}
	now, err := r.reads(ctx, is)
	if err == nil {
		if why = changed(is.Comment, now); why != "" {
			return "", "others have changed its comment since Slipway wrote it: " + why, nil
		}
		d, err := r.Proposals.Decision(ctx, is.Number)
		if err == nil && d.By != "" {
			return d.By, notAPersons(d, is.Shown.Since), nil
		}
		if err == nil {
			err = fmt.Errorf("who decided to merge proposal %d: %w", is.Number, site.ErrNotYet)
		}
		return r.unknown(is.Number, "the forge does not say who decided to merge it, and when", err)
	}
	return r.unknown(is.Number, "the forge does not say how its comment read when it was merged", err)
}

// unknown returns why a merge approves nothing, once the forge has not answered for
// long enough.
func (r *Reviews) unknown(number int, why string, err error) (string, string, error) {
	most := lostFor
	if errors.Is(err, site.ErrNotYet) {
		most = lateFor
	}
	if r.isCertain(question{number, "decided"}, most) {
		return "", why, nil
	}
	return "", "", err
}

// notAPersons returns why a decision to merge does not approve a set that people
// could read since the given time; empty if it does. Both times are by the forge's
// clock, which counts in seconds.
func notAPersons(d site.Decision, since time.Time) string {
	at := func(t time.Time) string { return t.UTC().Format(time.TimeOnly + " MST") }
	switch {
	case d.Program != "":
		return "it was merged by a program (" + d.Program + "), and not by a person who has read it"
	case d.Auto && d.When.IsZero():
		return "it was merged automatically, and the forge does not say whether " + d.By + " asked for that after the comment " +
			"named the set"
	case since.IsZero():
		return "Slipway does not know since when its comment has named the set"
	case d.When.After(since):
		return ""
	case d.Auto:
		return "it was merged automatically: " + d.By + " asked for that at " + at(d.When) + ", before the comment named " +
			"the set at " + at(since)
	}
	return "it was merged at " + at(d.When) + ", not after the comment named the set at " + at(since)
}
