package pullrequest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine/forge"
	"github.com/slipway-gitops/slipway/engine/site"
)

// desk is a forge, an outbox and an engine that the test plays, around a
// reporter that may die at any moment.
type desk struct {
	t    *testing.T
	r    *Reporter
	stop func()

	mu       sync.Mutex
	checks   map[string][]forge.Check // by commit, as they were written
	comments map[string][]string      // "1 plan", as they read one after the other
	created  map[string]int           // how often each was written anew
	edited   map[string]time.Time     // when each was written last
	asked    []time.Time              // every request to the forge
	written  []string                 // in order: "check HEAD pending", "comment 1 plan"
	box      map[string][]byte
	shown    []string
	tellings []site.Told
	problems []string // "" when fine

	pace    time.Duration           // of a write
	trouble func(what string) error // of a request, before it is carried out
	lives   int                     // effects until the reporter dies; 0 for never
	dead    bool
}

var errDead = errors.New("the daemon is dead")

// atDesk runs a test in virtual time.
func atDesk(t *testing.T, f func(*desk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := &desk{t: t, checks: map[string][]forge.Check{}, comments: map[string][]string{}, created: map[string]int{}, edited: map[string]time.Time{}, box: map[string][]byte{}, pace: time.Second}
		d.up()
		defer func() { d.stop() }()
		f(d)
	})
}

