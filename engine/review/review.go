// Package review plans proposals as if they were merged, and tells people what they would
// do to machines. It takes a merge as the approval of what people could read, and follows
// the merge until the machines have it. It touches no machine.
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

// Proposals gives access to what people want to change.
type Proposals interface {
	// Open lists the open proposals for a branch.
	Open(ctx context.Context, base string) ([]site.Proposal, error)
	// Proposal returns a proposal by its number, even if it is no longer open. It wraps
	// site.ErrNotFound if there is none.
	Proposal(ctx context.Context, number int) (site.Proposal, error)
	// Decision returns how a proposal came to be merged. It wraps site.ErrNotYet as long
	// as the forge does not say.
	Decision(ctx context.Context, number int) (site.Decision, error)
}

// Branch is the branch that a site follows, seen as the target of merges. Its methods are
// called by one goroutine at a time.
type Branch interface {
	// Base returns the tip of the branch, with its files.
	Base(ctx context.Context) (site.Revision, error)
	// Merge returns the result of merging a proposal into the last Base. It reads only the
	// proposal's Head, and wraps site.ErrMoved if the proposal now has another one.
	Merge(ctx context.Context, p site.Proposal) (site.Merge, error)
	// Contains reports whether a commit is in the history of a revision. The revision must
	// have been a Base, or be in the history of one; for any other revision it is false.
	Contains(ctx context.Context, revision, commit string) (bool, error)
}

// Announcer reports reviews to people. Its methods return once the report cannot get lost
// any more. They call no method of Reviews before they return.
type Announcer interface {
	// Begin announces that a proposal's head is about to be planned as merged into base.
	// It is called before any proposal of the same round is planned. It is called once for
	// each head and base, and again when somebody asks for another plan.
	Begin(ctx context.Context, p site.Proposal, base string) error
	// Announce takes a review to report. It must not keep the plans. For a merged proposal
	// it is called whenever there is news of the result.
	Announce(ctx context.Context, r site.Review) error
	// Reads returns Slipway's comment on a proposal as people read it now: the one with
	// the number, unless that is 0. It wraps site.ErrNotFound if there is none. It wraps
	// site.ErrNotYet while that is in doubt, or while another text is on its way.
	Reads(ctx context.Context, number int, comment int64) (site.Reading, error)
}

// Config configures the reviews of a site's proposals. None of it comes from a proposal.
type Config struct {
	// Branch is the name of Base's branch.
	Branch    string
	Proposals Proposals
	Merger    Branch
	// Evaluate is like the engine's, but better a separate one: it evaluates whatever
	// anybody proposes.
	Evaluate func(context.Context, site.Revision) (*site.Site, []site.Finding, error)
	// Judge returns what is wrong with a revision by the policies and suppressions of
	// another revision, instead of its own.
	Judge    func(ctx context.Context, revision, by site.Revision) ([]site.Finding, error)
	Announce Announcer
	// Pages returns the address that shows a commit's files; may be nil.
	Pages func(commit string) string
}

// Reviews plans each open proposal as if it were merged. It uses the functions that plan
// for machines, and what was last seen of the machines. It touches no machine and reads no
// secret. It plans a proposal again when the proposal or the branch has moved, and when
// somebody asks.
type Reviews struct {
	Config
	site     Site
	poke     chan struct{}
	deciding sync.Mutex // held while deciding what is recorded of proposals

	base     string           // the branch's commit that lineages are for
	lineages map[lineage]bool // see contains
	// doubts holds since when something about a proposal is unknown, or cannot be asked.
	// watched is the last proposal whose comment was read.
	doubts  map[question]time.Time
	watched int

	mu    sync.Mutex
	done  map[int]reviewed
	begun map[int]commits // announced as being planned
	open  []int           // numbers of the last listing; nil before the first
	told  map[int]news    // last news of merged proposals
	// asks counts how often somebody asked for another plan, answered how many of these
	// were made.
	asks, answered map[int]int
}

// commits are a proposal's head and the commit of the branch it is merged into.
type commits struct{ head, base string }

