// Package notify tells people when a site needs a person: nodes are stalled or wait for somebody, a rollout has
// halted, or the site as a whole has a problem. Nodes with the same cause are reported together, once. A cause is
// reported again when it has gone and come back, as a daily reminder, and when it is over.
//
// Each channel has its own account of what it was told. After an outage, a channel gets one message about the
// current state, not every past event.
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

// Channel delivers messages to people.
type Channel interface {
	// Send returns once the message was accepted. After an error, the channel gets another message later.
	Send(ctx context.Context, m Message) error
}

// Paced is a Channel that wants its own pace of repetition.
type Paced interface{ Pace() Pace }

// Pace says how often a channel gets messages.
type Pace struct {
	// More is the time between two messages about more nodes with a cause. Remind is the time between two messages
	// about a lasting cause.
	More, Remind time.Duration
}

// undelivered is the error of a channel that has settled part of a message.
type undelivered struct {
	settled []string // causes not to send again: accepted, or refused for good
	after   time.Duration
	err     error
}

func (e *undelivered) Error() string { return e.err.Error() }
func (e *undelivered) Unwrap() error { return e.err }

// These are the times of delivery.
const (
	sendTimeout  = 30 * time.Second
	firstBackoff = 30 * time.Second
	maxBackoff   = 15 * time.Minute
)

// Config configures a Notifier.
type Config struct {
	Site string
	// Dir holds the channels' accounts, so that a restart repeats nothing.
	Dir string
	// Channels are the channels by the names of their accounts.
	Channels map[string]Channel
	Log      *slog.Logger
}

// Notifier finds out when a person is needed. It implements engine.Reporter.
type Notifier struct {
	site    string
	tellers []*teller

	mu      sync.Mutex
	present *picture // nil before the first report
}

// picture is what needs a person, according to the last report.
type picture struct {
	revision string
	causes   map[string]cause
}

// New makes a Notifier. Run makes it send.
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

// Report records what needs a person. It returns at once: the delivery of messages is not part of the site's
// status.
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

// Run sends to the channels until the context ends.
func (n *Notifier) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, t := range n.tellers {
		all.Go(func() { t.run(ctx) })
	}
	all.Wait()
}

// teller sends to one channel. Only its own goroutine uses it.
type teller struct {
	n        *Notifier
	channel  Channel
	pace     Pace
	file     string
	wake     chan struct{}
	log      *slog.Logger
	account  account
	failures int       // in a row
	rest     time.Time // nothing is sent before, after a failure
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

// turn sends what is due, and returns how long to wait unless there is news.
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

// note records settled events.
func (t *teller) note(now time.Time, events []Event) {
	if len(events) == 0 {
		return
	}
	t.account.told(now, events)
	if err := t.save(); err != nil {
		t.log.Warn("sent notifications could not be recorded: a restart will send them again", "err", err)
	}
}

// settledOf are the events of a failed message that need not be sent again.
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

// paceOf is the pace of people, unless the channel has its own.
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

// fail pauses the channel, longer each time.
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
