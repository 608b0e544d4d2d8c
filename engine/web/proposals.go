package web

import (
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
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
		case strings.Contains(v.path, "{node}"), strings.Contains(v.path, "{number}"):
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
	Pictures []mergingPicture
	// Rows are machines of these racks that merging does not leave as they are, at most mostRowsOfRacks; Left is how many others
	// there are.
	Rows []site.NodeConsequence
	Left int
	// Unlisted says why it is not shown what merging does to each machine.
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
	given, asked := q.r.URL.Query(), url.Values{"limit": {strconv.Itoa(perRacks)}}
	for _, name := range []string{"after", "outside"} {
		if v := given.Get(name); v != "" {
			asked.Set(name, v)
		}
	}
	at := q.ofSite("proposals/" + url.PathEscape(q.r.PathValue("number")) + "?")
	path := at + asked.Encode()
	brief := maps.Clone(asked)
	brief.Set("steps", "false")
	body, err := q.answer("GET", at+brief.Encode(), nil)
	if err != nil {
		return nil, nil, err
	}
	var p proposalPage
	var whole struct{ Review struct{ Comment string } } // longer than other texts of a page, and bounded by who writes it
	if err := q.read(body, &p.ProposalView); err != nil {
		return nil, nil, err
	}
	if err := json.Unmarshal(body, &whole); err != nil {
		return nil, nil, fmt.Errorf("read the comment: %w", err)
	}
	p.Comment = template.HTML(present.CommentHTML(whole.Review.Comment)) // which escapes what is in it
	p.Approval, p.Planning, p.Unlisted = present.ApprovalOf(&p.ProposalDetail), present.PlanningOf(&p.ProposalBrief), present.Unlisted(&p.ProposalDetail)
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
	after, outside := asked.Get("after"), asked.Get("outside")
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
	return p, []string{path}, p.draw()
}

// draw draws the racks, and lists their machines.
func (p *proposalPage) draw() error {
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