// reviewed is the subject and the result of a proposal's last review.
type reviewed struct {
	head, base string
	allowed    bool
	named      bool            // the comment names all losses
	set        site.Losses     // what merging approves, once it is shown
	files      map[string]bool // digests of files that the design names
	waiting    site.Losses     // what waits even without the proposal
	problem    string
	asks       int  // requests for another plan when it was begun
	early      bool // some machines had not been looked at yet
	failures   int
	unread     int       // how often in a row it found disks that Slipway had not read yet
	again      time.Time // when to plan again after a failure, or because of such disks
}

// Limits and times for reviews.
const (
	// maxReviewed is how many open proposals are planned.
	maxReviewed = 1000
	// reviewsPerRound is how many are planned before Slipway lists the open ones again, so
	// that a push does not wait for all of them.
	reviewsPerRound = 16
	reviewTimeout   = 5 * time.Minute
	// listTimeout limits the wait for the forge and the repository.
	listTimeout = 5 * time.Minute
	// firstLooks is for how long after a start open proposals are listed at least every
	// firstEvery.
	firstLooks = 5 * time.Minute
	firstEvery = 5 * time.Second
)

// New returns the reviews of a site; Run keeps them.
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
		if time.Since(began) < firstLooks { // somebody may be trying it out, and machines are still being met
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
		case <-r.site.InForce: // a merge may be approved now
		case <-time.After(wait):
		}
	}
}

// Look requests a look at the open proposals now.
func (r *Reviews) Look() {
	select {
	case r.poke <- struct{}{}:
	default: // a look is already requested
	}
}

// planner plans the designs that proposals propose.
func (r *Reviews) planner() planner { return planner{r.site, r.Evaluate, r.Judge, r.Pages} }

// Again requests another plan of a proposal, even though neither it nor the branch has
// moved.
func (r *Reviews) Again(number int) {
	r.mu.Lock()
	delete(r.done, number)
	delete(r.begun, number)
	r.asks[number]++
	r.mu.Unlock()
	r.Look()
}

// Round lists the open proposals once, plans new ones, and approves what was merged. It
// reports whether there is more to plan.
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
	r.site.Listing.isOpen(open)
	r.settle(lctx, open, base.ID)
	r.watch(lctx, open)
	r.forget(open)
	due := r.due(open, base.ID)
	if err := r.begin(ctx, due, base.ID); err != nil || len(due) == 0 {
		return false, err
	}
	now := min(len(due), reviewsPerRound)
	against := &baseline{planner: r.planner(), name: "branch " + r.Branch, base: base}
	for _, p := range due[:now] {
		if err := r.review(ctx, p, against); err != nil {
			return false, err
		}
	}
	return len(due) > now, nil
}

// due returns the proposals to plan: first those not planned at their commit yet, then
// those to plan again, such as after the branch has moved. In both groups the latest
// changed come first.
func (r *Reviews) due(open []site.Proposal, base string) []site.Proposal {
	var fresh, rest []site.Proposal
	met := r.site.HasMetAll()
	open = slices.Clone(open)
	slices.SortStableFunc(open, func(a, b site.Proposal) int { return b.Changed.Compare(a.Changed) })
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range open[:min(len(open), maxReviewed)] { // proposals untouched for longest have to wait
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

// begin announces which proposals are going to be planned, once for each pair of commits.
// A retry is not announced again.
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
		r.site.Listing.begin(p)
		r.noteBegun(p.Number, at)
	}
	return nil
}

// hasBegun reports whether planning a proposal at a pair of commits was announced.
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

// mayPlan reports whether a proposal's head may be read. A fork's head may be read only if
// somebody with write access has allowed that very commit.
func (r *Reviews) mayPlan(p site.Proposal) bool {
	return !p.Fork || p.Head != "" && r.site.Recorded.Of(p.Number).Allowed == p.Head
}

// Allow permits planning one commit of a fork. by must be a person whose write access was
// looked up right before.
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

// NamedFiles returns the digests of files that open proposals name, as far as they could
// be evaluated. It returns an error while one is still to be planned.
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
