// Package notify tells people when a site does not go on without one: nodes
// are stalled or wait for somebody's word, a rollout has halted, the site as a
// whole is in trouble. What has the same cause is told once, with its nodes
// together, again when it has gone and come back, and as a reminder every day;
// and that it is over.
//
// Each channel keeps its own account of what it was told. A channel that was
// away is told how things are now, in one message, not all that has happened.
package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Channel takes messages to people.
type Channel interface {
	// Send returns when the message was taken. After an error the channel is
	// told again later.
	Send(ctx context.Context, m Message) error
}

// Paced is a Channel that wants to be told of what lasts more often than people
// do.
type Paced interface{ Pace() Pace }

// Pace is how often a channel is told.
type Pace struct {
	// More is the time between two messages of more nodes with a cause, and
	// Remind that between two messages of a cause that lasts.
	More, Remind time.Duration
}

// undelivered is an error of a channel that has settled a part of a message.
type undelivered struct {
	settled []string // causes that are not to be sent again: taken, or refused for good
	after   time.Duration
	err     error
}

func (e *undelivered) Error() string { return e.err.Error() }
func (e *undelivered) Unwrap() error { return e.err }

// Times of delivery.
const (
	sendTimeout  = 30 * time.Second
	firstBackoff = 30 * time.Second
	maxBackoff   = 15 * time.Minute
)

// Config is what a notifier works with.
type Config struct {
	Site string
	// Dir is where the channels' accounts are kept, so that a restart repeats
	// nothing.
	Dir string
	// Channels are the channels by the names of their accounts.
	Channels map[string]Channel
	Log      *slog.Logger
}

// Notifier finds out when a person is needed; it is an engine.Reporter.
type Notifier struct {
	site    string
	tellers []*teller

	mu      sync.Mutex
	present *picture // nil before the first report
}

// picture is what needs a person, as the last report has it.
type picture struct {
	revision string
	causes   map[string]cause
}

// New makes a notifier; Run has it tell.
func New(c Config) (*Notifier, error) {
	n := &Notifier{site: c.Site}
	for _, name := range slices.Sorted(maps.Keys(c.Channels)) {
		log := c.Log.With("site", c.Site, "channel", name)
		t := &teller{n: n, channel: c.Channels[name], pace: paceOf(c.Channels[name]), file: filepath.Join(c.Dir, "told-"+name+".json"), wake: make(chan struct{}, 1), log: log}
		if err := t.load(); err != nil {
			return nil, fmt.Errorf("notify by %s: %w", name, err)
		}
		n.tellers = append(n.tellers, t)
	}
	return n, nil
}

// Report takes note of what needs a person. It returns at once: what becomes
// of messages is no part of the site's status.
func (n *Notifier) Report(_ context.Context, r site.Report) error {
	p := &picture{revision: r.Status.Applied.ID, causes: causes(&r)}
	n.mu.Lock()
	n.present = p
	n.mu.Unlock()
	for _, t := range n.tellers {
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
	return nil
}

// Run tells the channels until the context ends.
func (n *Notifier) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, t := range n.tellers {
		all.Go(func() { t.run(ctx) })
	}
	all.Wait()
}

// teller tells one channel. Only its own goroutine uses it.
type teller struct {
	n        *Notifier
	channel  Channel
	pace     Pace
	file     string
	wake     chan struct{}
	log      *slog.Logger
	account  account
	failures int       // in a row
	rest     time.Time // until when nothing is sent after a failure
}

func (t *teller) run(ctx context.Context) {
	for ctx.Err() == nil {
		timer := time.NewTimer(t.turn(ctx))
		select {
		case <-ctx.Done():
		case <-t.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// turn tells what is due, and says how long there is nothing to do unless
// there is news.
func (t *teller) turn(ctx context.Context) time.Duration {
	t.n.mu.Lock()
	p := t.n.present
	t.n.mu.Unlock()
	if p == nil {
		return remindEvery
	}
	now := time.Now()
	events, next := t.account.due(now, p.causes, t.pace)
	if len(events) == 0 {
		return next
	}
	if rest := t.rest.Sub(now); rest > 0 {
		return rest
	}
	err := t.send(ctx, newMessage(t.n.site, p.revision, now, events))
	settled := events
	if err != nil {
		settled = settledOf(err, events)
	}
	t.note(now, settled)
	if err != nil && len(settled) < len(events) {
		return t.fail(ctx, err)
	}
	if err != nil {
		t.log.Warn("the service refused a notification; Slipway does not send it again before there is news", "err", err)
	}
	t.failures = 0
	return 0
}

// note keeps what was told.
func (t *teller) note(now time.Time, events []Event) {
	if len(events) == 0 {
		return
	}
	t.account.told(now, events)
	if err := t.save(); err != nil {
		t.log.Warn("sent notifications could not be recorded: a restart will send them again", "err", err)
	}
}

// settledOf are the events that a failed message need not tell again.
func settledOf(err error, events []Event) []Event {
	var u *undelivered
	if !errors.As(err, &u) {
		return nil
	}
	var settled []Event
	for _, e := range events {
		if slices.Contains(u.settled, e.Cause) {
			settled = append(settled, e)
		}
	}
	return settled
}

// paceOf is what suits people unless the channel says otherwise.
func paceOf(c Channel) Pace {
	if p, ok := c.(Paced); ok && p.Pace() != (Pace{}) {
		return p.Pace()
	}
	return Pace{More: digestEvery, Remind: remindEvery}
}

func (t *teller) send(ctx context.Context, m Message) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	return t.channel.Send(ctx, m)
}

// fail has the channel left alone for a while, longer each time.
func (t *teller) fail(ctx context.Context, err error) time.Duration {
	if ctx.Err() != nil {
		return 0
	}
	wait := min(firstBackoff<<min(t.failures, 10), maxBackoff, max(firstBackoff, t.pace.Remind))
	var u *undelivered
	if errors.As(err, &u) {
		wait = max(wait, u.after)
	}
	t.failures++
	t.rest = time.Now().Add(wait)
	t.log.Warn("no notification was sent; trying again", "after", wait, "err", err)
	return wait
}
