package engine

import (
	"context"
	"fmt"

	"github.com/slipway-gitops/slipway/engine/review"
	"github.com/slipway-gitops/slipway/engine/site"
)

// PlanCommits returns the plans of commits without a proposal for the engine's site; their Run makes them. It is called before
// the engine runs.
func (e *Engine) PlanCommits(c review.CommitsConfig) *review.Commits {
	commits := review.NewCommits(e.siteOf("commits"), c)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.commits = commits
	return commits
}

// Commits lists the commits that can be planned: heads of branches, and commits of the followed branch that are newer than the
// design in force. It returns a site.ErrNotFound where Slipway follows no branch.
func (e *Engine) Commits(ctx context.Context) (site.CommitList, error) {
	c, err := e.plansCommits()
	if err != nil {
		return site.CommitList{}, err
	}
	return c.List(ctx), nil
}

// Commit returns a commit with its last plan, or a site.ErrNotFound. It plans nothing.
func (e *Engine) Commit(ctx context.Context, id string) (site.CommitDetail, error) {
	c, err := e.plansCommits()
	if err != nil {
		return site.CommitDetail{}, err
	}
	return c.Of(ctx, id)
}

// PlanCommit returns a commit with its plan, which it has made if there is none that counts, or says that it is being planned.
func (e *Engine) PlanCommit(ctx context.Context, id string) (site.CommitDetail, error) {
	c, err := e.plansCommits()
	if err != nil {
		return site.CommitDetail{}, err
	}
	return c.Plan(ctx, id)
}

func (e *Engine) plansCommits() (*review.Commits, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.commits == nil {
		return nil, fmt.Errorf("%w: Slipway plans no commits for site %s: its daemon runs without --repo", site.ErrNotFound, e.Site)
	}
	return e.commits, nil
}

// revisionInForce is the revision of the design in force; empty before the first.
func (e *Engine) revisionInForce() site.Revision {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.applied
}
