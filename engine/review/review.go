// Package review plans what people propose as if it were merged, tells them what it
// would do to machines, takes a merge as the approval of what they could read, and follows
// it until it has come to the machines. It touches no machine.
package review

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/retry"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Proposals are what people want to change.
type Proposals interface {
	// Open lists the open proposals for a branch.
	Open(ctx context.Context, base string) ([]site.Proposal, error)
	// Proposal is one of them by its number, also when it is not open any
	// more. site.ErrNotFound is wrapped when there is none.
	Proposal(ctx context.Context, number int) (site.Proposal, error)
	// Decision is how it came that a proposal was merged. site.ErrNotYet is
	// wrapped as long as the forge does not tell.
	Decision(ctx context.Context, number int) (site.Decision, error)
}

// Branch is the branch that a site follows, for what is to be merged into it.
// Its methods are called by one goroutine at a time.
type Branch interface {
	// Base is what the branch is at, with its files.
	Base(ctx context.Context) (site.Revision, error)
	// Merge is what the branch comes to when a proposal is merged into the last
	// Base. It reads the proposal's Head and nothing else; site.ErrMoved is
	// wrapped when that is not what is proposed any more.
	Merge(ctx context.Context, p site.Proposal) (site.Merge, error)
	// Contains says whether a commit is in the history of a revision that was a
	// Base, or in the history of one; of what was none it says no.
	Contains(ctx context.Context, revision, commit string) (bool, error)
}

// Announcer tells people of reviews. Its methods return once that cannot get
// lost any more, and call no method of Reviews before.
type Announcer interface {
	// Begin says that a proposal's head is about to be planned as merged into a
	// commit of the branch, before any other of the same round is. It is called
	// once for both, and again when somebody asked for another plan.
	Begin(ctx context.Context, p site.Proposal, base string) error
	// Announce takes a review to be told. It must not keep the plans. Of a
	// proposal that was merged it is called whenever there is news of what
	// came of it.
	Announce(ctx context.Context, r site.Review) error
	// Reads is the comment that is kept on a proposal as people read it now; it
	// is the one with the number, where that is not 0. site.ErrNotFound is
	// wrapped when there is none, and site.ErrNotYet as long as that is in doubt,
	// or another text is on its way.
	Reads(ctx context.Context, number int, comment int64) (site.Reading, error)
}

// Config is what reviews of a site's proposals are made with. None of it comes from a
// proposal.
type Config struct {
	// Branch is the name of the branch that Base is of.
	Branch    string
	Proposals Proposals
	Merger    Branch
	// Evaluate is as the engine's, best another one: it is given what anybody
	// may propose.
	Evaluate func(context.Context, site.Revision) (*site.Site, []site.Finding, error)
	// Judge says what is wrong with a revision by the policies and suppressions
	// of another one, in the place of its own.
	Judge    func(ctx context.Context, revision, by site.Revision) ([]site.Finding, error)
	Announce Announcer
	// Pages gives the address that shows a commit's files; nil for none.
	Pages func(commit string) string
}

// Reviews plans what people propose: each open proposal as if it were merged,
// by the functions that plan for machines, against what was last seen of the machines.
// It touches no machine and reads no secret. A proposal is planned again when
// it or the branch has moved, and when somebody asks.
type Reviews struct {
	Config
	site     Site
	poke     chan struct{}
	deciding sync.Mutex // held where what is recorded of proposals is decided

	base     string           // that lineages are known at
	lineages map[lineage]bool // see contains
	// doubts are since when something about a proposal is not known, or cannot
	// be asked. watched is the last proposal whose comment was read.
	doubts  map[question]time.Time
	watched int

	mu    sync.Mutex
	done  map[int]reviewed
	begun map[int]commits // that people know to be planned
	open  []int           // numbers of the last listing; nil before the first
	told  map[int]news    // of merged proposals
	// asks is how often somebody has asked for another plan, answered how many
	// of these were made.
	asks, answered map[int]int
}

