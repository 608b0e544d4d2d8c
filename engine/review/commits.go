package review

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/retry"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Heads brings the heads of a repository's branches. Its methods are called by one goroutine at a time.
type Heads interface {
	// Look lists what can be planned beside the revision in force, which is empty before the first, and fetches what is new of it.
	Look(ctx context.Context, inForce string) (site.CommitList, error)
	// Revision returns a commit with its files. It wraps site.ErrNotFound if no branch had it at the last Look.
	Revision(ctx context.Context, id string) (site.Revision, error)
}

// CommitsConfig configures the plans of commits. Its functions are as those of Config.
type CommitsConfig struct {
	Heads    Heads
	Evaluate func(context.Context, site.Revision) (*site.Site, []site.Finding, error)
	Judge    func(ctx context.Context, revision, by site.Revision) ([]site.Finding, error)
	Pages    func(commit string) string
}

// Bounds on what those who ask have the daemon do.
const (
	// mostCommits is how many plans are kept, those that were made last. What of large plans is kept has the bounds of a Listing.
	mostCommits = 20
	// mostAsked is how many commits wait to be planned. One is planned at a time.
	mostAsked = 4
	// planKept is for how long a plan is given to whoever asks again, while the same design is in force.
	planKept = 10 * time.Minute
	// failureKept is the same for one that failed.
	failureKept = 30 * time.Second
	// answerWithin is how long whoever asks waits for a look or a plan. After that the last one is given.
	answerWithin = 3 * time.Second
)

// Commits plans commits without a proposal as if they were in force, for those who ask: only heads of branches, and commits of
// the followed branch that are newer than the design in force. It looks at the repository only when somebody asks, and no more
// often than the site's source. Nothing can be approved by such a plan. Its methods may be called by several goroutines at once.
type Commits struct {
	CommitsConfig
	site    Site
	look    chan struct{}
	asked   chan string
	offered offered
}

// offered is what can be planned, and what was planned.
type offered struct {
	mu    sync.Mutex
	list  site.CommitList
	tried time.Time                // when the repository was looked at last
	about string                   // the revision in force at that look
	next  chan struct{}            // closed at the end of the look that was asked for; nil for none
	plans map[string]plannedCommit // by commit
}

// plannedCommit is the last plan of a commit.
type plannedCommit struct {
	detail site.CommitDetail
	early  bool          // some machines had not been looked at yet
	failed bool          // it is tried again soon
	ends   chan struct{} // closed at the end of the planning under way; nil for none
}

// NewCommits returns the plans of a site's commits; Run makes them.
func NewCommits(of Site, c CommitsConfig) *Commits {
	return &Commits{CommitsConfig: c, site: of, look: make(chan struct{}, 1), asked: make(chan string, mostAsked),
		offered: offered{plans: map[string]plannedCommit{}}}
}

// planner plans the designs of commits.
func (c *Commits) planner() planner { return planner{c.site, c.Evaluate, c.Judge, c.Pages} }

// Run looks at the repository and plans when somebody asks, until the context ends.
func (c *Commits) Run(ctx context.Context) error {
	select {
	case <-c.site.Ready:
	case <-ctx.Done():
		return nil
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.look:
			c.lookNow(ctx)
		case id := <-c.asked:
			c.plan(ctx, id)
		}
	}
}

// List returns what can be planned. If the last look is old, it waits a moment for another one.
func (c *Commits) List(ctx context.Context) site.CommitList {
	if next := c.offered.ask(c.site.Revision().ID, c.site.PollEvery(), c.look); next != nil {
		wait(ctx, next)
	}
	return c.offered.listed()
}

// wait waits until a channel is closed, but not for long.
func wait(ctx context.Context, done <-chan struct{}) {
	select {
	case <-done:
	case <-ctx.Done():
	case <-time.After(answerWithin):
	}
}

// ask asks for another look where one is due, and returns what is closed when it has ended; nil where none is due.
func (o *offered) ask(inForce string, every time.Duration, look chan<- struct{}) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.next == nil {
		if time.Since(o.tried) < every && o.about == inForce {
			return nil
		}
		o.next = make(chan struct{})
		look <- struct{}{} // which has room: no other look is asked for
	}
	return o.next
}

func (o *offered) listed() site.CommitList {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.list
}

func (c *Commits) lookNow(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	inForce := c.site.Revision().ID
	list, err := c.Heads.Look(ctx, inForce)
	c.offered.looked(inForce, list, err)
}

// looked notes the end of a look. After an error the last list stays.
func (o *offered) looked(inForce string, list site.CommitList, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tried, o.about = time.Now(), inForce
	if err == nil {
		o.list = list
		for id, p := range o.plans {
			if p.ends == nil && !slices.ContainsFunc(list.Commits, func(x site.Commit) bool { return x.ID == id }) {
				delete(o.plans, id)
			}
		}
	} else {
		o.list.Problem = retry.Steady(err)
	}
	close(o.next)
	o.next = nil
}

