package pullrequest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/forge"
)

// ListenerConfig configures a Listener.
type ListenerConfig struct {
	// Base is the branch that the site follows. Proposals for other branches are ignored.
	Base      string
	Proposals forge.Proposals
	Comments  forge.Comments
	Talk      forge.Talk
	People    forge.People
	Orders    Orders
	// Outbox stores which comments were answered.
	Outbox Outbox
	// Every is the interval between looks without a call of Look.
	Every func() time.Duration
	// Problem receives the error that prevents reading or answering comments, and nil when it is over.
	Problem func(error)
	Log     *slog.Logger
}

// Listener carries out the commands of people with write permission in comments on proposals. It answers each with
// a reaction. What was meant as a command and is not one gets a reply in words. The listener reads a comment once,
// when it becomes visible. An edited comment is not a command.
type Listener struct {
	ListenerConfig
	poke    chan struct{}
	is      heard
	unsaved bool                // the outbox has an older state
	failing map[int64]time.Time // since when a comment cannot be obeyed or answered
	// These count the last hour's refusals and replies in words.
	refused, replied hourly
}

// heardKey is the key of heard in the outbox.
const heardKey = "heard"

// heard records what was read and answered.
type heard struct {
	// Since is the time from which comments are read next.
	Since time.Time `json:"since"`
	// Commands are those written since, and those not yet answered.
	Commands []command `json:"commands,omitempty"`
}

// command is a comment with a request that was carried out or refused.
type command struct {
	Comment int64          `json:"comment"`
	Written time.Time      `json:"written"`          // or last edited
	Answer  forge.Reaction `json:"answer,omitempty"` // empty if it is not for us
	Owed    bool           `json:"owed,omitempty"`   // the forge does not have the answer yet
	// Number is the proposal on which Reply is written in addition to the reaction.
	Number int    `json:"number,omitempty"`
	Reply  string `json:"reply,omitempty"`
}

const (
	// overlap is how far before the last comment reading starts again. A forge may show a comment after a later
	// one.
	overlap = time.Minute
	// longestHeard is the maximum age of a comment that is read.
	longestHeard = 3 * 24 * time.Hour
	// patience is how long obeying a comment is tried, and then answering it.
	patience = 24 * time.Hour
	// maxCommands bounds the remembered commands, and maxOwed their replies. All of them fit the outbox.
	maxCommands, maxOwed = 500, 10
	// roundTimeout bounds one look.
	roundTimeout = 5 * time.Minute
	// slowest is the longest pause after a failed look, unless the forge requests a longer one or the interval is
	// longer.
	slowest = 5 * time.Minute
)

// NewListener makes a Listener. Run starts it.
func NewListener(c ListenerConfig) *Listener {
	return &Listener{ListenerConfig: c, poke: make(chan struct{}, 1), failing: map[int64]time.Time{}}
}

