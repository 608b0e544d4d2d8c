package github

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// listPulls lists the newest first, open ones unless asked otherwise.
func (c *call) listPulls() answer {
	q := c.r.URL.Query()
	state := q.Get("state")
	var all []*Pull
	for _, p := range c.listed() {
		if (state == "all" || p.state() == state || state == "" && p.open) &&
			(q.Get("base") == "" || q.Get("base") == p.base) &&
			(q.Get("head") == "" || q.Get("head") == p.headRepo.owner.login+":"+p.headBranch) {
			all = append(all, p)
		}
	}
	byUpdate := q.Get("sort") == "updated"
	slices.SortStableFunc(all, func(a, b *Pull) int {
		if byUpdate {
			return a.updated.Compare(b.updated)
		}
		return a.number - b.number
	})
	if q.Get("direction") == "desc" || q.Get("direction") == "" && (q.Get("sort") == "created" || q.Get("sort") == "") {
		slices.Reverse(all)
	}
	return paged(c, all, (*Pull).view)
}

// The limits of pull requests.
const (
	maxPullTitle = 256
	maxPullBody  = 65_536
)

// createPull opens a pull request between branches of the repository.
func (c *call) createPull() answer {
	var in struct{ Title, Body, Head, Base string }
	if !c.read(&in) || in.Title == "" {
		return invalid("PullRequest", "title", "title can't be blank")
	}
	head, base := c.repo.commitOf("refs/heads/"+in.Head), c.repo.commitOf("refs/heads/"+in.Base)
	switch {
	case head == "":
		return invalid("PullRequest", "head", "")
	case base == "":
		return invalid("PullRequest", "base", "")
	case utf8.RuneCountInString(in.Title) > maxPullTitle:
		return invalid("PullRequest", "title", fmt.Sprintf("title is too long (maximum is %d characters)", maxPullTitle))
	case utf8.RuneCountInString(in.Body) > maxPullBody:
		return invalid("PullRequest", "body", fmt.Sprintf("body is too long (maximum is %d characters)", maxPullBody))
	case slices.ContainsFunc(c.repo.pulls, func(p *Pull) bool {
		return p.open && p.headRepo == c.repo && p.headBranch == in.Head && p.base == in.Base
	}):
		return invalid("PullRequest", "", "A pull request already exists for "+c.repo.owner.login+":"+in.Head+".")
	case c.repo.ancestor(head, "refs/heads/"+in.Base):
		return invalid("PullRequest", "", "No commits between "+in.Base+" and "+in.Head)
	}
	p := c.repo.open(Proposal{Author: c.who.user.login, From: c.repo, Head: in.Head, Base: in.Base, Title: in.Title, Body: in.Body})
	return created(p.full())
}

func (c *call) getPull() answer {
	p := c.repo.pull(c.id("pull_number"))
	if p == nil {
		return notFound
	}
	defer p.tryMerge()
	return ok(p.full())
}

// maxFiles is how many files a pull request lists
// (docs.github.com, "List pull requests files").
const maxFiles = 3_000

func (c *call) listFiles() answer {
	p := c.repo.pull(c.id("pull_number"))
	if p == nil {
		return notFound
	}
	all := c.repo.changes(p.forkPoint(), p.headID)
	return paged(c, all[:min(len(all), maxFiles)], c.repo.changeView(p.headID))
}

func (c *call) listCommits() answer {
	p := c.repo.pull(c.id("pull_number"))
	if p == nil {
		return notFound
	}
	return paged(c, p.proposed(), c.repo.commitView)
}

// pullsOfCommit are the pull requests by which a commit came into the main
// branch; of one that is not there, those that propose it.
func (c *call) pullsOfCommit() answer {
	id := c.repo.commitOf(c.params["commit_sha"])
	if id == "" {
		return *failed(422, "No commit found for SHA: "+c.params["commit_sha"], "/rest/commits/commits")
	}
	inMain := c.repo.ancestor(id, "refs/heads/main")
	var all []*Pull
	for _, p := range c.repo.pulls {
		if inMain && p.merged && (p.mergeID == id || p.proposes(id)) || !inMain && p.open && p.proposes(id) {
			all = append(all, p)
		}
	}
	return paged(c, all, (*Pull).view)
}

func (p *Pull) proposes(id string) bool {
	return p.headID == id || slices.ContainsFunc(p.proposed(), func(m commit) bool { return m.id == id })
}
