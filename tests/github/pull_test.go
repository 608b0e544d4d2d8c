package github_test

import (
	"fmt"
	"strings"
	"testing"

	client "github.com/google/go-github/v60/github"

	"github.com/slipway-gitops/slipway/tests/github"
)

// pull is the pull request as the client sees it, once it is known whether it
// can be merged.
func (w *world) pull(c *client.Client, n int) *client.PullRequest {
	w.t.Helper()
	good(c.PullRequests.Get(ctx, "acme", "site", n))(w.t)
	return good(c.PullRequests.Get(ctx, "acme", "site", n))(w.t)
}

func TestLifeOfAPullRequest(t *testing.T) {
	w := start(t)
	c := w.as(w.Token("ada", "repo"))
	base := w.repo.Head("main")
	p := w.propose("feature")
	first := good(c.PullRequests.Get(ctx, "acme", "site", 1))(t)
	if first.Mergeable != nil {
		t.Error("it is known at once whether it can be merged")
	}
	got := w.pull(c, 1)
	want(t, "it can be merged", got.GetMergeable(), true)
	want(t, "head", got.GetHead().GetSHA(), w.repo.Head("feature"))
	want(t, "base", got.GetBase().GetSHA(), base)
	want(t, "title", got.GetTitle(), "Add feature")
	want(t, "files", got.GetChangedFiles(), 1)

	head := w.repo.Push("ada", "feature", "more", github.Files{"a.cue": "a: 2\n", "old.cue": ""})
	want(t, "head after a push", w.pull(c, 1).GetHead().GetSHA(), head)
	want(t, "commits", len(good(c.PullRequests.ListCommits(ctx, "acme", "site", 1, nil))(t)), 2)
	var files []string
	for _, f := range good(c.PullRequests.ListFiles(ctx, "acme", "site", 1, nil))(t) {
		files = append(files, f.GetStatus()+" "+f.GetFilename())
	}
	want(t, "files", strings.Join(files, ", "), "modified a.cue, added feature.cue")

	forced := w.repo.ForcePush("ada", "feature", "main", "anew", github.Files{"b.cue": "b: 1\n"})
	want(t, "head after a forced push", w.pull(c, 1).GetHead().GetSHA(), forced)

	p.SetDraft("ada", true)
	want(t, "draft", w.pull(c, 1).GetDraft(), true)
	p.SetDraft("ada", false)
	p.Close("ada")
	w.repo.Push("ada", "feature", "while closed", github.Files{"c.cue": "c: 1\n"})
	closed := w.pull(c, 1)
	want(t, "closed", closed.GetState(), "closed")
	want(t, "a closed one stays where it was", closed.GetHead().GetSHA(), forced)
	p.Reopen("ada")
	want(t, "reopened, with what was pushed", w.pull(c, 1).GetHead().GetSHA(), w.repo.Head("feature"))

	merged := p.Merge("ada")
	last := w.pull(c, 1)
	want(t, "merged", last.GetMerged(), true)
	want(t, "by", last.GetMergedBy().GetLogin(), "ada")
	want(t, "as", last.GetMergeCommitSHA(), merged)
	want(t, "main", w.repo.Head("main"), merged)
}

func TestConflict(t *testing.T) {
	w := start(t)
	c := w.as(w.Token("ada", "repo"))
	w.repo.Push("ada", "feature", "two", github.Files{"a.cue": "a: 2\n"})
	w.repo.Open(github.Proposal{Author: "ada", Head: "feature", Title: "Two"})
	want(t, "before", w.pull(c, 1).GetMergeableState(), "clean")
	test := w.repo.Ref("refs/pull/1/merge")
	base := w.pull(c, 1).GetBase().GetSHA()
	moved := w.repo.Push("ada", "main", "three", github.Files{"a.cue": "a: 3\n"})
	got := w.pull(c, 1)
	want(t, "after the base moved", got.GetMergeableState(), "dirty")
	want(t, "can be merged", got.GetMergeable(), false)
	want(t, "the test merge is stale", w.repo.Ref("refs/pull/1/merge"), test)
	want(t, "the base's commit is the old one", got.GetBase().GetSHA(), base)
	w.repo.Push("ada", "feature", "four", github.Files{"b.cue": "b: 4\n"})
	want(t, "after a push it is the new one", w.pull(c, 1).GetBase().GetSHA(), moved)
}

