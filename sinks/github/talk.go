package github

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	gh "github.com/google/go-github/v60/github"

	"github.com/slipway-gitops/slipway/engine/forge"
	"github.com/slipway-gitops/slipway/engine/site"
)

const (
	// maxBody is the maximum length of a comment, in characters.
	maxBody         = 65_536
	maxCommentPages = 100
)

const needComments = `"Pull requests: write"`

// place identifies a comment of ours.
type place struct {
	number int
	marker forge.Marker
}

// issueComment is a comment with the fields that the library lacks.
type issueComment struct {
	gh.IssueComment
	Via       *gh.App                  `json:"performed_via_github_app"`
	Minimized *struct{ Reason string } `json:"minimized"`
}

// CommentsSince returns everybody's comments, including those on issues.
func (r *Repository) CommentsSince(ctx context.Context, since time.Time) ([]forge.Comment, error) {
	me, err := r.whoami(ctx)
	if err != nil {
		return nil, fmt.Errorf("comments since %s: %w", since.UTC().Format(time.RFC3339), err)
	}
	var all []forge.Comment
	err = pages(maxCommentPages, func(page gh.ListOptions) (*gh.Response, error) {
		query := url.Values{"since": {since.UTC().Format(time.RFC3339)}}
		some, resp, err := r.listComments(ctx, "issues/comments", query, page)
		for _, c := range some {
			is := c.read()
			if me.wrote(c) {
				is.Via = ownAccount
			}
			all = append(all, is)
		}
		return resp, err
	})
	if err != nil {
		return nil, fmt.Errorf("comments since %s: %w", since.UTC().Format(time.RFC3339), explain(err, needComments))
	}
	return all, nil
}

// read converts a comment. An App may write on behalf of a person.
func (c *issueComment) read() forge.Comment {
	n, _ := strconv.Atoi(path.Base(c.GetIssueURL())) // no issue has number 0
	return forge.Comment{
		ID: c.GetID(), Number: n, Author: c.GetUser().GetLogin(), Bot: isProgram(c.GetUser()), Via: c.Via.GetSlug(),
		Body: c.GetBody(), URL: c.GetHTMLURL(),
		Written: c.GetCreatedAt().Time, Changed: c.GetUpdatedAt().Time,
	}
}

// kept converts our comment that has the marker.
func (c *issueComment) kept(m forge.Marker) forge.Kept {
	k := forge.Kept{ID: c.GetID(), Body: c.GetBody(), Written: c.GetUpdatedAt().Time}
	if is, marked := forge.ReadMarker(k.Body); marked && is == m {
		_, k.Body, _ = strings.Cut(k.Body, "\n")
	}
	if c.Minimized != nil {
		k.Hidden = cmp.Or(said(c.Minimized.Reason), "without a reason")
	}
	return k
}

// listComments reads a page of a list of comments, by its path in the repository.
func (r *Repository) listComments(
	ctx context.Context, path string, query url.Values, page gh.ListOptions,
) (some []*issueComment, resp *gh.Response, err error) {
	query.Set("per_page", strconv.Itoa(page.PerPage))
	if page.Page > 0 {
		query.Set("page", strconv.Itoa(page.Page))
	}
	resp, err = r.get(ctx, path+"?"+query.Encode(), &some)
	return some, resp, err
}

// get reads a path below the repository.
func (r *Repository) get(ctx context.Context, path string, into any) (*gh.Response, error) {
	return r.send(ctx, http.MethodGet, path, nil, into)
}

// send sends a request to a path below the repository.
func (r *Repository) send(ctx context.Context, method, path string, what, into any) (*gh.Response, error) {
	req, err := r.api.NewRequest(method, fmt.Sprintf("repos/%s/%s/%s", r.owner, r.name, path), what)
	if err != nil {
		return nil, err
	}
	return r.api.Do(ctx, req, into)
}

