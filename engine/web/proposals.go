package web

import (
	"encoding/json"
	"fmt"
	"html/template"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/site"
)

// menu are the pages that the menu of a page leads to.
func menu(p *Shell) (all []view) {
	for _, v := range views {
		switch {
		case strings.Contains(v.path, "{node}"), strings.Contains(v.path, "{number}"), strings.Contains(v.path, "{commit}"):
		case v.name == "commits" && (p.Status == nil || !p.Status.Commits):
		case v.name == "proposals" && (p.Status == nil || !p.Status.Proposals):
		default:
			all = append(all, v)
		}
	}
	return all
}

type proposalsPage struct {
	control.ProposalPage
	State, Commit string
	More, First   string
}

// proposals lists the pull requests that Slipway has looked at.
func proposals(q *request) (any, []string, error) {
	given, kept := q.r.URL.Query(), url.Values{}
	p := proposalsPage{State: given.Get("state"), Commit: given.Get("commit")}
	for _, name := range []string{"state", "commit"} {
		if v := given.Get(name); v != "" {
			kept.Set(name, v)
		}
	}
	asked := url.Values{"limit": {strconv.Itoa(perPage)}}
	for name := range kept {
		asked.Set(name, kept.Get(name))
	}
	if after := given.Get("after"); after != "" {
		asked.Set("after", after)
		p.First = "?" + kept.Encode()
	}
	path := q.ofSite("proposals?" + asked.Encode())
	if err := q.get(path, &p.ProposalPage); err != nil {
		return nil, nil, err
	}
	if p.Next > 0 {
		kept.Set("after", strconv.Itoa(p.Next))
		p.More = "?" + kept.Encode()
	}
	return p, []string{path}, nil
}

type proposalPage struct {
	control.ProposalView
	Comment  template.HTML
	Approval string
	Planning string // that it is being planned; empty if it is not
	Racks    rackPlan
}

// rackPlan is what a plan does to machines, by rack.
type rackPlan struct {
	control.ByRack
	Pictures []mergingPicture
	// Rows are machines of these racks that do not stay as they are, at most mostRowsOfRacks; Left is how many others
	// there are.
	Rows []site.NodeConsequence
	Left int
	// Unlisted says why it is not shown what is done to each machine.
	Unlisted    string
	More, First string
	// MoreOutside and FirstOutside lead through the machines in no rack.
	MoreOutside, FirstOutside string
}

// mostRowsOfRacks is how many machines of the racks on a page are in its table.
const mostRowsOfRacks = 200

// mergingPicture is a rack with what merging does to its machines.
type mergingPicture struct {
	Name, Summary string
	SVG           template.HTML
}

// proposal shows a pull request as its comment does, and by rack.
func proposal(q *request) (any, []string, error) {
	var p proposalPage
	comment, path, err := q.plan("proposals/"+url.PathEscape(q.r.PathValue("number")), &p.ProposalView)
	if err != nil {
		return nil, nil, err
	}
	p.Comment = comment
	p.Approval, p.Planning = present.ApprovalOf(&p.ProposalDetail), present.PlanningOf(&p.ProposalBrief)
	p.Racks, err = q.rackPlan(p.ByRack, present.Unlisted(&p.ProposalDetail))
	return p, []string{path}, err
}

// plan gets a plan by rack, as the page asks for it, and its comment. The path is where all of it is.
func (q *request) plan(what string, into any) (comment template.HTML, path string, err error) {
	given, asked := q.r.URL.Query(), url.Values{"limit": {strconv.Itoa(perRacks)}}
	for _, name := range []string{"after", "outside"} {
		if v := given.Get(name); v != "" {
			asked.Set(name, v)
		}
	}
	at := q.ofSite(what + "?")
	path = at + asked.Encode()
	asked.Set("steps", "false")
	body, err := q.answer("GET", at+asked.Encode(), nil)
	if err != nil {
		return "", "", err
	}
	var whole struct{ Review struct{ Comment string } } // longer than other texts of a page, and bounded by who writes it
	if err := q.read(body, into); err != nil {
		return "", "", err
	}
	if err := json.Unmarshal(body, &whole); err != nil {
		return "", "", fmt.Errorf("read the comment: %w", err)
	}
	return template.HTML(present.CommentHTML(whole.Review.Comment)), path, nil // which escapes what is in it
}

