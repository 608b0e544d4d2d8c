package github_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	client "github.com/google/go-github/v60/github"

	"github.com/slipway-gitops/slipway/tests/github"
)

// happened are the names of what a timeline tells, and by whom.
func (w *world) happened(number int) (all []string) {
	w.t.Helper()
	c := w.as(w.Token("ada", "repo"))
	for _, e := range good(c.Issues.ListIssueTimeline(ctx, "acme", "site", number, &client.ListOptions{PerPage: 100}))(w.t) {
		line := e.GetEvent() + " " + e.GetActor().GetLogin()
		if via := e.GetPerformedViaGithubApp(); via != nil {
			line += " by " + via.GetSlug()
		}
		all = append(all, line)
	}
	return all
}

// Whoever merges, and however, the timeline tells.
func TestWaysToMerge(t *testing.T) {
	w := start(t)
	app, _ := w.app()
	c := w.as(w.Token("ada", "repo"))
	for _, x := range []struct {
		name, by, kind string
		merge          func(*github.Pull) string
		events         []string
	}{
		{"merge", "ada", "User", func(p *github.Pull) string { return p.Merge("ada") }, []string{"merged ada", "closed ada"}},
		{"rebase", "ada", "User", func(p *github.Pull) string { return p.Rebase("ada") }, []string{"merged ada", "closed ada"}},
		{"bot", "mergify[bot]", "Bot", func(p *github.Pull) string { return p.Merge("mergify[bot]") }, []string{"merged mergify[bot]", "closed mergify[bot]"}},
		{"by an App", "ada", "User", func(p *github.Pull) string { return p.MergeBy("ada", app) }, []string{"merged ada by slipway", "closed ada by slipway"}},
		{"queue", "github-merge-queue[bot]", "Bot", func(p *github.Pull) string { p.Enqueue("ada"); return p.MergeQueued() },
			[]string{"added_to_merge_queue ada", "merged github-merge-queue[bot]", "closed github-merge-queue[bot]", "removed_from_merge_queue github-merge-queue[bot]"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			branch := strings.ReplaceAll(x.name, " ", "-")
			p := w.propose(branch)
			w.repo.Push("ada", branch, "two", github.Files{x.name: "y\n"})
			id := x.merge(p)
			got := w.pull(c, p.Number())
			want(t, "merge commit", got.GetMergeCommitSHA(), id)
			want(t, "main", w.repo.Head("main"), id)
			want(t, "by", got.GetMergedBy().GetLogin(), x.by)
			want(t, "type", got.GetMergedBy().GetType(), x.kind)
			if e := w.happened(p.Number()); !slices.Equal(e, x.events) {
				t.Errorf("the timeline has %q, want %q", e, x.events)
			}
		})
	}
}

// Auto-merge merges at the very moment in which the required check is good, in
// the name of who has enabled it.
func TestAutoMerge(t *testing.T) {
	w := start(t)
	w.repo.Require("slipway/site")
	c := w.as(w.Token("ada", "repo"))
	say := func(id, name, state string) {
		t.Helper()
		good(c.Repositories.CreateStatus(ctx, "acme", "site", id, &client.RepoStatus{State: &state, Context: &name}))(t)
	}
	p := w.propose("feature")
	p.AutoMerge("ada", github.BySquash)
	p.NoAutoMerge("ada")
	p.AutoMerge("ada", github.ByRebase)
	want(t, "enabled by", w.pull(c, 1).GetAutoMerge().GetEnabledBy().GetLogin(), "ada")
	say(p.HeadID(), "slipway/site", "pending")
	say(p.HeadID(), "other", "success")
	want(t, "merged", w.pull(c, 1).GetMerged(), false)
	say(p.HeadID(), "slipway/site", "success")
	got := w.pull(c, 1)
	want(t, "merged", got.GetMerged(), true)
	want(t, "by", got.GetMergedBy().GetLogin(), "ada")
	if e, all := w.happened(1), []string{"auto_squash_enabled ada", "auto_merge_disabled ada", "auto_rebase_enabled ada", "merged ada", "closed ada"}; !slices.Equal(e, all) {
		t.Errorf("the timeline has %q, want %q", e, all)
	}
	w.Reticent(true)
	if e := w.happened(1); !slices.Equal(e, []string{"closed ada"}) {
		t.Errorf("a timeline that does not tell has %q", e)
	}
}