// Keep makes sure that the comment with the marker has this body.
func (r *Repository) Keep(
	ctx context.Context, number int, id int64, m forge.Marker, body string,
) (before *forge.Kept, is forge.Kept, err error) {
	found, now, err := r.keep(ctx, place{number, m}, id, m.Mark(body))
	if err != nil {
		return nil, forge.Kept{}, fmt.Errorf("comment on #%d: %w", number, err)
	}
	if found != nil {
		was := found.kept(m)
		before = &was
	}
	return before, now.kept(m), nil
}

// Kept reads the comment with the marker. It asks GitHub even if the comment's ID is known.
func (r *Repository) Kept(ctx context.Context, number int, id int64, m forge.Marker) (forge.Kept, error) {
	there, err := r.ours(ctx, place{number, m}, id)
	switch {
	case err != nil:
		return forge.Kept{}, fmt.Errorf("read the comment on #%d: %w", number, explain(err, needComments))
	case there == nil:
		return forge.Kept{}, fmt.Errorf("read the comment on #%d: %w: there is none of ours that is marked as %q",
			number, forge.ErrGone, m.Kind)
	}
	return there.kept(m), nil
}

func (r *Repository) keep(ctx context.Context, at place, id int64, text string) (before, is *issueComment, err error) {
	if n := utf8.RuneCountInString(text); n > maxBody {
		return nil, nil, fmt.Errorf("%w: it has %d characters, and GitHub takes %d", forge.ErrRefused, n, maxBody)
	}
	there, err := r.ours(ctx, at, id)
	if err != nil {
		return nil, nil, explain(err, needComments)
	}
	is = &issueComment{}
	switch {
	case there == nil:
	case there.Minimized != nil: // no API that we may use shows it again
		if _, err := r.send(ctx, http.MethodDelete, fmt.Sprintf("issues/comments/%d", there.GetID()), nil, nil); err != nil {
			if err = explain(err, needComments); !errors.Is(err, forge.ErrGone) {
				return nil, nil, err
			}
		}
	case forge.Trimmed(there.GetBody()) == forge.Trimmed(text):
		return there, there, nil
	default:
		_, err := r.send(ctx, http.MethodPatch, fmt.Sprintf("issues/comments/%d", there.GetID()), body{text}, is)
		if err = explain(err, needComments); !errors.Is(err, forge.ErrGone) { // somebody has deleted it since
			return there, is, err
		}
		if !r.isMissing(at) {
			return nil, nil, inDoubt(at)
		}
	}
	if _, err := r.send(ctx, http.MethodPost, fmt.Sprintf("issues/%d/comments", at.number), body{text}, is); err != nil {
		if err = explain(err, needComments); !answered(err) {
			r.doubt(at)
		}
		return nil, nil, err
	}
	r.found(at, is.GetID())
	return there, is, nil
}

// answered reports whether GitHub has told the outcome of a request.
func answered(err error) bool {
	var limited *forge.Limited
	return errors.Is(err, forge.ErrDenied) || errors.Is(err, forge.ErrGone) || errors.Is(err, forge.ErrRefused) ||
		errors.As(err, &limited)
}

// body is the new text of a comment.
type body struct {
	Body string `json:"body"`
}

// ours finds our comment at a place; nil if there is none. It reads the comment by its ID: lists are late, and only
// suggest an ID. If a comment is known to have existed, ours doubts for a while that it is gone.
func (r *Repository) ours(ctx context.Context, at place, id int64) (*issueComment, error) {
	me, err := r.whoami(ctx)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	id = cmp.Or(id, r.comments[at])
	r.mu.Unlock()
	known := id != 0 || r.isDoubted(at)
	if id != 0 {
		c, err := r.comment(ctx, at, id, me)
		if err != nil || c != nil {
			return c, err
		}
	}
	other, err := r.search(ctx, at, me)
	if err != nil {
		return nil, err
	}
	if other != 0 && other != id {
		c, err := r.comment(ctx, at, other, me)
		if err != nil || c != nil {
			return c, err
		}
		known = true
	}
	if known && !r.isMissing(at) {
		return nil, inDoubt(at)
	}
	return nil, nil
}

