package pullrequest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/forge"
)

// ListenerConfig is what a Listener works with.
type ListenerConfig struct {
	// Base is the branch that the site follows. Proposals for another are not
	// ours.
	Base      string
	Proposals forge.Proposals
	Comments  forge.Comments
	Talk      forge.Talk
	People    forge.People
	Orders    Orders
	// Outbox keeps which comments were answered.
	Outbox Outbox
	// Every says how often to look, if nobody calls Look.
	Every func() time.Duration
	// Problem is told what keeps comments from being read or answered, and nil
	// when that is over.
	Problem func(error)
	Log     *slog.Logger
}

// Listener does what people with the right to write ask for in comments on
// proposals, and answers each with a reaction. A comment is read once it is
// there for us to see, and as it was written: not when it was edited.
type Listener struct {
	ListenerConfig
	poke    chan struct{}
	is      heard
	unsaved bool // whether the outbox has it otherwise
}

// heardKey is the key in the outbox of what was heard.
const heardKey = "heard"

// heard is what was read and answered.
type heard struct {
	// Since is when the comments were written that are read next.
	Since time.Time `json:"since"`
	// Commands are those that were written since, and those that are still to
	// be answered.
	Commands []command `json:"commands,omitempty"`
}

// command is a comment that asked for something, once that was done or refused.
type command struct {
	Comment int64          `json:"comment"`
	Written time.Time      `json:"written"`
	Answer  forge.Reaction `json:"answer,omitempty"` // empty when it is not for us
	Owed    bool           `json:"owed,omitempty"`   // the forge does not have the answer yet
}

const (
	// overlap is for how long before the last comment comments are read again:
	// a forge may come to show one only after a later one.
	overlap = time.Minute
	// longestHeard is how old a comment may be that is read at last.
	longestHeard = 3 * 24 * time.Hour
	// roundTimeout bounds one look.
	roundTimeout = 5 * time.Minute
	// slowest is how long it takes at most until a look that failed is tried
	// again, unless the forge asks for more.
	slowest = 5 * time.Minute
)

// NewListener makes a listener; Run has it listen.
func NewListener(c ListenerConfig) *Listener {
	return &Listener{ListenerConfig: c, poke: make(chan struct{}, 1)}
}

// Look has the comments read now.
func (l *Listener) Look() {
	select {
	case l.poke <- struct{}{}:
	default: // it is going to
	}
}

// Run listens until the context ends.
func (l *Listener) Run(ctx context.Context) error {
	if err := l.recall(ctx); err != nil {
		return err
	}
	for failures := 0; ; {
		err := l.round(ctx)
		if ctx.Err() != nil {
			return nil
		}
		l.Problem(err)
		if failures++; err == nil {
			failures = 0
		}
		if err := l.wait(ctx, l.pause(err, failures)); err != nil {
			return nil
		}
	}
}

// recall begins where it was left. The first time it begins now: what was
// written before was not written for us.
func (l *Listener) recall(ctx context.Context) error {
	all, err := l.Outbox.Messages(ctx)
	if value := all[heardKey]; value != nil {
		err = json.Unmarshal(value, &l.is)
	}
	if err != nil {
		return fmt.Errorf("recall which comments were answered: %w", err)
	}
	if l.is.Since.IsZero() {
		l.is.Since = time.Now().Add(-overlap) // by another clock
		return l.remember(ctx)
	}
	return nil
}

func (l *Listener) remember(ctx context.Context) error {
	value, err := json.Marshal(l.is)
	if err == nil {
		err = l.Outbox.PutMessage(ctx, heardKey, value)
	}
	if l.unsaved = err != nil; l.unsaved {
		return fmt.Errorf("remember which comments were answered: %w", err)
	}
	return nil
}

// pause is how long to wait after a look.
func (l *Listener) pause(err error, failures int) time.Duration {
	var limited *forge.Limited
	switch every := l.Every(); {
	case errors.As(err, &limited):
		return max(time.Until(limited.Until), time.Second)
	case err != nil:
		return max(every, min(slowest, time.Second<<min(failures, 9)))
	default:
		return every
	}
}

// wait waits, or until somebody wants a look. Its error is the context's.
func (l *Listener) wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.poke:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// round reads the comments that are new, does what they ask for, and gives the
// answers that are owed. What was done is remembered before it is answered: an
// answer that is lost is given again, and no command carried out again.
func (l *Listener) round(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, roundTimeout)
	defer cancel()
	since := l.is.Since
	if oldest := time.Now().Add(-longestHeard); since.Before(oldest) {
		since = oldest
	}
	all, err := l.Comments.CommentsSince(ctx, since)
	if err != nil {
		return fmt.Errorf("read comments: %w", err)
	}
	err = l.hear(ctx, all)
	return errors.Join(err, l.answer(ctx))
}

// hear does what comments ask for, each once, in their order. An error leaves
// the rest for the next time.
func (l *Listener) hear(ctx context.Context, all []forge.Comment) error {
	for _, c := range all {
		if c.Bot || c.Edited || l.knows(c.ID) {
			continue
		}
		asked, wrong := forge.ReadCommand(c.Body)
		if asked.Verb == "" && wrong == nil {
			continue
		}
		answer, err := l.obey(ctx, c, asked, wrong)
		if err != nil {
			return fmt.Errorf("comment %d on proposal %d: %w", c.ID, c.Number, err)
		}
		l.is.Commands = append(l.is.Commands, command{c.ID, c.Written, answer, answer != ""})
		if err := l.remember(ctx); err != nil {
			return err
		}
	}
	return l.moveOn(ctx, all)
}

func (l *Listener) knows(comment int64) bool {
	return slices.ContainsFunc(l.is.Commands, func(c command) bool { return c.Comment == comment })
}

// moveOn forgets what need not be read any more.
func (l *Listener) moveOn(ctx context.Context, read []forge.Comment) error {
	since := l.is.Since
	for _, c := range read {
		if t := c.Written.Add(-overlap); t.After(since) {
			since = t
		}
	}
	if since.Equal(l.is.Since) {
		return nil
	}
	l.is.Since = since
	l.is.Commands = slices.DeleteFunc(l.is.Commands, func(c command) bool { return !c.Owed && c.Written.Before(since) })
	return l.remember(ctx)
}

// answer gives the answers that are owed. A comment that is gone, or that the
// forge takes no answer for, is owed none.
func (l *Listener) answer(ctx context.Context) error {
	if l.unsaved {
		if err := l.remember(ctx); err != nil {
			return err
		}
	}
	for i := range l.is.Commands {
		c := &l.is.Commands[i]
		if !c.Owed {
			continue
		}
		err := l.Talk.React(ctx, c.Comment, c.Answer)
		switch {
		case errors.Is(err, forge.ErrGone), errors.Is(err, forge.ErrRefused):
			l.Log.Warn("command not answered", "comment", c.Comment, "err", err)
		case err != nil:
			return err
		}
		c.Owed = false
		if err := l.remember(ctx); err != nil {
			return err
		}
	}
	return nil
}
