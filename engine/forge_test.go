package engine_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/review"
	"github.com/slipway-gitops/slipway/engine/site"
)

// forge is where proposals are made, and the repository that they are merged
// in.
type forge struct {
	w *world

	mu        sync.Mutex
	proposals map[int]site.Proposal
	merges    map[string]site.Merge // by head
	away      error
	merged    []string // heads that were asked for
	begun     []string // proposal, head and base
	told      []site.Review
	asked     func(number int) // before it is said what became of a proposal
	each      func()           // before every answer
	comments  map[int]site.Reading
	decisions map[int]site.Decision // how it came to merges, where that is not as it looks
	late      bool                  // whether what is asked about merges is not known yet
	busy      bool                  // whether a newer comment is being written
	mute      error                 // of what is asked about merges
	lost      bool                  // whether the answer to the last writing was lost
	judged    []string              // which revision by which
	judgement []site.Finding
}

func (w *world) forge() *forge {
	return &forge{w: w, proposals: map[int]site.Proposal{}, merges: map[string]site.Merge{}, comments: map[int]site.Reading{}, decisions: map[int]site.Decision{}}
}

func (f *forge) reviews() *review.Reviews {
	return f.w.engine.Reviews(review.Config{Branch: "main", Proposals: f, Merger: f, Evaluate: f.w.source.evaluate, Judge: f.judge, Announce: f})
}

func (f *forge) before() {
	if f.each != nil {
		f.each()
	}
}

// propose opens a proposal, or pushes to it.
func (f *forge) propose(number int, s *site.Site, findings ...site.Finding) site.Proposal {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.w.source.mu.Lock()
	defer f.w.source.mu.Unlock()
	head := fmt.Sprintf("head-%d-%d", number, len(f.w.source.designs))
	f.w.source.designs["merged-"+head], f.w.source.broken["merged-"+head] = s, findings
	f.merges[head] = site.Merge{Result: site.Revision{ID: "merged-" + head}}
	p := f.proposals[number]
	p.Number, p.State, p.Base, p.Head = number, site.ProposalOpen, "main", head
	f.proposals[number] = p
	return p
}

// change changes a proposal.
func (f *forge) change(number int, change func(*site.Proposal)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.proposals[number]
	change(&p)
	f.proposals[number] = p
}

// merge merges a proposal whose design is then that of the branch.
func (f *forge) merge(number int) {
	f.mu.Lock()
	head := f.proposals[number].Head
	f.w.source.mu.Lock()
	s := f.w.source.designs["merged-"+head]
	f.w.source.mu.Unlock()
	f.mu.Unlock()
	f.w.commit(s)
	f.change(number, func(p *site.Proposal) {
		p.State, p.Merge, p.MergedBy, p.MergedAt = site.ProposalMerged, f.w.source.head(), "ann", time.Now()
	})
}

func (c *commits) head() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current.ID
}

func (f *forge) Open(_ context.Context, base string) ([]site.Proposal, error) {
	f.before()
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []site.Proposal
	for _, p := range f.proposals {
		if p.State == site.ProposalOpen && p.Base == base {
			all = append(all, p)
		}
	}
	return all, f.away
}