func (d *desk) up() {
	d.mu.Lock()
	d.dead = false
	d.mu.Unlock()
	d.r = New(Config{Site: "berlin", Checks: d, Talk: talk{desk: d}, Outbox: d, Told: d.tell, Problem: d.problem, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(d.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.r.Run(ctx) }()
	d.stop = func() { cancel(); <-ended }
}

func (d *desk) restart() {
	d.stop()
	d.up()
}

// effect carries something out, unless the daemon is dead. It may be the last
// thing that the daemon does, which then does not know of it.
func (d *desk) effect(do func()) error {
	if d.dead {
		return errDead
	}
	do()
	if d.lives > 0 {
		if d.lives--; d.lives == 0 {
			d.dead = true
			return errDead
		}
	}
	return nil
}

// request is one to the forge.
func (d *desk) request(ctx context.Context, what string) error {
	d.mu.Lock()
	d.asked = append(d.asked, time.Now())
	trouble := d.trouble
	d.mu.Unlock()
	if trouble != nil {
		return trouble(what)
	}
	select {
	case <-time.After(d.pace):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Check writes what is not said already.
func (d *desk) Check(ctx context.Context, c forge.Check) error {
	what := fmt.Sprintf("check %s %s", c.Commit, c.Verdict)
	if err := d.request(ctx, what); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.effect(func() {
		was := d.checks[c.Commit]
		if len(was) > 0 && was[len(was)-1].Title == c.Title && was[len(was)-1].Verdict == c.Verdict {
			return
		}
		d.checks[c.Commit] = append(was, c)
		d.written = append(d.written, what)
	})
}

type talk struct {
	forge.Talk // which nobody asks for more
	*desk
}

func (d talk) Keep(ctx context.Context, number int, _ int64, m forge.Marker, body string) (before *forge.Kept, is forge.Kept, err error) {
	at := fmt.Sprintf("%d %s", number, m.Kind)
	if err := d.request(ctx, "comment "+at); err != nil {
		return nil, is, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if m.Site != "berlin" {
		d.t.Errorf("the marker is %v", m)
	}
	err = d.effect(func() {
		was := d.comments[at]
		if len(was) == 0 {
			d.created[at]++
		} else {
			before = d.kept(at)
			if before.Body == body {
				return
			}
		}
		d.comments[at], d.edited[at] = append(was, body), time.Now()
		d.written = append(d.written, "comment "+at)
	})
	if k := d.kept(at); k != nil {
		is = *k
	}
	return before, is, err
}

// kept is a comment as it reads now.
func (d *desk) kept(at string) *forge.Kept {
	all := d.comments[at]
	if len(all) == 0 {
		return nil
	}
	return &forge.Kept{ID: 1, Body: all[len(all)-1], Written: d.edited[at]}
}

func (d talk) Kept(_ context.Context, number int, _ int64, m forge.Marker) (forge.Kept, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.trouble != nil {
		if err := d.trouble("read"); err != nil {
			return forge.Kept{}, err
		}
	}
	k := d.kept(fmt.Sprintf("%d %s", number, m.Kind))
	if k == nil {
		return forge.Kept{}, fmt.Errorf("read the comment on %d: %w", number, forge.ErrGone)
	}
	return *k, nil
}

// edit is somebody's edit of a comment.
func (d *desk) edit(at, body string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.comments[at], d.edited[at] = append(d.comments[at], body), time.Now()
}

func (d *desk) tell(_ context.Context, t site.Told) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.effect(func() {
		d.tellings = append(d.tellings, t)
		if t.Set != "" {
			d.shown = append(d.shown, fmt.Sprint(t.Number, " ", t.Head, " ", t.Base, " ", t.Set))
		}
	})
}

func (d *desk) problem(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	text := ""
	if err != nil {
		text = err.Error()
	}
	d.problems = append(d.problems, text)
}

func (d *desk) PutMessage(_ context.Context, key string, value []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.effect(func() {
		if d.box[key] = slices.Clone(value); value == nil {
			delete(d.box, key)
		}
		if len(value) >= 64<<10-9 {
			d.t.Errorf("a value of %d bytes", len(value))
		}
	})
}

func (d *desk) Messages(context.Context) (map[string][]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.box), nil
}

// suffer has every request fail that a test says so of; nil ends it.
func (d *desk) suffer(trouble func(what string) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trouble = trouble
}

// away is a forge that does not answer.
func away(string) error { return errors.New("connection reset by peer") }

// after lets time pass.
func (d *desk) after(wait time.Duration) {
	d.mu.Lock()
	//lint:ignore SA2001 what the test has looked at comes before what is written from here on
	d.mu.Unlock()
	time.Sleep(wait) // in virtual time
	synctest.Wait()
}

func proposal(number int, head string) site.Proposal {
	return site.Proposal{Number: number, State: site.ProposalOpen, Base: "main", Head: head}
}

// review is one of a proposal on a base, with a comment that names them.
func review(number int, head, base string) site.Review {
	return site.Review{Site: "berlin", Proposal: proposal(number, head), Base: base,
		Verdict: "1 node changes: 1 reboot, 0 wiped",
		Comment: fmt.Sprintf("1 node changes: 1 reboot, 0 wiped\n\n%s on %s\n", head, base)}
}

// merged is a review of a proposal that was merged.
func merged(number int, head, text string) site.Review {
	v := review(number, head, "base1")
	v.Proposal.State, v.Comment = site.ProposalMerged, text
	return v
}

func (d *desk) begin(number int, head, base string) {
	d.t.Helper()
	if err := d.r.Begin(d.t.Context(), proposal(number, head), base); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) announce(v site.Review) {
	d.t.Helper()
	if err := d.r.Announce(d.t.Context(), v); err != nil {
		d.t.Fatal(err)
	}
}

// verdicts are what was said of a commit, one after the other.
func (d *desk) verdicts(commit string) (all []forge.Verdict) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.checks[commit] {
		all = append(all, c.Verdict)
	}
	return all
}

// reads is how a comment reads now.
func (d *desk) reads(at string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if all := d.comments[at]; len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}

// done are the writes since the last call.
func (d *desk) done() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.written
	d.written = nil
	return all
}

func (d *desk) did(want ...string) {
	d.t.Helper()
	if got := d.done(); !slices.Equal(got, want) {
		d.t.Errorf("written\n  %q\nwant\n  %q", got, want)
	}
}

// requests is how often the forge was asked since the last call.
func (d *desk) requests() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := len(d.asked)
	d.asked = nil
	return n
}
