package github

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// maxComment is how many characters a comment has at most. GitHub counts
// characters, not bytes.
const maxComment = 65_536

// Comment is a comment on a pull request.
type Comment struct {
	pull             *Pull
	id               int64
	author           *User
	app              *App // by way of which it was written
	body             string
	hidden           string // why people see it folded; empty when they do not
	created, updated time.Time
	reactions        []*reaction
}

type reaction struct {
	id      int64
	user    *User
	content string
	at      time.Time
}

// Comment is a person's comment.
func (p *Pull) Comment(login, body string) *Comment {
	p.repo.s.mu.Lock()
	defer p.repo.s.mu.Unlock()
	return p.comment(p.repo.s.user(login), nil, body)
}

func (p *Pull) comment(who *User, app *App, body string) *Comment {
	c := &Comment{pull: p, id: p.repo.s.nextID(), author: who, app: app, body: body, created: p.repo.s.now()}
	c.updated = c.created
	p.comments = append(p.comments, c)
	p.updated = c.created
	c.emit("created", who, nil)
	return c
}

// CommentBy is a comment by way of an App that acts in somebody's name.
func (p *Pull) CommentBy(login string, app *App, body string) *Comment {
	p.repo.s.mu.Lock()
	defer p.repo.s.mu.Unlock()
	return p.comment(p.repo.s.user(login), app, body)
}

// Hide has people see the comment folded, for a reason such as "outdated". As
// far as GitHub's documentation tells that is no change of the comment.
func (c *Comment) Hide(reason string) {
	c.pull.repo.s.mu.Lock()
	defer c.pull.repo.s.mu.Unlock()
	c.hidden = reason
}

// Edit is a person's edit of the comment.
func (c *Comment) Edit(login, body string) {
	c.pull.repo.s.mu.Lock()
	defer c.pull.repo.s.mu.Unlock()
	c.edit(c.pull.repo.s.user(login), body)
}

func (c *Comment) edit(who *User, body string) {
	from := c.body
	c.body, c.updated = body, c.pull.repo.s.now()
	c.emit("edited", who, object{"changes": object{"body": object{"from": from}}})
}

// Delete is a person's deletion of the comment.
func (c *Comment) Delete(login string) {
	c.pull.repo.s.mu.Lock()
	defer c.pull.repo.s.mu.Unlock()
	c.remove(c.pull.repo.s.user(login))
}

func (c *Comment) remove(who *User) {
	c.pull.comments = slices.DeleteFunc(c.pull.comments, func(o *Comment) bool { return o == c })
	c.pull.happened("comment_deleted", who, nil, "")
	c.emit("deleted", who, nil)
}

// Comments are the comments as they are now, oldest first.
func (p *Pull) Comments() []*Comment {
	p.repo.s.mu.Lock()
	defer p.repo.s.mu.Unlock()
	return slices.Clone(p.comments)
}

// Author is who wrote the comment.
func (c *Comment) Author() string { return c.author.login }

// ID is what the API knows it by.
func (c *Comment) ID() int64 { return c.id }

// Body is what it says now.
func (c *Comment) Body() string {
	c.pull.repo.s.mu.Lock()
	defer c.pull.repo.s.mu.Unlock()
	return c.body
}

// Reactions are who reacted how, as in "ada +1".
func (c *Comment) Reactions() (all []string) {
	c.pull.repo.s.mu.Lock()
	defer c.pull.repo.s.mu.Unlock()
	for _, r := range c.reactions {
		all = append(all, r.user.login+" "+r.content)
	}
	return all
}

func (c *Comment) emit(action string, who *User, more object) {
	c.pull.repo.emit("issue_comment", action, who, func() object {
		comment := c.view()
		delete(comment, "minimized") // webhooks do not have it
		v := object{"action": action, "issue": c.pull.issue(), "comment": comment}
		for name, value := range more {
			v[name] = value
		}
		return v
	})
}

func (c *Comment) view() object {
	r := c.pull.repo
	v := object{
		"id": c.id, "node_id": node("IC", c.id), "url": r.api("/issues/comments/%d", c.id), "issue_url": r.api("/issues/%d", c.pull.number),
		"html_url": c.pull.html(fmt.Sprintf("#issuecomment-%d", c.id)), "user": c.author.orNull(), "body": c.body,
		"created_at": stamp(c.created), "updated_at": stamp(c.updated), "author_association": r.association(c.author),
		"performed_via_github_app": c.app.orNull(), "reactions": rollup(r.api("/issues/comments/%d/reactions", c.id), c.reactions),
		"minimized": nil,
	}
	if c.hidden != "" {
		v["minimized"] = object{"reason": c.hidden}
	}
	return v
}

var reactionContents = []string{"+1", "-1", "laugh", "confused", "heart", "hooray", "eyes", "rocket"}

func rollup(url string, all []*reaction) object {
	v := object{"url": url, "total_count": len(all)}
	for _, content := range reactionContents {
		v[content] = counted(all, func(r *reaction) bool { return r.content == content })
	}
	return v
}

// issue is the pull request as an issue.
func (p *Pull) issue() object {
	api := func(tail string) string { return p.repo.api("/issues/%d%s", p.number, tail) }
	return object{
		"id": p.id, "node_id": node("PR", p.id), "number": p.number, "title": p.title, "body": textOr(p.body), "state": p.state(), "locked": p.locked,
		"user": p.author.orGhost(), "author_association": p.repo.association(p.author), "comments": len(p.comments), "labels": []object{},
		"assignee": nil, "assignees": []object{}, "milestone": nil, "active_lock_reason": nil, "draft": p.draft, "performed_via_github_app": nil,
		"created_at": stamp(p.created), "updated_at": stamp(p.updated), "closed_at": stampOr(p.closed), "repository_url": p.repo.api(""),
		"url": api(""), "comments_url": api("/comments"), "events_url": api("/events"), "labels_url": api("/labels{/name}"), "timeline_url": api("/timeline"),
		"html_url": p.html(""), "reactions": rollup(api("/reactions"), nil), "state_reason": nil,
		"pull_request": object{
			"url": p.repo.api("/pulls/%d", p.number), "html_url": p.html(""), "diff_url": p.html(".diff"), "patch_url": p.html(".patch"), "merged_at": nil,
		},
	}
}