// Look makes the listener read the comments now.
func (l *Listener) Look() {
	select {
	case l.poke <- struct{}{}:
	default: // a look is already requested
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

// recall continues where the last process stopped. The first time it starts now: earlier comments were not meant
// for Slipway.
func (l *Listener) recall(ctx context.Context) error {
	all, err := l.Outbox.Messages(ctx)
	if value := all[heardKey]; value != nil {
		err = json.Unmarshal(value, &l.is)
	}
	if err != nil {
		return fmt.Errorf("recall which comments were answered: %w", err)
	}
	if l.is.Since.IsZero() {
		l.is.Since = time.Now().Add(-overlap) // the forge has another clock
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

// pause is the time to wait after a look.
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

// wait waits for a time, or until somebody requests a look. Its error is the context's.
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

// round reads the new comments, carries out their commands, and gives the owed answers. It remembers each command
// before answering: a lost answer is given again, but no command is carried out twice.
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

// hear carries out the commands in comments once each, in order. A command that fails is left for the next look,
// and does not hold up the others.
func (l *Listener) hear(ctx context.Context, all []forge.Comment) error {
	var wrong error
	since, open := l.is.Since, true // whether all earlier comments were heard
	for _, c := range all {
		err := l.hearOne(ctx, c)
		if l.unsaved || concernsAll(ctx, err) {
			return err
		}
		wrong = cmp.Or(wrong, err)
		if open = open && err == nil; open {
			since = latest(since, c.Written.Add(-overlap))
		}
	}
	return cmp.Or(wrong, l.moveOn(ctx, since))
}

// concernsAll reports whether an error with one comment would also occur with the next.
func concernsAll(ctx context.Context, err error) bool {
	var limited *forge.Limited
	return ctx.Err() != nil || errors.As(err, &limited)
}

// hearOne carries out the command of a comment, unless that was done before. It gives up a command that has failed
// for a day.
func (l *Listener) hearOne(ctx context.Context, c forge.Comment) error {
	if _, ours := forge.ReadMarker(c.Body); ours || c.Bot || l.knows(c.ID) {
		return nil
	}
	asked, wrong := read(c)
	if asked.Verb == "" && wrong == nil {
		return nil
	}
	says, err := l.obey(ctx, c, asked, wrong)
	if err != nil && !l.givesUp(ctx, c.ID, err) {
		return fmt.Errorf("comment %d on proposal %d: %w", c.ID, c.Number, err)
	}
	delete(l.failing, c.ID)
	is := command{Comment: c.ID, Written: latest(c.Written, c.Changed), Answer: says.Reaction, Owed: says.Reaction != ""}
	if says.reply != "" && l.owesReplies() < maxOwed && l.replied.may(maxReplies) {
		is.Number, is.Reply = c.Number, says.reply
	}
	l.is.Commands = append(l.is.Commands, is)
	l.bound()
	return l.remember(ctx)
}

// read parses a comment as a command. An edited comment, or one that a program wrote, is not a command: another
// person may have edited it.
func read(c forge.Comment) (forge.Command, *forge.NotACommand) {
	asked, err := forge.ReadCommand(c.Body)
	var wrong *forge.NotACommand
	errors.As(err, &wrong)
	switch {
	case asked.Verb == "":
		return forge.Command{}, wrong
	case c.Edited():
		return forge.Command{}, &forge.NotACommand{Why: "it was edited, and only what was written at first is a command"}
	case c.Via != "":
		return forge.Command{}, &forge.NotACommand{Why: fmt.Sprintf("it was written by a program (%s), and not by a person", c.Via)}
	}
	return asked, wrong
}

func (l *Listener) owesReplies() (n int) {
	for _, c := range l.is.Commands {
		if c.Owed && c.Reply != "" {
			n++
		}
	}
	return n
}

// givesUp reports whether a comment has failed for long enough.
func (l *Listener) givesUp(ctx context.Context, comment int64, err error) bool {
	if concernsAll(ctx, err) {
		return false
	}
	maps.DeleteFunc(l.failing, func(_ int64, since time.Time) bool { return time.Since(since) > longestHeard }) // the comment was deleted
	since, known := l.failing[comment]
	if !known {
		l.failing[comment] = time.Now()
	}
	if !known || time.Since(since) < patience {
		return false
	}
	delete(l.failing, comment)
	l.Log.Warn("command given up", "comment", comment, "err", err)
	return true
}

// bound forgets the oldest commands when there are too many, with the answers they are owed. Comments from before
// that are not read again.
func (l *Listener) bound() {
	for len(l.is.Commands) > maxCommands {
		oldest := slices.MinFunc(l.is.Commands, func(a, b command) int { return a.Written.Compare(b.Written) }).Written
		l.is.Since = latest(l.is.Since, oldest.Add(time.Second)) // forges count in seconds
		l.is.Commands = slices.DeleteFunc(l.is.Commands, func(c command) bool { return c.Written.Before(l.is.Since) })
	}
}

func (l *Listener) knows(comment int64) bool {
	return slices.ContainsFunc(l.is.Commands, func(c command) bool { return c.Comment == comment })
}

// moveOn forgets comments that need not be read again.
func (l *Listener) moveOn(ctx context.Context, since time.Time) error {
	if !since.After(l.is.Since) {
		return nil
	}
	l.is.Since = since
	l.is.Commands = slices.DeleteFunc(l.is.Commands, func(c command) bool { return !c.Owed && c.Written.Before(since) })
	return l.remember(ctx)
}

// answer gives the owed answers. An answer that fails does not hold up the others, and is given up after a day.
func (l *Listener) answer(ctx context.Context) error {
	if l.unsaved {
		if err := l.remember(ctx); err != nil {
			return err
		}
	}
	var wrong error
	for i := range l.is.Commands {
		c := &l.is.Commands[i]
		if !c.Owed {
			continue
		}
		err := l.answerOne(ctx, c)
		if l.unsaved || concernsAll(ctx, err) {
			return err
		}
		wrong = cmp.Or(wrong, err)
	}
	return wrong
}

// answerOne answers a command. If the comment is gone, or the forge rejects the answer, the answer is no longer
// owed.
func (l *Listener) answerOne(ctx context.Context, c *command) error {
	err := l.Talk.React(ctx, c.Comment, c.Answer)
	if err == nil && c.Reply != "" {
		_, _, err = l.Talk.Keep(ctx, c.Number, 0, replyMarker(c.Comment), c.Reply)
	}
	switch {
	case errors.Is(err, forge.ErrGone), errors.Is(err, forge.ErrRefused):
		l.Log.Warn("command not answered", "comment", c.Comment, "err", err)
	case err != nil && !l.givesUp(ctx, c.Comment, err):
		return err
	}
	delete(l.failing, c.Comment)
	c.Owed, c.Number, c.Reply = false, 0, ""
	return l.remember(ctx)
}

// replyMarker marks the reply to a comment. It names no site: if a repository has several sites that share one
// account, one reply is enough.
func replyMarker(comment int64) forge.Marker {
	return forge.Marker{Kind: fmt.Sprintf("reply-%d", comment)}
}