// rackPlan draws what a plan does, with links to the racks and machines that are on no page yet.
func (q *request) rackPlan(by control.ByRack, unlisted string) (rackPlan, error) {
	p := rackPlan{ByRack: by, Unlisted: unlisted}
	link := func(after, outside string) string {
		to := url.Values{}
		if after != "" {
			to.Set("after", after)
		}
		if outside != "" {
			to.Set("outside", outside)
		}
		return "?" + to.Encode()
	}
	after, outside := q.r.URL.Query().Get("after"), q.r.URL.Query().Get("outside")
	if after != "" {
		p.First = link("", outside)
	}
	if p.Next != "" {
		p.More = link(p.Next, outside)
	}
	if outside != "" {
		p.FirstOutside = link(after, "")
	}
	if p.OutsideNext != "" {
		p.MoreOutside = link(after, p.OutsideNext)
	}
	return p, p.draw()
}

// draw draws the racks, and lists their machines.
func (p *rackPlan) draw() error {
	shapes := present.Symbols{}
	for _, r := range p.Affected {
		v := present.ElevationView{Shared: shapes, Merging: map[string]site.NodeConsequence{}, Link: func(node string) string { return "../nodes/" + url.PathEscape(node) }} // from this page
		nodes := make([]site.NodeStatus, len(r.Nodes))
		for i, c := range r.Nodes {
			nodes[i] = site.NodeStatus{Name: c.Node, Role: c.Role, Rack: r.Name, Position: c.Position}
			if v.Merging[c.Node] = c; c.What == site.MergeLeaves {
				continue
			}
			if len(p.Rows) < mostRowsOfRacks {
				p.Rows = append(p.Rows, c)
			} else {
				p.Left++
			}
		}
		m := mergingPicture{Name: r.Name, Summary: present.SummaryOfMerging(r.All, r.Counts)}
		var b strings.Builder
		for _, e := range present.Elevations(map[string]*site.Rack{r.Name: r.Rack}, nodes, v) { // one
			e.More = r.All - len(r.Nodes)
			if err := e.WriteSVG(&b); err != nil {
				return err
			}
		}
		m.SVG = template.HTML(b.String()) // present escapes what is in it
		p.Pictures = append(p.Pictures, m)
	}
	return nil
}

// consequence is what merging does to a machine, with its shape.
func consequence(c site.Consequence) template.HTML {
	if !slices.Contains(site.Consequences, c) {
		return template.HTML(template.HTMLEscapeString(string(c)))
	}
	return template.HTML(fmt.Sprintf(`<span class="merge m-%s"><svg viewBox="-1 -1 12 12" aria-hidden="true"><path d="%s"/></svg>%s</span>`, c, present.ConsequenceShape(c), present.ConsequenceMark(c)))
}

// consequencesIn are those of which there are some, the worst first.
func consequencesIn(counts map[site.Consequence]int) (all []site.Consequence) {
	for _, c := range site.Consequences {
		if counts[c] > 0 {
			all = append(all, c)
		}
	}
	return all
}

// pull is where a sentence names a pull request by its number.
var pull = regexp.MustCompile(`\b(pull request #?)(\d{1,9})\b`)

// linkedPulls is a sentence whose pull requests lead to their pages.
func linkedPulls(siteName string, text template.HTML) template.HTML {
	return template.HTML(pull.ReplaceAllString(string(text), `<a href="/sites/`+url.PathEscape(siteName)+`/proposals/$2">$1$2</a>`))
}
