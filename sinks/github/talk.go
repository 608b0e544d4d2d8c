package github

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	gh "github.com/google/go-github/v60/github"

	"github.com/slipway-gitops/slipway/engine/forge"
)

const (
	// maxBody is how long a comment may be, in characters.
	maxBody         = 65_536
	maxCommentPages = 100
)

const needComments = `"Pull requests: write"`

// place is where a comment of ours is kept.
type place struct {
	number int
	marker forge.Marker
}

// CommentsSince are the comments of everybody, on issues too.
func (r *Repository) CommentsSince(ctx context.Context, since time.Time) ([]forge.Comment, error) {
	var all []forge.Comment
	err := pages(maxCommentPages, func(page gh.ListOptions) (*gh.Response, error) {
		o := &gh.IssueListCommentsOptions{Since: &since, ListOptions: page}
		some, resp, err := r.api.Issues.ListComments(ctx, r.owner, r.name, 0, o) // 0: all of the repository's
		for _, c := range some {
			all = append(all, comment(c))
		}
		return resp, err
	})
	if err != nil {
		return nil, fmt.Errorf("comments since %s: %w", since.UTC().Format(time.RFC3339), explain(err, needComments))
	}
	return all, nil
}

func comment(c *gh.IssueComment) forge.Comment {
	n, _ := strconv.Atoi(path.Base(c.GetIssueURL())) // 0 is the number of nothing
	return forge.Comment{
		ID: c.GetID(), Number: n, Author: c.GetUser().GetLogin(), Bot: c.GetUser().GetType() == "Bot", Body: c.GetBody(),
		Written: c.GetCreatedAt().Time, Edited: !c.GetUpdatedAt().Equal(c.GetCreatedAt()),
	}
}

// eachComment goes through the comments on a pull request, the oldest first, as
// long as it is told to go on.
func (r *Repository) eachComment(ctx context.Context, number int, on func(*gh.IssueComment) bool) error {
	return pages(maxCommentPages, func(page gh.ListOptions) (*gh.Response, error) {
		some, resp, err := r.api.Issues.ListComments(ctx, r.owner, r.name, number, &gh.IssueListCommentsOptions{ListOptions: page})
		for _, c := range some {
			if !on(c) {
				resp.NextPage = 0
				break
			}
		}
		return resp, err
	})
}

// Keep makes the comment with the marker have a body.
func (r *Repository) Keep(ctx context.Context, number int, m forge.Marker, body string) (int64, error) {
	id, err := r.keep(ctx, place{number, m}, m.Mark(body))
	if err != nil {
		err = fmt.Errorf("comment on #%d: %w", number, err)
	}
	return id, err
}

// Kept is what the comment with the marker says now: GitHub is asked, also where
// it is known which one it is.
func (r *Repository) Kept(ctx context.Context, number int, m forge.Marker) (string, error) {
	there, err := r.ours(ctx, place{number, m})
	if err != nil {
		return "", fmt.Errorf("read the comment on #%d: %w", number, explain(err, needComments))
	}
	if is, marked := forge.ReadMarker(there.GetBody()); !marked || is != m {
		return "", fmt.Errorf("read the comment on #%d: %w: there is none of ours that is marked as %q", number, forge.ErrGone, m.Kind)
	}
	_, body, _ := strings.Cut(there.GetBody(), "\n")
	return body, nil
}

func (r *Repository) keep(ctx context.Context, at place, text string) (int64, error) {
	if n := utf8.RuneCountInString(text); n > maxBody {
		return 0, fmt.Errorf("%w: it has %d characters, and GitHub takes %d", forge.ErrRefused, n, maxBody)
	}
	there, err := r.ours(ctx, at)
	if err != nil {
		return 0, explain(err, needComments)
	}
	if there != nil && sameText(there.GetBody(), text) {
		return there.GetID(), nil
	}
	if there != nil {
		err := r.edit(ctx, there.GetID(), text)
		if !errors.Is(err, forge.ErrGone) { // deleted by somebody since
			return there.GetID(), err
		}
	}
	c, _, err := r.api.Issues.CreateComment(ctx, r.owner, r.name, at.number, &gh.IssueComment{Body: &text})
	if err != nil {
		return 0, explain(err, needComments)
	}
	r.found(at, c.GetID())
	return c.GetID(), nil
}

func (r *Repository) edit(ctx context.Context, id int64, text string) error {
	_, _, err := r.api.Issues.EditComment(ctx, r.owner, r.name, id, &gh.IssueComment{Body: &text})
	return explain(err, needComments)
}

// sameText compares what is shown: a forge may keep other line ends.
func sameText(a, b string) bool { return trimmed(a) == trimmed(b) }

func trimmed(s string) string { return strings.TrimSpace(strings.ReplaceAll(s, "\r\n", "\n")) }

// ours is the comment of ours at a place, nil when there is none. Where it was
// found before is looked at first.
func (r *Repository) ours(ctx context.Context, at place) (*gh.IssueComment, error) {
	me, err := r.whoami(ctx)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	id := r.comments[at]
	r.mu.Unlock()
	if id != 0 {
		c, _, err := r.api.Issues.GetComment(ctx, r.owner, r.name, id)
		if err = explain(err, needComments); !errors.Is(err, forge.ErrGone) {
			return c, err
		}
	}
	var ours *gh.IssueComment
	err = r.eachComment(ctx, at.number, func(c *gh.IssueComment) bool {
		m, marked := forge.ReadMarker(c.GetBody())
		if marked && m == at.marker && me.wrote(c) {
			ours = c
		}
		return ours == nil
	})
	if err == nil {
		r.found(at, ours.GetID())
	}
	return ours, err
}

// wrote tells whether a comment is ours. No person's login has a bracket in it,
// as those of Apps have.
func (me identity) wrote(c *gh.IssueComment) bool {
	return me.login != "" && strings.EqualFold(c.GetUser().GetLogin(), me.login)
}

func (r *Repository) found(at place, id int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.comments) >= maxSaid {
		clear(r.comments) // at worst they are looked for again
	}
	r.comments[at] = id
}

var pictureOf = map[forge.Reaction]string{forge.Seen: "eyes", forge.Done: "+1", forge.Refused: "-1", forge.Confused: "confused"}

// React answers a comment. GitHub takes the same twice as once.
func (r *Repository) React(ctx context.Context, comment int64, what forge.Reaction) error {
	_, _, err := r.api.Reactions.CreateIssueCommentReaction(ctx, r.owner, r.name, comment, pictureOf[what])
	if err != nil {
		return fmt.Errorf("answer comment %d: %w", comment, explain(err, needComments))
	}
	return nil
}

// login is what GitHub's user names are made of, and those of Apps and of
// enterprises' users.
var login = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}(\[bot\])?$`)

var permissionOf = map[string]forge.Permission{"none": forge.None, "read": forge.Read, "write": forge.Write, "admin": forge.Admin}

// Permission is what somebody may do to the repository. GitHub counts
// "maintain" as write and "triage" as read.
func (r *Repository) Permission(ctx context.Context, user string) (forge.Permission, error) {
	if !login.MatchString(user) {
		return forge.None, nil
	}
	p, _, err := r.api.Repositories.GetPermissionLevel(ctx, r.owner, r.name, user)
	switch err = explain(err, `"Metadata: read"`); {
	case errors.Is(err, forge.ErrGone):
		return forge.None, nil // no such user
	case err != nil:
		return forge.None, fmt.Errorf("permission of %s: %w", user, err)
	}
	return permissionOf[p.GetPermission()], nil
}
