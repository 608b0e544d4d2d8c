package github

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	gh "github.com/google/go-github/v60/github"

	"github.com/slipway-gitops/slipway/engine/site"
)

// maxProposalPages bounds the listing of open pull requests, in pages of 100.
const maxProposalPages = 50

const needPulls = `"Pull requests: read"`

// Open lists the open pull requests for a branch. If there are too many, it lists the most recently changed ones
// and logs a warning.
func (r *Repository) Open(ctx context.Context, base string) ([]site.Proposal, error) {
	var all []site.Proposal
	met := map[int]bool{} // a pull request that changes meanwhile moves to an earlier page
	err := pages(maxProposalPages, func(page gh.ListOptions) (*gh.Response, error) {
		some, resp, err := r.api.PullRequests.List(ctx, r.owner, r.name, &gh.PullRequestListOptions{
			State: "open", Base: base, Sort: "updated", Direction: "desc", ListOptions: page,
		})
		for _, pr := range some {
			p, wrong := proposal(pr)
			if wrong != nil {
				return resp, wrong
			}
			if !met[p.Number] {
				all = append(all, p)
			}
			met[p.Number] = true
		}
		return resp, err
	})
	more := errors.Is(err, errMore)
	if err != nil && !more {
		return nil, fmt.Errorf("open pull requests: %w", explain(err, needPulls))
	}
	r.crowd(more, len(all))
	return all, nil
}

// crowd logs when the list of open pull requests becomes incomplete, and when it is complete again.
func (r *Repository) crowd(is bool, listed int) {
	r.mu.Lock()
	was := r.crowded
	r.crowded = is
	r.mu.Unlock()
	switch {
	case is && !was:
		r.log.Warn("more pull requests are open than are listed, and those that were not changed for longest are left out", "listed", listed)
	case was && !is:
		r.log.Info("all open pull requests are listed again", "listed", listed)
	}
}

// Proposal reads a pull request by its number.
func (r *Repository) Proposal(ctx context.Context, number int) (site.Proposal, error) {
	pr, _, err := r.api.PullRequests.Get(ctx, r.owner, r.name, number)
	if err != nil {
		return site.Proposal{}, fmt.Errorf("pull request #%d: %w", number, explain(err, needPulls))
	}
	return proposal(pr)
}

var commit = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)

func proposal(pr *gh.PullRequest) (site.Proposal, error) {
	p := site.Proposal{
		Number: pr.GetNumber(), Title: pr.GetTitle(), Author: pr.GetUser().GetLogin(), State: site.ProposalOpen, Draft: pr.GetDraft(),
		Base: pr.GetBase().GetRef(), Head: pr.GetHead().GetSHA(), URL: pr.GetHTMLURL(), Changed: pr.GetUpdatedAt().Time,
		// A deleted fork has no repository any more.
		Fork: pr.GetHead().Repo == nil || pr.GetHead().GetRepo().GetID() != pr.GetBase().GetRepo().GetID(),
	}
	if p.Number <= 0 || !commit.MatchString(p.Head) {
		return p, fmt.Errorf("GitHub says that pull request #%d is at %q, which is not a commit", p.Number, cut(p.Head, 80))
	}
	switch {
	case !pr.GetMergedAt().IsZero():
		p.State, p.Merge, p.MergedBy, p.MergedAt = site.ProposalMerged, pr.GetMergeCommitSHA(), pr.GetMergedBy().GetLogin(), pr.GetMergedAt().Time
	case pr.GetState() != "open":
		p.State = site.ProposalClosed
	}
	return p, nil
}