// comment reads our comment at a place by its ID; nil if there is none.
func (r *Repository) comment(ctx context.Context, at place, id int64, me identity) (*issueComment, error) {
	c := &issueComment{}
	_, err := r.get(ctx, fmt.Sprintf("issues/comments/%d", id), c)
	if err = explain(err, needComments); err != nil {
		if errors.Is(err, forge.ErrGone) {
			return nil, nil
		}
		return nil, err
	}
	if !me.wrote(c) || c.read().Number != at.number {
		return nil, nil
	}
	r.found(at, id)
	return c, nil
}

// search looks for our comment at a place by its marker; 0 for none.
func (r *Repository) search(ctx context.Context, at place, me identity) (id int64, err error) {
	err = pages(maxCommentPages, func(page gh.ListOptions) (*gh.Response, error) {
		some, resp, err := r.listComments(ctx, fmt.Sprintf("issues/%d/comments", at.number), url.Values{}, page)
		for _, c := range some {
			if m, marked := forge.ReadMarker(c.GetBody()); marked && m == at.marker && me.wrote(c) {
				id, resp.NextPage = c.GetID(), 0
				break
			}
		}
		return resp, err
	})
	return id, err
}

// These are the times for which we doubt that our comment is missing. GitHub sometimes answers "not found" only for
// a moment. A comment may also exist although writing it failed, and lists do not show it at once.
const (
	doubtMissing = time.Minute
	doubtWritten = 30 * time.Second
)

// isMissing reports whether to believe that a comment that existed, or may exist, is gone. The first time, it is
// not believed.
func (r *Repository) isMissing(at place) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	until, doubted := r.doubted[at]
	if !doubted {
		r.doubted[at] = time.Now().Add(doubtMissing)
		return false
	}
	if time.Now().Before(until) {
		return false
	}
	delete(r.doubted, at)
	delete(r.comments, at)
	return true
}

// isDoubted reports whether a comment may exist though none was found.
func (r *Repository) isDoubted(at place) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, doubted := r.doubted[at]
	return doubted
}

// doubt records that a comment may have been written.
func (r *Repository) doubt(at place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.doubted[at] = time.Now().Add(doubtWritten)
}

func inDoubt(at place) error {
	return fmt.Errorf("the comment marked as %q does not answer: %w: it is looked for again",
		at.marker.Kind, site.ErrNotYet)
}

// wrote reports whether a comment is ours. Apps' logins have a bracket in them, which no person's login has.
func (me identity) wrote(c *issueComment) bool {
	return me.login != "" && strings.EqualFold(c.GetUser().GetLogin(), me.login)
}

// found records where our comment is.
func (r *Repository) found(at place, id int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.comments) >= maxSaid {
		clear(r.comments) // at worst they are looked for again
	}
	r.comments[at] = id
	delete(r.doubted, at)
}

var pictureOf = map[forge.Reaction]string{forge.Seen: "eyes", forge.Done: "+1", forge.Refused: "-1", forge.Confused: "confused"}

// React adds a reaction to a comment. GitHub counts a repeated reaction once.
func (r *Repository) React(ctx context.Context, comment int64, what forge.Reaction) error {
	_, _, err := r.api.Reactions.CreateIssueCommentReaction(ctx, r.owner, r.name, comment, pictureOf[what])
	if err != nil {
		return fmt.Errorf("answer comment %d: %w", comment, explain(err, needComments))
	}
	return nil
}

// login matches GitHub's user names, and those of Apps and of enterprises' users.
var login = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}(\[bot\])?$`)

var permissionOf = map[string]forge.Permission{"none": forge.None, "read": forge.Read, "write": forge.Write, "admin": forge.Admin}

// Permission returns what a user may do in the repository. GitHub counts "maintain" as write and "triage" as read.
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
