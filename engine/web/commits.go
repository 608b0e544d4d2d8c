package web

import (
	"html/template"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/site"
)

// How often open pages about commits are made anew: no event tells of a push, or of a plan that is made.
const (
	listEvery = 15 * time.Second
	planEvery = 3 * time.Second
)

type commitsPage struct {
	searched
	control.CommitPage
}

// commits lists the commits that can be planned without a pull request.
func commits(q *request) (any, []string, error) {
	p := commitsPage{}
	kept, asked := q.ask(&p.searched, "skip")
	path := q.ofSite("commits?" + asked.Encode())
	if err := q.get(path, &p.CommitPage); err != nil {
		return nil, nil, err
	}
	if len(p.Commits) > perPage {
		p.Commits = p.Commits[:perPage]
		p.More = next(kept, "skip", strconv.Itoa(skipped(asked)+perPage))
	}
	return p, []string{path}, nil
}

type commitPage struct {
	control.CommitView
	Comment  template.HTML
	Planning string // that it is being planned; empty if it is not
	Racks    rackPlan
}

// commit shows what putting a commit in force does, as a pull request is shown.
func commit(q *request) (any, []string, error) {
	var p commitPage
	comment, path, err := q.plan("commits/"+url.PathEscape(q.r.PathValue("commit")), &p.CommitView)
	if err != nil {
		return nil, nil, err
	}
	p.Comment, p.Planning = comment, present.CommitPlanning(&p.CommitDetail)
	p.Racks, err = q.rackPlan(p.ByRack, present.UnlistedOfCommit(&p.CommitDetail))
	return p, []string{path}, err
}

// ofRevision is where the event of a design names its revision.
var ofRevision = regexp.MustCompile(`\brevision ([0-9a-f]{12})\b`)

// linkedCommit is the text of an event about a design, whose revision leads to the list of commits, searched for it.
func linkedCommit(siteName string, e site.Event, text template.HTML) template.HTML {
	if e.Kind != site.EventDesign {
		return text
	}
	at := ofRevision.FindStringSubmatchIndex(string(text))
	if at == nil || !strings.HasPrefix(e.Revision, string(text[at[2]:at[3]])) {
		return text
	}
	short := text[at[2]:at[3]]
	return text[:at[2]] + `<a href="/sites/` + template.HTML(url.PathEscape(siteName)) + `/commits?q=` + short + `">` + short + `</a>` + text[at[3]:]
}
