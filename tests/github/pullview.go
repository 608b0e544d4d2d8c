package github

import "maps"

// pullLinks are the addresses below a pull request's own, by the names of the
// fields and of the links.
var pullLinks = []struct{ field, link, format string }{
	{"url", "self", "/pulls/%d"}, {"issue_url", "issue", "/issues/%d"}, {"commits_url", "commits", "/pulls/%d/commits"},
	{"review_comments_url", "review_comments", "/pulls/%d/comments"}, {"comments_url", "comments", "/issues/%d/comments"},
}

// view is the pull request as lists have it.
func (p *Pull) view() object {
	v := object{
		"id": p.id, "node_id": node("PR", p.id), "number": p.number, "state": p.state(), "locked": p.locked, "title": p.title, "user": p.author.orGhost(),
		"body": textOr(p.body), "labels": []object{}, "milestone": nil, "created_at": stamp(p.created), "updated_at": stamp(p.updated),
		"closed_at": stampOr(p.closed), "merged_at": nil, "merge_commit_sha": textOr(p.mergeID), "assignee": nil, "assignees": []object{},
		"requested_reviewers": []object{}, "requested_teams": []object{}, "author_association": p.repo.association(p.author), "auto_merge": p.auto.orNull(),
		"active_lock_reason": nil, "draft": p.draft, "html_url": p.html(""), "diff_url": p.html(".diff"), "patch_url": p.html(".patch"),
		"review_comment_url": p.repo.api("/pulls/comments{/number}"), "statuses_url": p.repo.api("/statuses/%s", p.headID),
		"head": p.side(p.headRepo, p.headBranch, p.headID), "base": p.side(p.repo, p.base, p.baseID),
	}
	if p.merged {
		v["merged_at"] = stamp(p.closed)
	}
	links := object{"html": href(p.html("")), "review_comment": href(p.repo.api("/pulls/comments{/number}")), "statuses": href(p.repo.api("/statuses/%s", p.headID))}
	for _, l := range pullLinks {
		v[l.field] = p.repo.api(l.format, p.number)
		links[l.link] = href(p.repo.api(l.format, p.number))
	}
	v["_links"] = links
	return v
}

func href(to string) object { return object{"href": to} }

func (p *Pull) html(tail string) string { return p.repo.html("/pull/%d%s", p.number, tail) }

// side is one side of a pull request. A fork that was deleted has no repository.
func (p *Pull) side(r *Repository, branch, id string) object {
	v := object{"label": r.owner.login + ":" + branch, "ref": branch, "sha": id, "user": r.owner.orNull(), "repo": nil}
	if !r.gone {
		v["repo"] = r.view()
	}
	return v
}

func (p *Pull) state() string {
	if p.open {
		return "open"
	}
	return "closed"
}

// full is the pull request by itself. Whether it can be merged is null until
// it was found out, which the first look begins.
func (p *Pull) full() object {
	fork := p.forkPoint()
	changes := p.repo.changes(fork, p.headID)
	added, removed := 0, 0
	for _, c := range changes {
		added, removed = added+c.added, removed+c.removed
	}
	v := p.view()
	maps.Copy(v, object{
		"merged": p.merged, "mergeable": p.mergeable(), "rebaseable": p.mergeable(), "mergeable_state": p.mergeableState(), "merged_by": nil,
		"comments": len(p.comments), "review_comments": 0, "maintainer_can_modify": false,
		"commits": len(p.proposed()), "additions": added, "deletions": removed, "changed_files": len(changes),
	})
	if p.mergedBy != nil {
		v["merged_by"] = p.mergedBy.orNull()
	}
	return v
}

func (p *Pull) mergeable() any {
	if !p.checked || !p.open {
		return nil
	}
	return p.mergeID != ""
}

func (p *Pull) mergeableState() string {
	switch {
	case !p.checked || !p.open:
		return "unknown"
	case p.mergeID == "":
		return "dirty"
	case p.draft:
		return "draft"
	}
	return "clean"
}

// forkPoint is the merge base of the two branches; of a pull request that is
// over, the base branch as it was then.
func (p *Pull) forkPoint() string {
	base := p.baseID
	if p.open {
		base = p.repo.head(p.base)
	}
	return p.repo.must("merge-base", base, p.headID)
}

func (p *Pull) proposed() []commit {
	return p.repo.commits("--reverse", "-250", p.forkPoint()+".."+p.headID)
}

// association is what a user is to the repository.
func (r *Repository) association(u *User) string {
	switch {
	case u == r.owner:
		return "OWNER"
	case r.roles[u] > NoRole:
		return "COLLABORATOR"
	}
	return "NONE"
}

func (r *Repository) pull(number int64) *Pull {
	if number < 1 || number > int64(len(r.pulls)) {
		return nil
	}
	return r.pulls[number-1]
}