func TestFork(t *testing.T) {
	w := start(t)
	fork := w.repo.Fork("eve")
	head := fork.Push("eve", "feature", "mine", github.Files{"e.cue": "e: 1\n"})
	w.repo.Open(github.Proposal{Author: "eve", From: fork, Head: "feature", Title: "Please"})
	got := w.pull(w.as(w.Token("ada", "repo")), 1)
	want(t, "from", got.GetHead().GetRepo().GetFullName(), "eve/site")
	want(t, "label", got.GetHead().GetLabel(), "eve:feature")
	want(t, "is a fork", got.GetHead().GetRepo().GetFork(), true)
	want(t, "refs/pull/1/head", w.repo.Ref("refs/pull/1/head"), head)
	forced := fork.ForcePush("eve", "feature", "main", "other", github.Files{"f.cue": "f: 1\n"})
	want(t, "after a forced push", w.repo.Ref("refs/pull/1/head"), forced)
	fork.DeleteBranch("eve", "feature")
	want(t, "after the branch is gone", w.pull(w.as(w.Token("ada", "repo")), 1).GetState(), "closed")
}

func TestMergedByHand(t *testing.T) {
	w := start(t)
	p := w.propose("feature")
	w.repo.ForcePush("ada", "main", "feature", "on top", github.Files{"z.cue": "z: 1\n"})
	got := w.pull(w.as(w.Token("ada", "repo")), p.Number())
	want(t, "merged", got.GetMerged(), true)
}

func TestSquash(t *testing.T) {
	w := start(t)
	p := w.propose("feature")
	w.propose("other")
	ada := w.as(w.Token("ada", "repo"))
	by := func(id string) []*client.PullRequest {
		return good(ada.PullRequests.ListPullRequestsWithCommit(ctx, "acme", "site", id, nil))(t)
	}
	want(t, "by which its commit may come", by(p.HeadID())[0].GetNumber(), 1)
	id := p.Squash("ada")
	want(t, "by which the commit came", by(id)[0].GetNumber(), 1)
	c := good(ada.Repositories.GetCommit(ctx, "acme", "site", id, nil))(t)
	want(t, "parents", len(c.Parents), 1)
	want(t, "message", c.GetCommit().GetMessage(), "Add feature (#1)")
}

func TestListingManyPullRequests(t *testing.T) {
	w := start(t)
	w.propose("feature")
	for i := range 64 {
		w.repo.Open(github.Proposal{Author: "ada", Head: "feature", Title: fmt.Sprint("Again ", i), Body: "b"})
	}
	c := w.as(w.Token("ada", "repo"))
	o := &client.PullRequestListOptions{ListOptions: client.ListOptions{PerPage: 30}}
	seen := map[int]bool{}
	for pages := 1; ; pages++ {
		some, resp, err := c.PullRequests.List(ctx, "acme", "site", o)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range some {
			seen[p.GetNumber()] = true
		}
		if resp.NextPage == 0 {
			want(t, "pages", pages, 3)
			break
		}
		if !strings.Contains(resp.Header.Get("Link"), "/repositories/") {
			t.Errorf("the link is one that could be made up: %s", resp.Header.Get("Link"))
		}
		o.Page = resp.NextPage
	}
	want(t, "pull requests", len(seen), 65)
	many := good(c.PullRequests.List(ctx, "acme", "site", &client.PullRequestListOptions{ListOptions: client.ListOptions{PerPage: 1_000}}))(t)
	want(t, "a page has at most", len(many), 65)
}

func TestRename(t *testing.T) {
	w := start(t)
	p := w.propose("feature")
	w.repo.Rename("rack")
	c := w.as(w.Token("ada", "repo"))
	want(t, "its new name", good(c.Repositories.Get(ctx, "acme", "site"))(t).GetFullName(), "acme/rack")
	good(c.Issues.CreateComment(ctx, "acme", "site", p.Number(), &client.IssueComment{Body: client.String("hello")}))(t)
	want(t, "comments", len(p.Comments()), 1)
}

func TestCompare(t *testing.T) {
	w := start(t)
	fork := w.repo.Head("main")
	w.propose("feature")
	w.repo.Push("ada", "main", "on", github.Files{"m.cue": "m: 1\n"})
	got := good(w.as(w.Token("ada", "repo")).Repositories.CompareCommits(ctx, "acme", "site", "main", "feature", nil))(t)
	want(t, "status", got.GetStatus(), "diverged")
	want(t, "merge base", got.GetMergeBaseCommit().GetSHA(), fork)
	want(t, "files", len(got.Files), 1)
}
