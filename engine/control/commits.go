package control

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/site"
)

// CommitPage is a part of the commits that can be planned without a pull request.
type CommitPage struct {
	site.CommitList
	// Total is how many there are on all pages together.
	Total int `json:"total"`
}

// CommitView is a commit with the plan of what putting it in force does, by rack.
type CommitView struct {
	site.CommitDetail
	ByRack
}

// commitRoutes are about commits without a pull request. They need what pull requests need: to read the whole site.
func commitRoutes() []route {
	search := searchOthers
	search.about = "a text, in upper or lower case: only commits with it in the name of a branch, the subject or the author; or at least 7 characters of the beginning of a commit"
	return []route{
		{method: http.MethodGet, path: "/sites/{site}/commits", verb: access.Read, gives: CommitPage{}, serve: commitsOf,
			query: []parameter{{name: "name", about: "a branch: its head only; or a commit, or at least 7 digits of the beginning of one", example: "new-rack"}, search, skipRows, limitRows},
			about: "Lists the commits that Slipway can plan without a pull request: commits of the followed branch that are newer than the design in force, and heads of other branches."},
		{method: http.MethodGet, path: "/sites/{site}/commits/{commit}", verb: access.Read, gives: CommitView{}, serve: commitOf, query: byRackParameters,
			about: "Returns what putting a commit of that list in force does, compared with the design in force now, some racks at a time. It has the commit planned if the last plan is outdated, which costs the caller 24 further requests of its rate. While that takes long, it answers with \"planning\": ask again. Nothing can be approved by it."},
	}
}

func commitsOf(c *call) (any, error) {
	s, err := c.search()
	if err != nil {
		return nil, err
	}
	list, err := c.daemon.Commits(c.r.Context(), c.site)
	if err != nil {
		return nil, err
	}
	name := c.r.URL.Query().Get("name")
	isBranch := slices.ContainsFunc(list.Commits, func(x site.Commit) bool { return slices.Contains(x.Branches, name) })
	var some []site.Commit
	for _, x := range list.Commits {
		is := name == "" || slices.Contains(x.Branches, name) || !isBranch && len(name) >= leastDigest && strings.HasPrefix(x.ID, name)
		if is && (s.in(append([]string{x.Subject, x.Author}, x.Branches...)...) || s.isDigest(x.ID)) {
			some = append(some, x)
		}
	}
	page := CommitPage{CommitList: list, Total: len(some)}
	page.Commits, err = part(c, some)
	return page, err
}

func commitOf(c *call) (any, error) {
	id := c.r.PathValue("commit")
	if !commitInQuery.MatchString(id) || len(id) < leastDigest {
		return nil, fmt.Errorf("%w: a commit has %d to 64 digits, 0-9 and a-f; GET %s/sites/%s/commits?name=BRANCH tells the head of a branch", site.ErrNotFound, leastDigest, prefix, c.site)
	}
	limit, err := c.number("limit", 24, 1, mostRacks)
	if err != nil {
		return nil, err
	}
	d, err := c.daemon.Commit(c.r.Context(), c.site, id)
	if err == nil && (d.Outdated || d.Planning) {
		if !d.Planning {
			c.limits.charge(c.caller, planCost)
		}
		d, err = c.daemon.PlanCommit(c.r.Context(), c.site, d.Commit.ID)
	}
	if err != nil {
		return nil, err
	}
	v := CommitView{CommitDetail: d}
	v.ByRack, err = c.byRack(&v.PlanDetail, int(limit))
	return v, err
}

// Commits are the commits that can be planned without a pull request; with a name only the head of that branch, or the commits
// that begin with it.
func (c *Client) Commits(ctx context.Context, siteName, name string) (CommitPage, error) {
	var page CommitPage
	_, err := c.get(ctx, ofSitePath(siteName, "commits?"+url.Values{"name": {name}}.Encode()), "", &page)
	return page, err
}

// commitEvery is how often a client asks whether a commit is planned.
const commitEvery = 500 * time.Millisecond

// Commit is a commit with the plan of what putting it in force does, and all racks that it affects. It waits until the commit is
// planned.
func (c *Client) Commit(ctx context.Context, siteName, id string) (CommitView, error) {
	var all CommitView
	var v *CommitView
	err := everyRack(&all.ByRack, func(query string) (*ByRack, time.Time, error) {
		for {
			v = &CommitView{}
			if _, err := c.get(ctx, ofSitePath(siteName, "commits/"+url.PathEscape(id)+query), "", v); err != nil || !v.Planning {
				return &v.ByRack, v.Planned, err
			}
			select {
			case <-ctx.Done():
				return nil, time.Time{}, context.Cause(ctx)
			case <-time.After(commitEvery):
			}
		}
	}, func() { all = *v })
	return all, err
}
