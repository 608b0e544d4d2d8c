package github

import (
	"context"
	"errors"
	"fmt"

	gh "github.com/google/go-github/v60/github"

	"github.com/slipway-gitops/slipway/engine/forge"
	"github.com/slipway-gitops/slipway/engine/site"
)

// maxPullTitle is GitHub's limit for the title of a pull request, in characters.
const maxPullTitle = 256

const needToPropose = `"Pull requests: write"`

// Proposed is the newest pull request from a branch of the repository.
func (r *Repository) Proposed(ctx context.Context, branch string) (site.Proposal, bool, error) {
	all, _, err := r.api.PullRequests.List(ctx, r.owner, r.name, &gh.PullRequestListOptions{
		State: "all", Head: r.owner + ":" + branch, Sort: "created", Direction: "desc", ListOptions: gh.ListOptions{PerPage: 30},
	})
	if err != nil {
		return site.Proposal{}, false, fmt.Errorf("pull requests from %s: %w", branch, explain(err, needPulls))
	}
	for _, pr := range all {
		if pr.GetHead().GetRef() != branch { // a server that does not know the filter lists all
			continue
		}
		p, err := proposal(pr)
		return p, err == nil, err
	}
	return site.Proposal{}, false, nil
}

// Propose opens a pull request. GitHub accepts one open pull request per branch: if one is open, Propose returns
// that.
func (r *Repository) Propose(ctx context.Context, d forge.Draft) (site.Proposal, error) {
	pr, _, err := r.api.PullRequests.Create(ctx, r.owner, r.name, &gh.NewPullRequest{
		Title: gh.String(cut(line(d.Title), maxPullTitle)), Body: gh.String(cut(d.Body, maxBody)), Head: gh.String(d.Branch), Base: gh.String(d.Base),
	})
	if err == nil {
		return proposal(pr)
	}
	err = explain(err, needToPropose)
	if errors.Is(err, forge.ErrRefused) {
		if is, found, listed := r.Proposed(ctx, d.Branch); listed == nil && found && is.State == site.ProposalOpen {
			return is, nil
		}
	}
	return site.Proposal{}, fmt.Errorf("open a pull request for %s: %w", d.Branch, err)
}
