// Package pullrequest reports reviews on proposals: a check on the proposed commit, one comment that is kept up to
// date, and a separate comment when a person is needed.
//
// What to report on a proposal is a wish. A newer wish replaces an older one, and what was not reported by then
// never is. The reporter stores a wish in an outbox first, and updates it after each report. Nothing is lost when
// the daemon ends or the forge is away. Every report can be repeated, so nothing appears twice.
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

// Outbox stores what to report. It outlives the daemon.
type Outbox interface {
	// PutMessage stores a value under a key; nil removes it. The change is durable if there is no error. Values are
	// JSON, compressed with gzip, and below 64 KiB.
	PutMessage(ctx context.Context, key string, value []byte) error
	// Messages returns everything stored, including what others stored.
	Messages(ctx context.Context) (map[string][]byte, error)
}

// Config configures a Reporter.
type Config struct {
	Site   string
	Checks forge.Checks
	Talk   forge.Talk
	Outbox Outbox
	// Told receives the comment on a proposal as it was found, and as it is once it has the right text. It is
	// called again after an error.
	Told func(ctx context.Context, t site.Told) error
	// Problem receives the error that prevents reporting, and nil when it is over. It returns at once.
	Problem func(error)
	Log     *slog.Logger
}

// Reporter implements review.Announcer.
type Reporter struct {
	Config
	wake chan struct{}

	// These are only for Run.
	forge line          // rests while the forge wants no requests
	lines [lines]line   // rest after failures
	tries map[task]*try // what has failed
	said  string        // the last problem

	mu     sync.Mutex
	loaded bool
	wishes map[int]*wish // never changed, only replaced
}

// New makes a Reporter. Run makes it report.
func New(c Config) *Reporter {
	c.Log = c.Log.With("site", c.Site)
	return &Reporter{Config: c, wake: make(chan struct{}, 1), tries: map[task]*try{}, wishes: map[int]*wish{}}
}

// Begin records that a proposal's head is being planned as merged into a commit of the branch. The record is
// durable when Begin returns. Begin makes no request to the forge.
func (r *Reporter) Begin(ctx context.Context, p site.Proposal, base string) error {
	return r.ask(ctx, p.Number, func(w *wish) { w.begin(r.check(), p, base) })
}

// Announce records a review to report. The record is durable when Announce returns. Announce makes no request to
// the forge.
func (r *Reporter) Announce(ctx context.Context, v site.Review) error {
	return r.ask(ctx, v.Proposal.Number, func(w *wish) { w.announce(r.check(), &v) })
}

// Reads asks the forge for the current text of the comment on a proposal, which people may have changed. comment is
// its ID, if known. The error wraps site.ErrNotYet while a newer text is being written, or site.ErrNotFound if
// there is none.
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

// kindPlan marks the comment that is kept up to date.
const kindPlan = "plan"

func (r *Reporter) marker(kind string) forge.Marker { return forge.Marker{Site: r.Site, Kind: kind} }

// CheckName is the name of a site's check.
func CheckName(site string) string { return "slipway/" + site }

func (r *Reporter) check() string { return CheckName(r.Site) }

// ask changes a wish because of news.
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
		r.rouse() // what has failed is tried again
		return nil
	}
	is.Changed = time.Now()
	if is.Since.IsZero() {
		is.Since = is.Changed
	}
	if err := r.put(ctx, &is); err != nil {
		return err
	}
	r.rouse()
	return nil
}

// rouse has Run look again at what to report.
func (r *Reporter) rouse() {
	select {
	case r.wake <- struct{}{}:
	default: // Run is already woken
	}
}

// told changes a wish because the forge was told something.
func (r *Reporter) told(ctx context.Context, number int, how func(*wish)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	is := *r.wishes[number]
	how(&is)
	return r.put(ctx, &is)
}

const keyPrefix = "wish/"

func key(number int) string { return fmt.Sprintf("%s%d", keyPrefix, number) }

// put makes a wish durable, and then the current one.
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

// load reads the outbox once.
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
		if err != nil || key(w.Number) != k { // every open proposal is announced again
			r.Log.Warn("what to report on a proposal cannot be read, and is dropped", "key", k, "err", err)
			continue
		}
		r.wishes[w.Number] = w
	}
	r.loaded = true
	return nil
}

// remembered is how long the reports on a proposal without news are remembered.
const remembered = 90 * 24 * time.Hour

// forget drops proposals that have had no news for a long time.
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