// commits are a proposal's head and what of the branch it is merged into.
type commits struct{ head, base string }

// reviewed is what a proposal's last review was of, and what it came to.
type reviewed struct {
	head, base string
	allowed    bool
	named      bool            // the comment names all that is destroyed
	set        site.Losses     // that merging approves, once it is shown
	files      map[string]bool // digests of the files that the design names
	waiting    site.Losses     // without the proposal
	problem    string
	asks       int  // for another plan, when it was begun
	early      bool // there were machines still to be looked at for the first time
	failures   int
	again      time.Time // of a review that failed
}

// Bounds on reviews.
const (
	// maxReviewed is how many open proposals are planned.
	maxReviewed = 1000
	// reviewsPerRound is how many are planned before it is asked again which
	// are open, so that a push does not wait for all of them.
	reviewsPerRound = 16
	reviewTimeout   = 5 * time.Minute
	// listTimeout is for how long the forge and the repository are waited for.
	listTimeout = 5 * time.Minute
	// firstLooks is for how long after a start it is asked at least every firstEvery what
	// is open.
	firstLooks = 5 * time.Minute
	firstEvery = 5 * time.Second
)

// New makes the reviews of a site; Run keeps them.
func New(of Site, c Config) *Reviews {
	return &Reviews{Config: c, site: of, poke: make(chan struct{}, 1), done: map[int]reviewed{}, begun: map[int]commits{}, told: map[int]news{},
		asks: map[int]int{}, answered: map[int]int{}, doubts: map[question]time.Time{}}
}

// Run reviews until the context ends.
func (r *Reviews) Run(ctx context.Context) error {
	select {
	case <-r.site.Ready:
	case <-ctx.Done():
		return nil
	}
	began := time.Now()
	for failures := 0; ; {
		more, err := r.Round(ctx)
		r.site.Problem("proposals", err)
		every := r.site.PollEvery()
		if time.Since(began) < firstLooks { // somebody may be about to try it, and machines are being met
			every = min(every, firstEvery)
		}
		wait := min(retry.Jitter(r.site.Dice, every), every)
		switch {
		case err != nil:
			failures++
			wait = max(wait, retry.Backoff(failures))
		case more:
			failures, wait = 0, 0
		default:
			failures = 0
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.poke:
		case <-r.site.InForce: // what was merged may be approved now
		case <-time.After(wait):
		}
	}
}

// Look has the open proposals looked at now.
func (r *Reviews) Look() {
	select {
	case r.poke <- struct{}{}:
	default: // it is looked anyway
	}
}

// Again has a proposal planned again, though it and the branch are where they
// were.
func (r *Reviews) Again(number int) {
	r.mu.Lock()
	delete(r.done, number)
	delete(r.begun, number)
	r.asks[number]++
	r.mu.Unlock()
	r.Look()
}

// Round looks once at what is open, plans what is new, and approves what was
// merged. It says whether there is more to plan.
func (r *Reviews) Round(ctx context.Context) (more bool, err error) {
	lctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	open, err := r.Proposals.Open(lctx, r.Branch)
	if err != nil {
		return false, fmt.Errorf("list the open proposals: %w", err)
	}
	base, err := r.Merger.Base(lctx)
	if err != nil {
		return false, fmt.Errorf("fetch branch %s: %w", r.Branch, err)
	}
	r.settle(lctx, open, base.ID)
	r.watch(lctx, open)
	r.forget(open)
	due := r.due(open, base.ID)
	if err := r.begin(ctx, due, base.ID); err != nil || len(due) == 0 {
		return false, err
	}
	now := min(len(due), reviewsPerRound)
	against := &baseline{reviews: r, base: base}
	for _, p := range due[:now] {
		if err := r.review(ctx, p, against); err != nil {
			return false, err
		}
	}
	return len(due) > now, nil
}