func (f *forge) Proposal(_ context.Context, number int) (site.Proposal, error) {
	f.before()
	f.mu.Lock()
	asked := f.asked
	f.mu.Unlock()
	if asked != nil {
		asked(number)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	p, ok := f.proposals[number]
	if !ok && f.away == nil {
		return p, site.ErrNotFound
	}
	return p, f.away
}

func (f *forge) Base(ctx context.Context) (site.Revision, error) {
	f.before()
	return f.w.source.Fetch(ctx)
}

func (f *forge) Merge(_ context.Context, p site.Proposal) (site.Merge, error) {
	f.before()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.merged = append(f.merged, p.Head)
	m, ok := f.merges[p.Head]
	if !ok {
		return m, fmt.Errorf("proposal %d: %w", p.Number, site.ErrMoved)
	}
	return m, nil
}

func (f *forge) Contains(_ context.Context, revision, commit string) (bool, error) {
	f.before()
	at, err1 := strconv.Atoi(strings.TrimPrefix(revision, "commit-"))
	of, err2 := strconv.Atoi(strings.TrimPrefix(commit, "commit-"))
	return err1 == nil && err2 == nil && at >= of, nil
}

func (f *forge) Begin(_ context.Context, p site.Proposal, base string) error {
	f.before()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begun = append(f.begun, fmt.Sprintf("%d %s on %s", p.Number, p.Head, base))
	return nil
}

func (f *forge) Announce(_ context.Context, r site.Review) error {
	f.before()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = append(f.told, r)
	return nil
}

func (f *forge) Decision(_ context.Context, number int) (site.Decision, error) {
	f.before()
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.proposals[number]
	d, known := f.decisions[number]
	if !known {
		d = site.Decision{By: p.MergedBy, When: p.MergedAt}
	}
	if f.mute != nil {
		return d, f.mute
	}
	if f.late || p.State != site.ProposalMerged {
		return d, fmt.Errorf("timeline: %w", site.ErrNotYet)
	}
	return d, f.away
}

func (f *forge) Reads(_ context.Context, number int, comment int64) (site.Reading, error) {
	f.before()
	f.mu.Lock()
	defer f.mu.Unlock()
	is, there := f.comments[number]
	switch {
	case f.away != nil:
		return is, f.away
	case f.busy:
		return is, fmt.Errorf("comment: %w", site.ErrNotYet)
	case !there || comment == 0:
		return is, fmt.Errorf("comment: %w", site.ErrNotFound)
	}
	return is, nil
}

// edit is what somebody does to a comment.
func (f *forge) edit(number int, change func(*site.Reading)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	is := f.comments[number]
	change(&is)
	if f.comments[number] = is; is.Comment == 0 {
		delete(f.comments, number)
	}
}

func (f *forge) judge(_ context.Context, revision, by site.Revision) ([]site.Finding, error) {
	f.judged = append(f.judged, revision.ID+" by "+by.ID)
	return f.judgement, f.away
}

// last is what was told of a proposal last.
func (f *forge) last(number int) site.Review {
	f.w.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range slices.Backward(f.told) {
		if r.Proposal.Number == number {
			return r
		}
	}
	f.w.t.Fatalf("nothing was told of proposal %d", number)
	return site.Review{}
}

func (f *forge) tellings() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.told)
}

// round looks once, all of it.
func (f *forge) round(r *review.Reviews) {
	f.w.t.Helper()
	for more := true; more; {
		var err error
		if more, err = r.Round(f.w.t.Context()); err != nil {
			f.w.t.Fatal(err)
		}
	}
}

// show writes the last comment on a proposal, and says that it can be read. It is
// a second old then: a forge counts in seconds.
func (f *forge) show(r *review.Reviews, number int) {
	f.w.t.Helper()
	v := f.last(number)
	f.write(r, v, v.Set)
}

// write makes the comment on a proposal say what a review does.
func (f *forge) write(r *review.Reviews, v site.Review, set string) {
	f.w.t.Helper()
	number := v.Proposal.Number
	told := site.Told{Number: number, Head: v.Proposal.Head, Base: v.Base, Set: set}
	sum := sha256.Sum256([]byte(v.Comment))
	f.mu.Lock()
	is, there := f.comments[number]
	if was := is; there {
		told.Before = &was
	}
	told.Lost = f.lost
	if text := hex.EncodeToString(sum[:]); is.Text != text {
		is = site.Reading{Comment: int64(1000 + number), Text: text, Written: time.Now().Add(-time.Second)}
	}
	f.comments[number], told.Is = is, is
	f.mu.Unlock()
	if err := r.Told(f.w.t.Context(), told); err != nil {
		f.w.t.Fatal(err)
	}
}
