// Package pullrequest tells of reviews where changes are proposed: a check on
// the proposed commit, one comment that is kept up to date, and a comment of its
// own when a person is needed.
//
// What is to be told of a proposal is a wish, and a newer wish takes the place
// of an older one: what the forge was not told by then, it never is. Wishes are
// kept in an outbox before anything else, and changed there after each thing
// told. Whatever ends the daemon, and however long the forge is away, nothing is
// lost; and since all that is told is told in a way that can be repeated,
// nothing is there twice.
package pullrequest

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/forge"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Outbox keeps what is to be told, for longer than the daemon lives.
type Outbox interface {
	// PutMessage keeps a value under a key; nil removes it. It is durable when
	// there is no error. Values are JSON, compressed with gzip, and below 64 KiB.
	PutMessage(ctx context.Context, key string, value []byte) error
	// Messages is all that is kept, by others too.
	Messages(ctx context.Context) (map[string][]byte, error)
}

// Config is what a reporter works with.
type Config struct {
	Site   string
	Checks forge.Checks
	Talk   forge.Talk
	Outbox Outbox
	// Told is told how the comment that is kept on a proposal was found, and how
	// it is once it says what it has to. It is called again after an error.
	Told func(ctx context.Context, t site.Told) error
	// Problem is told what keeps the forge from being told, and nil when that is
	// over. It returns at once.
	Problem func(error)
	Log     *slog.Logger
}

// Reporter is a review.Announcer.
type Reporter struct {
	Config
	wake chan struct{}

	// Of Run alone.
	forge line          // rests while it wants no requests
	lines [lines]line   // rest after failures
	tries map[task]*try // what has failed
	said  string        // the last problem

	mu     sync.Mutex
	loaded bool
	wishes map[int]*wish // never changed, only replaced
}

// New makes a reporter; Run has it tell.
func New(c Config) *Reporter {
	c.Log = c.Log.With("site", c.Site)
	return &Reporter{Config: c, wake: make(chan struct{}, 1), tries: map[task]*try{}, wishes: map[int]*wish{}}
}

// Begin takes note that a proposal's head is being planned as merged into a
// commit of the branch. It is durable when it returns, and asks nothing of the
// forge.
func (r *Reporter) Begin(ctx context.Context, p site.Proposal, base string) error {
	return r.ask(ctx, p.Number, func(w *wish) { w.begin(r.check(), p, base) })
}

// Announce takes a review to be told. It is durable when it returns, and asks
// nothing of the forge.
func (r *Reporter) Announce(ctx context.Context, v site.Review) error {
	return r.ask(ctx, v.Proposal.Number, func(w *wish) { w.announce(r.check(), &v) })
}

// Reads is the comment that is kept on a proposal as it is now: people may have
// changed it. It is the one with the id, if that is known, and it asks the forge.
// site.ErrNotFound is wrapped when there is none, and site.ErrNotYet while another
// text is on its way.
func (r *Reporter) Reads(ctx context.Context, number int, comment int64) (site.Reading, error) {
	r.mu.Lock()
	err := r.load(ctx)
	w := r.wishes[number]
	r.mu.Unlock()
	switch {
	case err != nil:
		return site.Reading{}, err
	case w != nil && w.Comment != nil:
		return site.Reading{}, fmt.Errorf("the comment on proposal %d: %w: a newer text is being written",
			number, site.ErrNotYet)
	}
	k, err := r.Talk.Kept(ctx, number, comment, r.marker(kindPlan))
	if err != nil {
		return site.Reading{}, err
	}
	return k.Reading(), nil
}

// kindPlan is of the comment that is kept.
const kindPlan = "plan"

func (r *Reporter) marker(kind string) forge.Marker { return forge.Marker{Site: r.Site, Kind: kind} }

// CheckName is the name under which a site tells commits how they stand.
func CheckName(site string) string { return "slipway/" + site }

func (r *Reporter) check() string { return CheckName(r.Site) }

// ask changes a wish, for news that has come.
func (r *Reporter) ask(ctx context.Context, number int, how func(*wish)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.load(ctx); err != nil {
		return err
	}
	was := r.wishes[number]
	is := wish{Number: number}
	if was != nil {
		is = *was
	} else if err := r.forget(ctx); err != nil {
		return err
	}
	how(&is)
	if was != nil && was.equal(&is) {
		r.wishes[number] = &is
		return nil
	}
	is.Changed = time.Now()
	if is.Since.IsZero() {
		is.Since = is.Changed
	}
	if err := r.put(ctx, &is); err != nil {
		return err
	}
	select {
	case r.wake <- struct{}{}:
	default: // it is awake
	}
	return nil
}

// told changes a wish, for something that the forge was told.
func (r *Reporter) told(ctx context.Context, number int, how func(*wish)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	is := *r.wishes[number]
	how(&is)
	return r.put(ctx, &is)
}

const keyPrefix = "wish/"

func key(number int) string { return fmt.Sprintf("%s%d", keyPrefix, number) }

// put makes a wish durable, and then the one that counts.
func (r *Reporter) put(ctx context.Context, w *wish) error {
	if w.settled() {
		w.Since = time.Time{}
	}
	if err := r.Outbox.PutMessage(ctx, key(w.Number), w.encode()); err != nil {
		return fmt.Errorf("record what to report on proposal %d: %w", w.Number, err)
	}
	r.wishes[w.Number] = w
	return nil
}

// load reads the outbox, once.
func (r *Reporter) load(ctx context.Context) error {
	if r.loaded {
		return nil
	}
	all, err := r.Outbox.Messages(ctx)
	if err != nil {
		return fmt.Errorf("read what to report on proposals: %w", err)
	}
	for k, value := range all {
		if !strings.HasPrefix(k, keyPrefix) {
			continue
		}
		w, err := decode(value)
		if err != nil || key(w.Number) != k { // every open proposal is announced anew
			r.Log.Warn("what to report on a proposal cannot be read, and is dropped", "key", k, "err", err)
			continue
		}
		r.wishes[w.Number] = w
	}
	r.loaded = true
	return nil
}

// remembered is how long it is known of a proposal which commits were told
// something, when there is no news of it.
const remembered = 90 * 24 * time.Hour

// forget drops what is known of proposals that nothing was heard of for long.
func (r *Reporter) forget(ctx context.Context) error {
	for number, w := range r.wishes {
		if !w.settled() || time.Since(w.Changed) < remembered {
			continue
		}
		if err := r.Outbox.PutMessage(ctx, key(number), nil); err != nil {
			return fmt.Errorf("forget proposal %d: %w", number, err)
		}
		delete(r.wishes, number)
	}
	return nil
}
