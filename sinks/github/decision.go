package github

import (
	"context"
	"fmt"
	"strings"
	"time"

	gh "github.com/google/go-github/v60/github"

	"github.com/slipway-gitops/slipway/engine/site"
)

// maxTimelinePages bounds how much of a pull request's timeline is read, in pages of 100.
const maxTimelinePages = 100

// tidying is the time before a merge in which GitHub itself may undo the events that led to it. For example, GitHub
// takes a pull request out of the merge queue as it merges it.
const tidying = 10 * time.Second

// ownAccount replaces the actor when the account is that of Slipway's own token. Anybody with the token may have
// acted, so the account does not stand for a person who has read something.
const ownAccount = "the account of Slipway's token"

// Decision reads from a pull request's timeline who decided to merge it. The pull request itself names who merged
// it, but not when auto-merge was enabled, nor by which program. Until the timeline contains the merge, Decision
// returns site.ErrNotYet.
func (r *Repository) Decision(ctx context.Context, number int) (site.Decision, error) {
	pr, _, err := r.api.PullRequests.Get(ctx, r.owner, r.name, number)
	if err != nil {
		return site.Decision{}, fmt.Errorf("pull request #%d: %w", number, explain(err, needPulls))
	}
	var events []*gh.Timeline
	err = pages(maxTimelinePages, func(page gh.ListOptions) (*gh.Response, error) {
		some, resp, err := r.api.Issues.ListIssueTimeline(ctx, r.owner, r.name, number, &page)
		events = append(events, some...)
		return resp, err
	})
	if err != nil {
		return site.Decision{}, fmt.Errorf("timeline of #%d: %w", number, explain(err, needPulls))
	}
	me, err := r.whoami(ctx)
	if err != nil {
		return site.Decision{}, fmt.Errorf("pull request #%d: %w", number, err)
	}
	d, known := decided(pr, events)
	if me.login != "" && strings.EqualFold(d.By, me.login) {
		d.Program = ownAccount
	}
	if !known {
		return d, fmt.Errorf("timeline of #%d: %w: it does not have the merge", number, site.ErrNotYet)
	}
	return d, nil
}

// decided finds out who decided to merge a pull request. It is known once the timeline contains the merge.
//
// The names of the events are GitHub's. Its documentation ("Issue event types") lists neither the events of the
// merge queue nor those of auto-merge, which has one for each way to merge.
func decided(pr *gh.PullRequest, events []*gh.Timeline) (d site.Decision, known bool) {
	var auto, merged *gh.Timeline
	queued := false
	last := pr.GetMergedAt().Add(-tidying)
	for _, e := range events {
		early := e.GetCreatedAt().Before(last)
		switch name := e.GetEvent(); {
		case name == "merged":
			merged = e
		case strings.HasPrefix(name, "auto_") && strings.HasSuffix(name, "_enabled"):
			auto = e
		case strings.HasPrefix(name, "auto_") && strings.HasSuffix(name, "_disabled") && early:
			auto = nil
		case name == "added_to_merge_queue":
			queued = true
		case name == "removed_from_merge_queue" && early:
			queued = false
		}
	}
	if merged == nil {
		return d, false
	}
	d = site.Decision{By: merged.GetActor().GetLogin(), When: pr.GetMergedAt().Time, Program: programOf(merged)}
	switch {
	case auto != nil:
		d.By, d.When, d.Auto = auto.GetActor().GetLogin(), auto.GetCreatedAt().Time, true
		if p := programOf(auto); p != "" {
			d.Program = p
		}
	case pr.AutoMerge != nil:
		d.By, d.When, d.Auto = pr.AutoMerge.GetEnabledBy().GetLogin(), time.Time{}, true
	}
	switch by := pr.GetMergedBy(); {
	case queued:
		d.Program = "the merge queue"
	case isProgram(by):
		d.Program = by.GetLogin()
	case by == nil:
		d.By = ""
	}
	return d, true
}

// programOf names the program that did something, by itself or on somebody's behalf; empty for none.
func programOf(e *gh.Timeline) string {
	if isProgram(e.GetActor()) {
		return e.GetActor().GetLogin()
	}
	if via := e.GetPerformedViaGithubApp(); via != nil {
		return "the App " + via.GetSlug()
	}
	return ""
}

func isProgram(u *gh.User) bool { return u.GetType() == "Bot" }