// What was deleted is null, or a ghost, and stays otherwise as it was.
func TestWhatIsGone(t *testing.T) {
	w := start(t)
	c := w.as(w.Token("ada", "repo"))
	fork := w.repo.Fork("eve")
	fork.Push("eve", "feature", "one", github.Files{"e.cue": "e: 1\n"})
	p := w.repo.Open(github.Proposal{Author: "eve", From: fork, Head: "feature", Title: "From afar"})
	comment := p.Comment("eve", "please")
	fork.Delete()
	p.Merge("ben")
	w.User("eve").Delete()
	w.User("ben").Delete()
	got := w.pull(c, 1)
	if got.GetHead().Repo != nil || got.GetHead().User != nil || got.MergedBy != nil {
		t.Errorf("the head is %v, merged by %v", got.GetHead(), got.MergedBy)
	}
	want(t, "author", got.GetUser().GetLogin(), "ghost")
	want(t, "head", got.GetHead().GetSHA(), p.HeadID())
	if m := good(c.Issues.GetComment(ctx, "acme", "site", comment.ID()))(t); m.User != nil || m.GetBody() != "please" {
		t.Errorf("the comment is %v", m)
	}
	if _, _, err := c.Repositories.Get(ctx, "eve", "site"); status(err) != 404 {
		t.Errorf("the fork answers %v", err)
	}
	if e := w.happened(1); !slices.Equal(e, []string{"commented ", "merged ", "closed "}) {
		t.Errorf("the timeline has %q", e)
	}
}

// Lists come late; what is asked for by its number is as it is.
func TestLag(t *testing.T) {
	w := start(t)
	c := w.as(w.Token("ada", "repo"))
	p := w.propose("feature")
	comment := p.Comment("ada", "one")
	w.Lag(3)
	listed := func() (n int, body string) {
		all := good(c.Issues.ListComments(ctx, "acme", "site", 0, nil))(t)
		if len(all) > 0 {
			body = all[0].GetBody()
		}
		return len(all), body
	}
	n, body := listed()
	want(t, "before", n, 1)
	want(t, "it reads", body, "one")
	comment.Edit("ada", "two")
	p.Comment("ada", "more")
	p.Close("ada")
	n, body = listed()
	want(t, "late", n, 1)
	want(t, "it reads", body, "one")
	want(t, "by its number", good(c.Issues.GetComment(ctx, "acme", "site", comment.ID()))(t).GetBody(), "two")
	want(t, "open", len(good(c.PullRequests.List(ctx, "acme", "site", nil))(t)), 1)
	want(t, "closed", good(c.PullRequests.Get(ctx, "acme", "site", 1))(t).GetState(), "closed")
	n, body = listed()
	want(t, "in the end", n, 2)
	want(t, "it reads", body, "two")
	w.Lag(0)
	want(t, "open", len(good(c.PullRequests.List(ctx, "acme", "site", nil))(t)), 0)
}

// A comment that was hidden, locked out, or written by way of an App says so.
func TestCommentsOfKinds(t *testing.T) {
	w := start(t)
	app, in := w.app()
	c := w.as(w.Token("ada", "repo"))
	p := w.propose("feature")
	p.CommentBy("ada", app, "/slipway plan").Hide("outdated")
	p.Lock("ada")
	w.CarriageReturns(true)
	good(c.Issues.CreateComment(ctx, "acme", "site", 1, &client.IssueComment{Body: client.String("one\ntwo\r\n")}))(t)
	want(t, "lines", p.Comments()[1].Body(), "one\r\ntwo\r\n")
	say := func(as string) error {
		return failure(w.as(as).Issues.CreateComment(ctx, "acme", "site", 1, &client.IssueComment{Body: client.String("x")}))
	}
	want(t, "who may not write", status(say(w.Token("ben", "repo"))), 403)
	want(t, "an App", message(say(in.Token())), "Unable to create comment because issue is locked.")
	req, err := c.NewRequest("GET", "repos/acme/site/issues/1/comments", nil)
	if err != nil {
		t.Fatal(err)
	}
	var all []struct {
		Via       *struct{ Slug string }   `json:"performed_via_github_app"`
		Minimized *struct{ Reason string } `json:"minimized"`
	}
	if _, err := c.Do(ctx, req, &all); err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || all[0].Via == nil || all[0].Via.Slug != "slipway" || all[0].Minimized == nil || all[0].Minimized.Reason != "outdated" || all[1].Via != nil || all[1].Minimized != nil {
		t.Errorf("the comments are %+v", all)
	}
	p.Unlock("ada")
	want(t, "an App, once it is unlocked", status(say(in.Token())), 200)
	if e := w.happened(1); !slices.Contains(e, "locked ada") || !slices.Contains(e, "unlocked ada") {
		t.Errorf("the timeline has %q", e)
	}
}

// What GitHub sometimes answers though nothing is wrong.
func TestPassingAnswers(t *testing.T) {
	for kind, code := range map[github.Kind]int{
		github.Missing: 404, github.Invalid: 422, github.Speechless: 422, github.TooMany: 429, github.Abuse: 403,
	} {
		w := start(t)
		p := w.propose("feature")
		w.Suffer(github.Outage{Kind: kind, Times: 1, For: func(r *http.Request) bool { return r.Method == "POST" }})
		c := w.as(w.Token("ada", "repo"))
		say := func() error {
			return failure(c.Issues.CreateComment(ctx, "acme", "site", p.Number(), &client.IssueComment{Body: client.String("x")}))
		}
		want(t, "the first", status(say()), code)
		want(t, "nothing was done", len(p.Comments()), 0)
		w.Pass(time.Hour)
		want(t, "the second", status(say()), 200)
	}
}