func (c *call) pullOfIssue() *Pull { return c.repo.pull(c.id("issue_number")) }

func (c *call) comment() *Comment {
	for _, p := range c.repo.pulls {
		for _, m := range p.comments {
			if m.id == c.id("comment_id") {
				return m
			}
		}
	}
	return nil
}

// said reads the body of a comment.
func (c *call) said() (string, *answer) {
	var in struct{ Body string }
	var a answer
	switch {
	case !c.read(&in):
		a = invalid("IssueComment", "body", "unreadable")
	case strings.TrimSpace(in.Body) == "":
		a = invalid("IssueComment", "body", "body cannot be blank")
	case utf8.RuneCountInString(in.Body) > maxComment:
		a = invalid("IssueComment", "body", fmt.Sprintf("body is too long (maximum is %d characters)", maxComment))
	case c.carriage:
		return strings.ReplaceAll(strings.ReplaceAll(in.Body, "\r\n", "\n"), "\n", "\r\n"), nil
	default:
		return in.Body, nil
	}
	return "", &a
}

func (c *call) listComments() answer {
	p := c.listedPull(c.id("issue_number"))
	if p == nil {
		return notFound
	}
	return paged(c, c.since(p.comments), (*Comment).view)
}

// since are the comments that were changed since the time that is asked for.
func (c *call) since(all []*Comment) []*Comment {
	t, err := time.Parse(time.RFC3339, c.r.URL.Query().Get("since"))
	if err != nil {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(m *Comment) bool { return m.updated.Before(t) })
}

// listAllComments are those of all pull requests, oldest first unless asked
// otherwise.
func (c *call) listAllComments() answer {
	q := c.r.URL.Query()
	var all []*Comment
	for _, p := range c.listed() {
		all = append(all, p.comments...)
	}
	slices.SortStableFunc(all, func(a, b *Comment) int {
		if q.Get("sort") == "updated" {
			return a.updated.Compare(b.updated)
		}
		return cmp.Compare(a.id, b.id)
	})
	if q.Get("direction") == "desc" {
		slices.Reverse(all)
	}
	return paged(c, c.since(all), (*Comment).view)
}

func (c *call) createComment() answer {
	p := c.pullOfIssue()
	if p == nil {
		return notFound
	}
	if p.locked && (c.who.install != nil || c.repo.role(c.who.user) < Write) {
		return *refused("Unable to create comment because issue is locked.")
	}
	body, bad := c.said()
	if bad != nil {
		return *bad
	}
	m := p.comment(c.who.user, c.who.app, body)
	a := created(m.view())
	a.header = http.Header{"Location": {c.repo.api("/issues/comments/%d", m.id)}}
	return a
}

func (c *call) getComment() answer {
	m := c.comment()
	if m == nil {
		return notFound
	}
	return ok(m.view())
}

// mayChange says whether the caller may change a comment: their own, or with
// write rights anyone's.
func (c *call) mayChange(m *Comment) bool {
	return m.author == c.who.user || (c.who.install == nil && c.repo.role(c.who.user) >= Write)
}

var notYours = *refused("Must have admin rights to Repository.")

func (c *call) editComment() answer {
	m := c.comment()
	if m == nil {
		return notFound
	}
	if !c.mayChange(m) {
		return notYours
	}
	body, bad := c.said()
	if bad != nil {
		return *bad
	}
	m.edit(c.who.user, body)
	return ok(m.view())
}

func (c *call) deleteComment() answer {
	m := c.comment()
	if m == nil {
		return notFound
	}
	if !c.mayChange(m) {
		return notYours
	}
	m.remove(c.who.user)
	return noContent
}

func (r *reaction) view() object {
	return object{"id": r.id, "node_id": node("REA", r.id), "user": r.user.view(), "content": r.content, "created_at": stamp(r.at)}
}

func (c *call) listReactions() answer {
	m := c.comment()
	if m == nil {
		return notFound
	}
	want := c.r.URL.Query().Get("content")
	return paged(c, slices.DeleteFunc(slices.Clone(m.reactions), func(r *reaction) bool { return want != "" && r.content != want }), (*reaction).view)
}

// createReaction answers 200 when the reaction was there already.
func (c *call) createReaction() answer {
	m := c.comment()
	if m == nil {
		return notFound
	}
	var in struct{ Content string }
	if !c.read(&in) {
		return invalid("Reaction", "content", "unreadable")
	}
	for _, r := range m.reactions {
		if r.user == c.who.user && r.content == in.Content {
			return ok(r.view())
		}
	}
	r := &reaction{c.nextID(), c.who.user, in.Content, c.now()}
	m.reactions = append(m.reactions, r)
	return created(r.view())
}

func (c *call) deleteReaction() answer {
	m := c.comment()
	if m == nil {
		return notFound
	}
	is := func(r *reaction) bool { return r.id == c.id("reaction_id") && r.user == c.who.user }
	if !slices.ContainsFunc(m.reactions, is) {
		return notFound
	}
	m.reactions = slices.DeleteFunc(m.reactions, is)
	return noContent
}
