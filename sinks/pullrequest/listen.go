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
// proposals, and answers each with a reaction. What was meant as a command and is
// none is answered in words. A comment is read once it is there for us to see, and
// as it was written: one that was edited is no command.
type Listener struct {
	ListenerConfig
	poke    chan struct{}
	is      heard
	unsaved bool                // whether the outbox has it otherwise
	failing map[int64]time.Time // since when a comment cannot be obeyed or answered
	// What was said in the last hour to those who may not, and in words.
	refused, replied hourly
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
	Written time.Time      `json:"written"`          // or edited last
	Answer  forge.Reaction `json:"answer,omitempty"` // empty when it is not for us
	Owed    bool           `json:"owed,omitempty"`   // the forge does not have the answer yet
	// Number is the proposal on which Reply is written beside the answer.
	Number int    `json:"number,omitempty"`
	Reply  string `json:"reply,omitempty"`
}

const (
	// overlap is for how long before the last comment comments are read again:
	// a forge may come to show one only after a later one.
	overlap = time.Minute
	// longestHeard is how old a comment may be that is read at last.
	longestHeard = 3 * 24 * time.Hour
	// patience is how long it is tried to obey a comment, and then to answer it.
	patience = 24 * time.Hour
	// maxCommands is how many are remembered, and maxOwed how many replies: all of
	// them fit the outbox.
	maxCommands, maxOwed = 500, 10
	// roundTimeout bounds one look.
	roundTimeout = 5 * time.Minute
	// slowest is how long it takes at most until a look that failed is tried
	// again, unless the forge asks for more.
	slowest = 5 * time.Minute
)

// NewListener makes a listener; Run has it listen.
func NewListener(c ListenerConfig) *Listener {
	return &Listener{ListenerConfig: c, poke: make(chan struct{}, 1), failing: map[int64]time.Time{}}
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

// hear does what comments ask for, each once, in their order. What cannot be done
// now is left for the next time, and keeps no other back.
func (l *Listener) hear(ctx context.Context, all []forge.Comment) error {
	var wrong error
	since, open := l.is.Since, true // whether all before was heard
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

// concernsAll says whether what kept one comment from being obeyed or answered
// would keep the next from it.
func concernsAll(ctx context.Context, err error) bool {
	var limited *forge.Limited
	return ctx.Err() != nil || errors.As(err, &limited)
}

// hearOne does what a comment asks for, if it is a command that was not carried
// out. One that failed for a day is given up.
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

// read reads a comment as a command. It is none when it does not read as a person
// wrote it: who edited it may be another.
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

// givesUp says whether something about a comment has failed for long enough.
func (l *Listener) givesUp(ctx context.Context, comment int64, err error) bool {
	if concernsAll(ctx, err) {
		return false
	}
	maps.DeleteFunc(l.failing, func(_ int64, since time.Time) bool { return time.Since(since) > longestHeard }) // was deleted
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

// bound forgets the oldest commands where there are too many, and that they are
// owed an answer. What was written up to then is not read again.
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

// moveOn forgets what need not be read any more.
func (l *Listener) moveOn(ctx context.Context, since time.Time) error {
	if !since.After(l.is.Since) {
		return nil
	}
	l.is.Since = since
	l.is.Commands = slices.DeleteFunc(l.is.Commands, func(c command) bool { return !c.Owed && c.Written.Before(since) })
	return l.remember(ctx)
}

// answer gives the answers that are owed. One that cannot be given keeps no other
// back, and is given up after a day.
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

// answerOne answers a command. A comment that is gone, or that the forge takes no
// answer for, is owed none.
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

// replyMarker is of the reply to a comment. It names no site: where a repository
// has several, and one account speaks for all, one reply is enough.
func replyMarker(comment int64) forge.Marker {
	return forge.Marker{Kind: fmt.Sprintf("reply-%d", comment)}
}