// due are the proposals to be planned: those never seen at their commit first,
// then those that the branch has moved under, the latest changed first.
func (r *Reviews) due(open []site.Proposal, base string) []site.Proposal {
	var fresh, rest []site.Proposal
	met := r.site.HasMetAll()
	open = slices.Clone(open)
	slices.SortStableFunc(open, func(a, b site.Proposal) int { return b.Changed.Compare(a.Changed) })
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range open[:min(len(open), maxReviewed)] { // the longest untouched have to wait
		was, known := r.done[p.Number]
		switch {
		case p.Base != r.Branch:
		case !known || was.head != p.Head || was.allowed != r.mayPlan(p):
			fresh = append(fresh, p)
		case was.base != base, was.early && met, !was.again.IsZero() && !time.Now().Before(was.again):
			rest = append(rest, p)
		}
	}
	return append(fresh, rest...)
}

// begin says which proposals are going to be planned, once for each pair of
// commits: one that is only tried again has not begun anew.
func (r *Reviews) begin(ctx context.Context, due []site.Proposal, base string) error {
	for _, p := range due {
		at := commits{p.Head, base}
		if r.hasBegun(p.Number, at) {
			continue
		}
		if err := r.willFollow(ctx, p.Number); err != nil {
			return err
		}
		if err := r.Announce.Begin(ctx, p, base); err != nil {
			return fmt.Errorf("tell that proposal %d is planned: %w", p.Number, err)
		}
		r.noteBegun(p.Number, at)
	}
	return nil
}

// hasBegun says whether planning a proposal at a pair of commits has been announced.
func (r *Reviews) hasBegun(number int, at commits) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.begun[number] == at
}

// noteBegun notes that planning a proposal at a pair of commits was announced.
func (r *Reviews) noteBegun(number int, at commits) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun[number] = at
}

// forget drops what is known of proposals that are not open.
func (r *Reviews) forget(open []site.Proposal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = []int{}
	for _, p := range open[:min(len(open), maxReviewed)] {
		if p.Base == r.Branch {
			r.open = append(r.open, p.Number)
		}
	}
	for number := range r.done {
		if !slices.ContainsFunc(open, func(p site.Proposal) bool { return p.Number == number }) {
			delete(r.done, number)
		}
	}
	for number := range r.begun {
		if !slices.ContainsFunc(open, func(p site.Proposal) bool { return p.Number == number }) {
			delete(r.begun, number)
			delete(r.asks, number)
			delete(r.answered, number)
		}
	}
}

// mayPlan says whether a proposal's head may be read: a fork's only when
// somebody who may write has allowed that very commit.
func (r *Reviews) mayPlan(p site.Proposal) bool {
	return !p.Fork || p.Head != "" && r.site.Recorded.Of(p.Number).Allowed == p.Head
}

// Allow lets one commit of a fork be planned. Who says so must be a person
// whose right to write was looked up right before.
func (r *Reviews) Allow(ctx context.Context, number int, head, by string) error {
	r.deciding.Lock()
	defer r.deciding.Unlock()
	was := r.site.Recorded.Of(number)
	next := was
	next.Allowed, next.AllowedBy = head, by
	if err := r.site.Recorded.Put(ctx, was, next); err != nil {
		return err
	}
	r.site.Log.Info("fork allowed to be planned", "proposal", number, "revision", head, "by", by)
	r.Again(number)
	return nil
}

// NamedFiles are the digests of files that open proposals name, as far as they
// could be evaluated. It is an error while one is still to be.
func (r *Reviews) NamedFiles() (map[string]bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	named := map[string]bool{}
	if r.open == nil {
		return nil, errors.New("the open proposals are not known yet")
	}
	for _, number := range r.open {
		is, ok := r.done[number]
		if !ok {
			return nil, fmt.Errorf("proposal %d is not planned yet", number)
		}
		maps.Copy(named, is.files)
	}
	return named, nil
}