// Of returns a commit with its last plan, and plans nothing. The commit is named by its first digits, as many as tell it from
// others. It wraps site.ErrNotFound if the commit is not offered.
func (c *Commits) Of(ctx context.Context, id string) (site.CommitDetail, error) {
	list := c.List(ctx)
	var found []site.Commit
	for _, x := range list.Commits {
		if strings.HasPrefix(x.ID, id) {
			found = append(found, x)
		}
	}
	short := site.Revision{ID: id}.Short()
	switch {
	case len(found) > 1:
		return site.CommitDetail{}, fmt.Errorf("%w: %d commits begin with %s: give more digits", site.ErrNotFound, len(found), short)
	case len(found) == 1:
		return c.detail(found[0]), nil
	case list.Looked.IsZero() && list.Problem != "":
		return site.CommitDetail{}, fmt.Errorf("%w: Slipway cannot list the branches of the repository: %s. Try again when it answers", site.ErrNotFound, list.Problem)
	case list.Looked.IsZero():
		return site.CommitDetail{}, fmt.Errorf("%w: Slipway is listing the branches of the repository: try again in some seconds", site.ErrNotFound)
	}
	return site.CommitDetail{}, fmt.Errorf("%w: Slipway plans no commit %s. At %s it was neither the head of a branch nor a commit of %s that is newer than the design in force. "+
		"If its branch has moved or is gone, choose one of those that `slipway commits` lists", site.ErrNotFound, short, list.Looked.UTC().Format("15:04:05 MST"), list.Branch)
}

// detail is a commit with its last plan.
func (c *Commits) detail(x site.Commit) site.CommitDetail {
	now, met := c.site.Revision().ID, c.site.HasMetAll()
	p := c.offered.plan(x.ID)
	d := p.detail
	d.Commit, d.Planning = x, p.ends != nil
	age := time.Since(d.Planned)
	d.Outdated = d.Planned.IsZero() || d.InForce.ID != now || age > planKept || p.early && met || p.failed && age > failureKept
	if x.Problem != "" {
		d = site.CommitDetail{Commit: x}
	}
	return d
}

func (o *offered) plan(id string) plannedCommit {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.plans[id]
}

// Plan is Of, but has the commit planned if its last plan is outdated, and waits a moment for that. The result says whether it
// is still being planned. It wraps site.ErrRefused if too many commits wait to be planned.
func (c *Commits) Plan(ctx context.Context, id string) (site.CommitDetail, error) {
	d, err := c.Of(ctx, id)
	if err != nil || !d.Outdated && !d.Planning {
		return d, err
	}
	ends := c.offered.begin(d.Commit.ID, c.asked)
	if ends == nil {
		return d, fmt.Errorf("%w: %d other commits wait to be planned, and Slipway plans one at a time: try again in a minute", site.ErrRefused, mostAsked)
	}
	wait(ctx, ends)
	return c.detail(d.Commit), nil
}

// begin has a commit planned, unless that is under way, and returns what is closed at the end; nil where too many wait.
func (o *offered) begin(id string, asked chan<- string) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.plans[id]
	if p.ends == nil {
		select {
		case asked <- id:
		default:
			return nil
		}
		p.ends = make(chan struct{})
		o.plans[id] = p
	}
	return p.ends
}

// plan plans a commit, and keeps that.
func (c *Commits) plan(ctx context.Context, id string) {
	var is plannedCommit
	defer func() { c.offered.end(id, is) }()
	list := c.offered.listed()
	i := slices.IndexFunc(list.Commits, func(x site.Commit) bool { return x.ID == id })
	if i < 0 {
		return // its branch has moved meanwhile
	}
	x := list.Commits[i]
	v := site.Review{Site: c.site.Name, Proposal: site.Proposal{Head: id}, Commit: &x, Result: id, When: time.Now()}
	inForce := c.site.Revision()
	v.Base = inForce.ID
	is.early = !c.site.HasMetAll()
	on := &baseline{planner: c.planner(), name: "the design in force"}
	err := c.compare(ctx, &v, inForce, on)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		v.Problem, v.Ours, is.failed = "it could not be planned: "+retry.Steady(err), true, true
		c.site.Log.Warn("commit not planned", "revision", id, "err", err)
	}
	c.planner().write(&v, on)
	is.detail = site.CommitDetail{InForce: inForce, Planned: v.When, Verdict: site.PlainLine(v.Verdict), Erases: len(v.Destroys()), PlanDetail: kept(v, on.nodes, on.racks())}
}

// compare adds to a review what putting its commit in force does.
func (c *Commits) compare(ctx context.Context, v *site.Review, inForce site.Revision, on *baseline) error {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	rev, err := c.Heads.Revision(ctx, v.Commit.ID)
	if err != nil {
		return err
	}
	on.base, err = c.Heads.Revision(ctx, inForce.ID)
	if errors.Is(err, site.ErrNotFound) {
		on.base, on.unread, err = inForce, true, nil
	}
	if err != nil {
		return err
	}
	return c.planner().compare(ctx, v, rev, on)
}

// end keeps what came of planning a commit, and forgets the oldest plans.
func (o *offered) end(id string, is plannedCommit) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.plans[id].ends)
	if is.detail.Planned.IsZero() {
		delete(o.plans, id)
		return
	}
	o.plans[id] = is
	var order []string
	for id := range o.plans {
		order = append(order, id)
	}
	slices.SortFunc(order, func(a, b string) int { return o.plans[b].detail.Planned.Compare(o.plans[a].detail.Planned) })
	var room room
	for i, id := range order {
		p := o.plans[id]
		switch {
		case i >= mostCommits && p.ends == nil:
			delete(o.plans, id)
		default:
			room.fit(&p.detail.PlanDetail)
			o.plans[id] = p
		}
	}
}
